"""A row's partition rests on what every message of it says: it is the same before and after its DDL is known,
for keys of every type.
"""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from support import CANAL, OPEN, TICDC, record, row_message, translated_records

from relay import ConsumerRecord, Translator
from relay.codecs.shared.rows import split_images
from relay.model.events import RowChange

CKAFKA, DEBEZIUM = "ckafka-json", "ticdc-debezium"
PARTITIONS = 1009
#: Key columns, and values as TiCDC Canal-JSON has them.
KEYS: dict[str, tuple[str, ...]] = {
    "INT": ("1", "-7", "2147483647"),
    "BIGINT UNSIGNED": ("1", "18446744073709551615", "9223372036854775808"),
    "BIGINT": ("9007199254740993", "-9223372036854775808"),
    "TINYINT(1)": ("0", "1", "5"),
    "DECIMAL(12,2)": ("100.00", "0.10", "-1234567890.12", "5.50"),
    "DECIMAL(10,0)": ("100", "-3"),
    "DECIMAL(30,0)": ("123456789012345678901234567890", "1000000000000000000000", "12345678901234567000"),
    "DECIMAL(30,20)": ("0.12345678901234567890", "1.00000000000000000000"),
    "FLOAT": ("1.5", "10000000000", "2"),
    "DOUBLE": ("1.5", "3", "0.1", "1e300"),
    "BIT(1)": ("1", "0"),
    "BIT(10)": ("5", "1023"),
    "YEAR": ("2024", "1970"),
    "DATE": ("2024-02-29", "1970-01-01"),
    "DATETIME": ("2024-02-29 12:34:56", "1970-01-01 00:00:00"),
    "DATETIME(3)": ("2024-02-29 12:34:56.780", "2024-02-29 12:34:56.000"),
    "DATETIME(6)": ("2024-02-29 12:34:56.123456", "2024-02-29 12:34:56.100000"),
    "TIMESTAMP(2)": ("2024-02-29 12:34:56.10", "2024-02-29 12:34:56.00"),
    "TIME": ("12:34:56", "-838:59:59"),
    "TIME(4)": ("12:34:56.1200", "00:00:00.0000"),
    "CHAR(5)": ("a", "中"),
    "VARCHAR(20)": ("a", "it's", ""),
    "BINARY(4)": ("a\0\0\0", "\x00ÿ\0\0", "abcd"),
    "VARBINARY(9)": ("a", "a\0", "ÿ\x80"),
    "ENUM('x','y','z,w')": ("1", "3"),
    "SET('p','q','r')": ("1", "5", "0"),
}
SOURCES = [
    (TICDC, {}),
    (TICDC, {"content-compatible": "true"}),
    (CANAL, {}),
    (CKAFKA, {}),
    (OPEN, {}),
    (DEBEZIUM, {}),
    (DEBEZIUM, {"debezium-disable-schema": "true"}),
    (DEBEZIUM, {"debezium-disable-schema": "true", "enable-tidb-extension": "true"}),
    (DEBEZIUM, {"enable-tidb-extension": "true"}),
]


def messages(sql_type: str, values: tuple[str, ...]) -> list[ConsumerRecord]:
    """A table with this key, and its rows: inserted, changed and deleted."""
    word = sql_type.partition("(")[0].lower()
    bare = {"bigint unsigned": "bigint unsigned"}.get(word, word)
    types = {"k": bare, "v": "int"}
    ddl = row_message({}, op="CREATE") | {
        "isDdl": True, "sql": f"CREATE TABLE t (k {sql_type} NOT NULL PRIMARY KEY, v INT)", "data": None,
    }  # fmt: skip
    found: list[dict[str, Any]] = [ddl]
    for value in values:
        row = {"k": value, "v": "1"}
        found.append(row_message(types, row, pkNames=["k"]))
        found.append(row_message(types, row | {"v": "2"}, op="UPDATE", old=[row], pkNames=["k"]))
        found.append(row_message(types, row | {"v": "2"}, op="DELETE", pkNames=["k"]))
    return [record(json.dumps(each), offset=at) for at, each in enumerate(found)]


def of_source(source: str, options: dict[str, str], given: list[ConsumerRecord]) -> list[ConsumerRecord]:
    """What the source's producer has for it."""
    made = Translator(TICDC, source, {}, options)
    return [
        ConsumerRecord("t", 0, at, out.timestamp_ms, out.key, out.value)
        for at, out in enumerate(translated_records(made, given))
    ]


def target_partitions(made: Translator, records: list[ConsumerRecord]) -> list[int]:
    """Where the rows go."""
    return [out.partition for one in records for out in made.translate(one)]


@pytest.mark.parametrize("sql_type", KEYS)
@pytest.mark.parametrize(("source", "options"), SOURCES)
def test_a_key_of_any_type_hashes_alike_with_and_without_ddl(
    source: str, options: dict[str, str], sql_type: str
) -> None:
    ddl, *rows = of_source(source, options, messages(sql_type, KEYS[sql_type]))
    unknown = target_partitions(Translator(source, OPEN, partitions=PARTITIONS), rows)
    made = Translator(source, OPEN, partitions=PARTITIONS)
    made.learn(ddl)
    known = target_partitions(made, rows)
    assert unknown == known
    assert [len(set(known[at : at + 3])) for at in range(0, len(known), 3)] == [1] * len(KEYS[sql_type])
    assert len(set(known)) == (1 if source == CKAFKA else len(KEYS[sql_type]))


@pytest.mark.parametrize("sql_type", KEYS)
@pytest.mark.parametrize("missing", [("before", "v"), ("after", "v"), ("after", "k"), ("before", "k")])
def test_rows_that_lack_columns_stay_with_the_others(missing: tuple[str, str], sql_type: str) -> None:
    """TiCDC's `column-selectors` leave columns out, which the key has all the same."""
    options = {"debezium-disable-schema": "true"}
    ddl, *rows = of_source(DEBEZIUM, options, messages(sql_type, KEYS[sql_type]))
    made = Translator(DEBEZIUM, OPEN, partitions=PARTITIONS)
    made.learn(ddl)
    cut = []
    for one in rows:
        message = json.loads(one.value or b"")
        (message["payload"][missing[0]] or {}).pop(missing[1], None)
        cut.append(ConsumerRecord("t", 0, one.offset, 0, one.key, json.dumps(message).encode()))
    unknown = target_partitions(Translator(DEBEZIUM, OPEN, partitions=PARTITIONS), cut)
    assert unknown == target_partitions(made, cut) == target_partitions(made, rows)


@pytest.mark.parametrize("target", [TICDC, OPEN, CANAL])
def test_both_halves_of_an_update_of_the_key_go_where_their_rows_are(target: str) -> None:
    """Also where a row lacks columns: its halves are hashed as the rows that they are."""
    create = "CREATE TABLE t (k DATETIME(3) NOT NULL PRIMARY KEY, v INT)"
    values = ("2024-02-29 12:34:56.780", "2024-03-01 00:00:00.000")
    ddl, *rows = of_source(DEBEZIUM, {"debezium-disable-schema": "true"}, messages("DATETIME(3)", values))
    assert create in json.loads(ddl.value or b"")["payload"]["ddl"].replace("`", "")
    old, new = (json.loads(rows[at].value or b"")["payload"]["after"] for at in (0, 3))
    update = json.loads(rows[1].value or b"")
    update["payload"] |= {"before": old, "after": new}
    whole = ConsumerRecord("t", 0, 99, 0, rows[3].key, json.dumps(update).encode())
    del update["payload"]["before"]["v"]
    cut = ConsumerRecord("t", 0, 99, 0, rows[3].key, json.dumps(update).encode())
    for one in (whole, cut):
        found = []
        for knows in (False, True):
            made = Translator(DEBEZIUM, target, partitions=PARTITIONS)
            if knows:
                made.learn(ddl)
            homes = [target_partitions(made, [rows[at]])[0] for at in (0, 3)]
            found.append((homes, target_partitions(made, [one])))
        assert found[0] == found[1]
        homes, went = found[0]
        assert went == (homes if len(went) == 2 else homes[1:])


@pytest.mark.parametrize("missing", [None, "v"])
def test_a_pickled_update_tells_the_key_of_each_row(missing: str | None) -> None:
    options = {"debezium-disable-schema": "true"}
    ddl, first, _, _, second, *_ = of_source(DEBEZIUM, options, messages("DATETIME(3)", KEYS["DATETIME(3)"]))
    message = json.loads(second.value or b"")
    message["payload"] |= {"op": "u", "before": json.loads(first.value or b"")["payload"]["after"]}
    message["payload"]["before"].pop(missing, None)
    translator = Translator(DEBEZIUM, OPEN)
    translator.learn(ddl)
    first_row, change, second_row = (
        translator.inspect(one)[0]
        for one in (first, ConsumerRecord("t", 0, 9, 0, second.key, json.dumps(message).encode()), second)
    )
    assert isinstance(first_row, RowChange)
    assert isinstance(change, RowChange)
    assert isinstance(second_row, RowChange)
    keys = [first_row.images.raw_key(), second_row.images.raw_key()]
    assert None not in keys
    parts = split_images(change.images)
    copies = [
        split_images(pickle.loads(pickle.dumps(change.images))),  # noqa: S301 - our own bytes
        pickle.loads(pickle.dumps(parts)),  # noqa: S301 - our own bytes
    ]
    for found in (parts, *copies):
        assert [half.raw_key() for half in found] == keys
        assert found == parts
