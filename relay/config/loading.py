"""The relay's configuration: a TOML file, overridden by environment variables, as frozen and typed tables.

`load_config` reports every problem at once, each with its key path and a hint. Precedence: environment > file > default. A
variable is `RELAY_<TABLE>__<KEY>` (`RELAY_SOURCE__GROUP_ID`); lists are written with commas; the hyphens of a codec's option become
underscores (`RELAY_ROUTE__FROM_OPTIONS__ENABLE_TIDB_EXTENSION`). A new table is one more class here and one more field of `Config`.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict, SettingsError

from relay.errors import ConfigError, Problem
from relay.storage import storage_problems
from relay.translator import Translator

ENV_PREFIX = "RELAY_"
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


def _split(given: object) -> object:
    """Read a list from one text, as it comes from the environment: `a, b`."""
    return [part.strip() for part in given.split(",") if part.strip()] if isinstance(given, str) else given


def _option_texts(given: object) -> object:
    """Codec options as texts, whatever TOML type they were written in: each codec reads its own."""
    if not isinstance(given, dict):
        return given
    return {str(name).replace("_", "-"): _option_text(value) for name, value in given.items()}


def _option_text(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


Text = Annotated[str, Field(min_length=1)]
Options = Annotated[dict[str, str], BeforeValidator(_option_texts)]
TopicNames = Annotated[tuple[Text, ...], NoDecode, BeforeValidator(_split), Field(min_length=1)]


class Start(StrEnum):
    """Where a group without committed offsets begins."""

    EARLIEST = "earliest"
    LATEST = "latest"


class Compression(StrEnum):
    """Compression of the batches that relay writes."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=False)


class Route(_Table):
    """From which protocol to which, and the options of both."""

    from_: Text = Field(alias="from")
    to: Text
    from_options: Options = {}
    to_options: Options = {}


class Source(_Table):
    """What is read, and how."""

    bootstrap_servers: Text
    topics: TopicNames
    group_id: Text
    start: Start = Start.EARLIEST
    fetch_max_bytes: PositiveInt = 2_097_152
    max_partition_fetch_bytes: PositiveInt = 262_144
    # Long polls of partitions without records delay the busy ones of the same broker.
    fetch_max_wait_ms: PositiveInt = 50
    session_timeout_ms: PositiveInt = 30_000
    rebalance_timeout_ms: PositiveInt = 60_000


class Target(_Table):
    """What is written, and how. `bootstrap_servers` "" is the source's; `partitions` 0 keeps the source's partition."""

    topic: Text
    bootstrap_servers: str = ""
    partitions: NonNegativeInt = 0
    compression: Compression = Compression.ZSTD
    max_batch_bytes: PositiveInt = 900_000


class Delivery(_Table):
    """When offsets are committed and how long relay waits for what."""

    commit_interval_seconds: PositiveFloat = 1.0
    delivery_timeout_seconds: PositiveFloat = 60.0
    drain_timeout_seconds: PositiveFloat = 20.0


class Config(BaseSettings):
    """The whole configuration."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        enable_decoding=False,
    )

    route: Route
    source: Source
    target: Target
    delivery: Delivery = Delivery()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003  (pydantic's signature, here and below)
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Order the sources: the environment wins over the file, which comes as arguments."""
        return env_settings, init_settings

    @property
    def target_servers(self) -> str:
        """The brokers of the target topics."""
        return self.target.bootstrap_servers or self.source.bootstrap_servers

    @property
    def target_topics(self) -> dict[str, str]:
        """Source topic → target topic."""
        return {topic: self.target.topic.replace("{topic}", topic) for topic in self.source.topics}

    @property
    def target_partitions(self) -> int | None:
        """Number of target partitions that are written, None to keep the source's partition."""
        return self.target.partitions or None

    def translator(self) -> Translator:
        """Make the route's translator, with an empty catalogue."""
        route = self.route
        topic, partitions = self.target.topic, self.target_partitions
        return Translator(route.from_, route.to, route.from_options, route.to_options, topic=topic, partitions=partitions)


def load_config(path: Path) -> Config:
    """Read the file and the environment; raises ConfigError with every problem there is."""
    data = _read(path)
    problems = _stray_variables()
    config = None
    try:
        config = Config(**data)
    except SettingsError as error:
        problems.append(Problem("environment", str(error), "a table's variables are written RELAY_<TABLE>__<KEY>"))
    except ValidationError as error:
        problems += [_problem(details) for details in error.errors(include_url=False, include_context=False)]
    problems += _route_problems(config, data)
    if config is not None:
        problems += _topic_problems(config)
    if problems or config is None:
        raise ConfigError(problems)
    return config


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        hint = "give the path of a TOML file; config.example.toml shows every key"
        raise ConfigError([Problem(str(path), "there is no such file", hint)]) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([Problem(str(path), f"cannot be read: {error}")]) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([Problem(str(path), f"is not TOML: {error}", "text values need quotes")]) from error


def _stray_variables() -> list[Problem]:
    """Find variables that look like ours and name no table: pydantic would pass over them in silence."""
    problems = []
    for name in sorted(os.environ):
        table = name.removeprefix(ENV_PREFIX).partition("__")[0].lower()
        if name.startswith(ENV_PREFIX) and "__" in name and table not in Config.model_fields:
            problems.append(Problem(name, f"there is no table {table!r}", _near(table, list(Config.model_fields))))
    return problems


def _problem(details: ErrorDetails) -> Problem:
    path = ".".join(str(part) for part in details["loc"])
    kind = details["type"]
    if kind == "missing":
        return Problem(path, "is missing", "config.example.toml shows it")
    if kind == "extra_forbidden":
        *table, key = details["loc"]
        return Problem(path, "there is no such key", _near(str(key), _keys(tuple(str(part) for part in table))))
    if kind in {"string_too_short", "too_short"}:
        return Problem(path, "must not be empty")
    # The value itself is shown only where it cannot be a secret: a choice or a number.
    given = f", not {details['input']!r}" if isinstance(details["input"], int | float) or kind == "enum" else ""
    return Problem(path, details["msg"][0].lower() + details["msg"][1:] + given)


def _keys(table: tuple[str, ...]) -> list[str]:
    if not table:
        return list(Config.model_fields)
    field = Config.model_fields.get(table[0])
    model = field.annotation if field else None
    if isinstance(model, type) and issubclass(model, BaseModel):
        return [field.alias or name for name, field in model.model_fields.items()]
    return []


def _near(word: str, known: list[str]) -> str:
    near = difflib.get_close_matches(word, known, n=3, cutoff=0.5)
    return "did you mean " + " or ".join(near) + "?" if near else "known here: " + ", ".join(sorted(known))


def _route_problems(config: Config | None, data: Mapping[str, Any]) -> list[Problem]:
    """Check codec names and options, also when other tables are wrong, so that nobody has to run twice to see all."""
    route = config.route if config else _route_alone(data)
    if route is None:
        return []
    try:
        problems = storage_problems(Translator(route.from_, route.to, route.from_options, route.to_options).storages)
    except ConfigError as error:
        problems = error.problems
    return [problem._replace(path=_route_path(problem.path)) for problem in problems]


def _route_alone(data: Mapping[str, Any]) -> Route | None:
    try:
        return Route.model_validate(data.get("route"))
    except ValidationError:
        return None


def _route_path(path: str) -> str:
    """Translate the core's path (`from.option.x`) to the key in the file (`route.from_options.x`)."""
    side, _, rest = path.partition(".option")
    return f"route.{side}_options{rest}" if rest else f"route.{side}"


def _topic_problems(config: Config) -> list[Problem]:
    problems = []
    template = config.target.topic
    rest = template.replace("{topic}", "")
    if "{" in rest or "}" in rest:
        problems.append(Problem("target.topic", f"{template!r} holds an unknown placeholder", "the only one is {topic}"))
        return problems
    for source, target in config.target_topics.items():
        for path, name in (("source.topics", source), ("target.topic", target)):
            if not _TOPIC_NAME.fullmatch(name) or name in {".", ".."}:
                hint = "Kafka allows up to 249 letters, digits, dots, underscores and hyphens"
                problems.append(Problem(path, f"{name!r} is no topic name", hint))
    looping = sorted(set(config.target_topics.values()) & set(config.source.topics))
    if looping and _same_brokers(config):
        hint = "name another topic, for example {topic}." + config.route.to
        message = f"relay would read what it writes: {', '.join(looping)} is also a source topic"
        problems.append(Problem("target.topic", message, hint))
    return problems


def _same_brokers(config: Config) -> bool:
    """Tell whether both sides name a common broker; two names of one broker cannot be told apart here."""
    source, target = (set(_split_servers(text)) for text in (config.source.bootstrap_servers, config.target_servers))
    return bool(source & target)


def _split_servers(text: str) -> list[str]:
    return [server.strip().lower() for server in text.split(",")]
