"""Derive the subjects of a route's rows: given a made-up row, the encoder names the subjects it needs.

Strategies, options and topic templates therefore apply as in production.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from relay.config import Config
from relay.core.translator import Translator
from relay.model.errors import RelayError
from relay.model.lookups import Need, SchemaId
from relay.model.records import ConsumerRecord

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
