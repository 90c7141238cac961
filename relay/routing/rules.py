"""Rules for topics and partitions, and their validation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from relay.model.errors import ConfigError, Problem
from relay.model.table_globs import TableGlob
from relay.routing.partitioning import Partitioning
from relay.routing.topic_names import DATABASE, TABLE, TopicTemplate
from relay.text.redaction import quoted


class TopicRule(NamedTuple):
    """The topic of the tables that match a glob (`database.table`). Missing members default to the target's.

    `key`: columns of the keys of their rows; () leaves the key to the target's options.
    """

    match: str
    topic: str = ""
    partitions: int | None = None
    partition_by: Partitioning | None = None
    key: tuple[str, ...] = ()


class TopicRoute(msgspec.Struct, frozen=True):
    """A parsed rule. `partitions` None keeps the source's partitions.

    key: Columns of keys; () leaves the key to the target's options.
    width: Number of partitions over which the topic's rows are distributed, including rows of other tables.
    """

    topic: TopicTemplate
    partitions: int | None = None
    by: Partitioning = Partitioning.SOURCE
    match: TableGlob | None = None
    key: tuple[str, ...] = ()
    width: int | None = None


def routing_problems(
    topic: str, partitions: int | None, partition_by: Partitioning | None, rules: Sequence[TopicRule]
) -> list[Problem]:
    """Return the problems in a route's topics and partitions, with the configuration keys."""
    try:
        topic_routes(topic, partitions, partition_by, rules)
    except ConfigError as error:
        return error.problems
    return []


def templates_of(
    topic: str, partitions: int | None, partition_by: Partitioning | None, rules: Sequence[TopicRule]
) -> list[tuple[TopicTemplate, int | None]]:
    """Return all templates, each with its number of partitions (None: the source's). Raises ConfigError."""
    return [(route.topic, route.width) for route in topic_routes(topic, partitions, partition_by, rules)]


def partitions_by_name(
    name: str,
    sources: Sequence[str],
    topic: str,
    partitions: int | None,
    partition_by: Partitioning | None,
    rules: Sequence[TopicRule],
) -> int | None:
    """Return the number of partitions over which rows are distributed in the table topic with this name; None
    if they keep the source's.

    If the name does not determine the rule of its tables, the result is the largest number.
    """
    rest, *others = topic_routes(topic, partitions, partition_by, rules)
    widths: list[int] = []
    for route in (*others, rest):
        names = route.topic.names_in(name, sources) if route.topic.is_by_table else None
        is_known = names is not None and None not in names and not route.topic.is_ambiguous
        if names is None or (route.match is not None and is_known and not route.match.may_match(*names)):
            continue
        widths.append(route.width or 0)
        if is_known:
            break
    return max(widths, default=0) or None


def topic_routes(
    topic: str, partitions: int | None, partition_by: Partitioning | None, rules: Sequence[TopicRule]
) -> tuple[TopicRoute, ...]:
    """Parse the rules; the defaults for all other tables come first. Raises ConfigError with all problems."""
    problems: list[Problem] = []
    rest = _route(TopicRule("", topic, partitions, partition_by), None, "target", problems)
    found = [_route(rule, rest, f"target.topics.{at}", problems) for at, rule in enumerate(rules)]
    if not problems:
        problems = list(_mixed(rest, found))
    if problems:
        raise ConfigError(problems)
    ways = rest, *found
    return tuple(msgspec.structs.replace(route, width=_width(route, ways)) for route in ways)


def _share_topics(one: TopicRoute, other: TopicRoute) -> bool:
    """Return whether tables of both rules may share a topic: the templates are equal and lack part of the
    table's full name.
    """
    return one.topic == other.topic and not one.topic.fields >= {DATABASE, TABLE}


def _width(route: TopicRoute, ways: Iterable[TopicRoute]) -> int | None:
    """Return the number of partitions over which rows are distributed in topics of these tables."""
    sharing = [other.partitions or 0 for other in ways if _share_topics(route, other)]
    return max([route.partitions or 0, *sharing]) or None


def _mixed(rest: TopicRoute, rules: Sequence[TopicRoute]) -> Iterator[Problem]:
    """Find rules that distribute rows in a topic whose other rows keep the source's partitions, or the
    reverse: a watermark of one source partition would be written among rows of others.
    """
    for at, rule in enumerate(rules):
        others = [other for other in (rest, *rules[:at]) if _share_topics(rule, other)]
        if any((other.partitions is None) != (rule.partitions is None) for other in others):
            message = (
                "the topic would mix rows that are repartitioned with rows that keep the source's partitions"
            )
            hint = "give the rule a separate topic, or set partitions for the others, too"
            yield Problem(f"target.topics.{at}.partitions", message, hint)


def _route(rule: TopicRule, rest: TopicRoute | None, path: str, problems: list[Problem]) -> TopicRoute:
    """Parse a rule; missing members come from `rest` (None: the rule is the default)."""
    match, template = None, _UNREADABLE
    if rest is not None:
        try:
            match = TableGlob.parse(rule.match)
        except ValueError as error:
            problems.append(Problem(f"{path}.match", f"{quoted(rule.match)} {error}"))
    try:
        template = TopicTemplate.parse(rule.topic) if rule.topic or rest is None else rest.topic
    except ValueError as error:
        hint = "letters, digits, . _ - and the placeholders {topic}, {database}, {table}"
        problems.append(Problem(f"{path}.topic", str(error), hint))
    partitions = rule.partitions
    if rest is not None and partitions is None and rule.partition_by is not Partitioning.SOURCE:
        partitions = rest.partitions
    by = _partitioning(rule, rest, partitions)
    problems += _key_problems(rule, by, path)
    problems += _partitioning_problems(by, partitions, path)
    return TopicRoute(template, partitions, by, match, rule.key)


def _partitioning(rule: TopicRule, rest: TopicRoute | None, partitions: int | None) -> Partitioning:
    """Return how rows are distributed: by the rule, by its key, like `rest`, or by the default."""
    if rule.partition_by is not None:
        return rule.partition_by
    if rule.key and partitions is not None:
        return Partitioning.KEY
    if rest is not None and rest.by is not Partitioning.SOURCE:
        return rest.by
    return Partitioning.SOURCE if partitions is None else Partitioning.INDEX_VALUE


def _partitioning_problems(by: Partitioning, partitions: int | None, path: str) -> Iterator[Problem]:
    """Find contradictions between a number of partitions and a method."""
    if partitions is None and by is not Partitioning.SOURCE:
        yield Problem(
            f"{path}.partition_by", f"{by} needs a number of partitions", "give a number of partitions, too"
        )
    if partitions is not None and by is Partitioning.SOURCE:
        hint = "leave their number out, or choose another way to partition rows"
        yield Problem(f"{path}.partition_by", f"{by} keeps the source's partitions", hint)


def _key_problems(rule: TopicRule, by: Partitioning, path: str) -> Iterator[Problem]:
    """Find problems of a rule's key. `by`: how its rows are distributed."""
    if rule.key and by is Partitioning.INDEX_VALUE:
        message = f"{by} would spread the rows of one key over several partitions"
        yield Problem(f"{path}.partition_by", message, "leave it out, or use key or table")
    if len(set(rule.key)) < len(rule.key):
        yield Problem(f"{path}.key", "a column is named twice", "name each once")


_UNREADABLE: Final = TopicTemplate("", ())
