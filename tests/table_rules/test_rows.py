"""Rows, keys, schemas and topics with the target's names of tables."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from engine_support import ENGINE, ENGINES
from support import (
    ALL_ROUTES,
    CANAL,
    CAPTURED,
    TICDC,
    WRITABLE,
    captured,
    protocol_of,
    reading_options,
    record,
)
from table_rules_support import names_of, outcome, renamed, row, rule, rules_for, statement, tables_in
from templates_support import Both

from relay import (
    CodecError,
    ColumnAction,
    ColumnRule,
    ConsumerRecord,
    Partitioning,
    Resolver,
    Selection,
    TableFilter,
    TableGlob,
    TableId,
    TopicRule,
    Translator,
)
from relay.core.verification import ShadowTranslator
from relay.templates.engine import Engine

#: Files in which names cannot be replaced in the bytes: they are compressed, elsewhere, or counted with lengths.
_OPAQUE = ("lz4", "snappy", "claim-check", "checksum", "avro", "protobuf", "08_names")
#: Files with statements whose session has another database than their message: their names get it.
_OF_SESSIONS = ("mysql", "10_ddl")
_FILES = [
    file
    for file in CAPTURED
    if not any(part in file for part in _OPAQUE)
    and not all(part in file for part in _OF_SESSIONS)
    and tables_in(file)
]
#: Protocols whose messages are JSON, without lengths.
_TARGETS = (
    *("canal-json", "ticdc-canal-json", "ckafka-json", "maxwell-json", "flat-json"),
    *("debezium-json", "ticdc-debezium", "ticdc-simple-json"),
)
_PAIRS = [
    (file, target)
    for at, file in enumerate(_FILES)
    for number, target in enumerate(_TARGETS)
    if ALL_ROUTES or (at + number) % len(_TARGETS) == 0
]


@pytest.mark.parametrize(("file", "target"), _PAIRS)
@pytest.mark.parametrize("of_databases", [True, False], ids=["databases", "tables"])
def test_the_same_comes_out_as_if_the_source_had_the_names(
    file: str, target: str, of_databases: bool
) -> None:
    if not of_databases and "10_ddl" in file:
        pytest.skip("comments in this file contain names of tables")
    tables, records = tables_in(file), captured(file)
    names, rules = names_of(tables, of_databases=of_databases), rules_for(tables, of_databases=of_databases)
    ruled = Translator(protocol_of(file), target, reading_options(file), tables=rules)
    plain = Translator(protocol_of(file), target, reading_options(file))
    expected = outcome(plain, [renamed(each, names) for each in records])
    assert outcome(ruled, records) == expected
    assert ruled.losses == plain.losses


_ALL = sorted(WRITABLE)
_ROUTES = [
    (file, target)
    for at, file in enumerate(CAPTURED)
    for number, target in enumerate(_ALL)
    if ALL_ROUTES or (at + number) % len(_ALL) == 0
]


@pytest.mark.parametrize(("file", "target"), _ROUTES)
def test_templates_and_readers_agree(file: str, target: str) -> None:
    source, options, records = protocol_of(file), reading_options(file), captured(file)
    rules = rules_for(tables_in(file), of_databases=False)
    slow, checked = (
        made(source, target, options, tables=rules, engine=engine, topic="{topic}-{database}-{table}")
        for made, engine in ((Translator, None), (ShadowTranslator, ENGINE))
    )
    for each in (slow, checked):
        each.tables = Counter()
    assert _whole(checked, records) == _whole(slow, records)
    assert (checked.losses, checked.events, checked.tables) == (slow.losses, slow.events, slow.tables)


def _whole(translator: Translator, records: list[ConsumerRecord]) -> list[object]:
    found: list[object] = []
    for each in records:
        try:
            found.append(Resolver().translate(translator, each))
        except CodecError as error:
            found.append(f"{error.code} {error.path}")
    return found


# ---------------------------------------------------------------- templates

SHOP = (rule(r"shop_(\d+)\.(.*)", "shop.{2}_{1}"),)


def _ticdc(table: str, at: int, database: str = "shop_1", op: str = "INSERT") -> ConsumerRecord:
    values = {"id": str(at), "c": str(at * 7)}
    message = {
        "id": 0, "database": database, "table": table, "pkNames": ["id"], "isDdl": False, "type": op,
        "es": 1_700_000_000_000 + at, "ts": 1_700_000_000_000 + at, "sql": "", "sqlType": {"id": 4, "c": 4},
        "mysqlType": {"id": "int", "c": "int"}, "old": [{"c": "1"}] if op == "UPDATE" else None,
        "data": [values], "_tidb": {"commitTs": (1_700_000_000_000 + at) << 18},
    }  # fmt: skip
    return record(json.dumps(message, separators=(",", ":")), offset=at, timestamp_ms=1_700_000_000_000)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("target", ["canal-json", "debezium-json", "flat-json", "ticdc-open-protocol"])
@pytest.mark.parametrize("topic", ["{topic}", "{database}.{table}"])
def test_rows_of_renamed_tables_have_templates(engine: type[Engine], target: str, topic: str) -> None:
    both = Both(TICDC, target=target, engine=engine, tables=SHOP, topic=topic)
    for op in ("INSERT", "UPDATE", "DELETE"):
        both.learn(*[_ticdc("orders", at, op=op) for at in (1, 2)])
        assert all(both.fits(_ticdc("orders", at, op=op)) for at in (3, 4))
    both.learn(*[_ticdc("orders", at, "shop_2") for at in (1, 2)])
    assert both.fits(_ticdc("orders", 3, "shop_2"))
    both.learn(*[_ticdc("orders", at, "other") for at in (1, 2)])
    assert both.fits(_ticdc("orders", 3, "other"))
    (out,) = both.templated.translate(_ticdc("orders", 5))
    assert b"orders_1" in (out.key or b"") + (out.value or b"") + out.topic.encode()


def test_counts_by_table_have_the_sources_names() -> None:
    both = Both(TICDC, target="canal-json", engine=ENGINE, tables=SHOP, topic="{table}")
    for each in (both.plain, both.templated):
        each.tables = Counter()
    for at in range(6):
        both.fits(_ticdc("orders", at))
    expected = {(TableId("shop_1", "orders"), "insert"): 6}
    assert both.plain.tables == both.templated.tables == expected
    assert both.templated.paths["fast"] > 0


# ---------------------------------------------------------------- steps before and after


def _messages(translator: Translator, *records: ConsumerRecord) -> list[tuple[str, dict[str, Any]]]:
    return [
        (out.topic, json.loads(out.value or b"null"))
        for each in records
        for out in translator.translate(each)
    ]


def test_filters_and_columns_match_the_sources_names_and_topics_the_targets() -> None:
    translator = Translator(
        CANAL, CANAL,
        selection=Selection(tables=TableFilter(include=(TableGlob.parse("shop.*"),))),
        columns=[ColumnRule(tables=("shop.orders",), columns=("c",), action=ColumnAction.DROP)],
        tables=[rule(r"shop\.orders", "archive.orders")],
        rules=[TopicRule("archive.*", "archive-{table}")],
    )  # fmt: skip
    found = _messages(translator, row("orders", 1), row("lines", 2), row("orders", 3, "archive"))
    assert [(topic, each["database"], sorted(each["data"][0])) for topic, each in found] == [
        ("archive-orders", "archive", ["id"]),
        ("topic", "shop", ["c", "id"]),
    ]


def test_statements_go_to_the_topics_of_the_targets_names() -> None:
    translator = Translator(
        CANAL, CANAL, topic="{database}.{table}", tables=[rule(r"shop\.(.*)", "archive.{1}")],
        selection=Selection(tables=TableFilter(exclude=(TableGlob.parse("shop.lines"),))),
    )  # fmt: skip
    create = "CREATE TABLE `{}` (`id` int PRIMARY KEY)"
    records = [
        statement(create.format(name), name, at) for at, name in enumerate(("orders", "lines", "items"))
    ]
    found = _messages(
        translator, *records,
        statement("DROP TABLE orders, lines", at=4), statement("ALTER DATABASE shop CHARACTER SET utf8", "", 5),
    )  # fmt: skip
    assert [(topic, each["sql"][:14]) for topic, each in found] == [
        ("archive.orders", "CREATE TABLE `"),
        ("archive.items", "CREATE TABLE `"),
        ("archive.orders", "DROP TABLE ord"),
        ("archive.items", "ALTER DATABASE"),
    ]


def test_partitions_by_table_are_those_of_the_targets_name() -> None:
    settings: dict[str, Any] = {"partitions": 50, "partition_by": Partitioning.TABLE}
    ruled = Translator(CANAL, CANAL, tables=[rule("shop.orders", "archive.sales")], **settings)
    plain = Translator(CANAL, CANAL, **settings)
    partitions = [
        translator.translate(each)[0].partition
        for translator, each in (
            (ruled, row("orders")),
            (plain, row("sales", database="archive")),
            (plain, row("orders")),
        )
    ]
    assert partitions[0] == partitions[1] != partitions[2]


def test_watermarks_reach_the_topics_of_the_targets_names() -> None:
    translator = Translator(
        TICDC, "ticdc-canal-json", {"enable-tidb-extension": "true"}, {"enable-tidb-extension": "true"},
        topic="{table}", tables=SHOP,
    )  # fmt: skip
    translator.translate(_ticdc("orders", 1))
    mark = {
        "id": 0, "database": "", "table": "", "pkNames": None, "isDdl": False, "type": "TIDB_WATERMARK",
        "es": 1_700_000_001_000, "ts": 1_700_000_001_000, "sql": "", "sqlType": None, "mysqlType": None,
        "data": None, "old": None, "_tidb": {"watermarkTs": 1_700_000_001_000 << 18},
    }  # fmt: skip
    assert [topic for topic, _ in _messages(translator, record(mark, 2))] == ["orders_1"]
