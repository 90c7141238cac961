"""Rows without columns, without their key, or without a table: no codec reads what no reader can use, and none
writes it, whatever options would leave out.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from ckafka_support import CKAFKA
from ckafka_support import ddl as ckafka_ddl
from ckafka_support import row as ckafka_row
from debezium_support import DEBEZIUM, SOURCE
from debezium_support import message as debezium_message
from open_support import cell, framed
from open_support import row as open_row
from support import CANAL, OPEN, TICDC, WRITABLE, record, row_message, translated_records

from relay import (
    ABSENT,
    ConsumerRecord,
    Loss,
    Malformed,
    NotRepresentable,
    Op,
    ProducerRecord,
    RowChange,
    Translator,
)
from relay.codecs import PROTOCOLS
from relay.model.errors import MessageTooLarge
from relay.model.events import Column, ColumnType, Rows, Source, TableId, TableSchema
from relay.model.lookups import LookupCache

NAMED: dict[str, Any] = {"DATABASE": "d", "TABLE": "t"}
ONLY_KEY = {"delete-only-output-handle-key-columns": "true"}


def debezium(op: str, **images: Any) -> ConsumerRecord:
    return record(debezium_message(op, **images))


EMPTY = [
    (CANAL, record(row_message({}, {})), "data[0]"),
    (TICDC, record(row_message({}, {}, op="DELETE")), "data[0]"),
    (CKAFKA, record(ckafka_row({})), "NEW_VALUES"),
    (CKAFKA, record(ckafka_row({}) | {"TYPE": "U", "OLD_VALUES": {"y": None}}), "NEW_VALUES"),
    (CKAFKA, record(ckafka_row({"y": "1"}) | {"TYPE": "U", "OLD_VALUES": {}}), "OLD_VALUES"),
    (CKAFKA, record(ckafka_row({"y": "1"}) | {"TYPE": "D", "OLD_VALUES": {}}), "OLD_VALUES"),
    (CKAFKA, record(row_message({}, {})), "data[0]"),
    (CKAFKA, record(row_message({}, {}, op="DELETE")), "data[0]"),
    (CKAFKA, record(row_message({}, {"y": "1"}, {})), "data[1]"),
    (OPEN, framed(open_row({"u": {}})), "value"),
    (OPEN, framed(open_row({"u": {}, "p": {"y": cell(3, 1)}})), "value"),
    (OPEN, framed(open_row({"d": {}})), "value"),
    (DEBEZIUM, debezium("c", after={}), "payload.after"),
    (DEBEZIUM, debezium("u", before={}, after={"y": 1}), "payload.before"),
    (DEBEZIUM, debezium("u", before={"y": 1}, after={}), "payload.after"),
    (DEBEZIUM, debezium("d", before={}), "payload.before"),
]


@pytest.mark.parametrize(("protocol", "given", "path"), EMPTY)
def test_an_image_without_columns_is_refused(protocol: str, given: ConsumerRecord, path: str) -> None:
    with pytest.raises(Malformed, match="a row without columns") as raised:
        Translator(protocol, CANAL).translate(given)
    assert raised.value.path == path


@pytest.mark.parametrize("target", [TICDC, OPEN, DEBEZIUM])
@pytest.mark.parametrize(
    "images",
    [
        {"NEW_VALUES": {"g": "1"}, "TYPE": "I"},
        {"NEW_VALUES": {"id": "1"}, "OLD_VALUES": {"g": "1"}, "TYPE": "U"},
        {"OLD_VALUES": {"g": "1"}, "NEW_VALUES": None, "TYPE": "D"},
    ],
)
def test_a_row_of_columns_that_the_target_never_shows_is_not_written_empty(
    target: str, images: dict[str, Any]
) -> None:
    translator = Translator(CKAFKA, target, None, {"output-raw-change-event": "true"})
    create = ckafka_ddl("CREATE TABLE t (id INT PRIMARY KEY, g INT AS (id + 1))") | {"database": "d"}
    translator.translate(record(create))
    try:
        outs = translator.translate(record(ckafka_row({}) | NAMED | images, offset=1))
    except NotRepresentable as error:
        assert "a row without columns" in str(error)
    else:
        assert target == TICDC
        assert images["TYPE"] == "U"
        (change,) = events_of(target, outs)
        assert change.after is not None


# ---------------------------------------------------------------- rows that lack their key


def events_of(target: str, outs: list[ProducerRecord]) -> list[RowChange]:
    reader = Translator(target, target)
    found = [
        event
        for at, out in enumerate(outs)
        for event in reader.inspect(ConsumerRecord(out.topic, 0, at, 0, out.key, out.value))
    ]
    return [event for event in found if isinstance(event, RowChange)]


KEYLESS = [
    (CANAL, record(row_message({"a": "int"}, {"a": "1"}, op="DELETE", pkNames=["id"]))),
    (CANAL, record(row_message({"id": "int", "a": "int"}, {"id": "7", "a": "1"}, op="DELETE", pkNames=["id", "k"]))),
    (OPEN, framed(open_row({"d": {"a": cell(3, 1, 65)}}))),
    (DEBEZIUM, debezium("d", before={"a": 1})),
]  # fmt: skip


@pytest.mark.parametrize(("source", "given"), KEYLESS)
@pytest.mark.parametrize("target", [TICDC, OPEN])
def test_a_delete_without_its_key_is_written_with_what_it_has(
    source: str, given: ConsumerRecord, target: str
) -> None:
    translator = Translator(source, target, None, ONLY_KEY)
    (change,) = events_of(target, translator.translate(given))
    assert change.before is not None
    names = [
        c.name for c, cell in zip(change.schema.columns, change.before, strict=True) if cell is not ABSENT
    ]
    assert "a" in names
    assert Loss.DELETE_IMAGE not in translator.losses
    assert translator.losses[Loss.COLUMNS_ABSENT] == (1 if source == CANAL else 0)


@pytest.mark.parametrize("target", [TICDC, OPEN])
@pytest.mark.parametrize("create", ["CREATE TABLE t (id INT PRIMARY KEY, a INT)", "CREATE TABLE o (id INT)"])
def test_each_delete_without_its_key_is_counted(create: str, target: str) -> None:
    statement = row_message({}, isDdl=True, type="CREATE", sql=create, data=None)
    delete = row_message({"a": "int"}, {"a": "1"}, op="DELETE", pkNames=["id"])
    together = [delete | {"data": [{"a": "1"}, {"a": "2"}, {"a": "3"}]}]
    for deletes in (together, [delete] * 3):
        translator = Translator(CANAL, target, None, ONLY_KEY)
        given = [record(each, offset=at) for at, each in enumerate([statement, *deletes])]
        translated_records(translator, given)
        assert translator.losses[Loss.COLUMNS_ABSENT] == 3


@pytest.mark.parametrize("source", [CANAL, TICDC, "ckafka-json"])
@pytest.mark.parametrize("target", [TICDC, OPEN])
@pytest.mark.parametrize("table", ["t", "unknown"])
@pytest.mark.parametrize(
    ("new", "old"),
    [
        ({"id": "1", "a": "1"}, {"id": "2", "b": "3"}),
        ({"a": "1"}, {"id": "2", "b": "3"}),
        ({"id": "1", "a": "1", "b": "2"}, {"id": "2"}),
    ],
)
def test_an_update_that_is_split_is_counted_once(
    source: str, target: str, table: str, new: dict[str, str], old: dict[str, str]
) -> None:
    """The new row may lack columns, and both the key `k`, of which the old row's message would consist."""
    sql = f"CREATE TABLE {table} (id INT PRIMARY KEY, a INT, b INT)"
    create = row_message({}, isDdl=True, type="CREATE", table=table, sql=sql, data=None)
    types = dict.fromkeys([*new, *old], "int")
    update = row_message(types, new, new, op="UPDATE", old=[old, old], pkNames=["id", "k"])
    translator = Translator(source, target, None, ONLY_KEY)
    outs = translated_records(translator, [record(create), record(update, 1)])
    assert len(events_of(target, outs)) == 4
    assert translator.losses[Loss.COLUMNS_ABSENT] == 2


@pytest.mark.parametrize("create", ["CREATE TABLE t (id INT PRIMARY KEY, a INT)", "CREATE TABLE o (id INT)"])
def test_each_row_with_its_handle_key_alone_is_counted(create: str) -> None:
    statement = row_message({}, isDdl=True, type="CREATE", sql=create, data=None)
    rows = row_message({"id": "int"}, {"id": "1"}, _tidb={"commitTs": 1 << 60, "onlyHandleKey": True})
    translator = Translator(TICDC, CANAL)
    translator.translate(record(statement))
    translator.translate(record(rows | {"data": [{"id": "1"}, {"id": "2"}, {"id": "3"}]}, offset=1))
    assert translator.losses[Loss.COLUMNS_ABSENT] == 3


@pytest.mark.parametrize("target", [TICDC, OPEN])
def test_of_a_table_whose_ddl_is_known_too(target: str) -> None:
    create = row_message(
        {},
        isDdl=True,
        type="CREATE",
        sql="CREATE TABLE t (id INT, k INT, a INT, PRIMARY KEY (id, k))",
        data=None,
    )
    rows = [{"k": "1", "a": "1"}, {"id": "1", "k": "1", "a": "1"}]
    given = [row_message(dict.fromkeys(row, "int"), row, op="DELETE") for row in rows]
    translator = Translator(CANAL, target, None, ONLY_KEY)
    outs = translated_records(
        translator, [record(each, offset=at) for at, each in enumerate([create, *given])]
    )
    deletes = events_of(target, outs)
    shown = [[cell for cell in change.before or () if cell is not ABSENT] for change in deletes]
    assert shown == [[1, 1], [1, 1]]
    assert translator.losses[Loss.COLUMNS_ABSENT] == 1
    assert translator.losses[Loss.DELETE_IMAGE] == 1


@pytest.mark.parametrize("target", [TICDC, OPEN])
@pytest.mark.parametrize("op", ["DELETE", "INSERT"])
def test_a_large_row_without_its_key_has_no_smaller_form(target: str, op: str) -> None:
    options = {
        "max-message-bytes": "400",
        "large-message-handle-option": "handle-key-only",
        "enable-tidb-extension": "true",
    }
    if target == OPEN:
        del options["enable-tidb-extension"]
    message = row_message({"a": "varchar(999)"}, {"a": "x" * 900}, op=op, pkNames=["id"])
    with pytest.raises(MessageTooLarge, match="lacks its handle key"):
        Translator(CANAL, target, None, options).translate(record(json.dumps(message)))


# ---------------------------------------------------------------- rows of no table


@pytest.mark.parametrize("name", [None, ""])
@pytest.mark.parametrize("op", ["c", "u", "d"])
def test_debezium_too_refuses_a_row_of_no_table(op: str, name: str | None) -> None:
    images = {
        "c": {"after": {"a": 1}},
        "u": {"before": {"a": 1}, "after": {"a": 1}},
        "d": {"before": {"a": 1}},
    }
    given = debezium_message(op, source=SOURCE | {"table": name}, **images[op])
    with pytest.raises(Malformed, match="a row without the name of its table") as raised:
        Translator(DEBEZIUM, CANAL).translate(record(given))
    assert raised.value.path == "payload.source.table"


@pytest.mark.parametrize("target", sorted(WRITABLE))
def test_no_row_of_no_table_is_written(target: str) -> None:
    """A protocol of another package may have one."""
    schema = TableSchema(TableId("d", ""), (Column("a", ColumnType("int")),))
    change = RowChange(Op.INSERT, schema, Rows(None, (1,)), Source("toy", 0), 0)
    codec = PROTOCOLS[target]
    encoder = codec.open_encoder(codec.options(), LookupCache())
    with pytest.raises(NotRepresentable, match="name of its table"):
        list(encoder.encode([change], record({}), []))
