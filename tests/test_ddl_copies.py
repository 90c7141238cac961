"""DDL goes where the target's readers expect it: once, in partition 0, or once in every partition; whatever
the source's producer does.
"""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

import pytest
from support import CANAL, OPEN, TICDC, captured, record, row_message, translated_records

from relay import ConsumerRecord, ProducerRecord, Translator
from relay.codecs.losses import Loss
from relay.model.errors import DefinitionMissing, NotRepresentable
from relay.model.events import SchemaChange
from relay.model.records import SOURCE_HEADER

CKAFKA, DEBEZIUM, SIMPLE = "ckafka-json", "ticdc-debezium", "ticdc-simple-json"
ONCE, EVERYWHERE = (TICDC, CANAL, CKAFKA, "canal-protobuf"), (OPEN, DEBEZIUM, SIMPLE)
SOURCE_PARTITIONS = 3
TEXT = "ALTER TABLE `t` ADD COLUMN `more` INT"
TABLE = "CREATE TABLE `t` (`id` INT PRIMARY KEY)"


def ddl_message(sql: str = TEXT, word: str = "ALTER") -> ConsumerRecord:
    return record(
        row_message({}, op=word)
        | {"isDdl": True, "sql": sql, "data": None, "sqlType": None, "mysqlType": None},
        timestamp_ms=1_700_000_000_456,
    )


def statement(protocol: str, partitions: int = SOURCE_PARTITIONS, topic: str = "t") -> list[ConsumerRecord]:
    """A statement as producers of the protocol send it to a topic."""
    out = translated_records(Translator(TICDC, protocol), [ddl_message(TABLE, "CREATE"), ddl_message()])[-1]
    at = range(partitions) if protocol in EVERYWHERE else [0]
    return [
        ConsumerRecord(topic, partition, 7, out.timestamp_ms, out.key, out.value, out.headers)
        for partition in at
    ]


def translator(
    source: str, target: str, partitions: int | None = None, known: int = SOURCE_PARTITIONS, **given: Any
) -> Translator:
    made = Translator(source, target, partitions=partitions, **given)
    made.expect_partitions([("t", number) for number in range(known)])
    return made


def target_partitions(written: list[ProducerRecord]) -> list[int]:
    return sorted(out.partition for out in written)


@pytest.mark.parametrize("partitions", [None, 1, 2, 5])
@pytest.mark.parametrize("target", [*ONCE, *EVERYWHERE])
@pytest.mark.parametrize("source", [*ONCE, *EVERYWHERE])
def test_a_statement_goes_where_the_target_has_it(source: str, target: str, partitions: int | None) -> None:
    made = translator(source, target, partitions)
    written = translated_records(made, statement(source))

    every = range(SOURCE_PARTITIONS if partitions is None else partitions)
    assert target_partitions(written) == (list(every) if target in EVERYWHERE else [0])
    assert len({(out.key, out.value) for out in written}) == 1
    marks = [dict(out.headers)[SOURCE_HEADER] for out in written]
    assert len(set(marks)) == len(marks)


@pytest.mark.parametrize("target", ONCE)
def test_copies_are_a_note_and_no_loss(target: str) -> None:
    strict = {"strict": "true"}
    source = Translator(OPEN, target, None, strict)
    try:
        written = translated_records(source, statement(OPEN))
    except NotRepresentable as error:
        assert "ddl-copies" not in str(error)
        source = Translator(OPEN, target)
        written = translated_records(source, statement(OPEN))
    assert len(written) == 1
    assert source.losses[Loss.DDL_COPIES] == SOURCE_PARTITIONS - 1
    assert source.events == {"schema-change": 1}


def test_a_copy_teaches_the_catalog() -> None:
    made = Translator(OPEN, TICDC)
    create = translated_records(Translator(TICDC, OPEN), [ddl_message(TABLE, "CREATE")])[0]
    assert made.translate(ConsumerRecord("t", 2, 0, create.timestamp_ms, create.key, create.value)) == []
    assert made.catalog.versions == 1


@pytest.mark.parametrize("source", ONCE)
def test_a_statement_stays_in_its_partition_where_both_have_it_once(source: str) -> None:
    (one,) = statement(source)
    elsewhere = ConsumerRecord("t", 2, 7, one.timestamp_ms, one.key, one.value)
    assert target_partitions(translator(source, CKAFKA).translate(elsewhere)) == [2]
    assert target_partitions(translator(source, OPEN).translate(elsewhere)) == [0, 1, 2]
    assert target_partitions(translator(source, OPEN, 2).translate(elsewhere)) == [0, 1]


def test_topics_that_become_one_count_together() -> None:
    made = Translator(TICDC, OPEN, topic="all")
    made.expect_partitions([("t", 0), ("t", 1), *(("u", number) for number in range(4))])
    assert target_partitions(translated_records(made, statement(TICDC, topic="t"))) == [0, 1, 2, 3]
    apart = Translator(TICDC, OPEN)
    apart.expect_partitions([("t", 0), ("t", 1), *(("u", number) for number in range(4))])
    assert target_partitions(translated_records(apart, statement(TICDC, topic="t"))) == [0, 1]


def test_every_topic_has_a_partition_0_that_counts() -> None:
    made = Translator(OPEN, TICDC, topic="all")
    written = translated_records(made, [*statement(OPEN, topic="t"), *statement(OPEN, topic="u")])
    assert [dict(out.headers)[SOURCE_HEADER] for out in written] == [b"t/0/7/0", b"u/0/7/0"]


def test_without_partition_counts_the_partition_is_that_of_the_record() -> None:
    (one,) = statement(TICDC)
    made = Translator(TICDC, OPEN)
    assert target_partitions(made.translate(one)) == [0]
    # Whatever its number, and whatever was seen before: a restart would not know it.
    assert target_partitions(made.translate(ConsumerRecord("t", 2**31 - 1, 7, 0, one.key, one.value))) == [
        2**31 - 1
    ]
    assert target_partitions(made.translate(one)) == [0]


def test_partitions_that_are_added_count_from_then_on() -> None:
    made = translator(TICDC, OPEN, known=2)
    assert target_partitions(translated_records(made, statement(TICDC))) == [0, 1]
    state = made.state
    made.expect_partitions([("t", number) for number in range(4)])
    assert target_partitions(translated_records(made, statement(TICDC))) == [0, 1, 2, 3]
    made.restore(state)
    assert target_partitions(translated_records(made, statement(TICDC))) == [0, 1, 2, 3]


@pytest.mark.parametrize("workload", ["09_dml", "10_ddl"])
@pytest.mark.parametrize("target", [*ONCE, *EVERYWHERE])
@pytest.mark.parametrize("source", [OPEN, TICDC])
def test_captured_statements_of_three_partitions(source: str, target: str, workload: str) -> None:
    folder = source.removeprefix("ticdc-")
    records = captured(f"ticdc/{folder}.3-partitions/{workload}")
    statements = [one for one in records if one.partition == 0 and is_ddl(source, one)]
    made, spread = Translator(source, target), Translator(source, target, partitions=3)
    made.expect_partitions({(one.topic, one.partition) for one in records})
    expected = {at: len(statements) for at in (range(3) if target in EVERYWHERE else [0])}

    for each in (made, spread):
        written = [out for out in translated_records(each, records) if is_ddl(target, out)]
        assert Counter(out.partition for out in written) == expected
        texts = [[out.value for out in written if out.partition == at] for at in expected]
        assert all(these == texts[0] for these in texts)


@functools.cache
def inspector(protocol: str) -> Translator:
    return Translator(protocol, protocol)


def is_ddl(protocol: str, one: ConsumerRecord | ProducerRecord) -> bool:
    given = ConsumerRecord("t", 0, 0, one.timestamp_ms, one.key, one.value)
    try:
        found = inspector(protocol).inspect(given)
    except DefinitionMissing:
        # Rows alone refer to definitions in other messages.
        return False
    return any(isinstance(event, SchemaChange) for event in found)


def definitions(source: str) -> list[ConsumerRecord]:
    """A definition without a statement as producers of the protocol send it."""
    if source == SIMPLE:
        records = captured("ticdc/simple.json/09_dml")
        found = next(one for one in records if b'"type":"BOOTSTRAP"' in (one.value or b""))
        return [ConsumerRecord("t", at, 7, found.timestamp_ms, None, found.value) for at in range(3)]
    found = next(
        one
        for one in captured("mysql/debezium.snapshot/10_ddl")
        if b'"ddl":"CREATE TABLE' in (one.value or b"")
    )
    return [ConsumerRecord("t", 0, 7, found.timestamp_ms, found.key, found.value)]


@pytest.mark.parametrize(
    ("source", "target", "partitions", "expected"),
    [
        (SIMPLE, SIMPLE, None, [0, 1, 2]),
        (SIMPLE, SIMPLE, 2, [0, 1]),
        (SIMPLE, "debezium-json", None, [0]),
        (SIMPLE, "debezium-json", 5, [0]),
        ("debezium-json", SIMPLE, None, [0, 1, 2]),
        ("debezium-json", SIMPLE, 2, [0, 1]),
        ("debezium-json", "debezium-json", None, [0]),
    ],
)
def test_a_definition_goes_where_statements_go(
    source: str, target: str, partitions: int | None, expected: list[int]
) -> None:
    made = translator(source, target, partitions)
    assert target_partitions(translated_records(made, definitions(source))) == expected
    left_out = len(definitions(source)) - 1 if source == SIMPLE and (partitions or target != SIMPLE) else 0
    assert made.losses[Loss.DDL_COPIES] == left_out


def test_a_statement_without_a_topic_is_unrouted_in_partition_0_and_a_copy_elsewhere() -> None:
    made = Translator(OPEN, TICDC, topic="{database}.{table}")
    removed = ddl_message("DROP DATABASE `nowhere`", "QUERY")
    out = translated_records(Translator(TICDC, OPEN), [removed])[0]
    for partition in (1, 0, 2):
        one = ConsumerRecord("t", partition, 7, out.timestamp_ms, out.key, out.value, out.headers)
        assert made.translate(one) == []
    assert (made.losses[Loss.NO_TOPIC], made.losses[Loss.DDL_COPIES]) == (1, 2)
