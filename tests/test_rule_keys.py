"""Keys of chosen columns: what `key` of a topic rule does to keys, partitions, tombstones and updates."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support import CANAL, OPEN, TICDC, record, row_message

from relay import ConfigError, Loss, ProducerRecord, Translator
from relay.model.errors import KeyColumnsMissing
from relay.routing import TopicRule
from relay.routing.partitioning import Partitioning, murmur2

DEBEZIUM, FLAT, TICDC_DEBEZIUM, CKAFKA = "debezium-json", "flat-json", "ticdc-debezium", "ckafka-json"
PLAIN = {"schemas.enable": "false"}
TYPES = {"id": "int", "region": "varchar(10)", "at": "int"}
BY_REGION = [TopicRule("d.t", key=("region", "id"))]


def change(
    op: str = "INSERT", old: dict[str, str] | None = None, table: str = "t", **cells: str | None
) -> dict[str, Any]:
    values = {"id": "1", "region": "eu", "at": "5"} | cells
    found = row_message(TYPES, values, pkNames=["id"]) | {"table": table, "type": op, "database": "d"}
    return found | {"old": [old]} if old is not None else found


def create(
    table: str = "t", columns: str = "id INT PRIMARY KEY, region VARCHAR(10), at INT"
) -> dict[str, Any]:
    statement = row_message({}, {}, pkNames=None) | {"isDdl": True, "type": "CREATE", "data": None}
    return statement | {"database": "d", "table": table, "sql": f"CREATE TABLE {table} ({columns})"}


def route(target: str = CANAL, options: dict[str, str] | None = None, **settings: Any) -> Translator:
    if options is None:
        options = PLAIN if target == DEBEZIUM else {}
    return Translator(CANAL, target, None, options, **{"rules": BY_REGION, **settings})


def made(translator: Translator, *messages: dict[str, Any]) -> list[ProducerRecord]:
    """What the last of the messages becomes."""
    found: list[ProducerRecord] = []
    for at, message in enumerate(messages):
        found = translator.translate(record(message, offset=at))
    return found


def key_of(out: ProducerRecord) -> Any:
    return None if out.key is None else json.loads(out.key)


@pytest.mark.parametrize("target", [CANAL, CKAFKA, TICDC, TICDC_DEBEZIUM, FLAT, DEBEZIUM])
def test_a_key_has_the_columns_of_the_rule_in_its_order(target: str) -> None:
    translator = route(target)
    (out,) = made(translator, create(), change())
    assert out.key == b'{"region":"eu","id":1}'
    (other,) = made(translator, change(table="u"))
    (without,) = made(route(target, rules=[]), change(table="u"))
    assert (other.key, other.value) == (without.key, without.value)


@pytest.mark.parametrize("target", [CANAL, FLAT, DEBEZIUM])
def test_a_key_without_ddl_is_of_the_columns_of_the_message(target: str) -> None:
    (out,) = made(route(target), change())
    assert out.key == b'{"region":"eu","id":1}'


@pytest.mark.parametrize("target", [CANAL, FLAT, DEBEZIUM])
def test_null_is_a_value_of_a_key(target: str) -> None:
    (out,) = made(route(target), create(), change(region=None))
    assert out.key == b'{"region":null,"id":1}'


def test_what_a_debezium_key_says_of_its_columns_is_what_the_table_does() -> None:
    (out,) = made(route(DEBEZIUM, {}), create(), change())
    fields = key_of(out)["schema"]["fields"]
    assert [(each["field"], each["optional"]) for each in fields] == [("region", True), ("id", False)]


def test_the_message_still_names_its_primary_key() -> None:
    (out,) = made(route(CANAL), create(), change())
    assert json.loads(out.value or b"")["pkNames"] == ["id"]


@pytest.mark.parametrize("target", [CANAL, CKAFKA, FLAT, DEBEZIUM])
def test_a_table_without_such_a_column_is_refused(target: str) -> None:
    translator = route(target, rules=[TopicRule("d.*", key=("id", "nope"))])
    with pytest.raises(KeyColumnsMissing, match=r"d\.t has no column 'nope'"):
        made(translator, create(), change())


@pytest.mark.parametrize("target", [CANAL, FLAT, DEBEZIUM])
def test_a_row_that_lacks_such_a_column_is_refused(target: str) -> None:
    cut = change()
    del cut["data"][0]["region"]
    with pytest.raises(KeyColumnsMissing, match=r"d\.t has no column 'region'"):
        made(route(target), create(), cut)


@pytest.mark.parametrize("target", [CANAL, FLAT, DEBEZIUM])
def test_statements_and_truncate_need_no_key(target: str) -> None:
    translator = route(target, rules=[TopicRule("d.*", key=("nope",))])
    truncate = create() | {"sql": "TRUNCATE TABLE t", "type": "TRUNCATE"}
    made(translator, create(), truncate)
    made(route(target, rules=[TopicRule("d.*", key=("nope",))]), truncate)


@pytest.mark.parametrize(
    ("target", "options"),
    [
        (CANAL, {"tombstones": "true", "key": "primary-key"}),
        (FLAT, {"deletes": "tombstone"}),
        (DEBEZIUM, None),
    ],
)
def test_a_tombstone_has_the_same_key(target: str, options: dict[str, str] | None) -> None:
    found = made(route(target, options), create(), change("DELETE"))
    assert {out.key for out in found} == {b'{"region":"eu","id":1}'}
    assert found[-1].value is None


@pytest.mark.parametrize("target", [CANAL, FLAT, DEBEZIUM, TICDC_DEBEZIUM])
def test_an_update_of_the_key_is_a_delete_and_an_insert(target: str) -> None:
    translator = route(target)
    found = made(translator, create(), change("UPDATE", {"region": "us"}))
    keys = [out.key for out in found]
    assert list(dict.fromkeys(keys)) == [b'{"region":"us","id":1}', b'{"region":"eu","id":1}']
    (same,) = made(translator, change("UPDATE", {"at": "4"}))
    assert same.key == b'{"region":"eu","id":1}'


@pytest.mark.parametrize("rules", [[TopicRule("d.t", key=("at",))], []])
@pytest.mark.parametrize("target", [CANAL, FLAT, DEBEZIUM, TICDC_DEBEZIUM])
def test_zeros_of_both_signs_are_two_keys(target: str, rules: list[TopicRule]) -> None:
    options = {CANAL: {"key": "primary-key"}, FLAT: {}, DEBEZIUM: PLAIN}.get(target, {})
    translator = Translator(CANAL, target, None, options, rules=rules)
    columns = "id INT, region VARCHAR(10), at DOUBLE PRIMARY KEY"
    message = change("UPDATE", {"at": "0.0"}, at="-0.0") | {"pkNames": ["at"]}
    message["mysqlType"] = message["mysqlType"] | {"at": "double"}
    found = made(translator, create(columns=columns), message)
    assert len({out.key for out in found}) == 2


def test_only_the_key_of_the_rule_splits_an_update() -> None:
    translator = route(DEBEZIUM, rules=[TopicRule("d.t", key=("region",))])
    (out,) = made(translator, create(), change("UPDATE", {"id": "2"}))
    assert out.key == b'{"region":"eu"}'


def test_debezium_names_the_other_key_in_a_header() -> None:
    found = made(route(DEBEZIUM), create(), change("UPDATE", {"region": "us"}))
    assert dict(found[0].headers)["__debezium.newkey"] == b'{"region":"eu","id":1}'


@pytest.mark.parametrize("target", [CANAL, FLAT, DEBEZIUM])
def test_an_old_row_that_does_not_tell_the_key_splits_nothing(target: str) -> None:
    message = change("UPDATE")
    message["old"] = None
    (out,) = made(route(target), create(), message)
    assert out.key == b'{"region":"eu","id":1}'


def test_with_a_key_of_its_own_a_table_is_spread_by_it() -> None:
    rules = [TopicRule("d.t", "hot", 5, key=("region",))]
    (out,) = made(route(rules=rules), create(), change())
    assert (out.topic, out.partition) == ("hot", (murmur2(b'{"region":"eu"}') & 0x7FFFFFFF) % 5)
    spread = route(rules=[TopicRule("d.t", key=("region",))], partitions=5)
    (out,) = made(spread, create(), change())
    assert out.partition == (murmur2(b'{"region":"eu"}') & 0x7FFFFFFF) % 5


def test_partitions_by_key_need_keys_of_the_other_tables_alone() -> None:
    rules = [TopicRule("d.*", "hot", 5, Partitioning.KEY, key=("id",))]
    assert len(made(route(rules=rules), create(), change())) == 1
    with pytest.raises(ConfigError, match="do not identify rows"):
        route(rules=rules, partitions=3, partition_by=Partitioning.KEY)


def test_rows_of_one_key_are_not_spread_by_another() -> None:
    rules = [TopicRule("d.*", "hot", 5, Partitioning.INDEX_VALUE, key=("region",))]
    with pytest.raises(ConfigError) as caught:
        route(rules=rules)
    (problem,) = caught.value.problems
    assert problem.path == "target.topics.0.partition_by"
    assert "index-value" in problem.message


def test_codecs_whose_keys_are_the_message_have_no_such_key() -> None:
    with pytest.raises(ConfigError) as caught:
        route(OPEN)
    (problem,) = caught.value.problems
    assert problem.path == "target.topics.0.key"
    assert OPEN in problem.message


def test_a_message_of_several_rows_has_no_such_key() -> None:
    with pytest.raises(ConfigError) as caught:
        route(CANAL, {"max-batch-size": "4"})
    (problem,) = caught.value.problems
    assert problem.path == "target.topics.0.key"
    assert "max-batch-size" in (problem.hint or "")


def test_the_first_rule_that_matches_says_the_key() -> None:
    rules = [TopicRule("d.u"), TopicRule("d.*", key=("region",))]
    translator = route(CANAL, rules=rules)
    assert made(translator, create("u"), change(table="u"))[0].key is None
    assert key_of(made(translator, create(), change())[0]) == {"region": "eu"}


def test_a_key_is_no_loss() -> None:
    translator, without = route(CANAL), route(CANAL, rules=[])
    for each in (translator, without):
        made(each, create(), change())
    assert translator.losses == without.losses
    assert Loss.UNTYPED not in translator.losses
