"""The edge cases of TiCDC Simple that need Python; the others are in tests/golden/ticdc-simple."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import cramjam
import pytest
from edge_cases.ticdc_simple import CASES
from simple_support import (
    AVRO,
    ROW_TS,
    SIMPLE,
    VERSION,
    as_avro,
    bootstrap,
    column,
    ddl,
    read,
    records,
    row,
    table,
    written,
)
from support import CANAL, TICDC, named_refusal, row_message
from support import record as canal_record

from relay import (
    Bootstrap,
    DecodeError,
    Op,
    Resolver,
    RowChange,
    SchemaChange,
    Translator,
)
from relay.codecs.simple.avro_bytes import SimpleAvroReader, avro_long, avro_text
from relay.codecs.simple.avro_wire import AvroWire
from relay.model.errors import Malformed, UnsupportedMessage
from relay.model.events import ColumnType

A = column("a")


def changes(events: list[Any]) -> list[RowChange]:
    return [event for event in events if isinstance(event, RowChange)]


def statement(event: object) -> SchemaChange:
    assert isinstance(event, SchemaChange)
    return event


# ---------------------------------------------------------------- definitions


@CASES.covers("3")
def test_a_bootstrap_that_comes_again_is_learned_once() -> None:
    _, translator = read(bootstrap(table(A)))
    catalog = translator.catalog
    for record in records(*[bootstrap(table(A))] * 3):
        (event,) = translator.inspect(record)
        assert isinstance(event, Bootstrap)
    assert translator.catalog is catalog


@CASES.covers("4")
def test_a_statement_in_all_partitions_is_written_once_to_canal() -> None:
    translator = Translator(SIMPLE, CANAL)
    sql = "CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY,`a` INT)"
    outs, versions = [], set()
    for partition in (2, 0, 1):
        (record,) = records(ddl("CREATE", sql, table(A)))
        record = type(record)(record.topic, partition, 0, record.timestamp_ms, None, record.value)
        outs += translator.translate(record)
        versions.add(translator.catalog.versions)
    assert [(out.partition, json.loads(out.value or b"")["type"]) for out in outs] == [(0, "CREATE")]
    assert len(versions) == 1


@CASES.covers("8")
def test_an_alter_without_the_schema_before() -> None:
    later = VERSION + 5
    alter = ddl(
        "ALTER",
        "ALTER TABLE `t` ADD COLUMN `b` VARCHAR(5) NULL COMMENT 'said by the statement'",
        table(A, column("b", "varchar", length=5), version=later),
    )
    events, _ = read(bootstrap(table(A)), alter, row({"a": "1"}), row({"a": "1", "b": "x"}, version=later))
    after = statement(events[1]).after
    assert after is not None
    assert [one.comment for one in after.columns] == [None, None, "said by the statement"]
    assert after.version == later
    assert [change.after for change in changes(events)] == [(1, 1), (1, 1, "x")]


# ---------------------------------------------------------------- large messages, shapes, checksums


NAME = "0f8b0a14-3e3e-4f5c-9d3b-2a1f6e1b7c11.json"


@CASES.covers("22", "23")
@pytest.mark.parametrize("is_raw", [False, True])
def test_a_row_in_a_storage(tmp_path: Path, *, is_raw: bool) -> None:
    whole = bytes(cramjam.lz4.compress(json.dumps(row({"a": "7"})).encode()))
    document = json.dumps({"key": None, "value": base64.b64encode(whole).decode()}).encode()
    (tmp_path / NAME).write_bytes(whole if is_raw else document)
    stub = row({}, claimCheckLocation=f"s3://bucket/{NAME}", handleKeyOnly=True)
    reader = Translator(SIMPLE, CANAL, {"claim-check-storage-uri": str(tmp_path)})
    reader.translate(records(bootstrap(table(A)))[0])
    outs = Resolver().translate(reader, records(stub)[0])
    assert written(outs)[0]["data"] == [{"id": "1", "a": "7"}]
    without = Translator(SIMPLE, CANAL)
    without.translate(records(bootstrap(table(A)))[0])
    with pytest.raises(UnsupportedMessage, match="claim-check-storage-uri"):
        without.translate(records(stub)[0])


def test_an_object_of_another_row_is_refused(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(json.dumps(row({"a": "7"}, commitTs=ROW_TS + 1)).encode())
    reader = Translator(SIMPLE, CANAL, {"claim-check-storage-uri": str(tmp_path)})
    reader.translate(records(bootstrap(table(A)))[0])
    with pytest.raises(Malformed, match="another message"):
        Resolver().translate(reader, records(row({}, claimCheckLocation=NAME, handleKeyOnly=True))[0])


@CASES.covers("24")
def test_a_compressed_message_where_none_is_expected() -> None:
    packed = bytes(cramjam.lz4.compress(json.dumps(bootstrap(table(A))).encode()))
    for protocol in (SIMPLE, AVRO):
        with pytest.raises(DecodeError):
            read(packed, protocol=protocol, options={"large-message-handle-compression": "none"})
    assert len(read(packed)[0]) == 1  # `auto` looks at each message


@CASES.covers("25")
def test_avro_of_a_registry_is_named() -> None:
    for protocol in (SIMPLE, AVRO):
        refusal = named_refusal(protocol, canal_record(b"\x00\x00\x00\x00\x07" + b"\x02\x02"))
        assert "this looks like Avro with the id of a schema registry" in refusal


def avro_row(*entries: bytes, count: int, size: bytes = b"") -> bytes:
    """A row in Avro, with the block of its map as it is given."""
    head = bytes.fromhex("160606") + b"".join(
        (avro_long(1), avro_text("d"), avro_text("t"), avro_long(100), avro_long(0), avro_long(ROW_TS))
    )
    middle = avro_long(1) + avro_long(VERSION) + b"\x00\x00\x00"
    return head + middle + b"\x02" + avro_long(count) + size + b"".join(entries) + b"\x00\x00"


ID_ENTRY = avro_text("id") + avro_long(1) + avro_long(1)


@CASES.covers("26")
def test_a_block_with_a_negative_count_has_its_size() -> None:
    message = avro_row(ID_ENTRY, count=-1, size=avro_long(len(ID_ENTRY)))
    events, _ = read(as_avro(bootstrap(table())), message, protocol=AVRO)
    assert changes(events)[0].after == (1,)


@CASES.covers("14")
@pytest.mark.parametrize("entry", [avro_long(1) + avro_long(5), avro_long(4) + avro_text("5")])
def test_bits_are_numbers_or_text_in_avro(entry: bytes) -> None:
    schema = table(column("b", "bit", length=10, unsigned=True))
    message = avro_row(ID_ENTRY, avro_text("b") + entry, count=2)
    events, _ = read(as_avro(bootstrap(schema)), message, protocol=AVRO)
    assert changes(events)[0].after == (1, 5)


@CASES.covers("27")
@pytest.mark.parametrize("default", [5, 255, 0, 2**63 + 1])
def test_the_default_of_a_bit_is_its_bytes_in_avro(default: int) -> None:
    message = bootstrap(table(column("b", "bit", length=64, unsigned=True, default=default)))
    data = as_avro(message)
    assert (
        avro_long(max(1, (default.bit_length() + 7) // 8))
        + default.to_bytes(max(1, (default.bit_length() + 7) // 8), "big")
        in data
    )
    entry = AvroWire(AVRO).read(data).table_schema
    assert entry is not None
    assert entry.columns[1].default == default


@CASES.covers("28")
def test_the_digits_of_a_second_follow_from_the_length_in_avro() -> None:
    schema = table(column("at", "datetime", length=26, decimal=6))
    text = avro_text("at") + avro_long(4) + avro_text("2024-01-01 00:00:00.123456")
    events, _ = read(as_avro(bootstrap(schema)), avro_row(ID_ENTRY, text, count=2), protocol=AVRO)
    (change,) = changes(events)
    assert change.after == (1, "2024-01-01 00:00:00.123456")
    assert change.schema.columns[1].type == ColumnType("datetime", length=6)


# ---------------------------------------------------------------- written


def canal_ddl(sql: str, offset: int) -> Any:
    message = row_message(
        {},
        isDdl=True,
        type="ALTER",
        sql=sql,
        data=None,
        mysqlType=None,
        _tidb={"commitTs": (offset + 1) << 40},
    )
    return canal_record(message, offset)


def canal_row(cells: dict[str, str], offset: int) -> Any:
    types = dict.fromkeys(cells, "int")
    return canal_record(
        row_message(types, cells, pkNames=["id"], _tidb={"commitTs": (offset + 1) << 40}), offset
    )


@CASES.covers("32")
@pytest.mark.parametrize("target", [SIMPLE, AVRO])
def test_every_row_follows_its_definition(target: str) -> None:
    given = [
        canal_row({"id": "1", "a": "2"}, 0),
        canal_ddl("CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY,`a` INT)", 1),
        canal_row({"id": "1", "a": "2"}, 2),
        canal_ddl("ALTER TABLE `t` ADD COLUMN `b` INT", 3),
        canal_row({"id": "1", "a": "2", "b": "3"}, 4),
    ]
    translator, reader = Translator(TICDC, target), Translator(target, target)
    events = []
    for record in given:
        for out in translator.translate(record):
            events += reader.inspect(records(out.value or b"")[0])
    assert [type(event).__name__ for event in events] == [
        "Bootstrap", "RowChange", "SchemaChange", "RowChange", "SchemaChange", "RowChange",
    ]  # fmt: skip
    assert [change.after for change in changes(events)] == [(1, 2), (1, 2), (1, 2, 3)]


@CASES.covers("33", "34")
@pytest.mark.parametrize(
    ("sql_type", "text", "data"),
    [
        ("float", "0.1", b"\x04\xcd\xcc\xcc\x3d"),
        ("bigint unsigned", str(2**63), b"\x0e" + avro_long(-(2**63))),
    ],
)
def test_numbers_have_their_own_branch(sql_type: str, text: str, data: bytes) -> None:
    message = row_message({"id": "int", "n": sql_type}, {"id": "1", "n": text}, pkNames=["id"])
    outs = Translator(TICDC, AVRO).translate(canal_record(message))
    assert avro_text("n") + data in (outs[-1].value or b"")


@CASES.covers("35")
@pytest.mark.parametrize("target", [SIMPLE, AVRO])
def test_columns_may_have_the_names_of_members(target: str) -> None:
    names = ("type", "-type", "schemaVersion", "old")
    message = row_message(
        dict.fromkeys(("id", *names), "varchar"),
        {"id": "1", **dict.fromkeys(names, "BOOTSTRAP")},
        pkNames=["id"],
    )
    outs = Translator(TICDC, target).translate(canal_record(message))
    events, _ = read(*[out.value or b"" for out in outs], protocol=target)
    (change,) = changes(events)
    assert (change.op, change.after) == (Op.INSERT, ("1", *["BOOTSTRAP"] * 4))


def test_a_long_that_is_cut_off_is_refused() -> None:
    for data in (b"", b"\x80", b"\xff" * 10 + b"\x01"):
        with pytest.raises(ValueError, match=r"cut off|beyond 64 bits"):
            SimpleAvroReader(data).long()


def test_rows_before_a_truncate_have_the_id_before_it() -> None:
    """TRUNCATE keeps the version: a catalog with the new id mistook the row for one of a partition."""
    truncated = ddl("TRUNCATE", "TRUNCATE TABLE `t`", table(tableID=105))
    translator = Translator(SIMPLE, SIMPLE)
    for given in records(bootstrap(table()), truncated):
        translator.translate(given)
    for table_id, partition in ((100, None), (105, None), (777, 777)):
        (change,) = translator.inspect(records(row({}, tableID=table_id))[0])
        assert change.source.physical_partition == partition


def test_every_case_is_tested_or_decided() -> None:
    CASES.check()
