"""Checks that concern several keys of a configuration, or the rules of the codecs and of Kafka."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from typing import Final

from pydantic import BaseModel

from relay.codecs import codec_named
from relay.config.addresses import is_host, parse_server, same_brokers, split_servers
from relay.config.config import Config, partitioning
from relay.config.keys import FileFormat, RouteConfig, SecurityConfig, Wait
from relay.config.registries import config_registry_problems
from relay.config.wiring import hash_key, translator_of
from relay.core.config_lint import advice
from relay.core.selection import chosen_tables, left_out_kinds
from relay.core.translator import Translator
from relay.io.storage import storage_problems
from relay.model.errors import ConfigError, Problem
from relay.routing import routing_problems
from relay.text.redaction import quoted

#: Maximum time that relay waits for the answer to a request, which may follow a failed delivery.
_ANSWER_SECONDS = 30
#: Maximum time that relay waits for the brokers when a consumer starts, besides the rebalance of the group.
_CONNECT_SECONDS = 30
#: By how much a round of records may extend a transaction after its interval.
_ROUND_SECONDS = 10
_LONGEST_SHOWN = 80
_DIGITS = re.compile(r"[-+]?\d+").fullmatch
#: Texts that may be an address of IPv6.
_HEXADECIMAL = re.compile(r"\[?[0-9a-f]{0,4}(:[0-9a-f]{0,4}){2,7}(%\w+)?\]?(:?\d*)", re.IGNORECASE).fullmatch
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


def config_problems(config: Config) -> list[Problem]:
    """Check the tables against each other."""
    checks = (
        _placeholder_problems,
        _address_problems,
        _selection_problems,
        _rule_problems,
        _choice_problems,
        _topic_problems,
        _own_topic_problems,
        _mode_problems,
        _transaction_problems,
        _target_problems,
        _waiting_problems,
        _deduplication_problems,
        _process_problems,
        _end_problems,
        _tracing_problems,
        config_registry_problems,
    )
    return [problem for check in checks for problem in check(config)]


def _selection_problems(config: Config) -> Iterator[Problem]:
    route = config.route
    for read, first, second in (
        (chosen_tables, route.include_tables, route.exclude_tables),
        (left_out_kinds, route.include_events, route.exclude_events),
    ):
        try:
            read(first, second)
        except ConfigError as error:
            yield from (problem._replace(path=route_path(problem.path)) for problem in error.problems)


def _rule_problems(config: Config) -> Iterator[Problem]:
    if config.backfill.output_format is not FileFormat.ROWS:
        return
    if config.route.rows:
        message = "row rules do not apply to tables of rows, which have all rows of the source"
        yield Problem("route.rows", message, "leave them out, and select rows where they are read")
    if config.route.columns:
        message = "column rules do not apply to tables of rows, which have all columns of the source"
        yield Problem("route.columns", message, "leave them out, and select columns where the rows are read")
    if config.route.tables:
        message = "table rules do not apply to tables of rows, which have the source's names"
        yield Problem("route.tables", message, "leave them out, and name the tables where the rows are read")


def route_problems(route: RouteConfig | None) -> list[Problem]:
    """Check codec names and options, also if other tables are wrong, so that one run shows all problems."""
    if route is None:
        return []
    try:
        translator = Translator(
            route.from_,
            route.to,
            route.from_options,
            route.to_options,
            columns=route.column_rules,
            hash_key=hash_key(route),
            rows=route.row_rules,
            tables=route.table_rules,
            deduplicate=route.deduplicate,
        )
        problems = storage_problems(translator.route.storages)
    except ConfigError as error:
        problems = error.problems
    found = [problem._replace(path=route_path(problem.path)) for problem in problems]
    return [*found, *_storage_path_problems(route)]


def route_path(path: str) -> str:
    """Translate a path of the core (`from.option.x`) to the key in the file (`route.from_options.x`)."""
    if path.startswith("route."):
        return path
    if path.startswith(("include_", "exclude_", "columns.", "rows.", "tables.", "deduplicate")):
        return f"route.{path}"
    side, _, rest = path.partition(".option")
    return f"route.{side}_options{rest}" if rest else f"route.{side}"


def _storage_path_problems(route: RouteConfig) -> Iterator[Problem]:
    for side, options in (("from_options", route.from_options), ("to_options", route.to_options)):
        for name, value in options.items():
            if name.endswith("-uri") and "\0" in value:
                yield Problem(f"route.{side}.{name}", "contains a NUL character, which paths cannot have")


#: Placeholders of other programs for the value of a variable.
_PLACEHOLDER: Final = re.compile(r"\$\{[A-Za-z_][^{}]*\}|\$\([A-Za-z_]\w*\)|\{\{[^{}]*\}\}").search


def _placeholder_problems(config: Config) -> Iterator[Problem]:
    """Find unreplaced placeholders: relay replaces nothing in its file."""
    for path, text in _texts_of(config):
        if _PLACEHOLDER(text):
            variable = f"RELAY_{'__'.join(path).upper()}".replace("-", "_")
            message = "contains a placeholder, and relay does not expand variables in its file"
            hint = f"put the value there, or leave the key out and set {variable} in the environment"
            yield Problem(".".join(path), message, hint)


def _texts_of(table: BaseModel, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield every text of a configuration except secrets, with its key; those of lists and tables, too."""
    for name, field in type(table).model_fields.items():
        key, value = (*path, field.alias or name), getattr(table, name)
        if isinstance(value, BaseModel):
            yield from _texts_of(value, key)
        elif isinstance(value, dict):
            yield from (((*key, str(inner)), text) for inner, text in value.items() if isinstance(text, str))
        elif isinstance(value, tuple):
            yield from ((key, text) for text in value if isinstance(text, str))
        elif isinstance(value, str):
            yield key, value


def _tracing_problems(config: Config) -> Iterator[Problem]:
    if config.tracing.enabled and not _is_installed("opentelemetry.exporter.otlp.proto.http"):
        message = "needs the libraries opentelemetry-sdk and opentelemetry-exporter-otlp-proto-http"
        hint = "pip install '.[tracing]' in relay's folder; the image has them"
        yield Problem("tracing.enabled", message, hint)


def _is_installed(module: str) -> bool:
    """Return whether a module can be found; only the packages that contain it are imported."""
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _address_problems(config: Config) -> Iterator[Problem]:
    clusters = {"source": config.source.bootstrap_servers, "target": config.target.bootstrap_servers}
    for table, servers in clusters.items():
        for number, server in enumerate(split_servers(servers) if servers else (), 1):
            try:
                parse_server(server)
            except ValueError as fault:
                # It may be a URL with a password, which commas split into several pieces.
                shown = _shown_server(server, number) if "@" not in servers else f"server {number}"
                message, hint = f"{shown} {fault}", "write host:port, several with commas between them"
                yield Problem(f"{table}.bootstrap_servers", message, hint)
    if not is_host(config.http.host):
        hint = "such as 127.0.0.1, 0.0.0.0 or ::"
        yield Problem("http.host", f"{quoted(config.http.host)} is not a host address", hint)


def _shown_server(server: str, number: int) -> str:
    """Return the server in quotes. A password may follow a colon: only a number is shown there."""
    host, colon, port = server.rpartition(":")
    if _HEXADECIMAL(server) or not port or _DIGITS(port):
        shown = server
    else:
        shown = f"{host}{colon}…" if colon else server
    if ":" in host and not (_HEXADECIMAL(server) or "[" in host or "://" in host):
        return f"server {number}"
    return repr(shown if len(shown) <= _LONGEST_SHOWN else shown[:_LONGEST_SHOWN] + "…")


def _end_problems(config: Config) -> Iterator[Problem]:
    """Find keys of `end_offsets` that would be ignored, so that everything would be read."""
    for name in config.backfill.end_offsets:
        if not config.source.has_partition(name):
            message = f'"{name}" is not the partition of a source topic'
            yield Problem("backfill.end_offsets", message, 'partitions are written "topic/0"')


def _topic_problems(config: Config) -> list[Problem]:
    target = config.target
    by = partitioning(target.partition_by)
    problems = routing_problems(target.topic, config.target_partitions, by, config.topic_rules)
    for name in config.source.topics:
        problems += _source_name_problems(name)
    if problems:
        return problems
    try:
        translator_of(config)
    except ConfigError as error:
        # Problems of [route] are reported separately.
        problems += [problem for problem in error.problems if problem.path.startswith("target.")]
    for name in config.fixed_topics:
        problems += _name_problems(_target_path(config, name), name)
    problems += _pattern_problems(config)
    looping = sorted(set(config.fixed_topics) & set(config.source.topics))
    if looping and same_brokers(config.source.bootstrap_servers, config.target_servers):
        hint = "name another topic, for example {topic}." + config.route.to
        message = f"relay would read what it writes: {', '.join(looping)} is also a source topic"
        problems.append(Problem(_target_path(config, looping[0]), message, hint))
    return problems


def _choice_problems(config: Config) -> Iterator[Problem]:
    """Check that topics are named, or chosen by a pattern."""
    source = config.source
    if source.topics and source.topics_pattern:
        yield Problem("source.topics_pattern", "is given, and so is topics", "keep one of them")
    elif not source.topics and not source.topics_pattern:
        yield Problem("source.topics", "is missing", "name the topics to read, or give a topics_pattern")
    if source.exclude_topics_pattern and not source.topics_pattern:
        yield Problem("source.exclude_topics_pattern", "has no effect without topics_pattern", "leave it out")


def _pattern_problems(config: Config) -> Iterator[Problem]:
    """Find settings that `topics_pattern` does not allow."""
    if not config.source.topics_pattern:
        return
    if config.is_one_cluster and any(template.text == "{topic}" for template, _ in config.templates):
        message = "relay would read what it writes: the topics of topics_pattern are also the target topics"
        yield Problem("target.topic", message, "name another topic, for example {topic}." + config.route.to)
    if config.backfill.input:
        message = "chooses topics of the brokers, and the records come from files"
        yield Problem("source.topics_pattern", message, "name the topics of the records in topics")
    try:
        needs_all = translator_of(config).needs_all_partitions
    except ConfigError:
        # Reported separately.
        return
    if needs_all:
        message = (
            "`partitions` in [target] repartitions rows, and their watermarks are correct only if all source "
            "topics are known: a topic that is found later has older rows"
        )
        hint = 'name the topics, or leave out watermarks (watermarks = "drop" in [target])'
        yield Problem("source.topics_pattern", message, hint)


def _target_path(config: Config, name: str) -> str:
    """Return the key that a target topic comes from: that of the rules if it matches no other."""
    return "target.topic" if name in config.target_topics.values() else "target.topics"


#: Characters that patterns of topics have, and names do not.
_PATTERN: Final = re.compile(r"[*?^$|()\[\]{}\\+]").search


def _source_name_problems(name: str) -> Iterator[Problem]:
    """Check the name of a source topic, which may be intended as a pattern."""
    if _PATTERN(name):
        message = f"{quoted(name)} is a pattern, and topics are names"
        yield Problem("source.topics", message, "name each topic, or give a topics_pattern instead")
    else:
        yield from _name_problems("source.topics", name)


def _name_problems(path: str, name: str) -> Iterator[Problem]:
    if not _TOPIC_NAME.fullmatch(name) or name in {".", ".."}:
        hint = "Kafka allows up to 249 letters, digits, dots, underscores and hyphens"
        yield Problem(path, f"{quoted(name)} is not a topic name", hint)


def _own_topic_problems(config: Config) -> Iterator[Problem]:
    """Check the topics that relay keeps besides the target's: each must be different."""
    taken = {
        **dict.fromkeys(config.source.topics, "source.topics"),
        **{name: _target_path(config, name) for name in _fixed_topics(config)},
    }
    for path, name in config.own_topics.items():
        wrong = list(_name_problems(path, name))
        yield from wrong
        if name in taken and not wrong:
            yield Problem(path, f"{name} is also in {taken[name]}", "name another topic")
        taken[name] = path


def _fixed_topics(config: Config) -> Iterable[str]:
    """Return the target topics that do not depend on tables; none if they cannot be determined."""
    try:
        return config.fixed_topics
    except ConfigError:
        return ()


def _mode_problems(config: Config) -> Iterator[Problem]:
    delivery = config.delivery
    if not config.is_exactly_once and (delivery.shards > 1 or delivery.transactional_id):
        yield Problem(
            "delivery.mode", "shards and transactional_id are for exactly-once", 'set mode = "exactly-once"'
        )
    if config.is_exactly_once and config.source.group_instance_id:
        hint = "leave it out: the shard is the instance"
        yield Problem(
            "source.group_instance_id",
            "exactly-once does not join the group, its shards have fixed partitions",
            hint,
        )
    if config.schema.wait_for_ddl is Wait.TRUE and not config.history_topic:
        yield Problem("schema.wait_for_ddl", "needs a schema history", "set history_topic in [schema]")


def _deduplication_problems(config: Config) -> Iterator[Problem]:
    """Find a route that drops repeats of rows which a repeated statement may then remove from the target."""
    if not config.route.deduplicate or config.waits_for_ddl:
        return
    if codec_named(config.route.from_, "from").sends_ddl_once:
        message = (
            f"rows must wait for DDL, because that of {config.route.from_} is in one partition only: a "
            "repeated TRUNCATE could otherwise remove rows whose repeats were dropped"
        )
        hint = "set history_topic in [schema], and leave out wait_for_ddl"
        yield Problem("route.deduplicate", message, hint)


def _process_problems(config: Config) -> Iterator[Problem]:
    """Find settings that require a single process, which sees all of the source."""
    if config.delivery.processes == 1:
        return
    try:
        needs_all = translator_of(config).needs_all_partitions
    except ConfigError:
        # Reported separately.
        return
    if needs_all:
        message = (
            "`partitions` in [target] repartitions rows, and watermarks are correct only if one process "
            "reads "
            "all of the source"
        )
        hint = 'set it to 1, or leave out watermarks (watermarks = "drop" in [target])'
        yield Problem("delivery.processes", message, hint)


def _transaction_problems(config: Config) -> Iterator[Problem]:
    delivery = config.delivery
    most = delivery.transaction_timeout_seconds - _ROUND_SECONDS
    if config.is_exactly_once and delivery.transaction_interval_seconds >= most:
        interval = f"{delivery.transaction_interval_seconds:g} s"
        message = f"is {interval}, and the brokers abort a transaction of that length"
        yield Problem("delivery.transaction_interval_seconds", message, f"set it to less than {most:g}")


def _target_problems(config: Config) -> Iterator[Problem]:
    target = config.target
    if not target.bootstrap_servers and target.security != SecurityConfig():
        hint = "leave [target.security] out, or set bootstrap_servers in [target]"
        yield Problem(
            "target.security", "the target is the source's cluster, so [source.security] applies", hint
        )
    if not target.create_topics and (target.create_settings or target.create_replication_factor != -1):
        yield Problem(
            "target.create_topics",
            "is off, so these settings have no effect",
            "set create_topics = true",
        )


def _waiting_problems(config: Config) -> Iterator[Problem]:
    """Check that the stall time is longer than any wait, which relay would otherwise mistake for a bug."""
    delivery = config.delivery
    waits = {
        f"delivery.delivery_timeout_seconds and {_ANSWER_SECONDS} s for an answer": (
            delivery.delivery_timeout_seconds + _ANSWER_SECONDS
        ),
        "delivery.drain_timeout_seconds": delivery.drain_timeout_seconds,
    }
    if not config.is_exactly_once:
        name = f"source.rebalance_timeout_ms and {_CONNECT_SECONDS} s to connect"
        waits[name] = config.source.rebalance_timeout_ms / 1000 + _CONNECT_SECONDS
    name, longest = max(waits.items(), key=lambda item: item[1])
    if delivery.stall_timeout_seconds <= longest:
        message = (
            f"is {delivery.stall_timeout_seconds:g} s, and relay may legitimately wait as long: {name}, "
            f"{longest:g} s"
        )
        yield Problem("delivery.stall_timeout_seconds", message, f"set it to more than {longest:g}")


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
    if source.sends_ddl_once:
        message = (
            f"the DDL of {config.route.from_} is in one partition only, and without a history_topic only "
            "the process that reads it knows it: the others translate rows with inferred types"
        )
        yield Problem("delivery.processes", message, "set history_topic in [schema]")


def _key(path: str) -> str:
    return path if path.startswith("target.") else route_path(path)
