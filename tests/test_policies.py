"""What becomes of a record that cannot be relayed, and what a translator learns from it all the same."""

from __future__ import annotations

import json

import pytest
from support import CANAL, TICDC, captured, record, row_message

from relay import (
    ConsumerRecord,
    DecodeError,
    Loss,
    Malformed,
    NotRepresentable,
    RelayError,
    StorageUnavailable,
    TableId,
    Translator,
)
from relay.catalog import Catalog
from relay.codecs.canal.ticdc.decoder import TicdcCanalDecoder
from relay.core.error_policies import ErrorPolicies, Policy, Refused
from relay.model.events import Event, Position

TABLE = TableId("d", "t")
CREATE = record(
    {
        "isDdl": True, "type": "CREATE", "database": "d", "table": "t", "es": 5, "ts": 6,
        "sql": "CREATE TABLE t (a INT PRIMARY KEY)", "_tidb": {"commitTs": 9 << 18},
    }
)  # fmt: skip
ROW = record(row_message({"a": "int"}, {"a": "1"}, _tidb={"commitTs": 10 << 18}), offset=1)
BEHIND = Position(11 << 18, 12_000_000, "topic", 0, 2)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[ConsumerRecord]:
    """The records of TiCDC that translators decode."""
    found: list[ConsumerRecord] = []
    decode = TicdcCanalDecoder.decode

    def noting(
        self: TicdcCanalDecoder, record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
    ) -> tuple[list[Event], Catalog]:
        found.append(record)
        return decode(self, record, catalog, losses)

    monkeypatch.setattr(TicdcCanalDecoder, "decode", noting)
    return found


def strict() -> Translator:
    """A translator that refuses rows and DDL of TiCDC: Canal has no commit ts."""
    return Translator(TICDC, CANAL, None, {"strict": "true"})


def errors(policy: Policy) -> ErrorPolicies:
    return ErrorPolicies({"decode": policy, "encode": policy}, "dead", 2, "route")


def refused(translator: Translator, refused: ConsumerRecord) -> RelayError:
    with pytest.raises((DecodeError, NotRepresentable)) as raised:
        translator.translate(refused)
    return raised.value


@pytest.mark.parametrize(("policy", "times"), [(Policy.STOP, 1), (Policy.SKIP, 2), (Policy.DEAD_LETTER, 2)])
@pytest.mark.parametrize("value", [CREATE, ROW, record(b"{")])
def test_a_refused_record_is_decoded_once_more_if_relay_goes_on(
    policy: Policy, times: int, value: ConsumerRecord, decoded: list[ConsumerRecord]
) -> None:
    translator = strict()
    outcome = errors(policy).apply(refused(translator, value), value, translator)
    assert (len(decoded), outcome.policy) == (times, policy)
    assert len(outcome.dead_letters) == (policy is Policy.DEAD_LETTER)


def test_a_dead_letter_names_the_tables_and_the_place() -> None:
    translator = strict()
    for value, tables in ((ROW, [["d", "t"]]), (record(b"{"), [])):
        (letter,) = (
            errors(Policy.DEAD_LETTER).apply(refused(translator, value), value, translator).dead_letters
        )
        headers = dict(letter.headers)
        assert json.loads(headers.get("relay.error.tables") or b"[]") == tables
        assert (letter.topic, letter.partition, letter.value) == ("dead", 0, value.value)


@pytest.mark.parametrize("policy", [Policy.SKIP, Policy.DEAD_LETTER])
def test_what_a_refused_statement_says_about_tables_holds_for_the_rows_behind_it(policy: Policy) -> None:
    translator = strict()
    errors(policy).apply(refused(translator, CREATE), CREATE, translator)
    assert translator.catalog.table(TABLE, BEHIND) is not None
    assert (translator.events, translator.losses) == ({}, {})


def test_a_relay_that_stops_learns_nothing() -> None:
    translator = strict()
    errors(Policy.STOP).apply(refused(translator, CREATE), CREATE, translator)
    assert translator.catalog.table(TABLE, BEHIND) is None


@pytest.mark.parametrize("error", [StorageUnavailable("no"), OSError("no"), RelayError("no")])
def test_what_waiting_or_somebody_may_cure_stops_relay_whatever_is_configured(
    error: Exception, decoded: list[ConsumerRecord]
) -> None:
    assert errors(Policy.SKIP).apply(error, ROW, strict()) == Refused(Policy.STOP, [])
    assert decoded == []


def test_a_record_that_needs_something_is_about_no_table() -> None:
    name = "00000000-0000-4000-8000-000000000000.json"
    value = record({"isDdl": False, "type": "INSERT", "_tidb": {"claimCheckLocation": f"file:///x/{name}"}})
    translator = Translator(TICDC, CANAL, {"claim-check-storage-uri": "/storage"})
    outcome = errors(Policy.DEAD_LETTER).apply(Malformed(TICDC, "", "no"), value, translator)
    assert outcome.policy is Policy.DEAD_LETTER
    assert "relay.error.tables" not in dict(outcome.dead_letters[0].headers)


def test_learning_gives_the_tables_counts_nothing_and_is_what_translating_learns() -> None:
    learning, translating = Translator(TICDC, CANAL), Translator(TICDC, CANAL)
    for each in captured("ticdc/canal-json.tidb-extension/10_ddl"):
        unchanged = learning.state
        tables = learning.tables_of(each)
        assert learning.state == unchanged
        assert learning.learn(each) == tables
        translating.translate(each)
        assert learning.state == translating.state
    assert (learning.events, learning.losses) == ({}, {})
    assert translating.losses[Loss.COMMIT_TS] > 0


def test_what_cannot_be_read_is_an_error_to_learn_and_changes_nothing() -> None:
    translator = Translator(TICDC, CANAL)
    translator.learn(CREATE)
    state = translator.state
    with pytest.raises(Malformed):
        translator.learn(record(b"{"))
    assert translator.state == state
    assert translator.tables_of(record(b"{")) == ()
