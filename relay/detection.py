"""Which protocol and dialect messages have, by what each protocol's room says of them.

Contract: pure, and asked about any bytes. A record's protocols are those whose signs are the surest; records
belong to one dialect as long as they have a protocol in common.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from relay.codecs import message_of, sightings
from relay.codecs.signs import LOOKS_LIKE, Sighting, Strength, best_of, other_format
from relay.errors import DecodeError, UnsupportedMessage
from relay.needs import RegisteredSchema
from relay.records import ConsumerRecord, Place

#: Gives the text of the schemas that a record's value names, "" if it is not known.
SchemaOf = Callable[[ConsumerRecord], str]
#: More evidence says nothing new.
_MOST_EVIDENCE: Final = 4


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """What some records have in common. `protocols`: those that they can be, none of a format that relay does
    not read. `settings`: options of the producer, each with the values that were seen.
    """

    titles: tuple[str, ...]
    protocols: tuple[str, ...]
    strength: Strength
    evidence: tuple[str, ...]
    settings: Mapping[str, tuple[str, ...]]
    records: int
    first: Place

    @property
    def protocol(self) -> str:
        """The only protocol that it can be; "" if there are several, or none."""
        return self.protocols[0] if len(self.protocols) == 1 else ""

    @property
    def options(self) -> dict[str, str]:
        """The settings that do not change among the records."""
        return {name: values[0] for name, values in self.settings.items() if len(values) == 1}

    @property
    def said(self) -> str:
        """The dialect in words."""
        titles, evidence = " or ".join(self.titles), "; ".join(self.evidence)
        return f"{titles} ({evidence})"

    def may_be(self, other: Dialect) -> bool:
        """Whether records of another dialect can be of this one, too: of one format, with no setting that
        differs.
        """
        ours, theirs = self.protocols or self.titles, other.protocols or other.titles
        if set(ours).isdisjoint(theirs):
            return False
        options = other.options
        return all(options.get(name, value) == value for name, value in self.options.items())


class Detection(msgspec.Struct, frozen=True):
    """What a sample of records has: its dialects, the most frequent first; how many records are of no format
    that is known, and how many have no value.
    """

    dialects: tuple[Dialect, ...]
    records: int
    unknown: int
    empty: int

    @property
    def protocol(self) -> str:
        """The protocol of the dialect that most records have; "" if it is none that relay reads, or if it can
        be several.
        """
        return self.dialects[0].protocol if self.dialects else ""


class _Group:
    """A dialect as it grows."""

    def __init__(self, record: ConsumerRecord, best: Sequence[Sighting]) -> None:
        self.names = {_name(each) for each in best}
        self.first, self.records = record.place, 0
        self.seen: dict[str, list[Sighting]] = {}
        self.add(best)

    def takes(self, best: Sequence[Sighting]) -> bool:
        """Whether a record can be of this dialect."""
        return not self.names.isdisjoint({_name(each) for each in best})

    def add(self, best: Sequence[Sighting]) -> None:
        self.records += 1
        self.names &= {_name(each) for each in best}
        for each in best:
            self.seen.setdefault(_name(each), []).append(each)

    def dialect(self) -> Dialect:
        """Return what has been seen of those that it can still be; of the surest signs."""
        seen = [each for name in sorted(self.names) for each in self.seen[name]]
        strength = max(each.sign.strength for each in seen)
        surest = [each.sign for each in seen if each.sign.strength == strength]
        settings: dict[str, dict[str, None]] = {}
        for each in seen:
            for name, value in each.sign.settings.items():
                settings.setdefault(name, {})[value] = None
        return Dialect(
            titles=tuple(dict.fromkeys(sign.title for sign in surest)),
            protocols=tuple(dict.fromkeys(each.protocol for each in seen if each.protocol)),
            strength=strength,
            evidence=tuple(dict.fromkeys(sign.evidence for sign in surest))[:_MOST_EVIDENCE],
            settings={name: tuple(values) for name, values in settings.items()},
            records=self.records,
            first=self.first,
        )


def _name(sighting: Sighting) -> str:
    """What is one dialect: a protocol, or the title of a format that relay does not read."""
    return sighting.protocol or sighting.sign.title


def detect(records: Iterable[ConsumerRecord], schema_of: SchemaOf | None = None) -> Detection:
    """Return what a sample of records has."""
    groups: list[_Group] = []
    count = unknown = empty = 0
    for record in records:
        count += 1
        if record.value is None:
            empty += 1
            continue
        best = best_of(_sightings(record, "" if schema_of is None else schema_of(record)))
        if not best:
            unknown += 1
            continue
        group = next((each for each in groups if each.takes(best)), None)
        if group is None:
            groups.append(_Group(record, best))
        else:
            group.add(best)
    dialects = [group.dialect() for group in groups]
    dialects.sort(key=lambda dialect: -dialect.records)
    return Detection(tuple(dialects), count, unknown, empty)


def _sightings(record: ConsumerRecord, schema: str = "") -> list[Sighting]:
    return sightings(message_of(record.key, record.value or b"", record.headers, schema))


def named_error(
    error: DecodeError, record: ConsumerRecord, schema: RegisteredSchema | None = None
) -> DecodeError | None:
    """Return the error with the name of the format that the record has instead of the error's protocol; None
    if it has no other that is known. `schema`: what the record's value names, None if that is not known.

    A record that may be of the protocol after all, such as one of a dialect of its, keeps what was wrong.
    """
    if not record.value or error.reason.startswith(LOOKS_LIKE):
        return None
    if schema is not None and schema.kind != "AVRO":
        return None  # the error says so
    seen = _sightings(record, "" if schema is None else schema.text)
    said = other_format(error.protocol, seen)
    if not said or said in error.reason:
        return None
    if any(each.protocol == error.protocol for each in seen):
        return type(error)(error.protocol, error.path, f"{error.reason}; {said}")
    return UnsupportedMessage(error.protocol, error.path, said)
