"""Find settings of a valid configuration without effect or with unwanted effects, by key."""

from __future__ import annotations

from collections.abc import Iterator

from relay.codecs import codec_named
from relay.config.checks import route_path
from relay.config.config import Config
from relay.core.config_lint import advice
from relay.model.errors import Problem


def config_advice(config: Config) -> list[Problem]:
    """Return the advice about a configuration; see `relay.core.config_lint`."""
    route, target = config.route, config.target
    found = advice(
        route.to,
        route.to_options,
        topic=target.topic,
        sources=config.source.topics,
        rules=config.topic_rules,
        include_tables=route.include_tables,
        exclude_tables=route.exclude_tables,
        include_events=route.include_events,
        exclude_events=route.exclude_events,
    )
    return [*(problem._replace(path=_key(problem.path)) for problem in found), *_unread_ddl(config)]


def _unread_ddl(config: Config) -> Iterator[Problem]:
    """Yield a problem if processes never learn of DDL that others read."""
    source = codec_named(config.route.from_, "from")
    if config.delivery.processes == 1 or config.history_topic:
        return
    if source.decodes.ddl and not source.ddl_everywhere:
        message = (
            f"the DDL of {config.route.from_} is in one partition only, and without a history_topic only "
            "the process that reads it knows it: the others translate rows with inferred types"
        )
        yield Problem("delivery.processes", message, "set history_topic in [schema]")


def _key(path: str) -> str:
    return path if path.startswith("target.") else route_path(path)
