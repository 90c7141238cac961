"""Rows that fit a template go where the pipeline puts them, wherever those before them went."""

from __future__ import annotations

import msgspec
from support import TICDC, record
from templates_support import Both
from test_table_topics import row as row_of

from relay import ConsumerRecord
from relay.routing import TopicRule


def row(id: int, partition: int = 0, table: str = "x", database: str = "a") -> ConsumerRecord:
    return record(msgspec.json.encode(row_of(table, id, database=database)), offset=id, partition=partition)


def destination(both: Both, one: ConsumerRecord) -> tuple[str, int]:
    """Where a record that fits a template goes."""
    assert both.fits(one)
    (out,) = both.templated.translate(one)
    both.plain.translate(one)
    return out.topic, out.partition


def test_in_the_partition_of_the_source() -> None:
    both = Both(TICDC, topic="{database}.{table}").learn(row(1), row(2))
    assert [destination(both, row(at, at % 3)) for at in range(3, 9)] == [
        ("a.x", at % 3) for at in range(3, 9)
    ]


def test_in_no_topic_that_another_table_has() -> None:
    """Which table came first is remembered, and forgotten when the translator goes back."""
    both = Both(TICDC, topic="{table}", rules=[TopicRule("a.*", "of_{table}")])
    before = both.plain.state, both.templated.state
    both.learn(row(1), row(2))
    assert destination(both, row(3)) == ("of_x", 0)
    assert not both.fits(row(4, table="of_x", database="b")), "refused"
    assert destination(both, row(5)) == ("of_x", 0)
    both.plain.restore(before[0])
    both.templated.restore(before[1])
    both.learn(row(6, table="of_x", database="b"))
    assert not both.fits(row(7)), "refused: now the topic is that of the other table"


def test_a_topic_is_asked_for_again_when_the_translator_has_gone_back() -> None:
    """What a template keeps of its topic would leave the router without the table that came first."""
    both = Both(TICDC, topic="{table}", rules=[TopicRule("a.*", "of_{table}")])
    before = both.plain.state, both.templated.state
    both.learn(row(1), row(2))
    assert destination(both, row(3)) == ("of_x", 0)
    both.plain.restore(before[0])
    both.templated.restore(before[1])
    assert not both.fits(row(4)), "the pipeline says where it goes, and remembers it"
    assert not both.fits(row(5, table="of_x", database="b")), "refused"
    assert both.templated.state.seen == both.plain.state.seen
