"""Detects the protocol and dialect of messages, by detection rules and by trial decoding.

Every codec has a rule for its own messages, and `relay.codecs.foreign_formats` has rules for formats that no
codec reads. A rule looks for features of a format; the codec decides: a protocol is named only if its codec
can read the message, and a format counts as unreadable only if no codec can read it. If a codec needs
external data that is not available, such as a registry's schema, its rule alone decides.

The functions are pure and accept any bytes. A record's protocols are those with the strongest evidence;
records belong to one dialect as long as they have a protocol in common. Detection for one record takes as
long as translating hundreds: it is for commands, and for the error path of a driver (`FormatHints`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, overload

import msgspec

from relay.catalog import Catalog
from relay.codecs import PROTOCOLS
from relay.codecs.codec import Codec, Decoder, side_of, types_of_options
from relay.codecs.detected_messages import message_of
from relay.codecs.detection import FormatMatch, Strength
from relay.codecs.foreign_formats import UNREADABLE
from relay.codecs.given_options import parse_options
from relay.codecs.shared.avro import named_schemas
from relay.model.errors import DecodeError, Malformed, RelayError, UnsupportedMessage
from relay.model.events import Event, RowChange
from relay.model.lookups import LookupCache, Need, RegisteredSchema, SchemaById
from relay.model.records import ConsumerRecord, RecordPosition

#: Returns the schema with an id in a registry; None if it is unknown.
FindSchema = Callable[[int | str], RegisteredSchema | None]
#: Maximum amount of evidence shown: more adds no information.
_MOST_EVIDENCE: Final = 4
#: Introduction of a format's name in an error.
_LOOKS_LIKE: Final = "this looks like"
#: Options of the producer that a decoder cannot detect itself, or detects sooner with them.
_NEEDED: Final = frozenset({"large-message-handle-compression"})
_STORAGE: Final = "claim-check-storage-uri"
_ANY_FOLDER: Final = "file:///"


class DetectedFormat(NamedTuple):
    """The match of a rule in a message. `protocol`: "" for a format that no codec reads.

    refusal: Why the protocol's codec refuses the message; "" if it reads it, or if that is unknown.
    is_read: Whether the codec reads the message.
    """

    protocol: str
    match: FormatMatch
    refusal: str = ""
    is_read: bool = False

    @property
    def name(self) -> str:
        """The dialect's key: a protocol that can read the message, or the title of an unreadable format."""
        return self.match.title if self.refusal else self.protocol or self.match.title

    @property
    def readable(self) -> str:
        """The protocol if it may be able to read the message; else ""."""
        return "" if self.refusal else self.protocol


class DetectedDialect(msgspec.Struct, frozen=True, kw_only=True):
    """The common properties of a set of records.

    protocols: Their possible protocols; empty for a format that relay does not read.
    settings: Options of the producer, each with the observed values.
    refusal: Why the codec of their protocol refuses the first of them.
    """

    titles: tuple[str, ...]
    protocols: tuple[str, ...]
    strength: Strength
    evidence: tuple[str, ...]
    settings: Mapping[str, tuple[str, ...]]
    records: int
    first: RecordPosition
    refusal: str = ""

    @property
    def protocol(self) -> str:
        """The only possible protocol; "" if there are several, or none."""
        return self.protocols[0] if len(self.protocols) == 1 else ""

    @property
    def options(self) -> dict[str, str]:
        """The settings with a single value in all records."""
        return {name: values[0] for name, values in self.settings.items() if len(values) == 1}

    @property
    def text(self) -> str:
        """The dialect as text."""
        titles, evidence = " or ".join(self.titles), "; ".join(self.evidence)
        return f"{titles} ({evidence})"

    def may_be(self, other: DetectedDialect) -> bool:
        """Return whether records of another dialect may belong to this one, too.

        They may if they have a format in common and no differing setting.
        """
        if {*self.protocols, *self.titles}.isdisjoint({*other.protocols, *other.titles}):
            return False
        options = other.options
        return all(options.get(name, value) == value for name, value in self.options.items())


class Detection(msgspec.Struct, frozen=True):
    """The result for a sample of records.

    dialects: The dialects, most frequent first.
    unknown: Number of records with an unknown format.
    empty: Number of records without a value.
    """

    dialects: tuple[DetectedDialect, ...]
    records: int
    unknown: int
    empty: int

    @property
    def protocol(self) -> str:
        """The protocol of most records; "" if relay does not read it, or if several are possible."""
        return self.dialects[0].protocol if self.dialects else ""


class _Group:
    """A dialect while records are added to it."""

    def __init__(self, record: ConsumerRecord, best: Sequence[DetectedFormat]) -> None:
        self.names = {each.name for each in best}
        self.first, self.records = record.position, 0
        self.seen: dict[str, list[DetectedFormat]] = {}
        self.add(best)

    def takes(self, best: Sequence[DetectedFormat]) -> bool:
        """Return whether a record may belong to this dialect."""
        return not self.names.isdisjoint({each.name for each in best})

    def add(self, best: Sequence[DetectedFormat]) -> None:
        self.records += 1
        self.names &= {each.name for each in best}
        for each in best:
            self.seen.setdefault(each.name, []).append(each)

    def dialect(self) -> DetectedDialect:
        """Return the properties of the protocols that remain possible, from the strongest evidence."""
        seen = [each for name in sorted(self.names) for each in self.seen[name]]
        strength = max(each.match.strength for each in seen)
        strongest = [each.match for each in seen if each.match.strength == strength]
        settings: dict[str, dict[str, None]] = {}
        for each in seen:
            for name, value in each.match.settings.items():
                settings.setdefault(name, {})[value] = None
        return DetectedDialect(
            titles=tuple(dict.fromkeys(match.title for match in strongest)),
            protocols=tuple(dict.fromkeys(each.readable for each in seen if each.readable)),
            strength=strength,
            evidence=tuple(dict.fromkeys(match.evidence for match in strongest))[:_MOST_EVIDENCE],
            settings={name: tuple(values) for name, values in settings.items()},
            records=self.records,
            first=self.first,
            refusal=next((f"{each.protocol}: {each.refusal}" for each in seen if each.refusal), ""),
        )


def detect(records: Iterable[ConsumerRecord], find_schema: FindSchema | None = None) -> Detection:
    """Return the dialects of a sample of records."""
    detector = Detector(find_schema)
    groups: list[_Group] = []
    count = unknown = empty = 0
    for record in records:
        count += 1
        if not record.value:
            empty += 1
            continue
        best = detector.best(record)
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


class Detector:
    """Identifies the formats of messages. It keeps only decoders between messages."""

    def __init__(self, find_schema: FindSchema | None = None) -> None:
        self._find_schema: FindSchema = find_schema or (lambda _: None)
        self._decoders: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[Decoder, LookupCache]] = {}

    def best(self, record: ConsumerRecord) -> Sequence[DetectedFormat]:
        """Return the strongest matches for a record with a value; none if its format is unknown."""
        return self.best_of(self.matches(record), record)

    def best_of(self, found: Sequence[DetectedFormat], record: ConsumerRecord) -> Sequence[DetectedFormat]:
        """Return the strongest of these matches. If no rule's protocol reads the record, try all
        protocols.
        """
        readable = [each for each in found if each.readable]
        if not readable and (readable := self._read_without_rule(record, found)):
            return readable
        # A codec that reads the message outweighs every rule.
        return _strongest(readable if any(each.is_read for each in readable) else found)

    def matches(self, record: ConsumerRecord) -> list[DetectedFormat]:
        """Return each rule's match in a record with a value, and whether the codec reads it."""
        schema = self.schema_of(record)
        is_avro = schema is None or schema.kind == "AVRO"
        text = schema.text if schema is not None and is_avro else ""
        message = message_of(record.key, record.value or b"", record.headers, text)
        found = []
        for codec in PROTOCOLS.values():
            match = codec.detection_rule(message)
            if match is not None:
                found.append(
                    self._checked(codec, match, record) if codec.is_readable else DetectedFormat("", match)
                )
        found += [DetectedFormat("", match) for rule in UNREADABLE if (match := rule(message)) is not None]
        if schema is not None and not is_avro:
            title = f"a message with a schema of the kind {schema.kind} in a registry"
            found.append(DetectedFormat("", FormatMatch(Strength.CERTAIN, title, "the registry's schema")))
        return found

    def schema_of(self, record: ConsumerRecord) -> RegisteredSchema | None:
        """Return the schema that a record's value refers to; None if there is none, or if it is unknown."""
        ids = named_schemas(msgspec.structs.replace(record, key=None))
        return self._find_schema(ids[0]) if ids else None

    def _read_without_rule(
        self, record: ConsumerRecord, found: Sequence[DetectedFormat]
    ) -> list[DetectedFormat]:
        """Return the protocols whose codecs find events in a message although no rule recognized it."""
        recognized = {each.protocol for each in found}
        evidence = "its decoder reads the message"
        checked = [
            self._checked(codec, FormatMatch(Strength.POSSIBLE, codec.title, evidence), record)
            for name, codec in PROTOCOLS.items()
            if codec.is_readable and name not in recognized
        ]
        return [each for each in checked if each.is_read]

    def _checked(self, codec: Codec, match: FormatMatch, record: ConsumerRecord) -> DetectedFormat:
        """Return the match of a rule together with its codec's result for the message."""
        try:
            is_read = self._reads(codec, match, record)
        except (Malformed, UnsupportedMessage) as error:
            return DetectedFormat(codec.name, match, f"{error.path or 'message'}: {error.reason}")
        except (DecodeError, Need):  # of this protocol; a definition, an object or a schema is not available
            return DetectedFormat(codec.name, match)
        except Exception as error:  # of another package's codec; it must not hide the result for the record
            return DetectedFormat(codec.name, match, f"the codec fails with {type(error).__name__}")
        return DetectedFormat(codec.name, match, is_read=is_read)

    def _reads(self, codec: Codec, match: FormatMatch, record: ConsumerRecord) -> bool:
        """Return whether a message has events. Raises DecodeError, Need."""
        given = reading_settings(codec, match.settings) | _anywhere(codec)
        decoder, answers = self._decoder(codec, given)
        asked = set[Need[RegisteredSchema]]()
        while True:
            try:
                events = decoder.decode(record, Catalog(), [])[0]
            except SchemaById as need:
                schema = None if need in asked else self._find_schema(need.id)
                if schema is None:
                    raise
                asked.add(need)
                answers.provide(need, schema)
                continue
            _read_images(events)
            return bool(events)

    def _decoder(self, codec: Codec, given: Mapping[str, str]) -> tuple[Decoder, LookupCache]:
        key = codec.name, tuple(sorted(given.items()))
        if key not in self._decoders:
            answers = LookupCache()
            options = parse_options(codec, given, "from.option", "source")
            self._decoders[key] = codec.open_decoder(options, answers), answers
        return self._decoders[key]


def _strongest(matches: Sequence[DetectedFormat]) -> list[DetectedFormat]:
    """Return the matches with the strongest evidence."""
    most = max((each.match.strength for each in matches), default=0)
    return [each for each in matches if each.match.strength == most]


def _read_images(events: Iterable[Event]) -> None:
    """Parse the rows of events, which decoders defer. Raises DecodeError."""
    for event in events:
        if isinstance(event, RowChange):
            _ = event.before, event.after


def reading_settings(codec: Codec, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the producer's settings that its reader requires; all others are evident from the messages."""
    types = types_of_options(codec.options)
    return {
        name: value
        for name, value in settings.items()
        if name in _NEEDED and name in types and side_of(types[name]) != "target"
    }


def _anywhere(codec: Codec) -> dict[str, str]:
    """Return the option that lets a codec accept references to objects in a storage."""
    return {_STORAGE: _ANY_FOLDER} if _STORAGE in types_of_options(codec.options) else {}


# ---------------------------------------------------------------- errors


class FormatHints:
    """Identifies the formats of records that the source's codec refuses, for the error path of a driver.

    `find_schema`: returns a schema that a record refers to without waiting, such as
    `Translator.known_schema`.
    """

    def __init__(self, find_schema: FindSchema | None = None) -> None:
        self._detector, self._refused, self._next = Detector(find_schema), 0, 1

    @overload
    def named(self, error: RelayError, record: ConsumerRecord) -> RelayError: ...

    @overload
    def named(self, error: Exception, record: ConsumerRecord) -> Exception: ...

    def named(self, error: Exception, record: ConsumerRecord) -> Exception:
        """Return an error with the name of the record's format instead of the error's protocol.

        Returns the error itself if no other format is recognized.
        """
        if not isinstance(error, Malformed | UnsupportedMessage) or not record.value:
            return error
        schema = self._detector.schema_of(record)
        if schema is not None and schema.kind != "AVRO" and PROTOCOLS[error.protocol].uses_registry:
            return error  # the error itself names it
        found = self._detector.matches(record)
        appearance = _other_format(error.protocol, self._detector.best_of(found, record))
        if not appearance:
            return error
        named: DecodeError
        if any(each.protocol == error.protocol for each in found):
            # A dialect of the protocol: the original reason matters, too.
            named = type(error)(error.protocol, error.path, f"{error.reason}; {appearance}")
        else:
            named = UnsupportedMessage(error.protocol, error.path, appearance)
        for note in getattr(error, "__notes__", ()):
            named.add_note(note)
        named.__cause__ = error.__cause__ or error
        return named

    def sampled(self, error: Exception, record: ConsumerRecord) -> Exception:
        """Like `named` for the first of many errors, the second, the fourth and so on.

        Other errors are returned unchanged: a topic of another format may have millions of records.
        """
        self._refused += 1
        if self._refused < self._next:
            return error
        self._next *= 2
        return self.named(error, record)


def _other_format(protocol: str, best: Sequence[DetectedFormat]) -> str:
    """Return the format that a message is more likely to have than this protocol's; "" if none."""
    if not best or any(each.protocol == protocol for each in best):
        return ""
    titles = " or ".join(dict.fromkeys(each.match.title for each in best))
    appearance = f"{_LOOKS_LIKE} {titles} ({best[0].match.evidence})"
    if names := list(dict.fromkeys(each.readable for each in best if each.readable)):
        return f"{appearance}: is the source protocol {' or '.join(names)}?"
    if names := list(dict.fromkeys(each.protocol for each in best if each.protocol)):
        return f"{appearance}, and {' and '.join(names)} cannot read it either"
    return f"{appearance}, which relay does not read"
