"""`debezium-json`, read: messages, DDL and its order, transactions, heartbeats, captured records, look-alikes."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from debezium_json_support import (
    DDL_TOPIC,
    DEBEZIUM,
    SOURCE,
    column,
    ddl,
    decoded,
    image,
    kinds,
    record,
    row,
    wrapped,
)
from support import CANAL, captured, captured_files, events, named_refusal

from relay import (
    Bootstrap,
    DecodeError,
    Heartbeat,
    LimitExceeded,
    Limits,
    Malformed,
    Op,
    RowChange,
    SchemaChange,
    Snapshot,
    TableId,
    Transaction,
    TransactionMark,
    Translator,
    UnsupportedMessage,
)
from relay.catalog import Catalog
from relay.codecs.debezium.native.decoder import DebeziumJsonDecoder
from relay.codecs.debezium.native.options import DebeziumOptions
from relay.model.events import ABSENT, DdlKind, Source
from relay.model.lookups import LookupCache

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))"
CREATED = record(ddl(TABLE), topic=DDL_TOPIC)


def changes(*records: Any, options: dict[str, str] | None = None) -> list[RowChange]:
    """The row changes of records behind the table's definition."""
    found, _ = decoded(CREATED, *records, options=options)
    return [event for event in found if isinstance(event, RowChange)]


# ---------------------------------------------------------------- rows


@pytest.mark.parametrize(
    ("op", "before", "after", "expected"),
    [
        ("c", None, {"id": 1, "v": "a"}, Op.INSERT),
        ("u", {"id": 1, "v": "a"}, {"id": 1, "v": "b"}, Op.UPDATE),
        ("d", {"id": 1, "v": "a"}, None, Op.DELETE),
        ("r", None, {"id": 1, "v": "a"}, Op.READ),
    ],
)
@pytest.mark.parametrize("shape", ["bare", "payload", "schema"])
def test_rows_of_every_operation_and_shape(
    op: str, before: Any, after: Any, expected: Op, shape: str
) -> None:
    payload = row(op, before, after)
    key: Any = {"id": 1}
    message = payload
    if shape == "payload":
        message, key = {"payload": payload}, {"payload": key}
    elif shape == "schema":
        message = wrapped(payload, column("id", "int32", optional=False), column("v", "string"))
        key = {"schema": {"type": "struct", "fields": [column("id", "int32")]}, "payload": key}
    (change,) = changes(record(message, key))
    assert (change.op, change.table) == (expected, TableId("shop", "t"))
    assert before is None or image(change, is_old=True) == before
    assert after is None or image(change) == after


def test_where_a_row_comes_from() -> None:
    transaction = {"id": "gtid:23", "total_order": 3, "data_collection_order": 2}
    payload = row(after={"id": 1, "v": "a"}, source={"query": "INSERT"}, transaction=transaction)
    (change,) = changes(record(payload, {"id": 1}))
    assert change.source == Source(
        "mysql",
        1768443630123456000,
        name="dbz",
        gtid="3e11fa47-71ca-11e1-9e33-c80aa9429562:23",
        binlog_file="mysql-bin.000003",
        binlog_position=4567,
        binlog_row=1,
        server_id=223344,
        thread_id=7,
        query="INSERT",
    )
    assert change.emitted_at_ns == 1768443631000001002
    assert change.transaction == Transaction("gtid:23", 3, 2)


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ({}, 1768443630123456000),
        ({"ts_ns": None}, 1768443630123456000),
        ({"ts_ns": None, "ts_us": None}, 1768443630123000000),
        ({"ts_ns": None, "ts_us": None, "ts_ms": None}, 1768443631000001002),
    ],
)
def test_the_finest_time_that_a_release_has_is_taken(times: dict[str, Any], expected: int) -> None:
    (change,) = changes(record(row(after={"id": 1, "v": "a"}, source=times), {"id": 1}))
    assert change.source.event_time_ns == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("false", None),
        (None, None),
        (False, None),
        (True, Snapshot.TRUE),
        ("true", Snapshot.TRUE),
        ("last_in_data_collection", Snapshot.LAST_IN_DATA_COLLECTION),
        ("incremental", Snapshot.INCREMENTAL),
        ("another", Snapshot.TRUE),
    ],
)
def test_words_of_snapshots(word: Any, expected: Snapshot | None) -> None:
    (change,) = changes(record(row("r", after={"id": 1, "v": "a"}, source={"snapshot": word}), {"id": 1}))
    assert change.source.snapshot is expected


@pytest.mark.parametrize("value", [None, b"", {"schema": None, "payload": None}])
def test_tombstones_are_counted(value: Any) -> None:
    assert decoded(record(value, {"id": 1})) == ([], {"tombstone": 1})


def test_a_key_that_changes_stays_a_delete_and_an_insert() -> None:
    found = changes(
        record(row("d", {"id": 7, "v": "a"}), {"id": 7}),
        record(None, {"id": 7}, 1),
        record(row("c", after={"id": 8, "v": "a"}), {"id": 8}, 2),
    )
    assert [change.op for change in found] == [Op.DELETE, Op.INSERT]


def test_a_delete_without_its_row_has_the_columns_of_its_key() -> None:
    events, counted = decoded(CREATED, record(row("d"), {"id": 7}))
    assert image(events[-1], is_old=True) == {"id": 7, "v": ABSENT}
    assert counted["columns-absent"] == 1
    with pytest.raises(Malformed, match="without a row"):
        decoded(record(row("d"), None))


def test_an_update_without_its_old_row_is_counted() -> None:
    events, counted = decoded(CREATED, record(row("u", None, {"id": 1, "v": "b"}), {"id": 1}))
    assert isinstance(events[-1], RowChange)
    assert (events[-1].before, counted) == (None, {"before-missing": 1})


def test_a_virtual_generated_column_has_a_value() -> None:
    text = "CREATE TABLE t (id INT PRIMARY KEY, v INT GENERATED ALWAYS AS (id + 1) VIRTUAL)"
    events, counted = decoded(
        record(ddl(text), topic=DDL_TOPIC), record(row(after={"id": 1, "v": 2}), {"id": 1})
    )
    assert (image(events[-1]), counted) == ({"id": 1, "v": 2}, {})


@pytest.mark.parametrize("connector", ["mysql", "mariadb"])
def test_both_connectors_are_read(connector: str) -> None:
    (change,) = changes(record(row(after={"id": 1, "v": "a"}, source={"connector": connector}), {"id": 1}))
    assert change.source.connector == connector


def test_hundreds_of_rows_are_read_as_the_first_one() -> None:
    """Layouts are compiled after some rows, for each kind of values."""
    block = [column("id", "int32"), column("v", "string")]
    found = changes(
        *[
            record(wrapped(row(after={"id": at, "v": None if at % 7 else f"v{at}"}), *block), {"id": at}, at)
            for at in range(200)
        ]
    )
    assert [image(change) for change in found] == [
        {"id": at, "v": None if at % 7 else f"v{at}"} for at in range(200)
    ]


# ---------------------------------------------------------------- DDL


def test_ddl_counts_by_its_place_in_the_log_whatever_its_time_says() -> None:
    """Debezium 1.9 gives DDL the time at which it read it, and rows whole seconds."""
    late = {"ts_ms": 1768443690000, "ts_us": None, "ts_ns": None}
    created = record(ddl(TABLE, source=late), topic=DDL_TOPIC)
    altered = record(
        ddl("ALTER TABLE t ADD COLUMN w BIGINT UNSIGNED", source=late | {"pos": 5000}),
        offset=1,
        topic=DDL_TOPIC,
    )
    seconds = {"ts_ms": 1768443630000, "ts_us": None, "ts_ns": None}
    before = record(row(after={"id": 1, "v": "a"}, source=seconds), {"id": 1})
    after = record(row(after={"id": 2, "v": "a", "w": -1}, source=seconds | {"pos": 6000}), {"id": 2}, 1)
    events, counted = decoded(created, altered, before, after)
    assert [image(event) for event in events[2:]] == [
        {"id": 1, "v": "a"},
        {"id": 2, "v": "a", "w": 2**64 - 1},
    ]
    assert counted == {}


def test_the_next_log_file_follows_and_a_longer_number_too() -> None:
    created = record(ddl(TABLE, source={"file": "binlog.9", "pos": 9000}), topic=DDL_TOPIC)
    same_ms = {"file": "binlog.10", "pos": 4, "ts_ms": 1768443630000, "ts_us": None, "ts_ns": None}
    _, counted = decoded(created, record(row(after={"id": 1, "v": "a"}, source=same_ms), {"id": 1}))
    assert counted == {}


@pytest.mark.parametrize("file", captured_files("mysql/debezium.no-schema"))
def test_rows_behind_all_ddl_have_the_definitions_of_their_time(file: str) -> None:
    """A file may have the schema change topic first, and then the topics of tables."""
    records = captured(file)
    translated = []
    for order in (records, sorted(records, key=lambda each: "." in each.topic)):
        translator = Translator("debezium-json", "canal-json")
        translated.append({each.position: translator.translate(each) for each in order})
        assert not translator.inferred_tables
    assert translated[0] == translated[1]


def test_a_statement_that_comes_twice_is_learned_once() -> None:
    """A connector that starts again may send what it has sent; here it would swap the tables back."""
    other = record(ddl("CREATE TABLE u (id INT PRIMARY KEY, w INT)"), offset=1, topic=DDL_TOPIC)
    swap = ddl("RENAME TABLE t TO x, u TO t, x TO u", source={"pos": 100, "table": "t,u"})
    swaps = [record(swap, offset=at, topic=DDL_TOPIC) for at in (2, 3)]
    events, counted = decoded(CREATED, other, *swaps, record(row(after={"id": 1, "w": 2}), {"id": 1}))
    assert image(events[-1]) == {"id": 1, "w": 2}
    assert "schema-inferred" not in counted


LISTED = {
    "type": "ALTER",
    "id": '"shop"."t"',
    "table": {
        "defaultCharsetName": "utf8mb4",
        "primaryKeyColumnNames": ["id"],
        "comment": None,
        "columns": [
            {
                "name": "id", "jdbcType": -5, "nativeType": None, "typeName": "BIGINT UNSIGNED",
                "typeExpression": "BIGINT UNSIGNED", "charsetName": None, "length": 20, "scale": None, "position": 1,
                "optional": False, "autoIncremented": True, "generated": True, "comment": None,
                "defaultValueExpression": None, "enumValues": None,
            },
            {
                "name": "e", "jdbcType": 1, "nativeType": None, "typeName": "ENUM", "typeExpression": "ENUM",
                "charsetName": "utf8mb4", "length": 1, "scale": None, "position": 2, "optional": True,
                "autoIncremented": False, "generated": False, "comment": "c", "defaultValueExpression": "it''s",
                "enumValues": ["'a,b'", "'it''s'", "'back\\\\slash'"],
            },
            {
                "name": "at", "jdbcType": 93, "nativeType": None, "typeName": "DATETIME", "typeExpression": "DATETIME",
                "charsetName": None, "length": 3, "scale": None, "position": 3, "optional": True,
                "autoIncremented": True, "generated": True, "comment": None,
                "defaultValueExpression": "1970-01-01 00:00:00", "enumValues": None,
            },
        ],
    },
}  # fmt: skip


def test_table_changes_tell_of_a_table_that_was_not_known() -> None:
    events, _ = decoded(record(ddl("ALTER TABLE t ADD INDEX i (e)", [LISTED]), topic=DDL_TOPIC))
    (change,) = events
    assert isinstance(change, SchemaChange)
    assert change.after is not None
    key, label, at = change.after.columns
    assert change.after.primary_key == ("id",)
    assert (key.type.base, key.type.unsigned, key.nullable, key.auto_increment) == (
        "bigint",
        True,
        False,
        True,
    )
    assert (label.type.members, label.comment) == (("a,b", "it's", "back\\slash"), "c")
    assert label.default is not ABSENT
    assert label.default.text == "it's"
    assert (at.type.length, at.auto_increment, at.on_update) == (3, False, "CURRENT_TIMESTAMP(3)")
    assert change.table_changes[0].dialect == "debezium"


def test_table_changes_beat_a_text_that_is_not_understood() -> None:
    created = record(ddl(TABLE), topic=DDL_TOPIC)
    odd = record(ddl("ALTER TABLE t ADD COLUMN (", [LISTED], {"pos": 100}), offset=1, topic=DDL_TOPIC)
    message = record(row(after={"id": -1, "e": "a\\,b", "at": 0}), {"id": -1})
    events, counted = decoded(created, odd, message)
    assert image(events[-1]) == {"id": 2**64 - 1, "e": 1, "at": None}
    assert counted == {"ddl-not-understood": 1}


def test_a_size_that_an_old_release_has_kept_is_not_the_new_types() -> None:
    """2.4 shows DOUBLE(6,2) and INT(20) after MODIFY, from the DECIMAL(6,2) and the VARCHAR(20) before."""
    sizes = [("id", "INT", None, None), ("d", "DOUBLE", 6, 2), ("n", "INT", 20, None)]
    listed = [
        {"name": name, "typeName": word, "length": length, "scale": scale, "position": at, "optional": at > 1}
        for at, (name, word, length, scale) in enumerate(sizes, 1)
    ]
    text = "CREATE TABLE t (id INT PRIMARY KEY, d DOUBLE, n INT)"
    listed_changes = {"type": "CREATE", "id": '"shop"."t"', "table": {"columns": listed}}
    (change,), _ = decoded(record(ddl(text, [listed_changes]), topic=DDL_TOPIC))
    assert isinstance(change, SchemaChange)
    assert change.after is not None
    assert [(column.type.length, column.type.scale) for column in change.after.columns] == [(None, None)] * 3


def test_the_text_says_more_than_table_changes_that_agree() -> None:
    """Before 2.0 they have no labels, no defaults, no comments; never generated columns and collations."""
    text = (
        "CREATE TABLE t (id INT PRIMARY KEY, e ENUM('x','y') DEFAULT 'y' COMMENT 'c', g INT AS (id) STORED)"
    )
    names = [("id", "INT"), ("e", "ENUM"), ("g", "INT")]
    listed = [
        {"name": name, "typeName": word, "typeExpression": word, "position": at, "optional": at > 1}
        for at, (name, word) in enumerate(names, 1)
    ]
    table = {"columns": listed, "primaryKeyColumnNames": ["id"]}
    listed_changes = [{"type": "CREATE", "id": '"shop"."t"', "table": table}]
    (with_list,), _ = decoded(record(ddl(text, listed_changes), topic=DDL_TOPIC))
    (text_alone,), _ = decoded(record(ddl(text), topic=DDL_TOPIC))
    assert isinstance(with_list, SchemaChange)
    assert isinstance(text_alone, SchemaChange)
    assert with_list.after == text_alone.after


@pytest.mark.parametrize("text", ["CALL shop.p()", "USE `shop`", "", None])
def test_statements_that_are_not_understood_are_passed_on(text: str | None) -> None:
    (change,), counted = decoded(record(ddl(text or "") | {"ddl": text}, topic=DDL_TOPIC))
    assert isinstance(change, SchemaChange)
    assert (change.ddl, change.kinds, counted) == (text or "", (), {"ddl-not-understood": 1})


def test_truncation_is_a_statement() -> None:
    payload = row("t", source={"row": 0, "thread": None})
    events, counted = decoded(CREATED, record(payload), record(row(after={"id": 1, "v": "a"}), {"id": 1}, 1))
    truncation = events[1]
    assert isinstance(truncation, SchemaChange)
    assert (truncation.ddl, truncation.kinds) == ("TRUNCATE TABLE `shop`.`t`", (DdlKind.TRUNCATE_TABLE,))
    assert (truncation.table, image(events[2]), counted) == (TableId("shop", "t"), {"id": 1, "v": "a"}, {})


def test_a_snapshot_tells_definitions_without_its_statements() -> None:
    at = {"snapshot": "true", "server_id": 0, "pos": 4567}
    dropped = [{"type": "DROP", "id": '"shop"."t"', "table": None}]
    steps = [
        ddl("DROP TABLE IF EXISTS `shop`.`t`", dropped, at),
        ddl("CREATE DATABASE `shop`", (), at | {"table": None}),
        ddl(
            "CREATE TABLE `t` (id BIGINT UNSIGNED NOT NULL PRIMARY KEY, e INT, at INT)",
            [LISTED | {"type": "CREATE"}],
            at,
        ),
    ]
    records = [record(step, offset=at, topic=DDL_TOPIC) for at, step in enumerate(steps)]
    read = row("r", after={"id": -1, "e": "a,b", "at": None}, source=at | {"gtid": None, "thread": None})
    events, counted = decoded(*records, record(read, {"id": -1}))
    assert kinds(events) == ["Bootstrap", "RowChange"]
    assert isinstance(events[0], Bootstrap)
    assert events[0].schema.columns[1].type.members == ("a,b", "it's", "back\\slash")
    assert image(events[1]) == {"id": 2**64 - 1, "e": 1, "at": None}
    assert (events[1].source.server_id, counted) == (None, {"statement": 2})


# ---------------------------------------------------------------- transactions, heartbeats


def test_marks_of_transactions() -> None:
    begin = {
        "status": "BEGIN",
        "id": "gtid:23",
        "event_count": None,
        "data_collections": None,
        "ts_ms": 1768443630123,
    }
    counts = [
        {"data_collection": "shop.t", "event_count": 2},
        {"data_collection": "db.with.dots.t.1", "event_count": 1},
    ]
    end = begin | {"status": "END", "event_count": 3, "data_collections": counts}
    dotted = ddl("CREATE TABLE `t.1` (id INT)", source={"db": "db.with.dots", "table": "t.1"})
    first, second = decoded(
        record(dotted, topic=DDL_TOPIC),
        *[record(mark, {"id": "gtid:23"}, topic="tx") for mark in (begin, end)],
    )[0][1:]
    assert isinstance(first, TransactionMark)
    assert isinstance(second, TransactionMark)
    assert (first.is_begin, first.id, first.count, first.table_counts) == (True, "gtid:23", None, ())
    assert first.source.event_time_ns == 1768443630123000000
    assert (second.is_begin, second.count) == (False, 3)
    assert second.table_counts == ((TableId("shop", "t"), 2), (TableId("db.with.dots", "t.1"), 1))


@pytest.mark.parametrize("is_wrapped", [False, True])
def test_heartbeats(is_wrapped: bool) -> None:
    value: Any = {"ts_ms": 1768443630123}
    key: Any = {"serverName": "dbz"}
    if is_wrapped:
        value, key = {"schema": {"type": "struct"}, "payload": value}, {"schema": {}, "payload": key}
    (beat,), _ = decoded(record(value, key, topic="__debezium-heartbeat.dbz"))
    assert isinstance(beat, Heartbeat)
    assert (beat.source.event_time_ns, beat.source.name) == (1768443630123000000, "dbz")


# ---------------------------------------------------------------- captured records


@pytest.mark.parametrize(
    "file",
    [file for variant in ("no-schema", "alt-string") for file in captured_files(f"mysql/debezium.{variant}")],
)
def test_captured_rows_are_those_that_canal_saw(file: str) -> None:
    """Where both were captured of the same statements. What the connector itself has lost is left out."""
    name = file.rpartition("/")[2]
    mine = _rows(DEBEZIUM, file)
    others = (
        _rows(CANAL, f"mysql/canal-json/{name}")
        if f"mysql/canal-json/{name}" in captured_files("mysql/canal-json")
        else None
    )
    if others is None:
        assert mine
        return
    found = 0
    for table, images in mine.items():
        expected = {json.dumps(each) for each in others[table]}
        found += sum(json.dumps(each) in expected for each in images)
    total = sum(map(len, mine.values()))
    assert found >= 0.9 * total


#: What Debezium writes otherwise: JSON without blanks.
_LOST = ("json",)


def _rows(protocol: str, file: str) -> dict[str, list[list[str]]]:
    found: dict[str, list[list[str]]] = {}
    for event in events(protocol, captured(file)):
        if isinstance(event, RowChange) and event.after is not None:
            pairs = zip(event.schema.columns, event.after, strict=True)
            cells = [f"{column.name}={cell!r}" for column, cell in pairs if column.type.base not in _LOST]
            found.setdefault(str(event.table), []).append(cells)
    return found


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("mysql/debezium/06_zero_dates", {"epoch-or-zero-date", "tombstone"}),
        ("mysql/debezium.snapshot/10_ddl", {"statement"}),
        ("mysql/debezium.transactions-topic/09_dml", set()),
        ("mysql/debezium.v1.9/03_temporal", set()),
        ("mysql/debezium.no-schema/10_ddl", {"tombstone", "null-or-default"}),
        ("mysql/debezium.no-schema/07_keys", {"tombstone"}),
    ],
)
def test_captured_records_are_understood_but_for_what_they_lack(file: str, expected: set[str]) -> None:
    events, counted = decoded(*captured(file))
    assert events
    for event in events:
        if isinstance(event, RowChange):
            _ = event.before, event.after
    assert set(counted) == expected


# ---------------------------------------------------------------- look-alikes, garbage, limits


def test_ticdcs_debezium_is_named() -> None:
    (message,) = [
        one for one in captured("ticdc/debezium/05_charsets") if one.value and b'"op":"c"' in one.value
    ][:1]
    assert named_refusal(DEBEZIUM, message).endswith("is the source protocol ticdc-debezium?")


def test_the_connectors_own_is_named_to_ticdcs_reader() -> None:
    refusal = named_refusal("ticdc-debezium", record(row(after={"id": 1}), {"id": 1}))
    assert refusal.endswith("is the source protocol debezium-json?")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"id": 1, "__op": "c", "__deleted": "false"}, "ExtractNewRecordState"),
        ({"schema": {}, "payload": {"id": 1, "__deleted": "true"}}, "ExtractNewRecordState"),
        (
            {
                "source": {"server": "dbz"},
                "position": {},
                "databaseName": "d",
                "ddl": "x",
                "tableChanges": [],
            },
            "schema history",
        ),
        (b"\0\0\0\0\1\2\3", "Avro"),
        ({"data": [{}], "isDdl": False, "type": "INSERT", "database": "d"}, "Canal-JSON"),
        (row(source={"connector": "postgresql"}), "another database \\(postgresql\\)"),
        (row("m"), "not one of c, u, d, r, t"),
        ({"ts_ms": 5}, "neither mysql nor mariadb"),
        ({"status": "ENDED", "id": "x"}, "neither mysql nor mariadb"),
    ],
)
def test_other_messages_are_refused_by_name(value: Any, words: str) -> None:
    with pytest.raises((Malformed, UnsupportedMessage)):
        decoded(record(value))
    assert re.search(words, named_refusal(DEBEZIUM, record(value)))


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (b"{", ""),
        (b"[]", ""),
        (b"\xff\xfe", ""),
        (row(after=None), "payload.after"),
        (row(after={}), "payload.after"),
        (row(after={"id": 1}, source={"table": None}), "payload.source.table"),
        (row(after="text"), "payload.after"),
        (row("t", source={"table": None}), "payload.source.table"),
        (ddl("x", [{"type": "ODD", "id": "x"}]), "payload.tableChanges[0].type"),
        (ddl("x", [{"type": "ALTER", "id": 5, "table": {"columns": []}}]), "payload.tableChanges[0].id"),
    ],
)
def test_malformed_messages_are_refused_with_the_place(value: Any, path: str) -> None:
    with pytest.raises(Malformed) as refused:
        decoded(record(value, {"id": 1}))
    assert refused.value.path == path


@pytest.mark.parametrize(
    "key", [b"", b"{", b"5", b'{"payload":5}', b'{"schema":1,"payload":null}', b'{"a":[1]}']
)
def test_odd_keys_do_no_harm(key: bytes) -> None:
    message = record(row(after={"id": 1, "v": "a"}))
    (change,) = changes(type(message)(message.topic, 0, 0, message.timestamp_ms, key, message.value))
    assert image(change) == {"id": 1, "v": "a"}


def test_bytes_that_are_no_text_are_counted() -> None:
    data = json.dumps(row(after={"id": 1, "v": "?"})).encode().replace(b'"?"', b'"\xff"')
    events, counted = decoded(CREATED, record(data, {"id": 1}))
    assert (image(events[-1])["v"], counted) == ("\ufffd", {"invalid-text": 1})


def test_limits_hold() -> None:
    limits = Limits(columns=3, values=40, ddl_bytes=50)
    decoder = DebeziumJsonDecoder(DebeziumOptions(), LookupCache(limits))
    wide = row(after={f"c{at}": at for at in range(4)})
    for message in (wide, ddl("CREATE TABLE t (" + "a INT, " * 20), row(after={"a": list(range(90))})):
        with pytest.raises(LimitExceeded):
            decoder.decode(record(message), Catalog(limits=limits), [])


@pytest.mark.parametrize("cut", range(1, 60, 3))
def test_a_message_that_is_cut_is_refused(cut: int) -> None:
    data = json.dumps(wrapped(row(after={"id": 1, "v": "a"}), column("id", "int32"))).encode()
    with pytest.raises(DecodeError):
        decoded(record(data[: len(data) * cut // 60]))


def test_the_source_of_captured_messages_is_as_written_here() -> None:
    """The messages of these tests have the members that real ones have, in their order."""
    (first,) = [
        one for one in captured("mysql/debezium.no-schema/07_keys") if b'"op":"c"' in (one.value or b"")
    ][:1]
    payload = json.loads(first.value or b"")
    assert list(payload["source"]) == list(SOURCE)
    assert list(payload) == list(row())


@pytest.mark.parametrize("target", ["canal-json", "debezium-json"])
def test_headers_of_a_changed_key_are_not_passed_on(target: str) -> None:
    """They are part of the connector's message; the new message has its own, or none. Others are kept."""
    translator = Translator("debezium-json", target, None, {"ddl": "drop"})
    given = captured("mysql/debezium.no-schema/07_keys")
    names = {name for each in given for name, _ in each.headers}
    assert {"__debezium.newkey", "__debezium.oldkey", "__debezium.context.taskId"} <= names
    for each in given:
        for out in translator.translate(each):
            found = [name for name, _ in out.headers]
            assert len(found) == len(set(found))
            if target == "canal-json":
                assert not {"__debezium.newkey", "__debezium.oldkey"} & set(found)
            assert "__debezium.context.taskId" in found


def test_a_boolean_that_contradicts_its_schema_is_a_bit() -> None:
    block = {"fields": [{"field": "after", "fields": [{"field": "b", "type": "int16"}]}]}
    value = {"schema": block, "payload": row(after={"b": True})}
    (change,) = changes(record(value))
    assert (image(change), change.schema.columns[0].type.base) == ({"b": 1}, "bit")
    assert type(image(change)["b"]) is int
