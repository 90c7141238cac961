"""TiCDC Debezium's edge cases of events, keys and order that need Python: numbers 83 to 120."""

from __future__ import annotations

import json
from typing import Any

import pytest
from debezium_support import DEBEZIUM, NO_SCHEMA, SOURCE, ddl, decoded, message, record
from edge_cases.ticdc_debezium import CASES, EXTENSION, sent
from support import TICDC, named_refusal

from relay import (
    ConfigError,
    ConsumerRecord,
    TableId,
    Translator,
)
from relay.model.events import Position

CREATE = record(ddl("CREATE TABLE t (id INT PRIMARY KEY, v INT)"))
KEY = {"payload": {"id": 1}}
ROW = {"id": 1, "v": 2}


def columns_after(translator: Translator, table: str, commit_ts: int = 1 << 62) -> list[str] | None:
    """The columns that the catalog has for rows of this commit ts."""
    schema = translator.catalog.table(TableId("shop", table), Position(commit_ts, 0, "topic", 0, 99))
    return None if schema is None else [column.name for column in schema.columns]


def statement(
    text: str, table: str, commit_ts: int, id_: str | None = None, kind: str = "ALTER", **more: Any
) -> ConsumerRecord:
    """A DDL message with the identifier of `tableChanges`."""
    value = ddl(text, table, commit_ts)
    value["payload"] |= {
        "tableChanges": [] if id_ is None else [{"type": kind, "id": id_, "table": {"columns": []}}]
    } | more
    return record(value, {"payload": {"databaseName": "shop"}}, commit_ts)


# ---------------------------------------------------------------- DDL


@pytest.mark.parametrize(
    ("sql", "table", "id_", "kind", "word", "known"),
    [
        CASES.param("95", "TRUNCATE TABLE `t`", "t", None, "DROP", "TRUNCATE", ["id", "v"]),
        CASES.param("96", "ALTER TABLE `t` DROP INDEX `k`", "t", '"shop"."t"', "DROP", "DINDEX", ["id", "v"]),
        CASES.param(
            "97", "RENAME TABLE `t` TO `t2`", "t2", '"shop"."t","shop"."t2"', "ALTER", "RENAME", None
        ),
        CASES.param("101", "DROP DATABASE `shop`", "", None, "DROP", "QUERY", None),
    ],
)
def test_statements_do_what_their_text_says(
    sql: str, table: str, id_: str | None, kind: str, word: str, known: list[str] | None
) -> None:
    translator = Translator(DEBEZIUM, TICDC)
    translator.translate(CREATE)
    (out,) = translator.translate(statement(sql, table, 2, id_, kind))
    value = json.loads(out.value or b"")
    assert (value["table"], value["type"], value["isDdl"], value["sql"]) == (table, word, True, sql)
    assert columns_after(translator, "t") == known


@CASES.covers("97")
def test_a_rename_moves_the_definition() -> None:
    _, translator = decoded(CREATE, statement("RENAME TABLE `t` TO `t2`", "t2", 2, '"shop"."t","shop"."t2"'))
    assert (columns_after(translator, "t"), columns_after(translator, "t2")) == (None, ["id", "v"])
    assert columns_after(translator, "t", 2) == ["id", "v"]  # for rows before it


PAIRS = [("a", "x"), ("b", "a")]


@CASES.covers("99")
@pytest.mark.parametrize("is_whole", [True, False])
def test_a_rename_of_two_tables_is_one_message_a_table(is_whole: bool) -> None:
    """TiCDC's own messages have one pair each; where they have the whole text, `id` names the pair."""
    translator = Translator(DEBEZIUM, TICDC)
    for at, name in enumerate("ab"):
        translator.translate(statement(f"CREATE TABLE {name} (of_{name} INT)", name, at + 1))
    renames = [f"RENAME TABLE `shop`.`{old}` TO `shop`.`{new}`" for old, new in PAIRS]
    sqls = []
    for (old, new), sql in zip(PAIRS, renames, strict=True):
        text = "RENAME TABLE a TO x, b TO a" if is_whole else sql
        (out,) = translator.translate(statement(text, new, 5, f'"shop"."{old}","shop"."{new}"'))
        sqls.append(json.loads(out.value or b"")["sql"])
    assert sqls == renames
    assert [columns_after(translator, name) for name in "xab"] == [["of_a"], ["of_b"], None]
    assert translator.losses == {"commit-ts": 4}  # Canal-JSON's extension is off


@CASES.covers("103")
def test_a_statement_of_every_partition_counts_once() -> None:
    translator = Translator(DEBEZIUM, DEBEZIUM)
    add = ddl("ALTER TABLE t ADD COLUMN w INT", commit_ts=2)
    more = ddl("ALTER TABLE t ADD COLUMN x INT", commit_ts=3)
    data = [json.dumps(value).encode() for value in (json.loads(CREATE.value or b""), add, more)]
    for partition in range(3):
        for offset, value in enumerate(data):
            assert translator.translate(ConsumerRecord("topic", partition, offset, 0, None, value))
    assert columns_after(translator, "t") == ["id", "v", "w", "x"]


# ---------------------------------------------------------------- watermarks and times


@CASES.covers("106")
def test_a_watermark_for_all_partitions_waits_for_each() -> None:
    translator = Translator(DEBEZIUM, DEBEZIUM, None, EXTENSION, partitions=2)

    def marks(partition: int, value: dict[str, Any]) -> list[int]:
        out = translator.translate(ConsumerRecord("topic", partition, 0, 0, None, json.dumps(value).encode()))
        payloads = [json.loads(one.value or b"")["payload"] for one in out]
        return [payload["source"]["commit_ts"] for payload in payloads if payload["op"] == "m"]

    mark = [
        message("m", source=SOURCE | {"db": "", "table": "", "commit_ts": commit_ts})
        for commit_ts in range(10)
    ]
    assert marks(2, message(after=ROW)) == []
    assert marks(0, mark[5]) == []
    assert marks(1, mark[7]) == []
    assert marks(2, mark[6]) == [5, 5]


# ---------------------------------------------------------------- keys, names, repeats, size


@CASES.covers("115")
def test_a_repeat_is_the_same_again() -> None:
    translator = Translator(DEBEZIUM, DEBEZIUM)
    translator.translate(CREATE)
    first, second = (translator.translate(record(message(after=ROW), KEY, offset))[0] for offset in (1, 2))
    assert (first.key, first.value) == (second.key, second.value)
    assert first.headers != second.headers


@CASES.covers("118")
def test_a_row_without_its_envelope_is_refused() -> None:
    flat = record({"id": 1, "v": 2, "__deleted": "true", "__op": "d"}, KEY)
    assert "ExtractNewRecordState has flattened" in named_refusal(DEBEZIUM, flat)


@CASES.covers("120")
def test_large_values_pass_whole_and_have_no_claim_check() -> None:
    text = "x" * 12_000_000
    made = sent(DEBEZIUM, DEBEZIUM, record(message(after={"id": 1, "v": text}), KEY), writing=NO_SCHEMA)
    assert made.payload["after"] == {"id": 1, "v": text}
    with pytest.raises(ConfigError):
        Translator(DEBEZIUM, DEBEZIUM, None, {"large-message-handle-option": "claim-check"})
