"""Good records with a member that no protocol defines, by name.

Two headers keep the key and the value without it, so that a finding can be tried again from its records.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Sequence
from typing import Final

import msgspec
from unknown_support import FIXED, Member, is_unknown, with_unknown_members

from fuzz.corpus import Sample, answer
from relay import ConsumerRecord, Event, Need, RelayError, RowChange, Translator
from relay.codecs.debezium.native.fields import FIELD_NAMES
from relay.codecs.maxwell.messages import camel_case
from relay.model.errors import ServiceError

_KEY, _VALUE = "fuzz.key-without-member", "fuzz.value-without-member"
_VALUES: Final = (
    *(b"null", b"1", b'"x"', b"[]", b"{}", b'{"by":["anyone",1]}'),
    *(b"1e308", b"9" * 40),
)
#: The columns' names of each record of a sample, by the sample's name; None for what relay does not read.
_COLUMNS: dict[str, list[set[str] | None]] = {}


def extended(sample: Sample, at: int, chance: random.Random) -> ConsumerRecord | None:
    """A record of a sample with an unknown member; None if it cannot have one."""
    columns, record = _columns(sample)[at], sample.records[at]
    if columns is None or sample.protocol in FIXED:
        return None
    member = Member(chance.choice(_VALUES), chance.random() < 0.5)
    found = [*with_unknown_members(sample.protocol, record, columns, member)]
    if not found:
        return None
    headers = (*record.headers, (_KEY, record.key), (_VALUE, record.value))
    return msgspec.structs.replace(chance.choice(found).record, headers=headers)


def without_member(record: ConsumerRecord) -> ConsumerRecord | None:
    """The record that `extended` was given, with the same headers; None if it did not make this one."""
    kept = dict(record.headers)
    if not kept.keys() >= {_KEY, _VALUE}:
        return None
    return msgspec.structs.replace(record, key=kept[_KEY], value=kept[_VALUE])


def is_carried(events: Sequence[Event]) -> bool:
    """Whether an event has the unknown member."""
    return any(is_unknown(path) for event in events for path in event.source.unknown_fields or ())


def _columns(sample: Sample) -> list[set[str] | None]:
    if sample.name not in _COLUMNS:
        reader = Translator.reader(sample.protocol, sample.options)
        _COLUMNS[sample.name] = [_columns_of(reader, record, sample) for record in sample.records]
    return _COLUMNS[sample.name]


def _columns_of(reader: Translator, record: ConsumerRecord, sample: Sample) -> set[str] | None:
    while True:
        try:
            events = reader.inspect(record)
            break
        except Need as need:
            with contextlib.suppress(ServiceError):
                reader.provide(need, answer(need, sample.objects))
                continue
            return None
        except RelayError:
            return None
    rows = [event for event in events if isinstance(event, RowChange)]
    columns = {column.name for row in rows for column in row.schema.columns}
    # The names that producers write instead, if they are configured to.
    spellings = (camel_case, *FIELD_NAMES.values())
    return columns.union(*(map(spelled, columns) for spelled in spellings))
