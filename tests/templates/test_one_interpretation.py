"""Templates come from a decoder's own `check` and `interpret`: after a change there, they do the same as the
slow path, or there are none.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
import pytest
from ckafka_support import CKAFKA, written
from engine_support import ENGINE
from packet_support import entries_alone
from support import captured, reading_options
from support import record as as_record
from templates_support import Both, outcome

from relay import ConsumerRecord, Malformed, Resolver, RowChange, Translator
from relay.codecs.canal.canal_protobuf.protobuf import varint
from relay.codecs.simple.avro_bytes import avro_long
from relay.model.events import Op, Source, Transaction

Function = Callable[..., Any]
#: Nanoseconds, of which all targets show a difference.
FIVE_SECONDS = 5_000_000_000
SECONDS = 1_700_000_000


class Family(NamedTuple):
    """A source, with its functions that may change.

    origin: Given a message, returns the source of its event, or a tuple that begins with it.
    number: The message's time.
    second: One second in the unit of that time.
    check: Its first argument is a struct with the time; empty if the parser checks all that there is.
    text: The time as messages have it.
    records: The records of the file.
    """

    protocol: str
    file: str
    origin: str
    number: str
    second: int
    check: str = ""
    text: Callable[[int], bytes] = b"%d".__mod__
    records: Callable[[str], list[ConsumerRecord]] = captured


def wall_clock(time_ns: int) -> bytes:
    """A time of CKafka, which is in UTC+8."""
    time = datetime.fromtimestamp(time_ns // 10**9, timezone(timedelta(hours=8)))
    return f"{time:%Y%m%d%H%M%S}".encode()


FAMILIES = [
    Family(
        "ticdc-open-protocol",
        "ticdc/open-protocol/09_dml",
        "relay.codecs.open_protocol.decoder.origin_of",
        "key.ts",
        1000 << 18,
        "relay.codecs.open_protocol.decoder.check",
    ),
    Family(
        "ticdc-simple-json",
        "ticdc/simple.json/09_dml",
        "relay.codecs.simple.decoder.source_of",
        "commit_ts",
        1000 << 18,
        "relay.codecs.simple.decoder.check",
    ),
    Family(
        "ticdc-simple-avro",
        "ticdc/simple.avro/09_dml",
        "relay.codecs.simple.decoder.source_of",
        "commit_ts",
        1000 << 18,
        "relay.codecs.simple.decoder.check",
        avro_long,
    ),
    Family(
        "maxwell-json",
        "mysql/maxwell/09_dml",
        "relay.codecs.maxwell.decoder.source_of",
        "ts",
        1,
        "relay.codecs.maxwell.decoder.check",
    ),
    Family(
        "ticdc-canal-json",
        "ticdc/canal-json.tidb-extension/09_dml",
        "relay.codecs.canal.ticdc.decoder.source_of",
        "es",
        1000,
    ),
    Family(
        "canal-json",
        "mysql/canal-json/09_dml",
        "relay.codecs.canal.canal_json.decoder.source_of",
        "es",
        1000,
    ),
    Family(
        "canal-protobuf",
        "mysql/canal-protobuf.hashed/10_ddl",
        "relay.codecs.canal.canal_protobuf.decoder.source_of",
        "time_ms",
        1000,
        "relay.codecs.canal.canal_protobuf.decoder.check",
        varint,
        entries_alone,
    ),
    Family(
        CKAFKA,
        "ticdc/canal-json/09_dml",
        "relay.codecs.canal.ckafka.decoder.source_of",
        "time_ns",
        10**9,
        "relay.codecs.canal.ckafka.decoder.check",
        wall_clock,
        written,
    ),
    Family(
        "ticdc-debezium",
        "ticdc/debezium.no-schema/09_dml",
        "relay.codecs.debezium.ticdc.decoder.facts_of",
        "source.ts_ms",
        1000,
        "relay.codecs.debezium.ticdc.decoder.check",
    ),
    Family(
        "debezium-json",
        "mysql/debezium.no-schema/09_dml",
        "relay.codecs.debezium.native.messages.source_of",
        "source.ts_ms",
        1000,
    ),
]
TARGETS = ["debezium-json", "ticdc-open-protocol", "maxwell-json"]


def later(source: Source) -> Source:
    return msgspec.structs.replace(source, event_time_ns=source.event_time_ns + FIVE_SECONDS)


def without_commit_ts(source: Source) -> Source:
    return msgspec.structs.replace(source, commit_ts=None)


def of_another_server(source: Source) -> Source:
    return msgspec.structs.replace(source, server_id=4711, thread_id=12)


def with_the_next_commit_ts(source: Source) -> Source:
    commit_ts = None if source.commit_ts is None else source.commit_ts + 1
    return msgspec.structs.replace(source, commit_ts=commit_ts)


def in_whole_hours(source: Source) -> Source:
    hour = 3_600_000_000_000
    return msgspec.structs.replace(source, event_time_ns=source.event_time_ns // hour * hour)


def by_text(source: Source) -> Source:
    """The same source, by a way that no template can take."""
    return msgspec.structs.replace(source, event_time_ns=int(str(source.event_time_ns)))


def outputs(family: Family, target: str) -> tuple[list[object], int]:
    """All messages of a captured file, and the number of those that a template gave."""
    both = Both(family.protocol, reading_options(family.file), target, ENGINE)
    records = family.records(family.file)
    used = sum([both.fits(record) for record in records])
    return [both.plain.translate(record) for record in records], used


def patched(family: Family, change: Callable[[Source], Source], seen: set[bool]) -> Function:
    """The family's function that returns sources, with a change; `seen`: whether sources had traced times."""
    origin = pkgutil.resolve_name(family.origin)

    def other(*args: Any, **more: Any) -> Any:
        found = origin(*args, **more)
        source, *others = found if isinstance(found, tuple) else (found,)
        seen.add(not isinstance(source.event_time_ns, int))
        return (change(source), *others) if others else change(source)

    return other


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "change", [later, without_commit_ts, of_another_server, with_the_next_commit_ts, in_whole_hours]
)
@pytest.mark.parametrize("family", FAMILIES, ids=attrgetter("protocol"))
def test_another_source_changes_templates(
    family: Family, change: Callable[[Source], Source], target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, used_before = outputs(family, target)
    assert used_before
    seen = set[bool]()
    monkeypatch.setattr(family.origin, patched(family, change, seen))
    after, used = outputs(family, target)
    assert seen == {False, True}, "captured messages and traced ones"
    assert used
    if change is later and target == "debezium-json":
        assert after != before


@pytest.mark.parametrize("family", FAMILIES, ids=attrgetter("protocol"))
def test_untraceable_change_uses_slow_path(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    before, used_before = outputs(family, "debezium-json")
    assert used_before
    monkeypatch.setattr(family.origin, patched(family, by_text, set()))
    assert outputs(family, "debezium-json") == (before, 0)


def with_its_number(message: Any, source: Source) -> Source:
    return msgspec.structs.replace(source, server_id=message.id)


def with_its_time(row: Any, source: Source) -> Source:
    return msgspec.structs.replace(source, binlog_file=row.message.TIME)


@pytest.mark.parametrize(
    ("protocol", "change"), [("canal-json", with_its_number), (CKAFKA, with_its_time)], ids=["id", "TIME"]
)
def test_a_new_meaning_of_a_member_prevents_templates(
    protocol: str, change: Callable[[Any, Source], Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The member differs between messages, and templates of the decoder as it is ignore it, or decode it."""
    family = next(each for each in FAMILIES if each.protocol == protocol)
    origin = pkgutil.resolve_name(family.origin)
    monkeypatch.setattr(
        family.origin, lambda message, *args, **more: change(message, origin(message, *args, **more))
    )
    after, used = outputs(family, "debezium-json")
    assert after
    assert not used


def maxwell_rows() -> list[ConsumerRecord]:
    """Inserts with consecutive transactions, log positions and times."""
    return [
        as_record(
            b'{"database":"d","table":"t","type":"insert","ts":%d,"xid":%d,"xoffset":0,"position":"b.1:%d",'
            b'"push_ts":%d.%03d,"primary_key":[%d],"primary_key_columns":["id"],"data":{"id":%d}}'
            % (SECONDS, 100 + at, 500 + at, SECONDS + 1, at, at, at),
            offset=at,
        )
        for at in range(40)
    ]


def odd_ids_get_a_prefix(transaction: Transaction | None, message: Any) -> Transaction | None:
    if transaction is None or not message.xid % 2:
        return transaction
    return msgspec.structs.replace(transaction, id=f"x{transaction.id}")


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("messages.pushed_at_ns", lambda found, _: None if found // 1_000_000 % 2 else found),
        ("messages.pushed_at_ns", lambda found, _: found // 1_000_000_000 * 1_000_000_000),
        ("decoder.transaction_of", odd_ids_get_a_prefix),
        ("decoder.transaction_of", lambda found, message: found if message.xid < 120 else None),
        ("decoder.source_of", lambda found, message: found if message.xid < 120 else later(found)),
    ],
    ids=["odd-milliseconds", "whole-seconds", "odd-ids", "late-ids", "later-sources"],
)
@pytest.mark.parametrize("target", ["maxwell-json", "debezium-json"])
def test_facts_of_maxwell_that_depend_on_values_change_templates(
    path: str, change: Callable[[Any, Any], Any], target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = maxwell_rows()
    original = pkgutil.resolve_name(f"relay.codecs.maxwell.{path}")
    before = Both("maxwell-json", None, target, ENGINE)
    assert sum([before.fits(each) for each in given]) > 30
    monkeypatch.setattr(
        f"relay.codecs.maxwell.{path}",
        lambda message, *args, **more: change(original(message, *args, **more), message),
    )
    both = Both("maxwell-json", None, target, ENGINE)
    for each in given:
        both.fits(each)  # the same with templates and without


class Rows(NamedTuple):
    """Captured records, and behind them a row that is a second later than all DDL, until it has a template;
    the same row yet another second later; the first one's time.
    """

    all: list[ConsumerRecord]
    later: ConsumerRecord
    number: int


def rows(family: Family, monkeypatch: pytest.MonkeyPatch) -> Rows:
    """The captured records of a family."""
    origin, numbers = pkgutil.resolve_name(family.origin), list[int]()

    def noting(*args: Any, **more: Any) -> Any:
        numbers.append(attrgetter(family.number)(args[0]))
        return origin(*args, **more)

    def is_insert(record: ConsumerRecord) -> bool:
        changes = [each for each in Resolver().inspect(reader, record) if isinstance(each, RowChange)]
        return [change.op for change in changes] == [Op.INSERT]

    records = family.records(family.file)
    with monkeypatch.context() as patch:
        patch.setattr(family.origin, noting)
        reader = Translator(family.protocol, "debezium-json", reading_options(family.file), engine=None)
        row = [record for record in records if is_insert(record)][-1]
        assert is_insert(row)
    first, second = (shifted(family, row, numbers[-1], seconds * family.second) for seconds in (1, 2))
    return Rows([*records, *[first] * 3], second, numbers[-1] + family.second)


def shifted(family: Family, record: ConsumerRecord, number: int, by: int) -> ConsumerRecord:
    """A record with another time."""
    old, new = family.text(number), family.text(number + by)
    key, value = (part and part.replace(old, new) for part in (record.key, record.value))
    return msgspec.structs.replace(record, key=key, value=value)


def learned(family: Family, records: list[ConsumerRecord]) -> Both:
    """A route after records of which the last fits a template."""
    both = Both(family.protocol, reading_options(family.file), "debezium-json", ENGINE)
    for record in records:
        both.fits(record)
    assert both.fits(records[-1])
    return both


@pytest.mark.parametrize(
    "family", [family for family in FAMILIES if family.check], ids=attrgetter("protocol")
)
def test_refused_message_matches_no_template(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    check, given = pkgutil.resolve_name(family.check), rows(family, monkeypatch)
    number = family.number.rpartition(".")[2]

    def stricter(*args: Any) -> None:
        if getattr(args[0], number) > given.number:
            raise Malformed(family.protocol, family.number, "too late")
        check(*args)

    assert learned(family, given.all).fits(given.later)
    monkeypatch.setattr(family.check, stricter)
    both = learned(family, given.all)
    assert not both.fits(given.later)
    assert isinstance(outcome(both.templated, given.later), str), "the same error as on the slow path"


@pytest.mark.parametrize("family", FAMILIES, ids=attrgetter("protocol"))
def test_a_change_for_some_values_becomes_a_condition(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = rows(family, monkeypatch)
    bound = given.number // family.second * 10**9

    def later_from_then_on(source: Source) -> Source:
        return later(source) if source.event_time_ns // 10**9 * 10**9 > bound else source

    assert learned(family, given.all).fits(given.later)
    monkeypatch.setattr(family.origin, patched(family, later_from_then_on, set()))
    both = learned(family, given.all)
    assert not both.fits(given.later)
    both.fits(given.later)
    assert both.fits(given.later)
    assert both.fits(given.all[-1])
