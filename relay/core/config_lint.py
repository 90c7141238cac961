"""Finds valid settings that may be mistakes: options, rules and globs without effect, and shared topics.

The functions are pure; the settings must have passed validation. Paths are those of `Route.parse`,
`routing_problems` and `relay.core.selection`: `to.option.NAME`, `target.topic`, `target.topics.N`,
`include_tables`. Settings whose effect depends on the records are not reported, because a setting may be
useless for one source and useful for another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from relay.codecs import codec_named
from relay.codecs.given_options import idle_options
from relay.core.selection import chosen_tables
from relay.model.errors import Problem
from relay.model.events import TableId
from relay.model.table_globs import TableFilter, TableGlob
from relay.routing import TopicRule
from relay.routing.topic_names import DATABASE, TABLE, TopicTemplate
from relay.text.redaction import quoted

_NONE: Final = "has no effect"


def advice(  # noqa: PLR0913 - the parts of a route
    target: str,
    options: Mapping[str, str],
    *,
    topic: str = "{topic}",
    sources: Sequence[str] = ("topic",),
    rules: Sequence[TopicRule] = (),
    include_tables: Sequence[str] = (),
    exclude_tables: Sequence[str] = (),
    include_events: Sequence[str] = (),
    exclude_events: Sequence[str] = (),
) -> list[Problem]:
    """Return the possible mistakes of a route to `target`, in the order of the settings.

    `sources`: the topics that are read, as far as they are known.
    """
    chosen = chosen_tables(include_tables, exclude_tables) or TableFilter()
    return [
        *idle_options(codec_named(target, "to"), options, "to.option"),
        *_shared_topics("target.topic", topic, sources),
        *_rules(rules, sources, chosen),
        *_table_globs(chosen),
        *_kinds(include_events, exclude_events),
    ]


# ---------------------------------------------------------------- topics


def _shared_topics(path: str, text: str, sources: Sequence[str]) -> Iterator[Problem]:
    """Yield a problem if a template may assign one topic to two tables."""
    template = TopicTemplate.parse(text)
    if not template.may_be_shared(sources):
        return
    which = "tables of different source topics may share one topic"
    for (_, first), (between, second) in pairwise(template.pieces):
        if {first, second} == {DATABASE, TABLE} and "." not in between:
            pairs = (f"a{between}b", "c"), ("a", f"b{between}c")
            one, other = (pair if first == DATABASE else pair[::-1] for pair in pairs)
            which = f"{one[0]!r}.{one[1]!r} and {other[0]!r}.{other[1]!r} would share one topic"
    message = f"{which}: the second table to appear is refused, and after a restart that may be the other one"
    yield Problem(path, message, f"put a dot between the names, such as {template.with_dots()}")


def _rules(rules: Sequence[TopicRule], sources: Sequence[str], chosen: TableFilter) -> Iterator[Problem]:
    globs = [TableGlob.parse(rule.match) for rule in rules]
    for at, (rule, glob) in enumerate(zip(rules, globs, strict=True)):
        path = f"target.topics.{at}"
        before = next((other for other in globs[:at] if other.covers(glob)), None)
        is_last = at == len(rules) - 1
        if before is not None:
            yield Problem(path, f"{_NONE}: the rule for {quoted(before.text)} comes first")
        elif not _may_choose(chosen, glob):
            yield Problem(path, f"{_NONE}: no table that {quoted(glob.text)} matches is chosen")
        elif is_last and not (rule.topic or rule.partitions or rule.partition_by or rule.key):
            yield Problem(path, f"{_NONE}: it gives no topic, partitions or key")
        elif rule.topic and glob.has_wildcards == (True, True):
            yield from _shared_topics(path, rule.topic, sources)


# ---------------------------------------------------------------- selection


def _may_choose(chosen: TableFilter, glob: TableGlob) -> bool:
    """Return whether a table that a glob matches may be selected; if in doubt, True."""
    if any(other.covers(glob) for other in chosen.exclude):
        return False
    return _may_be_included(chosen, glob)


def _may_be_included(chosen: TableFilter, glob: TableGlob) -> bool:
    if not chosen.include or any(glob.has_wildcards):
        return True
    database, _, table = glob.text.partition(".")
    return any(each.matches(TableId(database, table)) for each in chosen.include)


def _table_globs(chosen: TableFilter) -> Iterator[Problem]:
    for glob in chosen.include:
        other = next((each for each in chosen.exclude if each.covers(glob)), None)
        if other is not None:
            why = f"{quoted(other.text)}, which is excluded, leaves none of its tables"
            yield Problem("include_tables", f"{quoted(glob.text)} {_NONE}: {why}")
    for at, glob in enumerate(chosen.exclude):
        others = [*chosen.exclude[:at], *chosen.exclude[at + 1 :]]
        other = next((each for each in others if each.covers(glob) and each.text != glob.text), None)
        if other is not None:
            yield Problem(
                "exclude_tables", f"{quoted(glob.text)} {_NONE}: {quoted(other.text)} is excluded, too"
            )
        elif not _may_be_included(chosen, glob):
            yield Problem("exclude_tables", f"{quoted(glob.text)} {_NONE}: it is not included")


def _kinds(include: Sequence[str], exclude: Sequence[str]) -> Iterator[Problem]:
    for name in dict.fromkeys(include):
        if name in exclude:
            yield Problem("include_events", f"{quoted(name)} {_NONE}: it is excluded, too")
    for name in dict.fromkeys(exclude):
        if include and name not in include:
            yield Problem("exclude_events", f"{quoted(name)} {_NONE}: it is not included")
