"""The arguments of the functions over DataFrames, as a configuration; errors name the arguments.

No environment variable and no file has an effect: `Config` is made of its tables alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ValidationError

from relay.config import Config
from relay.config.checks import route_problems
from relay.config.keys import (
    Backfill,
    Errors,
    FileFormat,
    RouteConfig,
    SchemaHistory,
    SchemaRegistryConfig,
    SourceConfig,
    Target,
    TargetSchemaRegistry,
)
from relay.config.registries import config_registry_problems
from relay.config.wiring import translator_of
from relay.core.error_policies import ERROR_CLASSES, Policy
from relay.model.errors import ConfigError, Problem
from relay.text.hints import hint_for
from relay.text.redaction import quoted

#: Placeholder topic of failed records with on_error="column"; Kafka allows no such name.
FAILED: Final = "failed records"
#: Arguments whose names differ from the keys of the configuration.
_ARGUMENTS: Final[Mapping[str, str]] = {
    "from": "source",
    "to": "target",
    "from_options": "source_options",
    "to_options": "target_options",
    "input": "df",
    **dict.fromkeys(ERROR_CLASSES, "on_error"),
}
_TABLES: Final = ("route", "source", "target", "errors", "backfill")


class OnError(StrEnum):
    """The handling of a record that cannot be translated.

    The query ends (`stop`), the record is left out (`skip`), or it becomes a dead letter among the results
    (`dead-letter`), or a row without a topic, with an error (`column`).
    """

    STOP = "stop"
    SKIP = "skip"
    DEAD_LETTER = "dead-letter"
    COLUMN = "column"


class Policies(NamedTuple):
    """The arguments about failed records."""

    on_error: str = OnError.STOP
    dead_letter_topic: str = ""
    group_id: str = ""


class Registries(NamedTuple):
    """The keys of [source.schema_registry] and [target.schema_registry]."""

    source: Mapping[str, Any] | None = None
    target: Mapping[str, Any] | None = None


STOPPING: Final = Policies()
NO_REGISTRIES: Final = Registries()


def config_of(
    route: Mapping[str, Any],
    target: Mapping[str, Any],
    registries: Registries = NO_REGISTRIES,
    policies: Policies = STOPPING,
) -> Config:
    """Return the configuration with these tables. Raises ConfigError."""
    problems: list[Problem] = []
    reading = _table(SchemaRegistryConfig, registries.source or {}, problems, "source_registry.")
    writing = _table(TargetSchemaRegistry, registries.target or {}, problems, "target_registry.")
    source: dict[str, Any] = {"bootstrap_servers": "", "topics": (), "group_id": policies.group_id}
    tables: dict[str, Any] = {
        "route": _table(RouteConfig, route, problems),
        "target": _table(Target, {**target, "schema_registry": writing or {}}, problems),
        "errors": _errors(policies.on_error, policies.dead_letter_topic, problems),
        "source": SourceConfig.model_construct(**source, schema_registry=reading),
        "schema": SchemaHistory(history_topic=""),
        # Nothing is written here. PARQUET makes tasks refuse timestamps that Spark cannot hold.
        "backfill": Backfill(output="a DataFrame", output_format=FileFormat.PARQUET),
    }
    problems += [_of_argument(each) for each in route_problems(tables["route"])]
    if problems:
        raise ConfigError(problems)
    config = Config.model_construct(**tables)
    _check(config)
    return config


def arguments_named(error: ConfigError) -> ConfigError:
    """Return an error about keys of the configuration as one about arguments."""
    return ConfigError([_of_argument(each) for each in error.problems])


def without_logins(config: Config) -> Config:
    """Return the configuration as tasks need it: they do not ask registries."""
    source, target = config.source, config.target
    reading = SchemaRegistryConfig(urls=source.schema_registry.urls)
    writing = TargetSchemaRegistry(urls=target.schema_registry.urls)
    return config.model_copy(
        update={
            "source": source.model_copy(update={"schema_registry": reading}),
            "target": target.model_copy(update={"schema_registry": writing}),
        }
    )


def _table(kind: type[BaseModel], keys: Mapping[str, Any], problems: list[Problem], prefix: str = "") -> Any:
    """Return a table; None, and its problems, if a key is wrong. `prefix`: of the keys in the problems."""
    try:
        return kind(**keys)
    except ValidationError as error:
        for each in error.errors(include_url=False, include_context=False, include_input=False):
            path = ".".join(map(str, each["loc"]))
            found = Problem(path, each["msg"].removeprefix("Value error, "))
            problems.append(found._replace(path=prefix + path) if prefix else _of_argument(found))
    return None


def _errors(on_error: str, topic: str, problems: list[Problem]) -> Errors:
    """Return the policies. With `column`, failed records are first dead letters of the topic `FAILED`."""
    choices = [str(each) for each in OnError]
    if on_error not in choices:
        hint = hint_for(str(on_error), choices, f"choices: {', '.join(choices)}")
        problems.append(Problem("on_error", f"{quoted(str(on_error))} is no policy", hint))
        return Errors()
    if (on_error == OnError.DEAD_LETTER) != bool(topic):
        message = "has no effect" if topic else "is missing"
        problems.append(Problem("dead_letter_topic", message, 'it belongs to on_error="dead-letter"'))
        return Errors()
    if on_error == OnError.COLUMN:
        policy, topic = Policy.DEAD_LETTER, FAILED
    else:
        policy = Policy(on_error)
    return Errors(decode=policy, encode=policy, too_large=policy, claim_check=policy, dead_letter_topic=topic)


def _check(config: Config) -> None:
    """Refuse routes that need more than the rows of a DataFrame. Raises ConfigError."""
    try:
        translator = translator_of(config)
    except ConfigError as error:
        raise arguments_named(error) from None
    problems = [_of_argument(each) for each in config_registry_problems(config)]
    if translator.route.joining is not None:
        message = "joins rows of several records, which only the command spark_backfill does"
        problems.append(Problem("target_options.max-batch-size", message, "leave it out"))
    if translator.needs_all_partitions:
        message = "repartitioned rows would need the watermarks of all partitions"
        problems.append(Problem("watermarks", message, 'set it to "drop", or partitions to 0'))
    if problems:
        raise ConfigError(problems)


def _of_argument(problem: Problem) -> Problem:
    path = problem.path
    table, _, key = path.partition(".")
    if table in _TABLES and key:
        path = key
    name, dot, rest = path.partition(".")
    argument = _ARGUMENTS.get(name, name)
    if name == "schema_registry":
        argument = f"{table}_registry"
    return problem._replace(path=f"{argument}{dot}{rest}")
