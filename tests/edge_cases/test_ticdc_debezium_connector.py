"""Edge cases of Debezium's own connectors alone: what `debezium-json` reads of their messages."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from debezium_json_support import DDL_TOPIC, column, ddl, decoded, image, kinds, read, record, row
from edge_cases.ticdc_debezium import CASES

from relay import Heartbeat, Malformed, Op, RowChange, SchemaChange, Snapshot
from relay.model.events import ABSENT, DdlKind, RenamedTable, TableId

TABLE = record(ddl("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))"), topic=DDL_TOPIC)
DECIMAL = column("c", "bytes", "org.apache.kafka.connect.data.Decimal", parameters={"scale": "2"})


@pytest.mark.parametrize(
    ("options", "definition", "value", "expected"),
    [
        # The connector writes null where a mode ends at a day; 24:00:00 is a day's begin in ISO text.
        CASES.param("21", {"time.precision.mode": "connect"}, "TIME", None, None),
        CASES.param("22", {"time.precision.mode": "isostring"}, "TIME", "00:00:00Z", "00:00:00"),
        CASES.param("42", {"decimal.format": "NUMERIC"}, "DECIMAL(5,2)", 19.99, Decimal("19.99")),
        CASES.param("43", {"decimal.handling.mode": "string"}, "DECIMAL(12,4)", "1.5000", Decimal("1.5000")),
        CASES.param("62", {"binary.handling.mode": "hex"}, "VARBINARY(9)", "deadbeef", b"\xde\xad\xbe\xef"),
    ],
)
def test_values_in_the_modes_of_the_connector(
    options: dict[str, str], definition: str, value: Any, expected: Any
) -> None:
    assert read(definition, value, options=options) == (expected, {})


@CASES.covers("41")
@pytest.mark.parametrize("value", ["", "1.5", "M"])
def test_a_decimal_that_is_no_base64_is_refused(value: str) -> None:
    with pytest.raises(Malformed) as refused:
        read("DECIMAL(10,2)", value, schema=DECIMAL)
    assert refused.value.path == "payload.after.c"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        CASES.param("75", None, None),
        CASES.param("76", True, Snapshot.TRUE),
        ("first", Snapshot.FIRST),
        ("last_in_data_collection", Snapshot.LAST_IN_DATA_COLLECTION),
    ],
)
def test_words_of_snapshots(word: Any, expected: Snapshot | None) -> None:
    message = row("r", after={"id": 1, "v": "a"}, source={"snapshot": word})
    (_, change), _ = decoded(TABLE, record(message, {"id": 1}))
    assert isinstance(change, RowChange)
    assert change.source.snapshot is expected


@CASES.covers("81")
def test_a_release_that_changes_in_mid_topic_changes_nothing() -> None:
    old = row(after={"id": 1, "v": "a"})
    for name in ("ts_us", "ts_ns", "transaction"):
        old.pop(name)
    old["source"] = {k: v for k, v in old["source"].items() if k not in {"ts_us", "ts_ns", "sequence"}}
    new = row(after={"id": 2, "v": "a"})
    (_, *changes), counted = decoded(TABLE, record(old, {"id": 1}), record(new, {"id": 2}, 1))
    assert ([image(change)["id"] for change in changes], counted) == ([1, 2], {})


@CASES.covers("84")
def test_a_key_that_changes_is_a_delete_and_an_insert() -> None:
    records = [
        record(row("d", {"id": 7, "v": "a"}), {"id": 7}),
        record(None, {"id": 7}, 1),
        record(row("c", after={"id": 8, "v": "a"}), {"id": 8}, 2),
    ]
    (_, *changes), counted = decoded(TABLE, *records)
    assert [change.op for change in changes if isinstance(change, RowChange)] == [Op.DELETE, Op.INSERT]
    assert counted == {"tombstone": 1}


@CASES.covers("94")
def test_truncation_is_a_statement() -> None:
    (_, change), _ = decoded(TABLE, record(row("t")))
    assert isinstance(change, SchemaChange)
    assert (change.kinds, change.ddl) == ((DdlKind.TRUNCATE_TABLE,), "TRUNCATE TABLE `shop`.`t`")


@CASES.covers("98")
def test_a_rename_is_known_by_its_text() -> None:
    changes = [
        {
            "type": "ALTER",
            "id": '"shop"."u"',
            "table": {
                "primaryKeyColumnNames": ["id"],
                "columns": [
                    {"name": "id", "typeName": "INT", "optional": False, "position": 1},
                    {"name": "v", "typeName": "VARCHAR", "length": 20, "optional": True, "position": 2},
                ],
            },
        }
    ]
    renamed = record(
        ddl("RENAME TABLE t TO u", changes, {"table": "t,u", "pos": 100}), offset=1, topic=DDL_TOPIC
    )
    of_new = record(row(after={"id": 1, "v": "a"}, source={"table": "u"}), {"id": 1})
    (_, change, moved), counted = decoded(TABLE, renamed, of_new)
    assert isinstance(change, SchemaChange)
    assert change.renamed == (RenamedTable(TableId("shop", "t"), TableId("shop", "u")),)
    assert (image(moved), counted) == ({"id": 1, "v": "a"}, {})


@CASES.covers("107")
def test_a_heartbeat() -> None:
    (beat,), _ = decoded(record({"ts_ms": 1768443630123}, {"serverName": "dbz"}))
    assert isinstance(beat, Heartbeat)


@CASES.covers("109")
def test_rows_do_not_wait_for_the_end_of_their_transaction() -> None:
    begin = {"status": "BEGIN", "id": "x", "event_count": None, "data_collections": None, "ts_ms": 1}
    found, _ = decoded(
        TABLE, record(begin, {"id": "x"}), record(row(after={"id": 1, "v": "a"}), {"id": 1}, 1)
    )
    assert kinds(found) == ["SchemaChange", "TransactionMark", "RowChange"]


@CASES.covers("112")
def test_an_unavailable_value_is_absent() -> None:
    assert read("TEXT", "__debezium_unavailable_value")[0] is ABSENT


@CASES.covers("119")
def test_a_delete_without_its_row_has_its_key() -> None:
    (_, change), _ = decoded(TABLE, record(row("d"), {"id": 7}))
    assert image(change, is_old=True) == {"id": 7, "v": ABSENT}
