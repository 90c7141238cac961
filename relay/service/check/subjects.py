"""What the subjects of a route's rows are called: given a made-up row, the encoder says which ones it needs.

So strategies, options and templates of topics count as they do when rows are written.
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
    """Return what the subjects of rows look like, for each topic that they may go to; none where the target
    cannot write the made-up row, or where nothing but a table's name is in them.
    """
    # The made-up row may lose what real ones do not.
    options = {name: value for name, value in config.route.to_options.items() if name != "strict"}
    subjects: list[str] = []
    for template, _ in config.templates:
        try:
            translator = Translator(_SOURCE, config.route.to, None, options, topic=template.text)
            for topic in config.source.topics:
                subjects += _subjects(translator, topic)
        except (RelayError, Need):
            continue
    return [re.compile(_pattern(subject)) for subject in dict.fromkeys(subjects) if _is_telling(subject)]


def _subjects(translator: Translator, topic: str) -> Iterator[str]:
    """The subjects of a row's key and value that comes from a topic. Raises RelayError, Need."""
    record = ConsumerRecord(topic, 0, 0, 0, None, _ROW)
    while True:
        try:
            translator.translate(record)
        except SchemaId as need:
            yield need.subject
            translator.provide(need, 1)
        else:
            return


def _is_telling(subject: str) -> bool:
    """Whether a subject holds more than a table's name: else the subjects of all topics would match it."""
    rest = subject.removesuffix("-key").removesuffix("-value").replace(_DATABASE, "").replace(_TABLE, "")
    return any(map(str.isalnum, rest))


def _pattern(subject: str) -> str:
    return re.escape(subject).replace(_DATABASE, ".+").replace(_TABLE, ".+")
