"""Column rules on captured records: with and without templates, and what a reader of the target finds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from column_rules_support import KEY
from engine_support import ENGINE
from support import ALL_ROUTES, CAPTURED, WRITABLE, captured, protocol_of, reading_options

from relay import (
    CodecError,
    ColumnAction,
    ColumnRule,
    ConsumerRecord,
    ProducerRecord,
    Resolver,
    RowChange,
    TableId,
    TableSchema,
    Translator,
)
from relay.core.verification import ShadowTranslator
from relay.mysql.types import BINARIES, CHARS

#: Rules that fit any column, and more that fit text.
_OF_ANY: tuple[tuple[str, dict[str, Any]], ...] = (
    ("drop", {}),
    ("null", {}),
    ("fixed", {"value": "0"}),
    ("hash", {}),
    ("rename", {"name": "{}_2"}),
)
_OF_TEXT: tuple[tuple[str, dict[str, Any]], ...] = (("mask", {"last": 1}), ("truncate", {"length": 2}))


def schemas_in(file: str) -> dict[TableId, dict[str, TableSchema]]:
    """The tables of a file, each with its columns' names, and a definition with the column."""
    translator = Translator.reader(protocol_of(file), reading_options(file))
    found: dict[TableId, dict[str, TableSchema]] = {}
    for record in captured(file):
        try:
            events = Resolver().inspect(translator, record)
        except CodecError:
            continue
        for event in events:
            if isinstance(event, RowChange):
                columns = found.setdefault(event.table, {})
                columns |= {column.name: event.schema for column in event.schema.columns}
    return found


def rules_for(file: str, turn: int) -> Iterator[ColumnRule]:
    """A rule for most columns that are in no key, another one in each turn."""
    number = turn
    for table, columns in schemas_in(file).items():
        keys = {name.lower() for schema in columns.values() for name in schema.key_columns()}
        for name, schema in columns.items():
            base = next(column.type.base for column in schema.columns if column.name == name)
            number += 1
            if name.lower() in keys or number % 3 == 0 or not set(name).isdisjoint("*?["):
                continue
            actions = _OF_ANY if base in BINARIES or base not in CHARS else (*_OF_ANY, *_OF_TEXT)
            action, more = actions[number % len(actions)]
            given: dict[str, Any] = {
                key: value.format(name) if isinstance(value, str) else value for key, value in more.items()
            }
            yield ColumnRule(
                tables=(f"{table.database}.{table.table}",),
                columns=(name,),
                action=ColumnAction(action),
                **given,
            )


def outcome(translator: Translator, records: list[ConsumerRecord]) -> list[list[ProducerRecord] | str]:
    """The messages of each record, or its error."""
    found: list[list[ProducerRecord] | str] = []
    for record in records:
        try:
            found.append(Resolver().translate(translator, record))
        except CodecError as error:
            found.append(f"{error.code} {error.path}")
    return found


#: A target for each file, another one for each, unless all are wanted.
_TARGETS = sorted(WRITABLE)
_PAIRS = [
    (file, target)
    for at, file in enumerate(CAPTURED)
    for number, target in enumerate(_TARGETS)
    if ALL_ROUTES or (at + number) % len(_TARGETS) == 0
]


@pytest.mark.parametrize(("file", "target"), _PAIRS)
def test_templates_and_readers_agree(file: str, target: str) -> None:
    source, options, records = protocol_of(file), reading_options(file), captured(file)
    for turn in range(2):
        rules = list(rules_for(file, turn))
        slow = Translator(source, target, options, columns=rules, hash_key=KEY)
        checked = ShadowTranslator(source, target, options, columns=rules, hash_key=KEY, engine=ENGINE)
        found = outcome(slow, records)
        assert outcome(checked, records) == found
        assert (checked.losses, checked.events) == (slow.losses, slow.events)
