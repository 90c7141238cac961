"""Check a route's schema registries for `relay check --connect`, without registering anything.

To test whether schemas may be registered, the check sends an existing schema to its own subject again, which
changes nothing where registering is allowed. To find the subjects of the route's rows, it gives the encoder a
made-up row, which names the subjects that it needs: strategies, options and topic templates apply as in
production.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from relay.config import Config
from relay.config.registries import registry_settings
from relay.core.translator import Translator
from relay.io.registry import RegistrySettings, SchemaRegistry
from relay.model.errors import ConfigError, RelayError, SchemaRefused, ServiceError
from relay.model.lookups import Need, SchemaId
from relay.model.records import ConsumerRecord
from relay.service.check import CheckState, Finding

#: Compatibility rules under which a registry may refuse a table's schema after DDL.
_STRICT: Final = ("BACKWARD", "FORWARD", "FULL")
#: Maximum number of subjects whose rule is requested; topics by table may have thousands.
_MOST_SUBJECTS: Final = 50


def registry_findings(config: Config) -> list[Finding]:
    """Query the registries of a configuration; blocks. Returns at least one finding for each."""
    found: list[Finding] = []
    for side, table in (("source", config.source.schema_registry), ("target", config.target.schema_registry)):
        if table.urls:
            found += _of_one(registry_settings(table, side), side, config)
    return found


def _of_one(settings: RegistrySettings, side: str, config: Config) -> Iterator[Finding]:
    subject = f"{side} schema registry {settings.shown}"
    try:
        registry = SchemaRegistry(settings, retries=0)
        subjects = registry.subjects()
    except ConfigError as error:
        for problem in error.problems:
            yield Finding(CheckState.FAILED, subject, str(problem))
        return
    except ServiceError as error:
        yield Finding(CheckState.FAILED, subject, str(error))
        return
    count = len(subjects)
    yield Finding(CheckState.OK, subject, f"answers, {count} subject{'s'[: count != 1]}")
    if side == "target":
        patterns = subject_patterns(config)
        known = [name for name in subjects if any(pattern.fullmatch(name) for pattern in patterns)]
        yield from _target(registry, settings, known[:_MOST_SUBJECTS], subject)


def _target(
    registry: SchemaRegistry, settings: RegistrySettings, known: Sequence[str], subject: str
) -> Iterator[Finding]:
    """Yield findings about the route's existing subjects."""
    if not settings.register_schemas:
        text = "register_schemas = false: each schema must be registered before its first row"
        yield Finding(CheckState.NOTE, subject, text)
    elif not known:
        text = "unknown whether schemas may be registered: no subject is known to belong to this route"
        yield Finding(CheckState.UNTESTED, subject, text)
    else:
        yield _may_register(registry, known[0], subject)
    levels: dict[str, list[str]] = {}
    for name in known:
        try:
            level = registry.compatibility(name)
        except RelayError:
            continue
        if level is not None and level.startswith(_STRICT):
            levels.setdefault(level, []).append(name)
    for level, names in levels.items():
        text = (
            f"compatibility of {', '.join(names)} is {level}: the registry would refuse some changes of "
            "tables, and relay would stop at them; NONE accepts all of them"
        )
        yield Finding(CheckState.NOTE, subject, text)


def _may_register(registry: SchemaRegistry, name: str, subject: str) -> Finding:
    try:
        registry.register_again(name)
    except SchemaRefused as error:
        return Finding(CheckState.FAILED, subject, f"registering is not allowed: {error}")
    except ServiceError as error:
        return Finding(CheckState.UNTESTED, subject, f"unknown whether schemas may be registered: {error}")
    return Finding(CheckState.OK, subject, "registering allowed")


#: The made-up table. Nothing that adjusts names for topics and schemas changes these.
_DATABASE, _TABLE = "relaydatabase", "relaytable"
_SOURCE: Final = "canal-json"
_ROW: Final = msgspec.json.encode(
    {
        "database": _DATABASE,
        "table": _TABLE,
        "type": "INSERT",
        "isDdl": False,
        "id": 1,
        "es": 1_000_000_000_000,
        "ts": 1_000_000_000_000,
        "sql": "",
        "pkNames": ["id"],
        "mysqlType": {"id": "int"},
        "sqlType": {"id": 4},
        "data": [{"id": "1"}],
        "old": None,
    }
)


def subject_patterns(config: Config) -> list[re.Pattern[str]]:
    """Return patterns for the subjects of rows, one for each topic that rows may go to.

    Returns none where the target cannot write the made-up row, or where a subject consists of the table's
    name alone.
    """
    # The made-up row may have losses that real rows do not have.
    options = {name: value for name, value in config.route.to_options.items() if name != "strict"}
    subjects: list[str] = []
    for template, _ in config.templates:
        try:
            translator = Translator(_SOURCE, config.route.to, None, options, topic=template.text)
            for topic in config.source.topics:
                subjects += _subjects(translator, topic)
        except (RelayError, Need):
            continue
    return [
        re.compile(subject_pattern(subject)) for subject in dict.fromkeys(subjects) if _is_specific(subject)
    ]


def _subjects(translator: Translator, topic: str) -> Iterator[str]:
    """Yield the subjects of the key and value of a row from a topic. Raises RelayError, Need."""
    record = ConsumerRecord(topic, 0, 0, 0, None, _ROW)
    while True:
        try:
            translator.translate(record)
        except SchemaId as need:
            yield need.subject
            translator.provide(need, 1)
        else:
            return


def _is_specific(subject: str) -> bool:
    """Return whether a subject holds more than a table's name.

    A pattern of the name alone would match the subjects of all topics.
    """
    rest = subject.removesuffix("-key").removesuffix("-value").replace(_DATABASE, "").replace(_TABLE, "")
    return any(map(str.isalnum, rest))


def subject_pattern(subject: str) -> str:
    """Return the expression for a subject with placeholders for the database and the table."""
    return re.escape(subject).replace(_DATABASE, ".+").replace(_TABLE, ".+")
