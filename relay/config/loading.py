"""The relay's configuration: a TOML file, overridden by environment variables, as frozen and typed tables.

`load_config` reports every problem at once, each with its key path and a hint. Precedence: flag > environment
> file > default. A variable is `RELAY_<TABLE>__<KEY>` (`RELAY_SOURCE__GROUP_ID`); lists are written with
commas; the hyphens of a codec's option become underscores
(`RELAY_ROUTE__FROM_OPTIONS__ENABLE_TIDB_EXTENSION`). A new table is one more class here and one more field of
`Config`.
"""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
import warnings
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, SettingsError

from relay.config.checks import config_problems, route_problems, same_brokers
from relay.config.choices import Watermarks
from relay.config.flags import tables_of
from relay.config.keys import is_table, keys_of, type_at
from relay.config.tables import (
    Backfill,
    Delivery,
    Errors,
    Http,
    Route,
    SchemaHistory,
    Security,
    Source,
    Target,
)
from relay.config.variables import BETWEEN, PREFIX, near, stray_variables
from relay.dead_letters import route_name
from relay.errors import ConfigError, Problem
from relay.policies import ErrorPolicy
from relay.translator import Selection, Translator

# The table is called [schema], and a method of pydantic's models, long given up, is called so, too.
warnings.filterwarnings("ignore", message='Field name "schema" in "Config" shadows', category=UserWarning)

#: Kinds of pydantic's errors about numbers that are out of bounds, or not of the right kind.
_ABOUT_NUMBERS = ("greater_than", "less_than", "int_", "float_", "finite_")

_HASH_DIGITS = 8

#: What flags set, for the configuration that is being made.
_flags: ContextVar[Mapping[str, Any]] = ContextVar("flags", default={})  # noqa: B039 - nobody changes it


class _Flags(PydanticBaseSettingsSource):
    def __call__(self) -> dict[str, Any]:
        return dict(_flags.get())

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002 - the library's signature
        return _flags.get().get(field_name), field_name, True


class Config(BaseSettings):
    """The whole configuration."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter=BETWEEN,
        extra="forbid",
        frozen=True,
        enable_decoding=False,
    )

    route: Route
    source: Source
    target: Target
    delivery: Delivery = Delivery()
    errors: Errors = Errors()
    schema: SchemaHistory = SchemaHistory()  # type: ignore[assignment]  # hides a method that pydantic has given up
    http: Http = Http()
    backfill: Backfill = Backfill()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the library's signature
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the library's signature
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Order the sources: flags win over the environment, and that over the file, which comes as
        arguments.
        """
        return _Flags(settings_cls), env_settings, init_settings

    @property
    def target_servers(self) -> str:
        """The brokers of the target topics."""
        return self.target.bootstrap_servers or self.source.bootstrap_servers

    @property
    def is_one_cluster(self) -> bool:
        """Whether one transaction can hold both the target's records and the source's offsets."""
        return not self.target.bootstrap_servers or same_brokers(
            self.source.bootstrap_servers, self.target.bootstrap_servers
        )

    @property
    def target_security(self) -> Security:
        """TLS and SASL of the target: the source's, if both are one cluster."""
        return self.target.security if self.target.bootstrap_servers else self.source.security

    @property
    def target_security_path(self) -> str:
        """The table that this comes from, for messages."""
        return "target.security" if self.target.bootstrap_servers else "source.security"

    @property
    def history_topic(self) -> str:
        """The topic that keeps the table definitions, empty for none."""
        return self.schema.history_topic.replace("{group_id}", _in_topic_names(self.source.group_id))

    @property
    def transactional_id(self) -> str:
        """What fences an older instance of this shard."""
        return f"{self.delivery.transactional_id or self.source.group_id}-{self.delivery.shard}"

    @property
    def target_topics(self) -> dict[str, str]:
        """Source topic → target topic."""
        return {topic: self.target.topic.replace("{topic}", topic) for topic in self.source.topics}

    @property
    def target_partitions(self) -> int | None:
        """Number of target partitions that are written, None to keep the source's partition."""
        return self.target.partitions or None

    @property
    def route_name(self) -> str:
        """What dead letters call this route: consumer group, protocols and target topic.

        Routes that read the same records and share a dead-letter topic differ in one of these.
        """
        route = self.route
        return route_name(f"{self.source.group_id} {route.from_} to {route.to} {self.target.topic}")

    def error_policy(self, dead_letter_partitions: int) -> ErrorPolicy:
        """Return what happens to records that cannot be relayed."""
        topic = self.errors.dead_letter_topic
        return ErrorPolicy(self.errors.by_class, topic, dead_letter_partitions, self.route_name)

    def translator(self, before_commit_ts: int | None = None) -> Translator:
        """Make the route's translator, with an empty catalogue. `before_commit_ts`: where it ends, see
        `Selection`.
        """
        route = self.route
        selection = Selection(
            self.source.start_commit_ts, before_commit_ts, self.target.watermarks is Watermarks.KEEP
        )
        return Translator(
            route.from_,
            route.to,
            route.from_options,
            route.to_options,
            topic=self.target.topic,
            partitions=self.target_partitions,
            selection=None if selection == Selection() else selection,
        )


def _in_topic_names(group: str) -> str:
    """A group's name as a part of a topic's: what topics cannot hold becomes hyphens, and a hash keeps such
    groups apart.
    """
    name = re.sub(r"[^A-Za-z0-9._-]", "-", group)
    digest = hashlib.sha256(group.encode(errors="surrogatepass")).hexdigest()
    return name if name == group else f"{name}-{digest[:_HASH_DIGITS]}"


def load_config(path: Path, settings: Sequence[str] = ()) -> Config:
    """Read the file, the environment and flags (`table.key=value`); raises ConfigError with every problem
    there is.
    """
    data = _read(path)
    problems = stray_variables(os.environ, Config)
    token = _flags.set(tables_of(settings, Config, problems))
    config = None
    # Not everything goes to the constructor: pydantic has arguments of its own there, whose names begin with
    # underscores.
    tables = {name: table for name, table in data.items() if name in keys_of(Config)}
    try:
        config = Config(**tables)
    except SettingsError as error:
        problems.append(
            Problem("environment", str(error), "a table's variables are written RELAY_<TABLE>__<KEY>")
        )
    except ValidationError as error:
        problems += [_problem(details) for details in error.errors(include_url=False, include_context=False)]
    finally:
        _flags.reset(token)
    problems += [_unknown((name,)) for name in data if name not in tables]
    problems += route_problems(config.route if config else _route_alone(data))
    if config is not None:
        problems += config_problems(config)
    if problems or config is None:
        raise ConfigError(problems)
    return config


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        hint = "give the path of a TOML file; config.example.toml shows every key"
        raise ConfigError([Problem(str(path), "there is no such file", hint)]) from error
    except tomllib.TOMLDecodeError as error:
        hint = "text values need quotes" if "Invalid value" in str(error) else ""
        raise ConfigError([Problem(str(path), f"is not TOML: {error}", hint)]) from error
    except RecursionError as error:
        raise ConfigError(
            [Problem(str(path), "is not TOML that can be read: lists or tables are nested too deeply")]
        ) from error
    except (
        OSError,
        ValueError,
    ) as error:  # also bytes that are no text, numbers that are too long, and NUL in the path
        raise ConfigError([Problem(str(path), f"cannot be read: {error}")]) from error


def _problem(details: ErrorDetails) -> Problem:
    path = ".".join(str(part) for part in details["loc"])
    kind = details["type"]
    if kind == "missing":
        return Problem(path, "is missing", "config.example.toml shows it")
    if kind == "extra_forbidden":
        return _unknown(tuple(str(part) for part in details["loc"]))
    if kind in {"string_too_short", "too_short"}:
        return Problem(path, "must not be empty")
    # The value itself is shown only where it cannot be a secret: a choice, or a number where one belongs.
    is_number = isinstance(details["input"], int | float) and kind.startswith(_ABOUT_NUMBERS)
    given = f", not {details['input']!r}" if is_number or kind == "enum" else ""
    message = details["msg"].removeprefix("Value error, ")
    return Problem(path, message[0].lower() + message[1:] + given)


def _unknown(path: tuple[str, ...]) -> Problem:
    return Problem(".".join(path), "there is no such key", near(path[-1], _keys(path[:-1])))


def _keys(table: tuple[str, ...]) -> list[str]:
    model = type_at(Config, table)
    return list(keys_of(model)) if is_table(model) else []


def _route_alone(data: Mapping[str, Any]) -> Route | None:
    try:
        return Route.model_validate(data.get("route"))
    except ValidationError:
        return None
