"""The edge cases of TiCDC Simple; docs/edge-cases/ticdc-simple.md says what the numbers stand for."""

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
    counted,
    ddl,
    read,
    records,
    row,
    table,
    value_of,
    written,
)
from support import CANAL, TICDC, named_refusal, row_message
from support import record as canal_record

from relay import (
    ABSENT,
    Bootstrap,
    DecodeError,
    Op,
    Resolver,
    RowChange,
    SchemaChange,
    TableId,
    Translator,
)
from relay.codecs.simple.avro_bytes import SimpleAvroReader, avro_long, avro_text
from relay.codecs.simple.avro_wire import AvroWire
from relay.model.errors import DefinitionMissing, Malformed, UnsupportedMessage
from relay.model.events import ColumnType, DdlKind

T = TableId("d", "t")
A = column("a")


def changes(events: list[Any]) -> list[RowChange]:
    return [event for event in events if isinstance(event, RowChange)]


def statement(event: object) -> SchemaChange:
    assert isinstance(event, SchemaChange)
    return event


# ---------------------------------------------------------------- definitions


@CASES.covers("1")
def test_a_row_before_its_definition_is_refused_and_read_behind_it() -> None:
    translator = Translator(SIMPLE, SIMPLE)
    first, definition, again = records(row({"a": "1"}), bootstrap(table(A)), row({"a": "1"}))
    with pytest.raises(DefinitionMissing, match="schemaVersion"):
        translator.inspect(first)
    translator.inspect(definition)
    (change,) = translator.inspect(again)
    assert isinstance(change, RowChange)
    assert change.after == (1, 1)


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


@CASES.covers("5")
def test_a_bootstrap_has_no_commit_ts_and_the_time_at_which_it_was_made() -> None:
    ((event,), _) = read(bootstrap(table(A)))
    assert isinstance(event, Bootstrap)
    assert event.source.commit_ts is None
    assert event.source.event_time_ns == event.emitted_at_ns == (VERSION >> 18) * 1_000_000


@CASES.covers("6")
def test_a_renamed_table_is_known_by_both_names() -> None:
    renamed = ddl("RENAME", "RENAME TABLE `d`.`t` TO `d`.`u`", table(A, name="u"))
    events, _ = read(
        bootstrap(table(A)), renamed, row({"a": "1"}), row({"a": "2"}, table="u", commitTs=ROW_TS + 1)
    )
    assert [str(change.table) for change in changes(events)] == ["d.t", "d.u"]
    assert [change.after for change in changes(events)] == [(1, 1), (1, 2)]


@CASES.covers("7")
def test_a_row_is_read_with_no_other_version() -> None:
    known = [bootstrap(table(A, version=version)) for version in (4 << 40, 6 << 40)]
    _, translator = read(*known)
    with pytest.raises(DefinitionMissing):
        translator.inspect(records(row({"a": "1"}, version=5 << 40))[0])


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


@CASES.covers("9")
def test_the_schema_before_of_an_exchange_is_the_other_tables() -> None:
    sql = "ALTER TABLE `d`.`t` EXCHANGE PARTITION `p0` WITH TABLE `d`.`plain`"
    other = table(A, name="plain", version=VERSION + 1, tableID=101)
    message = ddl("ALTER", sql, table(A, version=VERSION + 2), preTableSchema=other)
    events, _ = read(message, row({"a": "1"}, table="plain", version=VERSION + 1))
    change = statement(events[0])
    assert (change.kinds, change.table) == ((DdlKind.EXCHANGE_PARTITION,), TableId("d", "plain"))
    assert [change.after for change in changes(events)] == [(1, 1)]
    outs = Translator(SIMPLE, SIMPLE).translate(records(message)[0])
    assert written(outs) == [message]


@CASES.covers("10")
def test_a_database_is_named_by_its_statement_alone() -> None:
    message = ddl("QUERY", "CREATE DATABASE `x`")
    ((event,), _) = read(message)
    assert (statement(event).table, statement(event).kinds) == (TableId("x", ""), (DdlKind.CREATE_DATABASE,))
    assert written(Translator(SIMPLE, SIMPLE).translate(records(message)[0])) == [message]


# ---------------------------------------------------------------- values

ENUM = column("e", "enum", elements=["a", "b"], length=1)
SET = column("e", "set", elements=["a", "b", "c"], length=5)


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        CASES.param("11", ENUM, "0", 0),
        CASES.param("12", SET, "5", 5),
        CASES.param("13", column("e", "bigint", length=20, unsigned=True), "18446744073709551615", 2**64 - 1),
        CASES.param("18", column("e", "double", length=22), "1" + "0" * 300, 1e300),
        CASES.param("19", column("e", "blob", length=65535), "", b""),
        CASES.param("16", column("e", "timestamp", length=19),
            {"location": "Asia/Shanghai", "value": "0000-00-00 00:00:00"}, "0000-00-00 00:00:00"),
    ],
)  # fmt: skip
def test_values(schema: dict[str, Any], text: Any, value: Any) -> None:
    assert value_of(schema, text)[0] == value
    assert value_of(schema, None)[0] is None


@pytest.mark.parametrize(("schema", "text"), [(ENUM, "3"), (ENUM, "-1"), (SET, "8"), (ENUM, "b")])
def test_a_number_without_a_member_is_refused_with_its_column(schema: dict[str, Any], text: str) -> None:
    with pytest.raises(Malformed, match=r"data\.e"):
        value_of(schema, text)


def test_labels_of_members_are_written_to_others() -> None:
    translator = Translator(SIMPLE, "canal-json", None, {"enum": "label"})
    for record in records(bootstrap(table(ENUM, column("s", "set", elements=["a", "b", "c"]))),
                          row({"e": "2", "s": "5"})):  # fmt: skip
        outs = translator.translate(record)
    assert written(outs)[0]["data"] == [{"id": "1", "e": "b", "s": "a,c"}]


@CASES.covers("15")
def test_a_local_time_of_nowhere_is_in_the_zone_of_the_source() -> None:
    schema = column("e", "timestamp", length=19)
    local = {"location": "Local", "value": "2024-02-26 12:34:56"}
    value, translator = value_of(schema, local, {"timezone": "Asia/Shanghai"})
    assert value == "2024-02-26 04:34:56"
    assert counted(translator) == {"zone-inferred": 1}
    named = {"location": "America/New_York", "value": "2024-02-26 12:34:56.5"}
    value, translator = value_of(schema, named, {"timezone": "Asia/Shanghai"})
    assert (value, counted(translator)) == ("2024-02-26 17:34:56.5", {})


def test_a_local_time_that_comes_twice_is_counted() -> None:
    twice = {"location": "America/New_York", "value": "2024-11-03 01:30:00"}
    _, translator = value_of(column("e", "timestamp", length=19), twice)
    assert counted(translator) == {"repeated-hour": 1}


@pytest.mark.parametrize("value", ["2024-02-26 12:34:56", {"location": "../x", "value": "1"}])
def test_a_time_without_a_zone_that_exists_is_refused(value: Any) -> None:
    with pytest.raises(Malformed, match=r"data\.e"):
        value_of(column("e", "timestamp", length=19), value)


@CASES.covers("17")
@pytest.mark.parametrize("target", [CANAL, TICDC, SIMPLE])
def test_a_virtual_column_is_absent_and_not_null(target: str) -> None:
    sql = (
        "CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY,`a` INT,`v` INT GENERATED ALWAYS AS(`a`*2) VIRTUAL)"
    )
    translator = Translator(SIMPLE, target)
    for record in records(ddl("CREATE", sql, table(A, column("v"))), row({"a": "1"})):
        outs = translator.translate(record)
    data = written(outs)[0]["data"]
    assert (data if isinstance(data, dict) else data[0]) == {"a": "1", "id": "1"}
    assert "columns-absent" not in counted(translator)


@CASES.covers("20")
def test_the_id_of_a_partition_is_kept() -> None:
    events, _ = read(bootstrap(table(A)), row({"a": "1"}, tableID=104))
    assert changes(events)[0].source.physical_partition == 104
    translator = Translator(SIMPLE, "ticdc-open-protocol")
    for record in records(bootstrap(table(A)), row({"a": "1"}, tableID=104)):
        outs = translator.translate(record)
    assert b'"ptn":104' in (outs[0].key or b"")


# ---------------------------------------------------------------- large messages, shapes, checksums


@CASES.covers("21")
def test_a_row_with_its_key_alone() -> None:
    events, translator = read(bootstrap(table(A)), row({}, handleKeyOnly=True))
    assert changes(events)[0].after == (1, ABSENT)
    assert counted(translator) == {"columns-absent": 1}


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


@CASES.covers("30")
def test_members_that_nobody_knows_are_passed_over() -> None:
    schema = table(A, comment="x")
    events, _ = read({**bootstrap(schema), "x": 1}, {**row({"a": "1"}), "more": {"y": []}})
    assert changes(events)[0].after == (1, 1)


def test_another_version_is_refused() -> None:
    with pytest.raises(UnsupportedMessage, match="version"):
        read({**bootstrap(table(A)), "version": 2})


@CASES.covers("31")
def test_a_wrong_checksum_is_counted_or_refused() -> None:
    right = {"version": 2, "corrupted": False, "current": 0x7F4DC2D5, "previous": 0}
    checked = {"integrity-check-level": "correctness"}
    writer = Translator(SIMPLE, SIMPLE, None, checked)
    for record in records(bootstrap(table(A)), row({"a": "1"})):
        outs = writer.translate(record)
    right = written(outs)[0]["checksum"]
    assert right["current"] > 0
    wrong = right | {"current": right["current"] ^ 1}
    for checksum, options, expected in (
        (right, checked, {}),
        (wrong, checked, {"checksum": 1}),
        (wrong, {}, {}),
        (right | {"corrupted": True}, {}, {"checksum": 1}),
    ):
        _, translator = read(bootstrap(table(A)), row({"a": "1"}, checksum=checksum), options=options)
        assert counted(translator) == expected
    strict = checked | {"corruption-handle-level": "error"}
    with pytest.raises(Malformed, match=r"checksum\.current"):
        read(bootstrap(table(A)), row({"a": "1"}, checksum=wrong), options=strict)


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


def test_the_same_definitions_have_the_same_versions_in_every_run() -> None:
    sql = "CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY,`a` INT)"
    message = written(Translator(TICDC, SIMPLE).translate(canal_ddl(sql, 0)))[0]["tableSchema"]
    assert (message["version"], message["tableID"]) == (8696359377015766, 4937884418744820)
    assert message["version"] < 1 << 53


@pytest.mark.parametrize(("every", "expected"), [("2", [1, 2, 1, 2]), ("0", [1, 1, 1, 1])])
def test_a_bootstrap_comes_again_by_offset(every: str, expected: list[int]) -> None:
    writer = Translator(SIMPLE, SIMPLE, None, {"send-bootstrap-in-msg-count": every})
    writer.translate(records(bootstrap(table(A)))[0])
    many = records(*[row({"a": "1"})] * 4)
    assert [len(writer.translate(record)) for record in many] == expected


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
