"""The topics of a Debezium connector: the topic with the DDL of given rows.

    <topic.prefix>                       schema changes, all in partition 0
    <topic.prefix>.<database>.<table>    rows
    <topic.prefix>.transaction           BEGIN and END

Sources: debezium/debezium EventDispatcher (schemaChangeEvent), AbstractTopicNamingStrategy.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

_PREFIX = "topic.prefix"


def ddl_topics(topics: Collection[str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the topic that has the DDL of the rows of each of these topics.

    It is the topic whose name, followed by a dot, is a prefix of theirs: the longest of those that are
    followed by a database and a table, because a table's name may contain dots itself; else the longest of
    all. Without such a topic it is `topic.prefix`, if the option was given; else each topic itself. Schema
    changes belong to no other topic.
    """
    named = given.get(_PREFIX, "")
    names = frozenset(topics)
    otherwise = named if named in names else None
    found = {topic: _above(topic, names) or otherwise or topic for topic in topics}
    of_others = {first for topic, first in found.items() if first != topic}
    return {topic: topic if topic in of_others else first for topic, first in found.items()}


def _above(topic: str, names: Collection[str]) -> str | None:
    """Return the longest of these names that a topic's name continues with a dot, a database, a dot and a
    table; else with a dot.
    """
    longest = None
    above, dot, rest = topic.rpartition(".")
    while dot:
        if above in names:
            if "." in rest:
                return above
            longest = longest or above
        above, dot, _ = above.rpartition(".")
        rest = topic[len(above) + 1 :]
    return longest
