"""Both dialects of Debezium as sources of templates: which rows fit; the same comes out of the others, too."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import debezium_json_support as native
import debezium_support as ticdc
import msgspec
import pytest
from engine_support import ENGINES

from relay import CodecError, ConsumerRecord, Loss, Translator
from relay.codecs.debezium.native import decoder as native_decoder
from relay.codecs.debezium.native.columns import DebeziumColumns
from relay.codecs.debezium.ticdc import decoder as ticdc_decoder
from relay.codecs.debezium.ticdc.columns import TicdcColumns
from relay.model.events import ABSENT
from relay.templates.engine import Engine

Row = dict[str, Any]
TICDC, NATIVE = ticdc.DEBEZIUM, native.DEBEZIUM
LATER = int(str(ticdc.SOURCE["commit_ts"])) + 1


def compact(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def record(value: Any, key: Any = None, offset: int = 9, topic: str = "rows") -> ConsumerRecord:
    data, key_data = (each if isinstance(each, bytes | None) else compact(each) for each in (value, key))
    return ConsumerRecord(topic, 0, offset, 1768443632000, key_data, data)


def outcome(translator: Translator, one: ConsumerRecord) -> object:
    try:
        return translator.translate(one)
    except CodecError as error:
        return repr(error)


class Both:
    """A translator with an engine, and one without, that know a table."""

    def __init__(
        self,
        engine: type[Engine],
        source: str,
        columns: str,
        target: str = "ticdc-canal-json",
        options: Mapping[str, str] | None = None,
    ) -> None:
        self.plain, self.templated = (
            Translator(source, target, None, options, engine=each) for each in (None, engine)
        )
        text = f"CREATE TABLE t (id INT PRIMARY KEY, {columns})"
        ddl = native.ddl(text) if source == NATIVE else ticdc.ddl(text)
        self.fits(record(ddl, topic="ddl"))

    def fits(self, one: ConsumerRecord) -> bool:
        """Whether a record was translated by a template; the same comes out in any case."""
        before = self.templated.paths["fast"]
        assert outcome(self.templated, one) == outcome(self.plain, one)
        assert self.templated.losses == self.plain.losses
        assert self.templated.events == self.plain.events
        return self.templated.paths["fast"] > before

    def learns(self, one: ConsumerRecord) -> bool:
        """Show a record until its shape has a template; whether it has one."""
        self.fits(one)
        self.fits(one)
        return self.fits(one)


def of_ticdc(after: Row, key: Any = None, source: Row | None = None, **more: Any) -> ConsumerRecord:
    return record(ticdc.message(**{"source": ticdc.SOURCE | (source or {}), "after": after} | more), key)


def of_debezium(after: Row, key: Any = None, source: Row | None = None, **more: Any) -> ConsumerRecord:
    return record(native.row(after=after, source=source, **more), key)


FIRST: Row = {"id": 1, "v": "a"}
MAKERS = {TICDC: of_ticdc, NATIVE: of_debezium}

pytestmark = pytest.mark.parametrize("engine", ENGINES)


@pytest.mark.parametrize("source", MAKERS)
class TestOfBoth:
    def test_rows_of_one_shape(self, engine: type[Engine], source: str) -> None:
        both, of = Both(engine, source, "v VARCHAR(9)"), MAKERS[source]
        assert both.learns(of(FIRST))
        assert both.fits(of({"id": 2, "v": 'b"\U0001f600'}))
        assert both.fits(of({"id": -3, "v": None}))
        assert not both.fits(of({"id": "4", "v": "b"}))
        assert not both.fits(of({"id": 4, "v": "b", "w": 1}))
        assert not both.fits(of({"v": "b"}))
        assert not both.fits(of({"id": 4.0, "v": "b"}))
        assert not both.fits(of({"id": 4, "v": "b"}, source={"table": "u"}))

    @pytest.mark.parametrize("schema", [{}, {"schema": {"type": "struct"}}], ids=["plain", "wrapped"])
    @pytest.mark.parametrize(("learned", "other"), [(None, 5), (5, None), (None, ""), ("a", None)])
    def test_a_key_without_columns_differs_from_a_column_named_payload(
        self, engine: type[Engine], source: str, schema: Row, learned: object, other: object
    ) -> None:
        both, of = Both(engine, source, "v VARCHAR(9)"), MAKERS[source]
        for value in (learned, other):
            for _ in range(3):
                both.fits(of(FIRST, key={**schema, "payload": value}))

    def test_operations(self, engine: type[Engine], source: str) -> None:
        both, of = Both(engine, source, "v VARCHAR(9)"), MAKERS[source]
        update: Row = {"op": "u", "before": FIRST}
        assert both.learns(of({"id": 1, "v": "b"}, **update))
        assert both.fits(of({"id": 2, "v": None}, op="u", before={"id": 2, "v": "c"}))
        assert not both.fits(of({"id": 2, "v": "b"}, **update)), "another key"
        deleted = compact(FIRST)
        delete = (of({}, op="d").value or b"").replace(b'"after":{}', b'"after":null')
        delete = delete.replace(b'"before":null', b'"before":' + deleted)
        assert both.learns(record(delete))
        assert both.fits(record(delete.replace(b'"a"', b'"b"')))
        assert not both.learns(of(FIRST, op="d"))
        assert not both.learns(of(FIRST, op="x"))
        assert not both.learns(record(None, {"id": 1}))

    def test_a_unique_key_may_change_where_it_is_no_key_of_the_target(
        self, engine: type[Engine], source: str
    ) -> None:
        both, of = Both(engine, source, "v VARCHAR(9) UNIQUE", "debezium-json"), MAKERS[source]
        assert both.learns(of({"id": 1, "v": "b"}, op="u", before=FIRST))
        assert both.fits(of({"id": 2, "v": None}, op="u", before={"id": 2, "v": "c"}))
        assert both.fits(of({"id": 2, "v": "c"}, op="u", before={"id": 2, "v": "c"}))
        assert not both.learns(of({"id": 2, "v": "a"}, op="u", before=FIRST))

    def test_numbers_beyond_63_bits(self, engine: type[Engine], source: str) -> None:
        both, of = Both(engine, source, "v BIGINT UNSIGNED", "canal-json"), MAKERS[source]
        for value in (-1, 1, None):
            assert both.learns(of({"id": 1, "v": value}))
        for value in (-(1 << 63), -7, 0, (1 << 63) - 1, None):
            assert both.fits(of({"id": 1, "v": value}))

    def test_an_update_without_its_old_row(self, engine: type[Engine], source: str) -> None:
        both, of = Both(engine, source, "v VARCHAR(9)"), MAKERS[source]
        assert both.learns(of(FIRST, op="u"))

    def test_keys_may_say_anything(self, engine: type[Engine], source: str) -> None:
        both, of = Both(engine, source, "v VARCHAR(9)"), MAKERS[source]
        assert both.learns(of(FIRST, {"schema": {"type": "struct"}, "payload": {"id": 1}}))
        assert both.fits(of(FIRST, {"schema": {"type": "struct"}, "payload": {"id": None}}))
        assert not both.fits(of(FIRST, {"schema": {"type": "struct"}, "payload": {"x": 1}}))
        assert not both.fits(of(FIRST))
        assert not both.learns(of(FIRST, b"no JSON"))

    def test_a_value_that_means_two_things(self, engine: type[Engine], source: str) -> None:
        both, of = Both(engine, source, "v VARCHAR(9), n INT DEFAULT 5, d DECIMAL(9,2)"), MAKERS[source]
        for n in (4, 5):
            assert both.learns(of(FIRST | {"n": n, "d": None}))
        assert both.fits(of(FIRST | {"n": 6, "d": None}))
        assert both.fits(of(FIRST | {"n": None, "d": None}))
        assert both.fits(of(FIRST | {"n": 5, "d": None}))
        assert both.plain.losses, "what the default means is counted"

    def test_a_text_that_means_two_things(self, engine: type[Engine], source: str) -> None:
        both, of = Both(engine, source, "v VARCHAR(9) DEFAULT 'new\U0001f600'"), MAKERS[source]
        assert both.learns(of({"id": 1, "v": "old"}))
        assert not both.fits(of({"id": 1, "v": "new\U0001f600"}))
        escaped = (of({"id": 1, "v": "new"}).value or b"").replace(b"new", rb"new\uD83D\uDE00")
        both.fits(record(escaped))
        assert both.fits(of({"id": 1, "v": None}))

    def test_numbers_in_several_spellings(self, engine: type[Engine], source: str) -> None:
        both, of = Both(engine, source, "v DOUBLE"), MAKERS[source]
        assert both.learns(of({"id": 1, "v": 1.5}))
        for text in (b"2", b"-0.0", b"0", b"1e3", b"-1.25E-2"):
            assert both.fits(record((of({"id": 1, "v": 77}).value or b"").replace(b"77", text))), text
        for text in (b"-0", b"1e999", b'"1"', b"18446744073709551616", b"01", b"true"):
            assert not both.fits(record((of({"id": 1, "v": 77}).value or b"").replace(b"77", text))), text

    def test_unsigned_numbers_with_a_sign(self, engine: type[Engine], source: str) -> None:
        both, of = Both(engine, source, "v BIGINT UNSIGNED"), MAKERS[source]
        assert both.learns(of({"id": 1, "v": 1}))
        assert both.fits(of({"id": 1, "v": (1 << 63) - 1}))
        assert not both.fits(of({"id": 1, "v": -1}))
        assert not both.fits(of({"id": 1, "v": None}))
        nulls = Both(engine, source, "v BIGINT UNSIGNED")
        assert nulls.learns(of({"id": 1, "v": None}))
        assert not nulls.fits(of({"id": 1, "v": 1}))

    def test_times_are_within_bounds(self, engine: type[Engine], source: str) -> None:
        both, of = Both(engine, source, "v VARCHAR(9)"), MAKERS[source]
        assert both.learns(of(FIRST))
        assert not both.fits(of(FIRST, source={"ts_ms": 1 << 46}))
        assert not both.fits(of(FIRST, ts_ms=1 << 46))
        assert not both.fits(of(FIRST, source={"ts_ms": "1768443630123"}))
        assert both.fits(of(FIRST, ts_ms=1))
        # 0 means that there is no time, and a template of a time after 1970 holds for such times only. Debezium
        # has finer units, and they decide.
        assert both.fits(of(FIRST, ts_ms=0)) is (source == NATIVE)
        assert both.fits(of(FIRST, ts_ms=-1)) is (source == NATIVE)

    def test_another_schema_block(self, engine: type[Engine], source: str) -> None:
        both, of = Both(engine, source, "v VARCHAR(9)"), MAKERS[source]
        payload = json.loads(of(FIRST).value or b"")
        payload = payload.get("payload", payload)
        columns: list[dict[str, Any]] = [
            {"type": "int32", "field": "id"},
            {"type": "string", "field": "v", "optional": True},
        ]
        assert both.learns(record(native.wrapped(payload, *columns)))
        assert not both.fits(record(native.wrapped(payload, columns[0], columns[1] | {"doc": "text"})))

    def test_spaces_are_another_shape(self, engine: type[Engine], source: str) -> None:
        both, of = Both(engine, source, "v VARCHAR(9)"), MAKERS[source]
        assert both.learns(of(FIRST))
        assert not both.fits(record(b" " + (of(FIRST).value or b"")))
        assert not both.learns(record(b" " + (of(FIRST).value or b"")))


class TestOfTicdc:
    def test_rows_follow_ddl_by_commit_ts(self, engine: type[Engine]) -> None:
        both = Both(engine, TICDC, "v VARCHAR(9)")
        assert both.learns(of_ticdc(FIRST))
        assert both.fits(of_ticdc(FIRST, source={"commit_ts": LATER, "ts_ms": 5}))
        assert not both.fits(of_ticdc(FIRST, source={"commit_ts": 1}))
        assert not both.fits(of_ticdc(FIRST, source={"commit_ts": -1}))
        assert not both.fits(of_ticdc(FIRST, source={"commit_ts": 1 << 64}))
        assert not both.fits(of_ticdc(FIRST, source={"commit_ts": None}))

    def test_zero_instead_of_null(self, engine: type[Engine]) -> None:
        both = Both(engine, TICDC, "v DATETIME DEFAULT CURRENT_TIMESTAMP, w DATE NOT NULL")
        assert both.learns(of_ticdc({"id": 1, "v": 1000, "w": 1}))
        assert both.fits(of_ticdc({"id": 1, "v": None, "w": 2}))
        assert both.learns(of_ticdc({"id": 1, "v": 1000, "w": 0}))
        assert both.fits(of_ticdc({"id": 1, "v": 1000, "w": 1}))
        assert not both.learns(of_ticdc({"id": 1, "v": 0, "w": 1}))

    def test_fractions_beside_a_default(self, engine: type[Engine]) -> None:
        both = Both(engine, TICDC, "v DECIMAL(9,2) DEFAULT 1.00, w DOUBLE DEFAULT 2.5")
        assert both.learns(of_ticdc({"id": 1, "v": 3, "w": 2}))
        assert not both.fits(of_ticdc({"id": 1, "v": 1, "w": 2}))
        assert not both.fits(of_ticdc({"id": 1, "v": 1.0, "w": 2}))
        assert not both.learns(of_ticdc({"id": 1, "v": 3, "w": 2.5}))

    def test_compressed_messages(self, engine: type[Engine]) -> None:
        both = Both(engine, TICDC, "v VARCHAR(9)")
        assert not both.learns(record(b"\x04\x22\x4d\x18 no JSON"))


class TestOfDebezium:
    @pytest.mark.parametrize(
        "text", ["__debezium_unavailable_value", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="]
    )
    def test_texts_that_are_no_values(self, engine: type[Engine], text: str) -> None:
        both = Both(engine, NATIVE, "v TEXT")
        assert both.learns(of_debezium(FIRST))
        assert both.fits(of_debezium({"id": 1, "v": text + "!"}))
        assert not both.learns(of_debezium({"id": 1, "v": text}))
        spelled = (of_debezium({"id": 1, "v": text}).value or b"").replace(
            text[:1].encode(), b"\\u%04x" % ord(text[0])
        )
        assert b"\\u00" in spelled
        assert not both.fits(record(spelled))

    def test_times_in_other_units(self, engine: type[Engine]) -> None:
        both = Both(engine, NATIVE, "v TEXT")
        none: Row = {"ts_us": None, "ts_ns": None}
        assert both.learns(of_debezium(FIRST, source=none, **none))
        none = {"ts_ns": None}
        assert both.learns(of_debezium(FIRST, source=none, **none))
        assert not both.fits(of_debezium(FIRST, source=none | {"ts_us": 1 << 60}, **none))
        assert not both.fits(of_debezium(FIRST))
        both = Both(engine, NATIVE, "v TEXT")
        assert both.learns(of_debezium(FIRST))
        assert not both.learns(of_debezium(FIRST, source={"ts_ns": 1 << 70}))
        assert not both.learns(of_debezium(FIRST, source={"ts_ns": 1.5}))

    def test_the_place_in_the_log(self, engine: type[Engine]) -> None:
        both = Both(engine, NATIVE, "v TEXT", NATIVE)
        assert both.learns(of_debezium(FIRST))
        other = {"file": "mysql-bin.000004", "pos": 0, "row": 5, "thread": 8, "gtid": "x:1"}
        assert both.fits(of_debezium(FIRST, source=other))
        for odd in (
            {"pos": -1},
            {"pos": 1 << 63},
            {"file": ""},
            {"file": None},
            {"gtid": ""},
            {"thread": None},
        ):
            assert not both.fits(of_debezium(FIRST, source=odd)), odd
            both.learns(of_debezium(FIRST, source=odd))

    def test_rows_follow_ddl_by_time(self, engine: type[Engine]) -> None:
        both = Both(engine, NATIVE, "v TEXT", NATIVE)
        assert both.learns(of_debezium(FIRST))
        assert not both.fits(of_debezium(FIRST, source={"ts_ms": 1768443630000, "pos": 4}))

    def test_rows_follow_ddl_in_the_log(self, engine: type[Engine]) -> None:
        both = Both(engine, NATIVE, "v TEXT", NATIVE)
        same_time = {"ts_ms": 1768443630000, "ts_us": None, "ts_ns": None}
        assert both.learns(of_debezium(FIRST, source=same_time))
        assert both.fits(of_debezium(FIRST, source=same_time | {"pos": 5}))
        next_file = same_time | {"file": "mysql-bin.000004", "pos": 1}
        assert not both.fits(of_debezium(FIRST, source=next_file))
        assert both.learns(of_debezium(FIRST, source=next_file))
        assert both.fits(of_debezium(FIRST, source=next_file | {"pos": 0}))
        assert not both.fits(of_debezium(FIRST, source=same_time | {"pos": 4}))
        assert not both.fits(of_debezium(FIRST, source=same_time | {"file": "mysql-bin.000002", "pos": 9}))

    def test_rows_in_transactions(self, engine: type[Engine]) -> None:
        both = Both(engine, NATIVE, "v TEXT", NATIVE, {"provide.transaction.metadata": "true"})
        transaction = {"id": "x:1", "total_order": 1, "data_collection_order": 1}
        assert both.learns(of_debezium(FIRST, transaction=transaction))
        assert both.fits(of_debezium(FIRST, transaction=transaction | {"id": "x:2", "total_order": 7}))
        assert not both.fits(of_debezium(FIRST, transaction=transaction | {"id": ""}))
        assert not both.fits(of_debezium(FIRST))

    def test_rows_of_a_snapshot(self, engine: type[Engine]) -> None:
        both = Both(engine, NATIVE, "v TEXT", NATIVE)
        assert both.learns(of_debezium(FIRST, op="r", source={"snapshot": "true"}))
        assert not both.fits(of_debezium(FIRST, op="r", source={"snapshot": "last"}))


class TestKeysOfConnectors:
    """Keys of Debezium's own connectors, which may have other fields than the table's key."""

    def test_fields_that_are_no_columns_belong_to_the_shape(self, engine: type[Engine]) -> None:
        both = Both(engine, NATIVE, "v VARCHAR(9)", "flat-json")
        assert both.learns(of_debezium(FIRST, {"id": 1, "tenant": "x"}))
        assert both.fits(of_debezium({"id": 2, "v": "b"}, {"id": 2, "tenant": "y"}))
        assert not both.fits(of_debezium(FIRST, {"id": 1}))
        assert both.learns(of_debezium(FIRST, {"id": 1}))
        assert both.plain.losses[Loss.UNKNOWN_FIELDS] == 4

    def test_a_table_without_a_key_has_that_of_its_messages(self, engine: type[Engine]) -> None:
        both = Both(engine, NATIVE, "v VARCHAR(9)", "flat-json")
        both.fits(
            record(
                native.ddl("CREATE TABLE k (id INT, v VARCHAR(9))", source={"pos": 5, "table": "k"}),
                topic="ddl",
            )
        )
        source = {"table": "k"}
        assert both.learns(of_debezium(FIRST, {"v": "a"}, source))
        assert both.fits(of_debezium({"id": 2, "v": "b"}, {"v": "b"}, source))
        assert not both.fits(of_debezium(FIRST, {"id": 1}, source))
        assert not both.fits(of_debezium(FIRST, None, source))
        assert both.learns(of_debezium(FIRST, None, source))


def test_local_times_are_counted_by_the_slow_path(engine: type[Engine]) -> None:
    both = Both(engine, NATIVE, "v TIMESTAMP NULL")
    assert both.learns(of_debezium({"id": 1, "v": "2026-01-15T10:20:30Z"}))
    assert not both.fits(of_debezium({"id": 1, "v": "2026-01-15 10:20:30"}))
    assert not both.learns(of_debezium({"id": 1, "v": "2026-01-15T10:20:30"}))
    assert both.fits(of_debezium({"id": 1, "v": "2026-01-15T10:20:30Z"}))
    assert both.plain.losses[Loss.ZONE_INFERRED] == 4


def test_columns_that_all_rows_lack_have_placeholders(engine: type[Engine]) -> None:
    both = Both(engine, NATIVE, "v TEXT", NATIVE)
    assert both.learns(of_debezium({"id": 1}))
    assert both.fits(of_debezium({"id": 2}))
    assert not both.fits(of_debezium({"id": 2, "v": "__debezium_unavailable_value"}))


SECOND_NS = 1_000_000_000
#: The source, the event time in the position, the time of the message, and the transaction.
Found = tuple[Any, int, int, Any]


def in_whole_seconds(found: Found, _body: Any) -> Found:
    return *found[:2], found[2] // SECOND_NS * SECOND_NS, found[3]


def at_the_time_of_the_row(found: Found, body: Any) -> Found:
    return (*found[:2], found[1], found[3]) if body.ts_ms > 1768443631020 else found


def without_late_transactions(found: Found, body: Any) -> Found:
    is_late = body.transaction is not None and body.transaction.total_order > 20
    return (*found[:3], None) if is_late else found


def with_another_position(found: Found, body: Any) -> Found:
    source, *others = found
    position = source.binlog_position
    if position is not None and position > 1020:
        source = msgspec.structs.replace(source, binlog_position=position + 1, thread_id=77)
    return (source, *others)


def before_all_ddl(found: Found, body: Any) -> Found:
    source, time_ns, *others = found
    if body.source.ts_ms > 1768443630800:
        source, time_ns = msgspec.structs.replace(source, commit_ts=None), 1
    return (source, time_ns, *others)


def numbered_rows(source: str) -> list[ConsumerRecord]:
    """Rows with consecutive times, log positions and orders in a transaction."""
    found = []
    for at in range(40):
        ms = {"ts_ms": 1768443631000 + at, "ts_us": None, "ts_ns": None}
        place: Row = {"ts_ms": 1768443630123 + at * 25, "ts_us": None, "ts_ns": None}
        if source == NATIVE:
            transaction = {"id": f"x:{at}", "total_order": 1 + at, "data_collection_order": 1}
            place |= {"pos": 1000 + at}
            found.append(of_debezium({"id": at, "n": at % 10}, source=place, transaction=transaction, **ms))
        else:
            place = {"ts_ms": place["ts_ms"], "commit_ts": LATER + at}
            found.append(of_ticdc({"id": at, "n": at % 10}, source=place, ts_ms=ms["ts_ms"]))
    return found


@pytest.mark.parametrize("source", MAKERS)
class TestChangesOfDecoders:
    """A change in a decoder that depends on values changes its templates as well."""

    @pytest.mark.parametrize(
        "change",
        [
            in_whole_seconds,
            at_the_time_of_the_row,
            without_late_transactions,
            with_another_position,
            before_all_ddl,
        ],
    )
    @pytest.mark.parametrize("target", [NATIVE, "ticdc-canal-json"])
    def test_of_facts(
        self,
        engine: type[Engine],
        source: str,
        change: Callable[[Found, Any], Found],
        target: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        decoder = native_decoder if source == NATIVE else ticdc_decoder
        options = {"provide.transaction.metadata": "true"} if target == NATIVE else None
        original, given = decoder.facts_of, numbered_rows(source)
        before = Both(engine, source, "n INT", target, options)
        assert sum([before.fits(each) for each in given]) > 30
        monkeypatch.setattr(decoder, "facts_of", lambda body, *others: change(original(body, *others), body))
        both = Both(engine, source, "n INT", target, options)
        for each in given:
            both.fits(each)  # the same with templates and without

    def test_of_the_value_that_means_null(
        self, engine: type[Engine], source: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        columns = DebeziumColumns if source == NATIVE else TicdcColumns
        monkeypatch.setattr(
            columns, "null_value", lambda _, column, *_others: 7 if column.name == "n" else ABSENT
        )
        both = Both(engine, source, "n INT")
        fitting = [at for at, each in enumerate(numbered_rows(source)) if both.fits(each)]
        assert len(fitting) > 25
        assert not [at for at in fitting if at % 10 == 7]

    def test_of_ambiguous_values(
        self, engine: type[Engine], source: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        columns = DebeziumColumns if source == NATIVE else TicdcColumns
        monkeypatch.setattr(
            columns,
            "doubts",
            lambda _, column, *_others: [(7, Loss.NULL_OR_DEFAULT)] if column.name == "n" else [],
        )
        both = Both(engine, source, "n INT")
        assert sum([both.fits(each) for each in numbered_rows(source)]) > 25
        assert both.plain.losses[Loss.NULL_OR_DEFAULT] == 4
