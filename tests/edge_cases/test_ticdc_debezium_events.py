"""TiCDC Debezium's edge cases of events, keys and order: numbers 83 to 120."""

from __future__ import annotations

import json
from typing import Any

import pytest
from debezium_support import DEBEZIUM, NO_SCHEMA, SOURCE, ddl, decoded, message, record, row
from edge_cases import canal_family
from edge_cases.ticdc_debezium import CASES, EXTENSION, change, sent
from open_support import cell, framed
from open_support import ddl as open_ddl
from open_support import row as open_row
from support import CANAL, OPEN, TICDC, named_refusal, row_message

from relay import (
    ABSENT,
    ConfigError,
    ConsumerRecord,
    DdlKind,
    Loss,
    Op,
    SchemaChange,
    TableId,
    Translator,
    UnsupportedMessage,
)
from relay.model.events import Position

CREATE = record(ddl("CREATE TABLE t (id INT PRIMARY KEY, v INT)"))
KEY = {"payload": {"id": 1}}
ROW = {"id": 1, "v": 2}
INSERT = record(message(after=ROW), KEY, 1)
RAW = {"output-raw-change-event": "true"}


def ops(payloads: list[dict[str, Any]]) -> list[tuple[str, Any, Any]]:
    """What rows are written: `op`, `before`, `after`."""
    return [
        (one["payload"]["op"], one["payload"].get("before"), one["payload"].get("after")) for one in payloads
    ]


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


def schema_change(*records: ConsumerRecord) -> SchemaChange:
    """The statement of the last message."""
    events, _ = decoded(*records)
    assert isinstance(events[-1], SchemaChange)
    return events[-1]


# ---------------------------------------------------------------- rows


@CASES.covers("83")
@pytest.mark.parametrize("before", [{"before": None}, {}])
def test_an_update_without_its_old_row_is_none_that_changes_nothing(before: dict[str, None]) -> None:
    value = message("u", after=ROW)
    del value["payload"]["before"]
    value["payload"] |= before
    found = change(CREATE, record(value, KEY, 1))
    assert (found.op, found.before, found.after) == (Op.UPDATE, None, (1, 2))
    for target in (TICDC, CANAL):
        made = sent(DEBEZIUM, target, CREATE, record(value, KEY, 1))
        assert [(out["type"], out["old"], out["data"]) for out in made.values] == [
            ("INSERT", None, [{"id": "1", "v": "2"}])
        ]
        assert made.counted == {"before-missing": 1}


@CASES.covers("85")
def test_an_update_of_a_key_is_one_message_with_the_new_key_or_two() -> None:
    update = record(
        message("u", before={"id": 7, "v": 2}, after={"id": 8, "v": 2}), {"payload": {"id": 8}}, 1
    )
    one, two = (sent(DEBEZIUM, DEBEZIUM, CREATE, update, writing=options) for options in (RAW, {}))
    assert (one.keys, ops(one.values)) == ([{"id": 8}], [("u", {"id": 7, "v": 2}, {"id": 8, "v": 2})])
    assert (two.keys, ops(two.values)) == (
        [{"id": 7}, {"id": 8}],
        [("d", {"id": 7, "v": 2}, None), ("c", None, {"id": 8, "v": 2})],
    )
    assert {value["payload"]["source"]["commit_ts"] for value in two.values} == {SOURCE["commit_ts"]}


@CASES.covers("86")
def test_an_update_of_a_key_of_canal() -> None:
    given = row_message(
        {"id": "int", "v": "int"}, {"id": "8", "v": "2"}, op="UPDATE", old=[{"id": "7"}], pkNames=["id"]
    )
    one, two = (sent(CANAL, DEBEZIUM, record(given), writing=options) for options in (RAW, {}))
    assert (one.keys, ops(one.values)) == ([{"id": 8}], [("u", {"id": 7, "v": 2}, {"id": 8, "v": 2})])
    assert (two.keys, ops(two.values)) == (
        [{"id": 7}, {"id": 8}],
        [("d", {"id": 7, "v": 2}, None), ("c", None, {"id": 8, "v": 2})],
    )


@CASES.covers("87")
def test_a_table_without_a_key() -> None:
    create = canal_family.ddl("CREATE TABLE t (v INT)", "CREATE")
    given = record(row_message({"v": "int"}, {"v": "1"}), offset=1)
    assert sent(TICDC, DEBEZIUM, record(create), given, writing=NO_SCHEMA).outs[0].key == b'{"payload":{}}'
    (out,) = sent(TICDC, DEBEZIUM, record(create), given).outs
    name = "default.d.t.Key"
    assert json.loads(out.key or b"")["schema"] == {
        "type": "struct",
        "name": name,
        "optional": False,
        "fields": [],
    }
    assert change(
        record(ddl("CREATE TABLE t (v INT)")), record(message(after={"v": 1}), {"payload": {}}, 1)
    ).after == (1,)


@CASES.covers("88")
def test_a_unique_key_that_cannot_be_null_is_the_key_of_messages_and_no_primary_key() -> None:
    definition = "CREATE TABLE t (id INT NOT NULL, v INT, UNIQUE KEY u (id))"
    given = record(row_message({"id": "int", "v": "int"}, {"id": "1", "v": "2"}), offset=1)
    made = sent(TICDC, DEBEZIUM, record(canal_family.ddl(definition, "CREATE")), given)
    assert made.keys == [{"id": 1}]
    assert [
        sent(DEBEZIUM, target, record(ddl(definition)), INSERT).values[0]["pkNames"]
        for target in (TICDC, CANAL)
    ] == [[], None]


@CASES.covers("89")
def test_the_key_is_in_the_order_of_the_table() -> None:
    definition = "CREATE TABLE t (a INT, b INT, PRIMARY KEY (b, a))"
    given = record(row_message({"a": "int", "b": "int"}, {"a": "1", "b": "2"}, pkNames=["b", "a"]), offset=1)
    (out,) = sent(
        TICDC, DEBEZIUM, record(canal_family.ddl(definition, "CREATE")), given, writing=NO_SCHEMA
    ).outs
    assert out.key == b'{"payload":{"a":1,"b":2}}'


OPEN_CREATE = framed(open_ddl("CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT NOT NULL)"))
ID = cell(3, 1, 11, h=True)


@CASES.covers("90")
def test_a_delete_with_its_key_alone_has_a_schema_of_its_key_alone() -> None:
    made = sent(OPEN, DEBEZIUM, OPEN_CREATE, framed(open_row({"d": {"id": ID}}), offset=1))
    assert (made.keys, ops(made.values)) == ([{"id": 1}], [("d", {"id": 1}, None)])
    assert [
        [field["field"] for field in part["fields"]] for part in made.values[0]["schema"]["fields"][:2]
    ] == [["id"]] * 2
    assert made.counted == {"columns-absent": 1}
    back = change(
        record(ddl("CREATE TABLE t (id INT PRIMARY KEY, v INT)")),
        record(message("d", before={"id": 1}), KEY, 1),
    )
    assert (back.before, back.after) == ((1, ABSENT), None)


@CASES.covers("91")
def test_an_old_row_of_open_protocol_is_completed() -> None:
    new = {"id": ID, "v": cell(3, 5), "w": cell(3, 6)}
    made = sent(OPEN, DEBEZIUM, OPEN_CREATE, framed(open_row({"u": new, "p": {"v": cell(3, 4)}}), offset=1))
    assert ops(made.values) == [("u", {"id": 1, "v": 4, "w": 6}, {"id": 1, "v": 5, "w": 6})]
    assert made.counted == {}


@CASES.covers("92")
def test_an_update_of_canal_that_changes_nothing() -> None:
    given = row_message({"id": "int"}, {"id": "1"}, op="UPDATE", old=[{}], pkNames=["id"])
    assert ops(sent(CANAL, DEBEZIUM, record(given)).values) == [("u", {"id": 1}, {"id": 1})]


@CASES.covers("93")
@pytest.mark.parametrize("value", [None, b"", {"schema": None, "payload": None}])
@pytest.mark.parametrize("target", [DEBEZIUM, TICDC, CANAL, OPEN])
def test_tombstones_are_dropped_and_counted(value: Any, target: str) -> None:
    made = sent(DEBEZIUM, target, record(value, KEY))
    assert (made.outs, made.counted) == ([], {"tombstone": 1})


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


@pytest.mark.parametrize(
    ("sql", "table", "entries"),
    [
        CASES.param("95", "TRUNCATE TABLE `t`", "t", []),
        CASES.param("96", "ALTER TABLE `t` DROP INDEX `k`", "t", [("DROP", '"shop"."t"', ["id", "v"])]),
        CASES.param(
            "97", "RENAME TABLE `t` TO `t2`", "t2", [("ALTER", '"shop"."t","shop"."t2"', ["id", "v"])]
        ),
        CASES.param("101", "DROP DATABASE `shop`", "", []),
    ],
)
def test_table_changes(sql: str, table: str, entries: list[tuple[str, str, list[str]]]) -> None:
    payload = sent(DEBEZIUM, DEBEZIUM, CREATE, statement(sql, table, 2)).payload
    found = [
        (e["type"], e["id"], [column["name"] for column in e["table"]["columns"]])
        for e in payload["tableChanges"]
    ]
    assert (found, payload["source"]["table"]) == (entries, table)


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


@CASES.covers("99")
def test_a_comma_of_a_name_makes_no_second_pair() -> None:
    sql = "RENAME TABLE `shop`.`,t` TO `shop`.`t,2`;"
    (out,) = Translator(DEBEZIUM, TICDC).translate(statement(sql, "t,2", 5, '"shop".",t","shop"."t,2"'))
    assert json.loads(out.value or b"")["sql"] == sql


@CASES.covers("99")
def test_what_else_a_text_says_behind_a_rename_stays() -> None:
    sql = "RENAME TABLE `t` TO `t2`; ALTER TABLE `u` ADD COLUMN (a INT, b INT)"
    (out,) = Translator(DEBEZIUM, TICDC).translate(statement(sql, "t2", 5, '"shop"."t","shop"."t2"'))
    assert json.loads(out.value or b"")["sql"] == sql


@CASES.covers("100")
def test_an_exchanged_partition_is_about_the_table_of_the_source() -> None:
    sql = "ALTER TABLE `p` EXCHANGE PARTITION `p0` WITH TABLE `t`"
    found = schema_change(CREATE, statement(sql, "t", 2, '"shop"."p"'))
    assert (found.table, found.kinds) == (TableId("shop", "t"), (DdlKind.EXCHANGE_PARTITION,))
    payload = sent(DEBEZIUM, DEBEZIUM, CREATE, statement(sql, "t", 2)).payload
    assert [payload["source"]["table"], payload["tableChanges"][0]["id"]] == ["t", '"shop"."p"']
    assert [column["name"] for column in payload["tableChanges"][0]["table"]["columns"]] == ["id", "v"]


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


@CASES.covers("104")
def test_a_statement_that_changes_no_table() -> None:
    sql = "SET character_set_server=utf8mb4"
    found = sent(DEBEZIUM, DEBEZIUM, CREATE, statement(sql, "", 2))
    assert (found.payload["ddl"], found.payload["tableChanges"]) == (sql, [])
    assert change(CREATE, statement(sql, "", 2), INSERT).schema.complete


@CASES.covers("104")
def test_a_statement_that_is_not_understood_passes_and_leaves_no_wrong_definition() -> None:
    unread = statement("ALTER TABLE t MODIFY v VARCHAR(20) 'x", "t", 2)
    found = sent(DEBEZIUM, DEBEZIUM, CREATE, unread)
    assert (found.payload["ddl"], found.payload["tableChanges"]) == (
        "ALTER TABLE t MODIFY v VARCHAR(20) 'x",
        [],
    )
    assert found.counted == {"ddl-not-understood": 1}
    assert not change(CREATE, unread, INSERT).schema.complete


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


@CASES.covers("108")
@pytest.mark.parametrize("connector", ["mysql", "postgresql", None])
def test_a_message_of_another_connector_is_refused(connector: str | None) -> None:
    for op in ("m", "c"):
        with pytest.raises(UnsupportedMessage) as caught:
            sent(DEBEZIUM, TICDC, record(message(op, after=ROW, source=SOURCE | {"connector": connector})))
        assert caught.value.path == "payload.source.connector"


@CASES.covers("110")
def test_a_commit_ts_is_exact() -> None:
    tso = 463586886942720001
    given = row_message({"id": "int"}, {"id": "1"}, es=1768443630000, _tidb={"commitTs": tso})
    payload = sent(TICDC, DEBEZIUM, record(given)).payload
    assert (payload["source"]["commit_ts"], payload["source"]["ts_ms"]) == (tso, tso >> 18)
    assert change(INSERT).source.commit_ts == tso
    assert sent(DEBEZIUM, TICDC, INSERT, writing=EXTENSION).values[0]["_tidb"] == {"commitTs": tso}


@CASES.covers("111")
def test_a_commit_ts_is_made_of_time_and_offset_where_there_is_none() -> None:
    given = row_message({"id": "int"}, {"id": "1"}, es=1768443630000)
    without = message(
        after=ROW, source={name: member for name, member in SOURCE.items() if name != "commit_ts"}
    )
    for source, one in ((CANAL, record(given, offset=3)), (DEBEZIUM, record(without, KEY, 3))):
        translator = Translator(source, DEBEZIUM)
        (out,) = translator.translate(one)
        assert json.loads(out.value or b"")["payload"]["source"]["commit_ts"] == (1768443630000 << 18) + 3
        assert translator.losses[Loss.COMMIT_TS_SYNTHETIC] == 1


@CASES.covers("116")
def test_times_that_are_missing() -> None:
    source_ns, record_ns = 1768443630000 * 10**6, 1768443630999 * 10**6
    for ts_ms in ({"ts_ms": None}, {}):
        value = message(after=ROW)
        del value["payload"]["ts_ms"]
        value["payload"] |= ts_ms
        found = change(record(value, KEY))
        assert (found.source.event_time_ns, found.emitted_at_ns) == (source_ns, source_ns)
        value["payload"]["source"] = SOURCE | {"ts_ms": None}
        found = change(record(value, KEY))
        assert (found.source.event_time_ns, found.emitted_at_ns) == (source_ns, record_ns), "by its commit ts"


# ---------------------------------------------------------------- keys, names, repeats, size


@CASES.covers("113")
@pytest.mark.parametrize("create", [CREATE, None])
def test_a_key_that_the_row_does_not_show_is_part_of_it(create: ConsumerRecord | None) -> None:
    """With `column-selectors` that leave the primary key out."""
    field = {"type": "int32", "optional": False, "field": "id"}
    key = {
        "payload": {"id": 7},
        "schema": {"type": "struct", "name": "default.shop.t.Key", "optional": False, "fields": [field]},
    }
    changes = [
        message("c", after={"v": 1}),
        message("u", before={"v": 1}, after={"v": 2}),
        message("d", before={"v": 2}),
        message("d", before={"v": 3}),
    ]
    records = [record(value, key, at) for at, value in enumerate(changes, 1)]
    events, translator = decoded(*([create] if create else []), *records)
    rows = [row(event) for event in events[-4:]]
    order = [column.name for column in rows[0].schema.columns]
    assert sorted(order) == ["id", "v"]
    assert rows[0].schema.primary_key == ("id",)
    named = [
        [image and dict(zip(order, image, strict=True)) for image in (one.before, one.after)] for one in rows
    ]
    assert named == [
        [None, {"id": 7, "v": 1}],
        [{"id": 7, "v": 1}, {"id": 7, "v": 2}],
        [{"id": 7, "v": 2}, None],
        [{"id": 7, "v": 3}, None],
    ]
    assert rows[3].schema == rows[0].schema
    assert translator.losses == ({} if create else {"schema-inferred": 4, "value-inferred": 4})
    for one in (CANAL, TICDC):
        made = sent(DEBEZIUM, one, *([create] if create else []), records[1]).values
        assert [(out["type"], out["pkNames"], out["data"]) for out in made] == [
            ("UPDATE", ["id"], [{"id": "7", "v": "2"}])
        ]


@CASES.covers("113")
def test_the_schema_of_the_key_tells_the_type_of_what_only_the_key_has() -> None:
    field = {
        "type": "int32",
        "optional": False,
        "name": "io.debezium.time.Date",
        "version": 1,
        "field": "day",
    }
    key = {"payload": {"day": 20468}, "schema": {"type": "struct", "optional": False, "fields": [field]}}
    columns = [{"type": "int32", "optional": True, "field": "v"}]
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": columns}]}
    assert change(record(message(after={"v": 1}) | {"schema": schema}, key)).after == (1, "2026-01-15")


@CASES.covers("114")
def test_a_partition_of_a_table_has_the_tables_name() -> None:
    made = sent(
        OPEN,
        DEBEZIUM,
        OPEN_CREATE,
        framed(open_row({"u": {"id": ID, "v": cell(3, 1), "w": cell(3, 1)}}, ptn=112)),
    )
    assert made.payload["source"]["table"] == "t"
    assert made.counted == {"physical-partition": 1}


@CASES.covers("115")
def test_a_repeat_is_the_same_again() -> None:
    translator = Translator(DEBEZIUM, DEBEZIUM)
    translator.translate(CREATE)
    first, second = (translator.translate(record(message(after=ROW), KEY, offset))[0] for offset in (1, 2))
    assert (first.key, first.value) == (second.key, second.value)
    assert first.headers != second.headers


@CASES.covers("117")
def test_the_tables_name_is_not_taken_from_the_topic() -> None:
    one = ConsumerRecord("my.db.tb", 0, 0, 0, INSERT.key, INSERT.value)
    assert change(one).table == TableId("shop", "t")


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
