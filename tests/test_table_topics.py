"""Topics by table: rows, the DDL of their table and watermarks go to the table's topic, and to no other's."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from support import CANAL, OPEN, TICDC, captured, record, row_message, translated_records

from relay import ConfigError, ConsumerRecord, Loss, ProducerRecord, Translator
from relay.model.errors import UnusableTopicName
from relay.routing import TopicRule
from relay.routing.partitioning import ByKey, Partitioning, murmur2
from relay.routing.router import Router, TopicsInUse, WatermarkGate

BY_TABLE = "{topic}.{database}.{table}"
_TICDC = {"enable-tidb-extension": "true"}


def row(table: str, id_: int = 1, database: str = "d", commit_ts: int = 20, **more: Any) -> dict[str, Any]:
    message = row_message({"id": "int"}, {"id": str(id_)}, pkNames=["id"], _tidb={"commitTs": commit_ts})
    return message | {"database": database, "table": table} | more


def ddl(sql: str, table: str = "t", database: str = "d", commit_ts: int = 10) -> dict[str, Any]:
    return {
        "id": 0, "database": database, "table": table, "pkNames": None, "isDdl": True, "type": "QUERY", "es": 1,
        "ts": 1, "sql": sql, "_tidb": {"commitTs": commit_ts},
    }  # fmt: skip


def watermark(commit_ts: int) -> dict[str, Any]:
    return {
        "id": 0, "database": "", "table": "", "pkNames": None, "isDdl": False, "type": "TIDB_WATERMARK", "es": 1,
        "ts": 1, "sql": "", "_tidb": {"watermarkTs": commit_ts},
    }  # fmt: skip


def destinations(
    translator: Translator, *messages: dict[str, Any], partition: int = 0
) -> list[list[tuple[str, int]]]:
    """Where what each message becomes goes."""
    records = [record(message, offset=at, partition=partition) for at, message in enumerate(messages)]
    return [[(out.topic, out.partition) for out in translator.translate(each)] for each in records]


def routed(router: Router, messages: Sequence[dict[str, Any]]) -> list[list[tuple[str, int]]]:
    """Where a router sends what each message has."""
    reader, found = Translator.reader(TICDC), list[list[tuple[str, int]]]()
    gate, seen = WatermarkGate() if router.spreads else None, TopicsInUse()
    for at, message in enumerate(messages):
        read = record(message, offset=at)
        spread = router.spread(reader.inspect(read), read, reader.catalog, gate, seen)
        gate, seen = spread.gate, spread.seen
        found.append([])
        for destinations, _ in spread.groups:
            assert not isinstance(destinations, ByKey)
            found[-1] += destinations
    return found


def by_table(target: str = TICDC, **settings: Any) -> Translator:
    options = _TICDC if target == TICDC else {}
    return Translator(TICDC, target, None, options, **{"topic": BY_TABLE, **settings})


def test_rows_and_ddl_of_a_table_have_one_topic() -> None:
    found = destinations(
        by_table(), ddl("CREATE TABLE t (id INT PRIMARY KEY)"), row("t"), row("u"), partition=3
    )
    assert found == [[("topic.d.t", 3)], [("topic.d.t", 3)], [("topic.d.u", 3)]]


def test_a_statement_about_several_tables_goes_to_each() -> None:
    translator = Translator(CANAL, CANAL, topic=BY_TABLE)
    renamed = ddl("RENAME TABLE a TO b, c TO e.f", table="a")
    dropped = ddl("DROP TABLE b, e.f", table="b")
    assert destinations(translator, renamed, dropped) == [
        [("topic.d.b", 0), ("topic.e.f", 0), ("topic.d.a", 0), ("topic.d.c", 0)],
        [("topic.d.b", 0), ("topic.e.f", 0)],
    ]


def test_watermarks_go_to_every_topic_in_use() -> None:
    translator = by_table()
    first, *others = destinations(
        translator,
        watermark(5),
        ddl("CREATE TABLE t (id INT PRIMARY KEY)"),
        watermark(10),  # before the table
        watermark(11),
        row("u", commit_ts=12),  # a table without a definition
        watermark(13),
        ddl("DROP TABLE t", commit_ts=14),
        watermark(15),
    )
    assert first == []
    assert [others[at] for at in (1, 2, 4, 6)] == [
        [],
        [("topic.d.t", 0)],
        [("topic.d.t", 0), ("topic.d.u", 0)],
        [("topic.d.u", 0)],
    ]
    assert translator.losses[Loss.NO_TOPIC] == 2


def test_watermarks_of_one_source_topic_do_not_go_to_tables_of_another() -> None:
    translator = by_table()
    for topic in ("a", "b"):
        value = json.dumps(row(f"of_{topic}")).encode()
        translator.translate(ConsumerRecord(topic, 0, 0, 0, None, value))
    mark = json.dumps(watermark(30)).encode()
    assert [out.topic for out in translator.translate(ConsumerRecord("a", 0, 1, 0, None, mark))] == [
        "a.d.of_a"
    ]


def test_statements_of_a_database_go_to_the_topics_of_its_tables() -> None:
    translator = Translator(CANAL, CANAL, topic=BY_TABLE)
    found = destinations(
        translator,
        ddl("CREATE DATABASE d", table=""),
        ddl("CREATE TABLE d.t (id INT PRIMARY KEY)"),
        ddl("CREATE TABLE e.t (id INT PRIMARY KEY)", database="e"),
        ddl("DROP DATABASE d", table=""),
    )
    assert [found[0], found[3]] == [[], [("topic.d.t", 0)]]
    assert translator.losses[Loss.NO_TOPIC] == 1
    assert destinations(Translator(CANAL, CANAL, topic="all"), ddl("CREATE DATABASE d", table="")) == [
        [("all", 0)]
    ]


@pytest.mark.parametrize("target", [CANAL, TICDC, OPEN, "ticdc-debezium"])
@pytest.mark.parametrize(
    "file",
    [
        "ticdc/open-protocol/10_ddl",
        "ticdc/open-protocol.3-partitions/09_dml",
        "ticdc/open-protocol.batch/09_dml",
    ],
)
def test_topics_by_table_together_are_the_one_topic(file: str, target: str) -> None:
    """The same messages in the same order, statements that concern several tables once more."""
    records = captured(file)
    one = Translator(OPEN, target)
    many = Translator(OPEN, target, topic=BY_TABLE)
    whole = [out for out in translated_records(one, records) if not _is_about_no_table(target, out)]
    parts = translated_records(many, records)
    assert {out.topic for out in parts if not out.topic.startswith(f"{records[0].topic}.")} == set()
    assert Counter((out.partition, out.value) for out in whole) <= Counter(
        (out.partition, out.value) for out in parts
    )
    assert many.events["insert"] == one.events["insert"] > 0


def _is_about_no_table(target: str, out: ProducerRecord) -> bool:
    """Watermarks, and statements of databases: they have no topic before the first table has."""
    value = out.value or b""
    if target == OPEN:
        return b'"t":3' in (out.key or b"") or b'"tbl":""' in (out.key or b"")
    if target == "ticdc-debezium":
        return b'"op":"m"' in value or b"DATABASE" in value
    return b"WATERMARK" in value or b'"table":""' in value


class TestCollisions:
    def test_two_known_tables_with_one_name_are_refused_and_named(self) -> None:
        translator = Translator(CANAL, CANAL, topic="{database}_{table}")
        create = ddl("CREATE TABLE a_b.c (id INT PRIMARY KEY)", "c", "a_b")
        assert destinations(translator, create) == [[("a_b_c", 0)]]
        with pytest.raises(
            UnusableTopicName, match=r"that of table a\.b_c would be a_b_c, .* that of table a_b\.c"
        ):
            translator.translate(record(row("b_c", database="a"), offset=1))
        assert translator.translate(record(row("c", database="a_b"), offset=2))

    def test_so_are_tables_of_which_only_rows_are_known(self) -> None:
        translator = Translator(CANAL, CANAL, topic="{database}{table}")
        translator.translate(record(row("b", database="a")))
        before = translator.state
        for _ in range(2):
            with pytest.raises(UnusableTopicName, match=r"table \.ab would be ab, .* table a\.b"):
                translator.translate(record(row("ab", database=""), offset=1))
        assert translator.state == before

    def test_the_same_is_refused_whichever_came_first_once_both_are_known(self) -> None:
        """So a restart, which has the definitions of all tables, refuses what the run before it has refused."""
        creates = [ddl("CREATE TABLE x (id INT)", "x", "a_b"), ddl("CREATE TABLE b_x (id INT)", "b_x", "a")]
        translator = Translator(CANAL, CANAL, topic="{database}_{table}")
        for at, create in enumerate(creates):
            translator.learn(record(create, offset=at))
        for at, (database, table) in enumerate([("a_b", "x"), ("a", "b_x")]):
            with pytest.raises(UnusableTopicName):
                translator.translate(record(row(table, database=database), offset=5 + at))

    def test_a_table_may_not_have_a_topic_of_relays_own(self) -> None:
        translator = Translator(CANAL, CANAL, topic="{table}", reserved=frozenset({"topic"}))
        with pytest.raises(
            UnusableTopicName, match=r"table d\.topic would be topic, which relay uses for itself"
        ):
            translator.translate(record(row("topic")))

    def test_a_name_given_by_hand_is_not_also_made_of_another_tables(self) -> None:
        rules = [TopicRule("shop.orders", "orders")]
        translator = Translator(CANAL, CANAL, topic="{table}", rules=rules)
        assert destinations(translator, row("orders", database="shop")) == [[("orders", 0)]]
        with pytest.raises(
            UnusableTopicName, match=r"table x\.orders would be orders, .* table shop\.orders"
        ):
            translator.translate(record(row("orders", database="x"), offset=1))

    def test_tables_of_several_databases_may_share_a_topic_that_names_no_database(self) -> None:
        translator = Translator(CANAL, CANAL, topic="{table}")
        assert destinations(translator, row("t", database="a"), row("t", database="b")) == [
            [("t", 0)],
            [("t", 0)],
        ]


class TestRules:
    RULES = (
        TopicRule("shop.orders", "hot", partitions=4),
        TopicRule("shop.*", "shop.{table}"),
        TopicRule("*.audit_?", "audit", partition_by=Partitioning.TABLE, partitions=2),
    )

    def test_the_first_that_matches_counts(self) -> None:
        translator = by_table(topic="{topic}.rest", rules=self.RULES)
        rows = [
            ("shop", "orders"),
            ("shop", "audit_1"),
            ("x", "audit_1"),
            ("x", "audit_10"),
            ("Shop", "orders"),
        ]
        found = destinations(translator, *(row(table, database=database) for database, table in rows))
        assert [topics[0][0] for topics in found] == [
            "hot",
            "shop.audit_1",
            "audit",
            "topic.rest",
            "topic.rest",
        ]

    def test_watermarks_wait_where_rows_are_spread_and_pass_elsewhere(self) -> None:
        translator = by_table(topic="{topic}.rest", rules=self.RULES)
        translator.expect_partitions([("topic", 0), ("topic", 1)])
        destinations(translator, row("orders", database="shop"), row("t", database="shop"))
        kept = [("topic.rest", 0), ("shop.t", 0)]
        assert destinations(translator, watermark(30)) == [kept]
        (both,) = destinations(translator, watermark(40), partition=1)
        assert both == [("topic.rest", 1), ("shop.t", 1), *(("hot", at) for at in range(4))]

    def test_ddl_goes_where_the_targets_readers_look(self) -> None:
        create = ddl("CREATE TABLE orders (id INT PRIMARY KEY)", "orders", "shop")
        other = ddl("CREATE TABLE t (id INT PRIMARY KEY)", "t", "x")
        once = Translator(TICDC, CANAL, rules=self.RULES)
        everywhere = Translator(TICDC, OPEN, rules=self.RULES)
        everywhere.expect_partitions([("topic", 0), ("topic", 1)])
        assert destinations(once, create, other) == [[("hot", 0)], [("topic", 0)]]
        assert destinations(everywhere, create, other) == [
            [("hot", at) for at in range(4)],
            [("topic", 0), ("topic", 1)],
        ]

    @pytest.mark.parametrize("more_first", [True, False])
    def test_watermarks_and_ddl_reach_all_partitions_of_a_topic_that_rules_share(
        self, more_first: bool
    ) -> None:
        rules = [TopicRule("a.*", "{table}", 4), TopicRule("b.*", "{table}", 8)]
        databases = ("b", "a") if more_first else ("a", "b")
        for target in (TICDC, OPEN):
            translator = by_table(target, topic="rest", rules=rules)
            destinations(translator, *(row("t", database=each) for each in databases))
            every = [("t", at) for at in range(8)]
            marked, stated = destinations(
                translator, watermark(30), ddl("ALTER TABLE t ADD c INT", "t", "a", commit_ts=40)
            )
            assert marked == [("rest", 0), *every]
            assert stated == (every if target == OPEN else [("t", 0)])
            assert translator.partitions_of("t") == 8

    @pytest.mark.parametrize("partitions", [None, 2])
    def test_more_tables_than_paths_are_kept_change_nothing(self, partitions: int | None) -> None:
        rules = [TopicRule("shop.*", "{database}.{table}", 4), TopicRule("log.*", "", 8)]
        tables = [("shop", "a"), ("x", "a"), ("log", "a"), ("shop", "b"), ("log", "b"), ("x", "b")]
        messages = [
            *(row(table, database=database) for database, table in tables),
            watermark(30),
            *(ddl(f"ALTER TABLE {table} ADD c INT", table, database, 40) for database, table in tables),
            *(row(table, 2, database, 50) for database, table in reversed(tables)),
        ]
        route: dict[str, Any] = {"topic": BY_TABLE, "partitions": partitions, "rules": rules}
        expected = routed(Router(**route, writes_ddl_everywhere=True), messages)
        small = Router(**route, writes_ddl_everywhere=True, max_paths=2)
        assert routed(small, messages) == expected
        wide = {"shop.a": 4, "shop.b": 4, "topic.log.a": 8, "topic.log.b": 8}
        topics = {topic for found in expected for topic, _ in found}
        assert {topic: small.partitions_of(topic) for topic in topics} == dict.fromkeys(
            topics, partitions
        ) | wide

    def test_paths_are_kept_for_so_many_tables(self) -> None:
        """Rows of the others have to ask again where they go."""
        router, reader, seen = Router(BY_TABLE, max_paths=2), Translator.reader(TICDC), TopicsInUse()
        rows = [record(row(name), offset=at) for at, name in enumerate("abcdef")]
        for read in rows:
            seen = router.spread(reader.inspect(read), read, reader.catalog, None, seen).seen
        known = [router.topic_of_row(reader.inspect(read)[0], read, seen) for read in rows]
        assert known == [None] * 4 + ["topic.d.e", "topic.d.f"]

    @pytest.mark.parametrize(
        "settings",
        [
            {"topic": "{topic}", "rules": [TopicRule("a.*", partitions=4)]},
            {"topic": "all", "partitions": 4, "rules": [TopicRule("a.*", partition_by=Partitioning.SOURCE)]},
            {"topic": "{database}", "rules": [TopicRule("a.t", partitions=4)]},
            {"rules": [TopicRule("a.*", "{table}", 4), TopicRule("b.*", "{table}")]},
        ],
    )
    def test_a_topic_is_not_spread_and_kept_at_once(self, settings: dict[str, Any]) -> None:
        """Of partitions that are kept, and filled by spread rows too, no watermark would be right."""
        with pytest.raises(ConfigError, match="rows that are repartitioned with rows that keep"):
            by_table(**settings)

    def test_a_topic_of_its_own_may_be_spread_otherwise(self) -> None:
        rules = [TopicRule("d.hot", partitions=4)]
        assert destinations(by_table(rules=rules), row("hot"), row("t"), partition=9)[1] == [("topic.d.t", 9)]

    @pytest.mark.parametrize(
        ("rule", "problem"),
        [
            (TopicRule("orders", "x"), "target.topics.0.match: 'orders' is not of the form database.table"),
            (TopicRule("a.*", "{x}"), "target.topics.0.topic: '{x}' has an unknown placeholder"),
            (
                TopicRule("a.*", partition_by=Partitioning.KEY),
                "target.topics.0.partition_by: key needs a number of partitions",
            ),
            (
                TopicRule("a.*", partitions=3, partition_by=Partitioning.SOURCE),
                "target.topics.0.partition_by: source keeps the source's partitions",
            ),
        ],
    )
    def test_rules_that_make_no_sense(self, rule: TopicRule, problem: str) -> None:
        with pytest.raises(ConfigError) as error:
            Translator(CANAL, CANAL, rules=[rule])
        assert str(error.value).startswith(problem)


class TestPartitions:
    def test_by_table_every_row_of_it_is_in_one(self) -> None:
        translator = by_table(topic="all", partitions=7, partition_by=Partitioning.TABLE)
        found = destinations(translator, *(row(f"t{at % 5}", id_=at) for at in range(50)))
        assert found[:5] * 10 == found
        assert len({topics[0] for topics in found}) > 1

    def test_by_key_as_kafkas_clients_do(self) -> None:
        translator = Translator(
            TICDC, "ticdc-debezium", topic="all", partitions=5, partition_by=Partitioning.KEY
        )
        made = [out for at in range(40) for out in translator.translate(record(row("t", id_=at), offset=at))]
        assert len(made) == 40
        assert {out.partition for out in made} == set(range(5))
        assert all(out.partition == (murmur2(out.key or b"") & 0x7FFFFFFF) % 5 for out in made)

    def test_by_key_records_without_one_go_by_table(self) -> None:
        assert ByKey("t", 7, keyless=3).of(None) == (("t", 3),)

    @pytest.mark.parametrize("target", [CANAL, OPEN])
    def test_by_key_needs_keys_of_rows(self, target: str) -> None:
        with pytest.raises(
            ConfigError, match=f"target.partition_by: key: the keys of {target} do not identify rows"
        ):
            by_table(target, partitions=3, partition_by=Partitioning.KEY)

    @pytest.mark.parametrize(
        ("key", "hashed"),
        [
            (b"21", -973932308),
            (b"foobar", -790332482),
            (b"a-little-bit-long-string", -985981536),
            (b"a-little-bit-longer-string", -1486304829),
            (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
            (b"abc", 479470107),
        ],
    )
    def test_the_hash_is_that_of_kafkas_java_client(self, key: bytes, hashed: int) -> None:
        """The values are those of Kafka's own test, UtilsTest.testMurmur2."""
        assert murmur2(key) == hashed & 0xFFFFFFFF


def test_a_repeat_has_its_relay_source_whatever_tables_came_before() -> None:
    """A restart has learned the tables in another order, and has not seen the rows before."""
    tables = [
        ddl("CREATE TABLE b (id INT PRIMARY KEY)", "b"),
        ddl("CREATE TABLE a (id INT PRIMARY KEY)", "a"),
    ]
    rows = [row("z"), row("u")]
    mark = record(watermark(30), offset=9)

    def headers(before: list[dict[str, Any]]) -> dict[str, bytes | None]:
        translator = Translator(TICDC, TICDC, None, _TICDC, topic=BY_TABLE)
        for offset, message in enumerate(before):
            translator.translate(record(message, offset))
        return {out.topic: out.headers[-1][1] for out in translator.translate(mark)}

    first, again = headers([*tables, *rows]), headers([*reversed(tables), rows[1]])
    assert len(first) == 4
    assert len(again) == 3
    assert again.items() <= first.items()


def test_a_state_that_is_restored_knows_no_later_table() -> None:
    translator = by_table()
    before = translator.state
    first = destinations(translator, row("t"), watermark(30))
    translator.restore(before)
    assert destinations(translator, watermark(30)) == [[]]
    assert destinations(translator, row("t"), watermark(30)) == first


@pytest.mark.parametrize("target", ["ticdc-debezium", "debezium-json", "ticdc-canal-json", "canal-json"])
def test_a_drop_of_many_tables_is_one_message_in_the_topic_of_each(target: str) -> None:
    """As a whole in each topic, it would be 40,000 messages where the target has one for each table."""
    names = [f"t{at}" for at in range(200)]
    translator = Translator(CANAL, target, topic=BY_TABLE)
    out = translator.translate(record(ddl(f"DROP TABLE {', '.join(names)}", table="t0")))
    assert [one.topic for one in out] == [f"topic.d.{name}" for name in names]
    for one, name in zip(out, names, strict=True):
        assert f"DROP TABLE `d`.`{name}`" in (one.value or b"").decode()


def test_a_rename_of_several_tables_is_said_where_their_rows_were_and_will_be() -> None:
    translator = Translator(CANAL, "ticdc-canal-json", topic=BY_TABLE)
    out = translator.translate(record(ddl("RENAME TABLE a TO x, b TO a", table="x")))
    found = [(one.topic, json.loads(one.value or b"")["sql"]) for one in out]
    first, second = "RENAME TABLE `d`.`a` TO `d`.`x`", "RENAME TABLE `d`.`b` TO `d`.`a`"
    assert sorted(found) == [
        ("topic.d.a", first),
        ("topic.d.a", second),
        ("topic.d.b", second),
        ("topic.d.x", first),
    ]
    assert translator.events["schema-change"] == 1


def test_a_name_that_is_too_long_is_not_repeated_whole_in_the_error() -> None:
    with pytest.raises(UnusableTopicName) as raised:
        destinations(by_table(), row("t" * 20_000))
    assert len(str(raised.value)) < 3_000
