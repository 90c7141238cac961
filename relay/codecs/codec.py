"""The interface of codecs: a name, options, capabilities, a decoder and an encoder.

A decoder converts one Kafka record to events and the catalog after them; an encoder converts events to
payloads. Both are pure: they keep only caches, which may be dropped at any time. Every loss is appended to
`losses`, never silent.
"""

from __future__ import annotations

import functools
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, timedelta, timezone, tzinfo
from typing import Annotated, Any, Final, Literal, NamedTuple, Protocol, runtime_checkable
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Meta

from relay.catalog import Catalog
from relay.codecs.detection import DetectionRule, matches_nothing
from relay.codecs.losses import NOTHING, Capabilities, Keys, Loss, refused_losses
from relay.model.errors import Problem
from relay.model.events import Event, Position, RowChange, TableId, TransactionMark
from relay.model.lookups import LookupCache
from relay.model.records import Blob, ConsumerRecord, Header
from relay.templates.engine import Engine
from relay.templates.ops import Framing, Marker, SourceOp
from relay.templates.tracing import Trace
from relay.text.redaction import quoted

#: Returns the columns that a rule chooses for the keys of a table's rows, in order; () for the table's own
#: key.
ChosenKey = Callable[[TableId], tuple[str, ...]]


def chooses_none(_table: TableId) -> tuple[str, ...]:
    """Choose no key: every table has its own."""
    return ()


class EncodedRecord(msgspec.Struct, frozen=True, gc=False):
    """The bytes of an outgoing record before it has a topic and partition; `blobs` as in `ProducerRecord`.

    `headers` precede those of its source record.
    """

    key: bytes | None
    value: bytes | None
    blobs: tuple[Blob, ...] = ()
    headers: tuple[Header, ...] = ()


class Decoder(Protocol):
    """Decodes one protocol."""

    def decode(
        self, record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
    ) -> tuple[list[Event], Catalog]:
        """Return the record's events in order and the catalog after them.

        `losses` collects facts that the source lacks: a `Loss.BEFORE_MISSING` for each UPDATE without its old
        row, which no encoder counts again. The only errors are DecodeError and a Need that its `LookupCache`
        lacks.
        """
        ...


class ValueDecoder(ABC):
    """Base class for protocols in which a record without a value has no meaning but that of a tombstone."""

    def decode(
        self, record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
    ) -> tuple[list[Event], Catalog]:
        """Return the record's events. A record without a value has none, and is counted as a tombstone."""
        if record.value:
            return self.decode_value(record.value, record, catalog, losses)
        losses.append(Loss.TOMBSTONE)
        return [], catalog

    @abstractmethod
    def decode_value(
        self, value: bytes, record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
    ) -> tuple[list[Event], Catalog]:
        """Return the events of a record with this value; see `Decoder.decode`."""


class Encoder(Protocol):
    """Encodes one protocol."""

    @property
    def prepare(self) -> Callable[[list[Event]], list[Event]] | None:
        """Return the function that rewrites events as the target's producer does before they are routed: it
        may split an update of a key in two. None if they stay unchanged.
        """
        ...

    def encode(
        self, events: Sequence[Event], source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterable[EncodedRecord]:
        """Encode events for one partition, except those the protocol lacks. Raises EncodeError only.

        Payloads should be made one by one, on demand, so that callers can limit the output of a record before
        memory is allocated.
        """
        ...


#: Encodes events for one topic, as `Encoder.encode` does.
Encode = Callable[[Sequence[Event], ConsumerRecord, list[Loss]], Iterable[EncodedRecord]]


@runtime_checkable
class TopicEncoder(Encoder, Protocol):
    """An encoder whose messages depend on their topic, because a registry names their schemas by topic.

    `encode` encodes for the topic of the source record.
    """

    def for_topic(self, topic: str) -> Encode:
        """Return the encoding function for a topic."""
        ...


#: Makes the key and the value of a message for a topic from their text form.
Seal = Callable[[str, bytes | None, bytes | None], tuple[bytes | None, bytes | None]]


@runtime_checkable
class SerializingEncoder(TopicEncoder, Protocol):
    """An encoder that first writes messages as text, and then converts each separately to its final form.

    `for_topic(topic)(events, record, losses)` returns the payloads of `encode_open(events, record, losses)`,
    each converted by a `sealer`'s function for the topic, with the same headers and no further losses.
    """

    def encode_open(
        self, events: Sequence[Event], source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterable[EncodedRecord]:
        """Encode events like `encode`, but as text."""
        ...

    def sealer(self, engine: type[Engine]) -> Seal:
        """Return the function that makes the key and the value of a message for a topic, with an engine where
        possible. The function raises EncodeError and Need.
        """
        ...


class AfterDdl(NamedTuple):
    """The position of the newest DDL of a table, for rows that no commit ts orders: rows in its partition
    must have a higher offset. `is_alone`: rows in other partitions do not certainly follow it.
    """

    at: Position
    is_alone: bool

    def allows(self, record: ConsumerRecord) -> bool:
        """Return whether a row in this record follows the DDL, as far as its position shows."""
        check = self.check(record.topic)
        return check is None or check(record.partition, record.offset)

    def check(self, topic: str) -> Callable[[int, int], bool] | None:
        """Return the test whether a row of this topic, in a partition and with an offset, follows the DDL, as
        far as these show; None if all do.
        """
        is_topic_of_ddl = topic == self.at.topic
        if not is_topic_of_ddl and not self.is_alone:
            return None
        partition = self.at.partition if is_topic_of_ddl else None
        newest, follows_elsewhere = self.at.offset, not self.is_alone

        def allows(its_partition: int, offset: int) -> bool:
            return offset > newest if its_partition == partition else follows_elsewhere

        return allows


class TracedMessage(NamedTuple):
    """A message in a template. `key`, `value`: the ops of the record's parts; None for a missing part.

    `change`: its change with traced values. `after`: the DDL that it must follow, None if conditions cover
    it. `end`: the end of its transaction, if it is part of the message; also with traced values. `beside`:
    losses of the marks beside the row, which the template of these marks counts (`MarkTracingDecoder`).
    """

    key: tuple[SourceOp, ...] | None
    value: tuple[SourceOp, ...] | None
    change: RowChange
    after: AfterDdl | None
    end: TransactionMark | None = None
    beside: tuple[Loss, ...] = ()


class TracedMarks(NamedTuple):
    """Marks of a transaction in a template. `value`: the ops of the record's value. `events`: the marks with
    traced values.
    """

    value: tuple[SourceOp, ...] | None
    events: Sequence[Event]


@runtime_checkable
class TracingDecoder(Decoder, Protocol):
    """A decoder that offers templates. For rows it reads only their own table in the catalog: templates are
    kept when other tables change.
    """

    def traced(
        self, record: ConsumerRecord, change: RowChange, catalog: Catalog, trace: Trace
    ) -> TracedMessage:
        """Return the message of a record with traced values. `change` is its only event; or the first one,
        before the end of its transaction.

        Notes the conditions under which other messages mean the same in the trace. Raises NotTemplatable.
        """
        ...


@runtime_checkable
class MarkTracingDecoder(TracingDecoder, Protocol):
    """A decoder of records with rows and the begin and end of their transaction (`MessageFields`).

    `traced` returns the row alone; `traced_marks` returns the begin and the end.
    """

    def traced_marks(self, record: ConsumerRecord, trace: Trace) -> TracedMarks:
        """Return the marks of a record without rows, with traced values; see `TracingDecoder.traced`."""
        ...


@runtime_checkable
class DeserializingDecoder(Decoder, Protocol):
    """A decoder that converts a message to text, and reads that.

    `decode(record, …)` returns the result of `inner.decode` for the record from an `opener`'s function; error
    texts may differ.
    """

    @property
    def inner(self) -> Decoder:
        """Return the decoder of the text."""
        ...

    def opener(self, engine: type[Engine]) -> Callable[[ConsumerRecord], ConsumerRecord]:
        """Return the function that converts a record's key and value to text, with an engine where possible.
        The function raises DecodeError and Need.
        """
        ...


Side = Literal["source", "target"]
#: The sides by key path.
SIDES: Final[Mapping[str, Side]] = {"from": "source", "to": "target"}
KeepOrDrop = Literal["keep", "drop"]
_TARGET: Final = {"side": "target"}
_NO_LIMIT: Final = 1 << 40


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """The options that every codec has; fields are spelled with hyphens outside (`enable-tidb-extension`).

    `Meta(extra={"side": "target"})`, or `"source"`, marks an option that means nothing on the other side and
    is refused there. A producer's own options have no such mark: on the source side they may describe the
    producer's configuration.
    """

    strict: Annotated[
        str,
        Meta(
            description="refuse a record that would lose anything; or only some kinds: decimal-digits,gtid, "
            "or all but some: all,-commit-ts",
            extra={**_TARGET, "form": "true, false or kinds"},
        ),
    ] = "false"
    ddl: Annotated[
        KeepOrDrop,
        Meta(
            description="DDL statements: written, or left out and counted; relay applies both to its schemas",
            extra=_TARGET,
        ),
    ] = "keep"
    watermarks: Annotated[
        KeepOrDrop, Meta(description="watermarks: written, or left out and counted", extra=_TARGET)
    ] = "keep"

    def problems(self) -> list[Problem]:
        """Return the problems of these options on either side; `path` is the option's name."""
        return []

    def writing_problems(self) -> list[Problem]:
        """Return the problems of the combined options on the target side; `path` is the option's name."""
        return []

    @property
    def refused_losses(self) -> frozenset[Loss]:
        """Return the losses for which `strict` refuses a record."""
        return refused_losses(self.strict)

    @property
    def unlimited_bytes(self) -> int:
        """Return the bytes that key and value of a message may have together before any limit is checked."""
        return _NO_LIMIT

    def without_effect(self) -> dict[str, str]:
        """Return the options that change nothing on the target side given the others, with the reasons, by
        name; an option without effect only for some sources is not included.
        """
        return {}


class ZonedOptions(Options, frozen=True):
    """The options of a codec whose wire has TIMESTAMP as text without a zone."""

    timezone: Annotated[
        str,
        Meta(
            description="time zone of TIMESTAMP text on this side: a name (Asia/Shanghai) or an offset "
            "(+08:00)"
        ),
    ] = "UTC"

    def problems(self) -> list[Problem]:
        """Report a zone that does not exist."""
        try:
            zone_of(self.timezone)
        except ValueError as error:
            return [Problem("timezone", str(error))]
        return []

    def zone(self) -> tzinfo:
        """Return the zone of TIMESTAMP text. Raises ValueError for an unknown name."""
        return zone_of(self.timezone)


def zone_of(name: str) -> tzinfo:
    """Return the zone of a name (`Asia/Shanghai`) or an offset (`+08:00`). Raises ValueError."""
    if name.upper() in {"UTC", "Z", "+00:00"}:
        return UTC
    if offset := _OFFSET(name):
        sign, hours, minutes = offset.groups()
        shift = timedelta(hours=int(hours), minutes=int(minutes))
        return timezone(-shift if sign == "-" else shift)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        hint = "use a name such as Asia/Shanghai or an offset such as +08:00"
        raise ValueError(f"unknown time zone {quoted(name)}; {hint}") from None


_OFFSET = re.compile(r"([+-])(0\d|1[0-4]):([0-5]\d)").fullmatch


class NonDdlMarker(msgspec.Struct, frozen=True):
    """Bytes that only messages without DDL or table definitions contain, such as rows and watermarks; a test
    before parsing.

    One of each of the `groups` is in the message's `part`, as its producers print it, and none of `never`. No
    message with DDL matches: a mark contains quotes, and inside a JSON text they would be escaped. A message
    without the marks may be of any kind: written with other white space, or compressed.
    """

    groups: tuple[tuple[bytes, ...], ...]
    never: tuple[bytes, ...] = ()
    part: Literal["key", "value"] = "value"

    def matches(self, key: bytes | None, value: bytes | None) -> bool:
        """Return whether the message certainly has no DDL and no table definition."""
        text = (key if self.part == "key" else value) or b""
        marked = all(any(mark in text for mark in group) for group in self.groups)
        return marked and not any(mark in text for mark in self.never)


class Joining(msgspec.Struct, frozen=True):
    """The rules for joining messages of rows into one, for a protocol with batches.

    `most_rows` and `most_bytes` (of key and value together) limit a message; `shared_bytes`: bytes that each
    message has once, whatever its rows. `rows_in`: returns the number of rows in a message (key, value) that
    may be joined with others; 0 if it must stay alone. `joined`: returns the key and value of the message
    with the content of these, in order.
    """

    most_rows: int
    most_bytes: int
    shared_bytes: int
    rows_in: Callable[[bytes, bytes], int]
    joined: Callable[[Sequence[tuple[bytes, bytes]]], tuple[bytes, bytes]]


def joins_nothing(_: Any) -> Joining | None:  # noqa: ANN401 - any codec's options
    """Join no messages of several source records, whatever the options."""
    return None


#: Key and value of a message.
Message = tuple[bytes | None, bytes]


def no_parts(_: ConsumerRecord) -> Sequence[Message]:
    """Return no parts: the record is one message."""
    return ()


def depends_on_others(_: object) -> bool:
    """Return False: a row's message may depend on the rows beside it, whatever the options."""
    return False


def encodes_nothing(_: object) -> Capabilities:
    """Return no capabilities, whatever the options: there is no encoder."""
    return NOTHING


def own_ddl(topics: Collection[str], _: Mapping[str, str]) -> dict[str, str]:
    """Return each topic as the topic with the DDL of its rows, whatever the options."""
    return dict(zip(topics, topics, strict=True))


def own_name(table: TableId) -> TableId:
    """Return the table's own name: messages have it unchanged."""
    return table


class TemplateSupport(msgspec.Struct, frozen=True):
    """How messages of a protocol are translated by templates (`relay.templates`).

    As a source:

    marker: The bytes by which templates of its messages are found, if its decoder offers them
        (`TracingDecoder`); None for a protocol without templates.
    parts: Splits a message with several events into equivalent messages of one event each; empty for any
        other message.
    framing: How messages are combined in a record, if they may be; they mean the same separately if the
        record has a valid Kafka time.
    deciding_headers: Names of headers that change how key and value are read, such as that of a schema id;
        records with one of them take the slow path.
    table_name: Returns a table's name as messages have it. If tables share a name, DDL of one drops the
        templates of all.

    As a target:

    writes_rows_alone: Whether each row is written independently of the other rows in its message, with given
        options.
    writes_events_alone: The same for events of all kinds.
    lengths_at: Offsets of the 8-byte length fields in key and value of a one-row message; None for unframed
        messages.
    """

    marker: Marker | None = None
    parts: Callable[[ConsumerRecord], Sequence[Message]] = no_parts
    framing: Framing | None = None
    deciding_headers: frozenset[str] = frozenset()
    table_name: Callable[[TableId], TableId] = own_name
    writes_rows_alone: Callable[[Any], bool] = depends_on_others
    writes_events_alone: Callable[[Any], bool] = depends_on_others
    lengths_at: tuple[int, int] | None = None


class RegistrySupport(msgspec.Struct, frozen=True):
    """How messages of a protocol name schemas of a registry.

    named_schemas: Returns their ids, as far as a message's bytes show them.
    """

    named_schemas: Callable[[ConsumerRecord], Sequence[int | str]]


class KeySupport(msgspec.Struct, frozen=True):
    """The Kafka keys of a protocol's rows.

    meaning: The meaning of a row's key.
    encoder: Creates an encoder for keys made of chosen columns; None if the option `key` does this, or if
        keys cannot be chosen.
    """

    meaning: Keys = Keys.NONE
    encoder: Callable[[Any, LookupCache, ChosenKey], Encoder] | None = None


class Codec(msgspec.Struct, frozen=True):
    """One protocol.

    name, title: Its name for users, and a line of explanation.
    options: The type of its options.
    decodes: The most that its decoder can find in a message; `NOTHING` without one.
    encodes: The content of its encoder's messages with given options; `encodes_nothing` without one.
    decoder, encoder: None if the protocol cannot be a source, or a target; `codec_named` then refuses it.
    ddl_everywhere: Whether its readers expect DDL in every partition, not once in partition 0.
    rows_need_definitions: Whether a row cannot be read before the definition of its table, which has a
        separate message.
    ddl_topics: For each source topic, the one that has the DDL of its rows, by the topics' names and the
        source's options as texts; a topic that has the DDL of others has its own.
    non_ddl_marker: A cheap test for most messages without DDL; None without one.
    joining: The rules for joining messages of neighboring source records with given options; None if they are
        not joined.
    own_headers: Names of headers that are part of its messages; messages of other protocols do not inherit
        them, nor do its own messages from those.
    detection_rule: Detects its messages among those of other protocols (`relay.core.detection`).
    profiles: Named sets of the target's options, as texts, for known readers.
    profile_reasons: Why a profile sets an option, if the option's description does not explain it.
    keys, registry, templates: See these types. `registry` is None for a protocol that uses none.
    """

    name: str
    title: str
    options: type[Options]
    decodes: Capabilities
    encodes: Callable[[Any], Capabilities]
    decoder: Callable[[Any, LookupCache], Decoder] | None
    encoder: Callable[[Any, LookupCache], Encoder] | None
    ddl_everywhere: bool = False
    rows_need_definitions: bool = False
    ddl_topics: Callable[[Collection[str], Mapping[str, str]], dict[str, str]] = own_ddl
    non_ddl_marker: NonDdlMarker | None = None
    joining: Callable[[Any], Joining | None] = joins_nothing
    own_headers: frozenset[str] = frozenset()
    detection_rule: DetectionRule = matches_nothing
    profiles: Mapping[str, Mapping[str, str]] = {}
    profile_reasons: Mapping[str, Mapping[str, str]] = {}
    keys: KeySupport = KeySupport()
    registry: RegistrySupport | None = None
    templates: TemplateSupport = TemplateSupport()

    def output(self, options: Options) -> Capabilities:
        """Return the capabilities of the output with these options: `encodes`, less the parts dropped."""
        says = self.encodes(options)
        return msgspec.structs.replace(
            says,
            ddl=says.ddl and options.ddl == "keep",
            truncate=says.truncate and options.ddl == "keep",
            watermark=says.watermark and options.watermarks == "keep",
        )

    @property
    def sends_ddl_once(self) -> bool:
        """Return whether its DDL is only in partition 0 of the topics in `ddl_topics`."""
        return self.decodes.ddl and not self.ddl_everywhere

    @property
    def uses_registry(self) -> bool:
        """Return whether its messages name schemas of a registry."""
        return self.registry is not None

    @property
    def is_readable(self) -> bool:
        """Return whether it can be a source."""
        return self.decoder is not None

    @property
    def is_writable(self) -> bool:
        """Return whether it can be a target."""
        return self.encoder is not None

    def serves(self, side: Side | None) -> bool:
        """Return whether it can be on a side; on None, which is either, it always can."""
        return {"source": self.is_readable, "target": self.is_writable}.get(side or "", True)

    def open_decoder(self, options: Any, answers: LookupCache) -> Decoder:  # noqa: ANN401 - any codec's options
        """Return a decoder. Raises TypeError for a protocol that is only written."""
        if self.decoder is None:
            raise TypeError(f"{self.name} is only written")
        return self.decoder(options, answers)

    def open_encoder(self, options: Any, answers: LookupCache) -> Encoder:  # noqa: ANN401 - any codec's options
        """Return an encoder. Raises TypeError for a protocol that is only read."""
        if self.encoder is None:
            raise TypeError(f"{self.name} is only read")
        return self.encoder(options, answers)


def side_of(annotation: Any) -> Side | None:  # noqa: ANN401 - a type annotation can be anything
    """Return the only side for an option of this type, None if it may be on both."""
    extras = [
        meta.extra
        for meta in getattr(annotation, "__metadata__", ())
        if isinstance(meta, Meta) and meta.extra
    ]
    side: Side | None = next((extra["side"] for extra in extras if "side" in extra), None)
    return side


@functools.cache
def types_of_options(options: type[Options]) -> Mapping[str, Any]:
    """Return the types of a codec's options, by their names outside."""
    return {field.encode_name: field.type for field in msgspec.structs.fields(options)}
