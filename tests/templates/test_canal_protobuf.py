"""Templates of Canal's packets: the same messages, losses and events as without, for all rows of most packets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from engine_support import ENGINES
from packet_support import PROTOBUF, begin, cell, cut, end, header, row, statement
from templates_support import Both

from relay import ConsumerRecord
from relay.codecs.canal.canal_protobuf import packets
from relay.codecs.canal.canal_protobuf.protobuf import bytes_field, fields, number_field
from relay.core.selection import Selection, chosen_tables
from relay.model.limits import Limits
from relay.templates.engine import Engine

FILES = (
    "mysql/canal-protobuf/01_all_types",
    "mysql/canal-protobuf/09_dml",
    "mysql/canal-protobuf.hashed/07_keys",
)
pytestmark = pytest.mark.parametrize("engine", ENGINES)


def both(engine: type[Engine], target: str = "canal-json", **settings: Any) -> Both:
    return Both(PROTOBUF, target=target, engine=engine, **settings)


def teach(route: Both, *records: ConsumerRecord) -> Both:
    """Translate each record until it fits: a record with several shapes gets one template at a time."""
    for record in records:
        assert any(route.fits(record) for _ in range(8))
    return route


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("target", ["canal-json", "ticdc-canal-json", "ticdc-open-protocol"])
def test_captured_packets(engine: type[Engine], file: str, target: str) -> None:
    """Translate each packet until its rows have templates: each time, one more shape gets its own."""
    route = both(engine, target)
    fast = seen = 0
    for record in cut(file):
        for _ in range(8):
            is_fast = route.fits(record)
        fast += is_fast
        seen += 1
    assert fast > seen // 3


# ---------------------------------------------------------------- packets that are made


def packet(*entries: bytes, numbers: bytes = b"") -> ConsumerRecord:
    body = numbers + b"".join([bytes_field(2, each) for each in entries])
    return ConsumerRecord("canal", 0, 9, 1_700_000_000_456, None, number_field(3, 7) + bytes_field(5, body))


def test_texts_nulls_and_numbers(engine: type[Engine]) -> None:
    route = teach(both(engine), packet(row("1")))
    for text in ("2", None, "", "-17", "x", "é", "\n", "9" * 200):
        assert route.fits(packet(row(text)))
    assert route.fits(packet(row("1", position=1 << 40)))


def test_several_rows_and_entries(engine: type[Engine]) -> None:
    route = teach(both(engine), packet(row("1")))
    assert route.fits(packet(row("1", "2", None)))
    assert route.fits(packet(row("1"), row("2", "3"), row(""), numbers=b""))
    assert not route.fits(packet(row("1"), numbers=number_field(1, 5)))
    assert route.fits(packet(row("1"), row("2"), numbers=number_field(1, 500)))


def test_transactions(engine: type[Engine]) -> None:
    """Each mark, and each loss of the rows' transaction, is counted as by the slow path."""
    route = teach(both(engine), packet(begin(1), row("1"), end(9)))
    assert route.fits(packet(begin(7, thread=300), row("1"), row("2", "3"), end(8, "77")))
    assert route.fits(packet(begin(1), end(2), begin(3), row("4"), end(5)))
    teach(route, packet(row("1")))
    assert route.fits(packet(row("1"), begin(3), row("4"), end(5), row("2")))
    # The begin or the end may be in another packet.
    teach(route, packet(begin(1), row("1")), packet(row("1"), end(1)))
    assert route.fits(packet(row("1"), end(1), begin(2), row("2"), row("3"), end(3), begin(4), row("5")))


@pytest.mark.parametrize("topic", ["{database}.{table}", "{topic}_{table}", "{topic}.x"])
def test_transactions_with_other_topics(engine: type[Engine], topic: str) -> None:
    """Marks without a topic are counted as such."""
    route = teach(
        Both(PROTOBUF, target="canal-json", engine=engine, topic=topic), packet(begin(1), row("1"), end(9))
    )
    assert route.fits(packet(begin(1), row("1"), row("2"), end(9), begin(3), row("4"), end(5)))


@pytest.mark.parametrize(
    ("selection", "has_templates"),
    [
        (Selection(tables=chosen_tables(["d.t"], [])), True),
        (Selection(tables=chosen_tables([], ["d.t"])), False),
        (Selection(left_out_kinds=frozenset({"transaction-mark"})), False),
        (Selection(since_commit_ts=1), True),
    ],
)
def test_selected_transactions(engine: type[Engine], selection: Selection, *, has_templates: bool) -> None:
    route = Both(PROTOBUF, target="canal-json", engine=engine, selection=selection)
    found = [route.fits(packet(begin(1), row("1"), row("2"), end(9))) for _ in range(8)]
    assert found[-1] is has_templates


def odd_mark(mark: bytes, *, is_long: bool) -> bytes:
    """A mark whose kind is the last field, or in two bytes."""
    whole = [
        number_field(number, data) if isinstance(data, int) else bytes_field(number, data)
        for number, data in fields(mark)
    ]
    head, kind, value = whole
    return head + bytes((kind[0], kind[1] | 0x80, 0)) + value if is_long else head + value + kind


@pytest.mark.parametrize("is_long", [False, True])
def test_rows_after_an_odd_mark_are_of_its_transaction(engine: type[Engine], *, is_long: bool) -> None:
    """The losses are those of a transaction, also where rows without one have templates."""
    route = teach(both(engine), packet(row("1")))
    for _ in range(3):
        route.fits(packet(odd_mark(begin(1), is_long=is_long), row("1")))
        route.fits(packet(odd_mark(begin(1), is_long=is_long), row("1"), begin(2), row("1"), end(3)))


@pytest.mark.parametrize("is_long", [False, True])
def test_marks_with_their_kind_elsewhere(engine: type[Engine], *, is_long: bool) -> None:
    """The kind is the last field, or in two bytes."""

    def odd(mark: bytes) -> bytes:
        return odd_mark(mark, is_long=is_long)

    route = Both(PROTOBUF, target="canal-json", engine=engine, topic="{database}.{table}")
    same_topic = both(engine)
    for _ in range(8):
        for entries in (
            [odd(begin(1)), row("1"), end(2)],
            [odd(begin(1)), end(2)],
            [odd(begin(1))],
            [row("1"), end(2)],
            [begin(1), row("1"), odd(end(2))],
            [begin(1), row("1")],
        ):
            route.fits(packet(*entries))
            same_topic.fits(packet(*entries))
    assert route.fits(packet(begin(1), row("1")))


def test_rows_of_a_transaction_are_not_taken_alone(engine: type[Engine]) -> None:
    route = teach(both(engine), packet(row("1")))
    assert route.fits(packet(row("1")))
    assert not route.fits(packet(begin(1), row("1"), end(2)))
    assert not route.fits(packet(row("1"), end(2)))


def test_targets_with_marks_have_no_templates_of_transactions(engine: type[Engine]) -> None:
    route = both(engine, PROTOBUF)
    for _ in range(5):
        assert not route.fits(packet(begin(1), row("1"), end(9)))


HEARTBEAT = packets.entry(packets.HEARTBEAT, header(4), b"")
QUERY = packets.entry(packets.ROWS, header(4, "QUERY"), packets.statement_value("QUERY", "SELECT 1", "d"))


def of_table(table: str, *texts: str, op: str = "INSERT") -> bytes:
    """An entry of rows of another table."""
    at = msgspec.structs.replace(header(4, op), table=table)
    value = packets.rows_value(op, [bytes_field(2, cell(text)) for text in texts])
    return packets.entry(packets.ROWS, at, value, rows=len(texts))


def paths(route: Both, record: ConsumerRecord) -> tuple[int, int]:
    """Return how many rows of a record went by template, and whether it took the slow path, too."""
    before = route.templated.paths
    route.fits(record)
    after = route.templated.paths
    return after["fast"] - before["fast"], after["slow"] - before["slow"]


@pytest.mark.parametrize("target", ["canal-json", "ticdc-canal-json", "flat-json", "ckafka-json"])
def test_rows_beside_heartbeats(engine: type[Engine], target: str) -> None:
    route = teach(both(engine, target), packet(row("1")))
    assert paths(route, packet(row("1"), HEARTBEAT)) == (1, 1)
    assert paths(route, packet(HEARTBEAT, row("1", "2"), HEARTBEAT, row("3"))) == (3, 1)
    assert paths(route, packet(HEARTBEAT, HEARTBEAT)) == (0, 1)


def test_rows_beside_a_statement(engine: type[Engine]) -> None:
    """The statement and the rows are in their order, each with its number in the record."""
    route = teach(both(engine), packet(row("1")), packet(begin(1), row("1"), end(9)))
    create = statement("CREATE TABLE other (a INT PRIMARY KEY)", 4)
    given = packet(row("1"), begin(1), row("2", "3"), end(9), create, of_table("other", "4"), row("5"))
    assert paths(route, given) == (4, 1)
    texts = [out.value or b"" for out in both(engine).plain.translate(given)]
    assert [b"CREATE" in text for text in texts] == [False, False, False, True, False, False]
    assert paths(route, packet(QUERY, row("1"))) == (1, 1)


def test_rows_after_a_statement_about_their_table(engine: type[Engine]) -> None:
    """Its templates no longer apply to them; those of other tables do."""
    route = teach(both(engine), packet(row("1")), packet(of_table("u", "1")))

    def found(offset: int, *entries: bytes) -> tuple[int, int]:
        return paths(route, msgspec.structs.replace(packet(*entries), offset=offset))

    def teach_again(offset: int) -> None:
        teach(route, msgspec.structs.replace(packet(row("1")), offset=offset))

    alter, again = (statement(f"ALTER TABLE t MODIFY a {kind}", 4) for kind in ("BIGINT", "SMALLINT"))
    assert found(20, of_table("u", "1"), row("1"), statement("CREATE TABLE t (a INT PRIMARY KEY)", 4)) == (
        2,
        1,
    )
    teach_again(21)
    assert found(22, row("1"), alter, of_table("u", "2")) == (2, 1)
    teach_again(23)
    assert found(24, of_table("u", "1"), again, row("1")) == (0, 1)


def test_several_statements_share_their_limits(engine: type[Engine]) -> None:
    route = teach(both(engine, limits=Limits(ddl_statements=3)), packet(row("1")))
    two = statement("CREATE TABLE x (a INT)", 4), statement("DROP TABLE x", 5)
    assert paths(route, packet(row("1"), *two, row("2"))) == (2, 1)
    assert paths(route, packet(row("1"), *two, row("2"), *two)) == (0, 1)
    assert paths(route, packet(row("1"), *two, *two, row("2"))) == (0, 1)


def test_targets_with_statements_in_other_partitions(engine: type[Engine]) -> None:
    route = teach(both(engine, "ticdc-canal-json"), packet(row("1")))
    route.fits(packet(row("1"), statement("CREATE TABLE other (a INT PRIMARY KEY)", 4)))
    route.fits(packet(row("1"), statement("DROP DATABASE d", 4), row("1")))
    assert route.fits(packet(row("1"), HEARTBEAT))


@pytest.mark.parametrize("target", ["maxwell-json", "ticdc-simple-json", "debezium-json"])
def test_targets_whose_messages_depend_on_others(engine: type[Engine], target: str) -> None:
    """Their records are not divided: messages have numbers, or definitions once per record."""
    route = both(engine, target)
    for _ in range(8):
        for given in (packet(row("1")), packet(row("1"), of_table("u", "1")), packet(HEARTBEAT, row("1"))):
            route.fits(given)
    assert paths(route, packet(row("1"), HEARTBEAT, of_table("v", "1"))) == (0, 1)


def test_tables_without_a_template_get_theirs(engine: type[Engine]) -> None:
    """One in each part of a record that takes the slow path, also beside rows with a template."""
    route = teach(both(engine), packet(row("1")))
    given = packet(of_table("u", "1"), row("1"), of_table("v", "1"), row("2"))
    assert [paths(route, given) for _ in range(4)] == [(2, 1), (2, 1), (4, 0), (4, 0)]


def test_rows_that_disagree_with_their_definition(engine: type[Engine]) -> None:
    """Beside a row of an unknown table, their tables count as inferred."""
    route = both(engine)
    route.fits(packet(statement("CREATE TABLE t (a INT)", 4)))
    for offset in range(20, 28):
        given = packet(row("1"), of_table("u", "1"), HEARTBEAT)
        route.fits(msgspec.structs.replace(given, offset=offset))
        route.fits(msgspec.structs.replace(packet(row("1")), offset=offset))
        assert route.templated.inferred_tables == route.plain.inferred_tables


def test_transactions_are_not_divided(engine: type[Engine]) -> None:
    """The rows of a transaction and its marks go one way."""
    route = teach(both(engine), packet(row("1")), packet(begin(1), row("1"), end(9)))
    whole = begin(1), row("1"), row("2"), end(2)
    assert paths(route, packet(*whole, begin(3), row("1"), HEARTBEAT, end(4), *whole)) == (4, 1)
    assert paths(route, packet(begin(3), row("1"), QUERY, row("2"), end(4))) == (0, 1)
    assert paths(route, packet(*whole, row("1"), HEARTBEAT, end(5))) == (2, 1)


@pytest.mark.parametrize(
    "broken",
    [
        row("x"),
        of_table("u", "x"),
        packets.entry(packets.ROWS, header(4, "INSERT"), b""),
        packets.entry(9, header(4, "INSERT"), b""),
        statement("CREATE TABLE t (a INT PRIMARY KEY)", 4)[:-3],
    ],
)
def test_an_error_in_one_entry_refuses_the_record(engine: type[Engine], broken: bytes) -> None:
    """Nothing of it is written or counted, as by the slow path."""
    route = teach(both(engine, "ticdc-open-protocol"), packet(row("1")))
    for entries in ([row("1"), broken], [broken, row("1")], [row("1"), HEARTBEAT, row("2"), broken]):
        assert paths(route, packet(*entries))[0] == 0
    assert route.fits(packet(row("1"), HEARTBEAT))


@pytest.mark.parametrize("limits", [Limits(rows=4), Limits(output_bytes=3_000)])
def test_limits_are_those_of_the_record(engine: type[Engine], limits: Limits) -> None:
    route = teach(both(engine, limits=limits), packet(row("1")))
    for count in range(1, 8):
        rows = [row(str(number)) for number in range(count)]
        route.fits(packet(*rows, HEARTBEAT))
        route.fits(packet(*rows, of_table(f"u{count}", "1", "2")))
    assert route.fits(packet(row("1"), HEARTBEAT))


def test_strict_refuses_the_record(engine: type[Engine]) -> None:
    route = both(engine, target_options={"strict": "heartbeat"})
    teach(route, packet(row("1")))
    assert paths(route, packet(row("1"), HEARTBEAT)) == (0, 1)


def test_headers_and_other_topics(engine: type[Engine]) -> None:
    route = teach(both(engine), packet(row("1")))
    given = msgspec.structs.replace(packet(row("1"), HEARTBEAT, row("2")), headers=(("h", b"1"),))
    assert route.fits(given)
    by_table = teach(
        Both(PROTOBUF, target="canal-json", engine=engine, topic="{database}.{table}"), packet(row("1"))
    )
    assert not by_table.fits(packet(row("1"), HEARTBEAT, of_table("u", "1")))


@pytest.mark.parametrize("time_ms", [0, -1, 1 << 46, -(1 << 46)])
def test_times_that_are_counted_or_refused(engine: type[Engine], time_ms: int) -> None:
    route = teach(both(engine), packet(row("1")), packet(begin(1), row("1"), end(9)))
    at = header(4)
    at.time_ms = time_ms
    mark = packets.entry(packets.END, at, bytes_field(2, b"99"))
    route.fits(packet(begin(1), row("1"), mark))
    at.event_type = "INSERT"
    value = packets.rows_value("INSERT", [bytes_field(2, cell("1"))])
    route.fits(packet(packets.entry(packets.ROWS, at, value, rows=1)))


def odd_packets() -> Iterator[tuple[str, bytes]]:
    """Packets like one with a template, but not quite."""
    good = packet(row("1")).value or b""
    cell_of = bytes_field(2, cell("1"))

    def made(other: bytes, **parts: bytes) -> bytes:
        value = packets.rows_value("INSERT", [parts.get("row", other)]) + parts.get("change", b"")
        found = packets.entry(packets.ROWS, header(4, "INSERT"), value, rows=1) + parts.get("entry", b"")
        return (packet(found, numbers=parts.get("numbers", b"")).value or b"") + parts.get("packet", b"")

    assert made(cell_of) == good
    for where in ("numbers", "entry", "change", "packet"):
        yield f"an unknown field in {where}", made(cell_of, **{where: number_field(15, 1)})
        yield f"an unknown text in {where}", made(cell_of, **{where: bytes_field(15, b"x")})
        yield f"a known field again in {where}", made(cell_of, **{where: number_field(2, 1)})
        yield f"a number for bytes in {where}", made(cell_of, **{where: number_field(3, 1)})
    for more in (
        *(number_field(6, 1), number_field(6, 2), bytes_field(6, b"x"), number_field(15, 1)),
        *(bytes_field(3, b"b"), bytes_field(8, b"2"), number_field(8, 2), bytes_field(10, b"text")),
    ):
        yield f"a column with {more!r}", made(bytes_field(2, cell("1") + more))
        yield f"a column after {more!r}", made(bytes_field(2, more + cell("1")))
    yield "a column again", made(cell_of + cell_of)
    yield "an old column", made(bytes_field(1, cell("1")) + cell_of)
    yield "no column", made(b"")
    for text in (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\0", b"\x7f"):
        yield (
            f"the text {text!r}",
            made(bytes_field(2, cell("\x01").replace(b"\x01\x01", b"\x01" + text[:1]))),
        )
        longer = cell("").replace(number_field(6, 0), number_field(6, 0) + bytes_field(8, text))
        yield f"the text {text!r} alone", made(bytes_field(2, longer))
    null = cell(None).replace(number_field(6, 1), number_field(6, 1) + bytes_field(8, b"x"))
    yield "NULL with a text", made(bytes_field(2, null))
    for at in range(len(good)):
        yield f"cut at {at}", good[:at]
        yield f"without the byte at {at}", good[:at] + good[at + 1 :]
        yield f"a longer number at {at}", good[:at] + bytes([good[at] | 0x80, 0]) + good[at + 1 :]
        for bit in (1, 2, 4, 8, 0x80):
            yield f"bit {bit} at {at}", good[:at] + bytes([good[at] ^ bit]) + good[at + 1 :]


def test_odd_packets_give_the_same_as_the_slow_path(engine: type[Engine]) -> None:
    route = teach(both(engine), packet(row("1")))
    fast = 0
    for what, value in odd_packets():
        record = packet(row("1"))
        fast += route.fits(msgspec.structs.replace(record, value=value))
        assert route.fits(record), what
    assert fast < 60


def test_odd_packets_of_a_transaction(engine: type[Engine]) -> None:
    good = packet(begin(1), row("1"), end(9))
    route = teach(both(engine), good)
    value = good.value or b""
    fast = 0
    for at in range(len(value)):
        for bit in (1, 2, 8, 0x80):
            odd = value[:at] + bytes([value[at] ^ bit]) + value[at + 1 :]
            fast += route.fits(msgspec.structs.replace(good, value=odd))
    assert 0 < fast < len(value)


def test_tables_with_long_names(engine: type[Engine]) -> None:
    """A name of more than 127 bytes has no marker."""
    long = "é" * 64

    def named(table: str) -> ConsumerRecord:
        at = header(4, "INSERT")
        at.table = table
        value = packets.rows_value("INSERT", [bytes_field(2, cell("1"))])
        return packet(packets.entry(packets.ROWS, at, value, rows=1))

    route = teach(both(engine), named("t"))
    for _ in range(5):
        assert not route.fits(named(long))
