"""`relay check`: the effect of a configuration and, with `--connect`, whether the brokers allow it."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from relay.catalog import Catalog
from relay.cli import layout
from relay.cli.check_rules import has_rules, rule_lines
from relay.cli.exits import say_warning
from relay.cli.requests.route import CheckRequest
from relay.codecs import codec_named
from relay.codecs.codec import own_ddl
from relay.config import Config
from relay.config.checks import config_advice
from relay.config.kafka import source_cluster, target_cluster
from relay.config.keys import PartitionBy, RouteConfig, SourceConfig, Target, TopicRuleConfig
from relay.config.loading import examine
from relay.config.registries import resolver_of
from relay.config.wiring import load_schema_dumps, translator_of
from relay.core.summaries import MOST_NAMES
from relay.io.kafka.clients import Clusters
from relay.model.errors import ConfigError, Problem, ServiceError
from relay.service.check import CheckState
from relay.service.check.registries import registry_findings
from relay.service.check.route import preflight, rows_do_not_wait
from relay.service.commands.offline import learned_translator
from relay.text.redaction import plural, printable, shown_option
from relay.topics.matching import with_found_topics

_INDENT: Final = " " * 8
#: Prefix of the keys of files that are needed to determine a configuration's effect.
_READ_HERE: Final = "schema."
_NEEDED: Final = "`relay run` needs it in its own environment, and exits with status 2 without it"
NOT_TESTED = "nothing was written: quotas, disk space and in-sync replicas of the target are not tested"


def check(request: CheckRequest) -> int:
    """Print the effect of a configuration, and warnings about settings without effect.

    With `connect`, also print the brokers' answers. Certificates and secrets may be on another machine:
    problems with them are warnings, and errors with `connect`, which needs them. Returns the exit status.
    Raises ConfigError with every problem.
    """
    connect = request.connect
    settings = request.config.with_keys(delivery__processes=request.processes)
    found = examine(request.config.file, settings, file_problems)
    config = found.config
    elsewhere = [] if connect else [each for each in found.more if not each.path.startswith(_READ_HERE)]
    for problem in elsewhere:
        say_warning(str(problem._replace(hint=_NEEDED)))
    problems = [*found.problems, *(each for each in found.more if each not in elsewhere)]
    if problems or config is None:
        raise ConfigError(problems)
    dumped = load_schema_dumps(config, Catalog())
    about = printable(summary(config, dumped.tables), "\n", longest=None)
    _write(["configuration is valid", *about.split("\n")])
    for problem in config_advice(config):
        say_warning(str(problem))
    for message in dumped.problems[:MOST_NAMES]:
        say_warning(f"schema.schema_dumps: {message}")
    if not connect:
        translator = translator_of(config)
        translator.catalog = dumped.catalog
        _write(rule_lines(config, translator))
        return 0
    clusters = Clusters.from_settings(source_cluster(config), target_cluster(config))
    findings = asyncio.run(preflight(config, clusters))
    config = _with_topics(config, clusters)
    findings += registry_findings(config)
    counts = Counter(finding.state for finding in findings)
    total = ", ".join(f"{counts[state]} {state}" for state in CheckState)
    _write(["", *(printable(str(finding)) for finding in findings), "", f"{total}; {NOT_TESTED}"])
    if has_rules(config) and not counts[CheckState.FAILED]:
        _write([""])
        _write(rule_lines(config, asyncio.run(learned_translator(config)).translator))
    return ServiceError.exit_status if counts[CheckState.FAILED] else 0


def _with_topics(config: Config, clusters: Clusters) -> Config:
    """Return the configuration with the topics that its pattern matches, if the brokers answer."""
    try:
        return asyncio.run(with_found_topics(config, clusters.source))
    except ServiceError:
        return config  # a finding says so


def _write(lines: Iterable[str]) -> None:
    """Print lines; for a terminal, wrap them between words, with a hanging indent."""
    columns = layout.width()
    for line in lines:
        for part in layout.wrapped(line, "", _INDENT, columns):
            sys.stdout.write(f"{part}\n")


def summary(config: Config, defined: int = 0) -> str:
    """Describe the route in a few lines. `defined`: how many tables dumps define."""
    route, source, target = config.route, config.source, config.target
    pairs = [f"  {name} → {target_name}" for name, target_name in config.target_topics.items()]
    if source.topics_pattern:
        pairs = [f"  {_matching(source)} → {target.topic}"]
    reads = f"{route.from_}{_options(route.from_options)} at {source.bootstrap_servers}"
    writes = f"{route.to}{_options(route.to_options)} at {config.target_servers}"
    pairs += [f"  {_rule(rule, target)}" for rule in target.topics]
    spread = _spread(target.partitions, target.partition_by)
    lines = [
        f"from    {reads}, group {source.group_id}",
        f"to      {writes}, {spread}",
        f"ddl     {_ddl(config)}",
        *_chosen(route),
        *_schema_dumps(config, defined),
        *_processes(config),
    ]
    return "\n".join([*lines, "topics", *pairs])


def _matching(source: SourceConfig) -> str:
    """Describe the topics that a pattern chooses."""
    without = f", without {source.exclude_topics_pattern}" if source.exclude_topics_pattern else ""
    return f"all that match {source.topics_pattern}{without}"


#: How rows are partitioned, as text.
_GOES_BY: Final = {
    "table": "table",
    "key": "the record's key, as Kafka's clients do",
}


def _spread(partitions: int, by: PartitionBy) -> str:
    """Return how rows are spread, as text."""
    if not partitions or by is PartitionBy.SOURCE:
        return "in the partition of their source"
    return f"spread over {plural(partitions, 'partition')} by {_GOES_BY.get(by, 'primary key')}"


def _rule(rule: TopicRuleConfig, target: Target) -> str:
    """Describe a rule for the topics of some tables; unset keys take the values of [target]."""
    by = rule.partition_by
    if by is PartitionBy.AUTO:
        by = PartitionBy.KEY if rule.key else target.partition_by
    is_as_above = not rule.partitions and by is target.partition_by
    if rule.partitions and by is PartitionBy.SOURCE:
        by = PartitionBy.AUTO
    spread = "" if is_as_above else f", {_spread(rule.partitions or target.partitions, by)}"
    key = f", key {', '.join(rule.key)}" if rule.key else ""
    return f"{rule.match} → {rule.topic or 'as above'}{spread}{key}"


def _chosen(route: RouteConfig) -> Iterator[str]:
    """Yield the chosen tables and events, unless all are."""
    for what, included, excluded in (
        ("tables", route.include_tables, route.exclude_tables),
        ("events", route.include_events, route.exclude_events),
    ):
        if included or excluded:
            without = f", without {', '.join(excluded)}" if excluded else ""
            yield f"{what:7} {', '.join(included) or 'all'}{without}"


def _schema_dumps(config: Config, defined: int) -> Iterator[str]:
    """Yield the definitions that relay begins with."""
    if config.schema.schema_dumps:
        yield f"tables  {defined} defined by {', '.join(config.schema.schema_dumps)}"


def _processes(config: Config) -> Iterator[str]:
    """Yield the effect of several processes."""
    processes = config.of_processes
    if len(processes) > 1:
        shards = ", ".join(str(each.delivery.shard) for each in processes)
        are = "each a member of the group"
        if config.is_exactly_once:
            are = f"shards {shards} of {processes[0].delivery.shards}"
        yield f"work    of {len(processes)} processes, {are}"


def _ddl(config: Config) -> str:
    """Return where the source has its DDL, and the handling of rows that come before it."""
    source = codec_named(config.route.from_, "from")
    if not source.decodes.ddl:
        return "none in the source"
    waits, rows = config.waits_for_ddl, "rows of other partitions"
    if source.ddl_everywhere:
        return "in every partition of the source; " + (
            f"{rows} wait for that of partition 0" if waits else "rows do not wait"
        )
    of_others = Counter(first for topic, first in config.ddl_topics.items() if first != topic)
    where = "in partition 0 alone"
    if of_others:
        rows, where = "rows", _ddl_topics(of_others, len(config.source.topics))
    elif source.ddl_topics is not own_ddl and config.source.topics_pattern:
        where = "in partition 0 of each topic, or of the topic that has the DDL of others"
    elif source.ddl_topics is not own_ddl:
        where = "in partition 0 of each topic, none of which has the DDL of another"
    return f"{where}; " + (f"{rows} wait for it" if waits else rows_do_not_wait(config, rows))


def _ddl_topics(of_others: Counter[str], topics: int) -> str:
    """Return the topics that have the DDL of others.

    `of_others`: the number of topics whose DDL each has; `topics`: the total number.
    """
    parts = [
        f"in {name} for {count} other topic{'s'[: count > 1]}" for name, count in sorted(of_others.items())
    ]
    if of_others.total() + len(of_others) < topics:
        parts.append("in partition 0 alone for the rest")
    return ", ".join(parts)


def _options(options: dict[str, str]) -> str:
    if not options:
        return ""
    shown = {name: shown_option(name, value) for name, value in options.items()}
    return " (" + ", ".join(f"{name}={value}" for name, value in sorted(shown.items())) + ")"


def file_problems(config: Config) -> Iterator[Problem]:
    """Find files that are missing, unreadable, or of the wrong content."""
    reads: tuple[Callable[[], object], ...] = (
        lambda: Clusters.from_settings(source_cluster(config), target_cluster(config)),
        lambda: resolver_of(config),
        lambda: load_schema_dumps(config, Catalog()),
    )
    for read in reads:
        try:
            read()
        except ConfigError as error:
            yield from error.problems
