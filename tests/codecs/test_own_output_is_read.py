"""Every route, over values that are hard to write: what a target's encoder writes, its decoder reads."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from ckafka_support import CKAFKA
from ckafka_support import ddl as ckafka_ddl
from ckafka_support import row as ckafka_row
from debezium_support import DEBEZIUM, NO_SCHEMA, SOURCE, block
from debezium_support import ddl as debezium_ddl
from open_support import cell, framed
from open_support import ddl as open_ddl
from open_support import row as open_row
from support import CANAL, OPEN, TICDC, record, row_message

from relay import ConsumerRecord, ProducerRecord, RelayError, RowChange, Translator

BINARY_TYPES = {"binary(4)", "varbinary(9)", "blob"}
MEMBERS = {"enum": "('a','b,c','','1','x')", "set": "('a','b','c')"}
TEXTS = [
    "",
    "0",
    "1",
    "a",
    "b,c",
    "a,c",
    "x" * 300,
    "\x00",
    "\U0001f600",
    '"\\\b\f\n',
    "ÿ",
    "AAE=",
]
NUMBERS = [
    "127",
    str(1 << 31),
    str(1 << 63),
    str((1 << 64) - 1),
    str(1 << 64),
    str(-(1 << 63) - 1),
    "9" * 40,
    "9" * 5000,
    "1.5",
    "1e400",
]
FLOATS = [
    "1e-45",
    "1.4E-45",
    "-0.0",
    "3.4028235e38",
    "1e39",
    "5e-324",
    "1.7976931348623157e308",
    "0.1",
    "NaN",
    "Infinity",
    "1e16",
]
DECIMALS = [
    "99999999999999999999.99",
    "-0.00",
    "0." + "0" * 29 + "1",
    "9" * 65,
    "9" * 66,
    "1E5",
    "1e99",
    "1e101",
]
DATES = [
    "0000-00-00",
    "0001-01-01",
    "0099-12-31",
    "2009-11-31",
    "9999-12-31",
    "10000-01-01",
    "2026-1-5",
    "2026-01-15",
]
CLOCKS = [
    "10:00:00",
    "838:59:59",
    "-838:59:59.999999",
    "999:59:59",
    "-999:00:00.5",
    "839:00:00",
    "-00:00:00",
    "1:2:3",
    "10:00:00.1234567",
]
MOMENTS = ["0000-00-00 00:00:00", "1970-01-01 00:00:00", "1969-12-31 23:59:59.999999", "9999-12-31 23:59:59.999999", "0001-01-01 00:00:00",
           "2009-11-31 00:00:00", "2026-01-15 02:20:30", "2026-01-15 02:20:30.1", "2026-01-15 02:20:30.123456", "2026-01-15T02:20:30Z",
           "2026-01-15 02:20:30.1234567", "2026-01-15 24:00:00"]  # fmt: skip
JSONS = ["null", "[", '{"a":1}', "1", '"x"']
VALUES: dict[str, list[str]] = {
    **dict.fromkeys(("int", "bigint", "bigint unsigned", "bit(1)", "bit(8)", "bit(64)", "year"), TEXTS + NUMBERS),
    **dict.fromkeys(("enum", "set"), TEXTS + NUMBERS[:5]),
    **dict.fromkeys(("float", "double"), TEXTS + FLOATS + NUMBERS),
    "decimal(65,30)": TEXTS + DECIMALS + NUMBERS,
    "date": TEXTS + DATES,
    **dict.fromkeys(("time", "time(6)"), TEXTS + CLOCKS),
    **dict.fromkeys(("datetime", "datetime(3)", "datetime(6)", "timestamp(6)"), TEXTS + MOMENTS),
    **dict.fromkeys(("varchar(9)", "binary(4)", "varbinary(9)", "blob", "json", "point"), TEXTS + JSONS),
}  # fmt: skip
CODES = {
    "tinyint": 1, "int": 3, "bigint": 8, "bigint unsigned": 8, "bit": 16, "year": 13, "enum": 247, "set": 248, "float": 4, "double": 5,
    "decimal": 246, "date": 10, "time": 11, "datetime": 12, "timestamp": 7, "varchar": 15, "char": 254, "text": 252, "binary": 254,
    "varbinary": 15, "blob": 252, "json": 245, "vector": 225, "point": 255,
}  # fmt: skip
CONNECT = {
    "tinyint": ("int16", None), "int": ("int32", None), "bigint": ("int64", None), "bigint unsigned": ("int64", None),
    "bit(1)": ("boolean", None), "bit": ("bytes", "io.debezium.data.Bits"), "year": ("int32", "io.debezium.time.Year"),
    "enum": ("string", "io.debezium.data.Enum"), "set": ("string", "io.debezium.data.EnumSet"), "float": ("float", None),
    "double": ("double", None), "decimal": ("double", None), "date": ("int32", "io.debezium.time.Date"),
    "time": ("int64", "io.debezium.time.MicroTime"), "datetime": ("int64", "io.debezium.time.MicroTimestamp"),
    "timestamp": ("string", "io.debezium.time.ZonedTimestamp"), "json": ("string", "io.debezium.data.Json"),
}  # fmt: skip


def full(column_type: str) -> str:
    return column_type + MEMBERS.get(column_type, "")


def bare(column_type: str) -> str:
    return column_type.partition("(")[0]


def create(column_type: str) -> str:
    return f"CREATE TABLE `t` (`id` INT PRIMARY KEY,`c` {full(column_type)})"


def canal_rows(column_type: str, text: Any) -> Iterator[dict[str, Any]]:
    for types in ({"id": "int", "c": full(column_type)}, {"id": "int", "c": bare(column_type)}):
        yield row_message(types, {"id": "1", "c": text}, op="UPDATE", old=[{"c": None}], pkNames=["id"])


def numeric(text: str) -> list[Any]:
    """A text as the JSON values that it may be."""
    try:
        number = json.loads(text)
    except ValueError:
        return [text]
    return [text, number] if isinstance(number, int | float) and abs(number) < 1e308 else [text]


def canal_statement(column_type: str) -> ConsumerRecord:
    return record(
        {
            "database": "d",
            "table": "t",
            "isDdl": True,
            "type": "CREATE",
            "sql": create(column_type),
            "es": 1,
            "ts": 1,
            "data": None,
        }
    )


def messages(source: str, column_type: str, text: str) -> Iterator[tuple[ConsumerRecord, ConsumerRecord]]:
    """Rows with this value, each with the statement that made its table."""
    if source in {CANAL, TICDC}:
        for each in canal_rows(column_type, text):
            yield canal_statement(column_type), record(each, offset=1)
    elif source == CKAFKA:
        yield record(ckafka_ddl(create(column_type))), record(ckafka_row({"id": "1", "c": text}), offset=1)
    elif source == OPEN:
        for value in numeric(text):
            code = CODES.get(column_type) or CODES[bare(column_type)]
            flags = 65 if column_type in BINARY_TYPES else 64
            cells = {"id": cell(3, 1, 11), "c": cell(code, value, flags)}
            yield framed(open_ddl(create(column_type))), framed(open_row({"u": cells}), offset=1)
    else:
        type_, name = CONNECT.get(column_type) or CONNECT.get(bare(column_type), ("string", None))
        allowed = {"parameters": {"allowed": "a,b,c"}} if name and "Enum" in name else {}
        field = {"type": type_, "optional": True, "field": "c"} | ({"name": name} if name else {}) | allowed
        for value in numeric(text):
            body = {
                "source": SOURCE,
                "ts_ms": 1,
                "transaction": None,
                "op": "c",
                "before": None,
                "after": {"id": 1, "c": value},
            }
            for given in (
                {"payload": body},
                {"payload": body, "schema": block({"type": "int32", "field": "id"}, field)},
            ):
                statement = json.dumps(debezium_ddl(create(column_type))).encode()
                yield (
                    ConsumerRecord("topic", 0, 0, 1, None, statement),
                    ConsumerRecord("topic", 0, 1, 1, b'{"payload":{"id":1}}', json.dumps(given).encode()),
                )


TARGETS: list[tuple[str, dict[str, str]]] = [
    (CANAL, {}),
    (TICDC, {"content-compatible": "true", "enable-tidb-extension": "true"}),
    (OPEN, {}),
    (DEBEZIUM, {}),
    (DEBEZIUM, NO_SCHEMA),
    (DEBEZIUM, {"enable-tidb-extension": "true", "replace.null.with.default": "false"}),
    (CKAFKA, {}),
]


def consumed(out: ProducerRecord, offset: int) -> ConsumerRecord:
    return ConsumerRecord(out.topic, out.partition, offset, out.timestamp_ms, out.key, out.value, out.headers)


def is_written(event: Any) -> bool:
    """Whether a row is of the table that the statement made; looks at every value as well."""
    assert isinstance(event, RowChange)
    return (event.before, event.after) is not None and event.schema.complete


def read_back(reader: Translator, records: list[Any]) -> list[Any]:
    """The rows of records, every value examined; raises what the decoder raises.

    What a source's decoder does not read is passed on as text between Canal's relatives.
    """
    events = [event for one in records for event in reader.inspect(one)]
    return [(event.before, event.after) for event in events if isinstance(event, RowChange)]


def readable(
    source: str, statement: ConsumerRecord, rows: list[ConsumerRecord], *, is_known: bool
) -> list[ConsumerRecord]:
    """The rows that the source's decoder reads, and whose table it knows if it has seen the statement."""
    reader = Translator(source, source)
    if is_known:
        reader.learn(statement)
    found = []
    for row in rows:
        try:
            (given,) = reader.inspect(row)
            is_of_table = is_written(given)
        except RelayError:
            continue
        if is_of_table or not is_known:
            found.append(row)
    return found


@pytest.mark.parametrize("column_type", VALUES)
@pytest.mark.parametrize("source", [CANAL, TICDC, OPEN, DEBEZIUM, CKAFKA])
def test_what_a_route_writes_its_target_reads(source: str, column_type: str) -> None:
    pairs = [pair for text in VALUES[column_type] for pair in messages(source, column_type, text)]
    statement, rows = pairs[0][0], [row for _, row in pairs]
    given = {each: readable(source, statement, rows, is_known=each) for each in (False, True)}
    unread = []
    for (target, options), is_known in itertools.product(TARGETS, given):
        translator = Translator(source, target, None, options)
        # A reader with the statement, too, if there is one.
        readers = [Translator(target, target) for _ in range(1 + is_known)]
        if is_known:
            for at, out in enumerate(translator.translate(statement)):
                readers[0].inspect(consumed(out, at))
        for row in given[is_known]:
            try:
                outs = translator.translate(row)
            except RelayError:
                continue
            for number, reader in enumerate(readers):
                try:
                    read_back(reader, [consumed(out, 9) for out in outs])
                except RelayError as error:
                    unread.append((target, options, (row.value or b"")[-120:], is_known, number, str(error)))
    assert not unread, (len(unread), unread[:5])
