"""What every codec is: a name, options, what its wire can carry, a decoder and an encoder.

A decoder turns one Kafka record into events and the catalogue after them; an encoder turns one event into payloads. Both are pure:
all they keep between calls are caches that could be thrown away. What is lost on the way is appended to `lossy`, never silent.
"""

from __future__ import annotations

import difflib
import enum
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, timedelta, timezone, tzinfo
from typing import Annotated, Any, Final, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Meta

from relay.catalog import Catalog
from relay.errors import ConfigError, Problem
from relay.model import Event, Heartbeat, TransactionMark, Watermark
from relay.records import Blob, ConsumerRecord


class Lossy(enum.StrEnum):
    """What a route can lose; the label of `relay_lossy_conversions_total`."""

    COMMIT_TS = "commit-ts"
    COMMIT_TS_SYNTHETIC = "commit-ts-synthetic"
    WATERMARK = "watermark"
    TRANSACTION_MARK = "transaction-mark"
    HEARTBEAT = "heartbeat"
    TOMBSTONE = "tombstone"
    STATEMENT = "statement"
    GTID = "gtid"
    ROW_KEY = "row-key"
    EXTRAS = "extras"
    SNAPSHOT = "snapshot"
    SCHEMA_GUESSED = "schema-guessed"
    DDL_NOT_UNDERSTOOD = "ddl-not-understood"
    BEFORE_UNKNOWN = "before-unknown"
    COLUMNS_ABSENT = "columns-absent"
    TYPE_PARAMETERS = "type-parameters"
    DELETE_IMAGE = "delete-image"
    BEFORE_IMAGE = "before-image"
    INVALID_TEXT = "invalid-text"
    COLUMN_TYPE = "column-type"
    START_TS = "start-ts"
    EMPTY_ROW = "empty-row"
    DECIMAL_DIGITS = "decimal-digits"
    ZERO_DATE = "zero-date"
    YEAR_BELOW_100 = "year-below-100"
    ENUM_INDEX = "enum-index"
    NULL_REPLACED_BY_DEFAULT = "null-replaced-by-default"
    NULL_OR_DEFAULT = "null-or-default"
    EPOCH_OR_ZERO_DATE = "epoch-or-zero-date"
    PRIMARY_KEY = "primary-key"
    EVENT_TIME_PRECISION = "event-time-precision"
    BINLOG_POSITION = "binlog-position"
    BINLOG_POSITION_SYNTHETIC = "binlog-position-synthetic"

    # Counted for every row; Enum's own hash is a Python function.
    __hash__ = str.__hash__


#: What is counted although nothing is lost by it: what relay had to assume, and text that passes without being understood.
NOTES: Final = frozenset({Lossy.SCHEMA_GUESSED, Lossy.DDL_NOT_UNDERSTOOD, Lossy.NULL_OR_DEFAULT, Lossy.EPOCH_OR_ZERO_DATE})


#: What is lost of an event for which the target has no message.
UNSPEAKABLE: Final[Mapping[type[Event], Lossy]] = {
    Watermark: Lossy.WATERMARK,
    TransactionMark: Lossy.TRANSACTION_MARK,
    Heartbeat: Lossy.HEARTBEAT,
}


class Before(enum.StrEnum):
    """How much of a changed row's old image a wire carries."""

    FULL = "full"
    CHANGED = "changed columns (the rest follows from the new row)"
    NONE = "none"


class Carries(msgspec.Struct, frozen=True, kw_only=True):
    """What a wire, with given options, can say. Booleans are printed as yes or no.

    Values that most wires hold have the default True, facts that only some know the default False. `exact_decimals`: all digits of
    DECIMAL. `every_date`: zero dates, dates that are not in the calendar, years below 100. `null_beside_default`: NULL in a column
    that has a default. `physical_partition`: the table id of a partitioned table's partition.
    """

    before: Before
    delete_image: bool
    primary_key: bool
    column_types: bool = True
    type_parameters: bool
    ddl: bool
    watermark: bool
    exact_decimals: bool = True
    every_date: bool = True
    null_beside_default: bool = True
    event_time_milliseconds: bool = True
    commit_ts: bool
    start_ts: bool = False
    gtid: bool
    binlog_position: bool = False
    row_key: bool = False
    physical_partition: bool = False
    transaction_marks: bool = False


class Payload(msgspec.Struct, frozen=True, gc=False):
    """The bytes of one outgoing record, before it has a topic and a partition; `blobs` as in `ProducerRecord`."""

    key: bytes | None
    value: bytes | None
    blobs: tuple[Blob, ...] = ()


class Decoder(Protocol):
    """Reads one protocol."""

    def decode(self, record: ConsumerRecord, catalog: Catalog, lossy: list[Lossy]) -> tuple[list[Event], Catalog]:
        """Give the record's events in order and the catalogue after them.

        Raises DecodeError, or Need for what `record.blobs` lacks, and nothing else.
        """
        ...


class Encoder(Protocol):
    """Writes one protocol."""

    def prepare(self, events: list[Event]) -> list[Event]:
        """Give the events as the target's producer has them, before they are routed: an update of a key may be split in two."""
        ...

    def encode(self, events: Sequence[Event], caused_by: ConsumerRecord, lossy: list[Lossy]) -> list[Payload]:
        """Give the messages of events that go to one partition, none where the protocol has no word. Raises EncodeError only."""
        ...


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """The options that every codec has; fields are spelled with hyphens outside (`enable-tidb-extension`)."""

    timezone: Annotated[
        str, Meta(description="zone of TIMESTAMP text on this side: a name (Asia/Shanghai) or an offset (+08:00)")
    ] = "UTC"
    strict: Annotated[bool, Meta(description="refuse a record instead of losing anything of it (target side)")] = False

    def zone(self) -> tzinfo:
        """The zone of TIMESTAMP text. Raises ValueError for an unknown name."""
        if self.timezone.upper() in {"UTC", "Z", "+00:00"}:
            return UTC
        if offset := _OFFSET(self.timezone):
            sign, hours, minutes = offset.groups()
            shift = timedelta(hours=int(hours), minutes=int(minutes))
            return timezone(-shift if sign == "-" else shift)
        try:
            return ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            message = f"unknown time zone {self.timezone!r}; use a name such as Asia/Shanghai or an offset such as +08:00"
            raise ValueError(message) from None

    def writing_problems(self) -> list[Problem]:
        """What is wrong with these options on the target side, where they must fit together; `path` is the option's name."""
        return []


_OFFSET = re.compile(r"([+-])(0\d|1[0-4]):([0-5]\d)").fullmatch


class Codec(msgspec.Struct, frozen=True):
    """One protocol: `name` is the user's word for it, `title` a line of explanation.

    `finds` is the most that its decoder can find in a message, `carries` what its encoder writes with given options.
    `ddl_everywhere`: its readers expect DDL in every partition, not once in partition 0.
    """

    name: str
    title: str
    options: type[Options]
    finds: Carries
    carries: Callable[[Any], Carries]
    decoder: Callable[[Any], Decoder]
    encoder: Callable[[Any], Encoder]
    ddl_everywhere: bool = False


def parse_options(codec: Codec, given: Mapping[str, str], key_path: str) -> Options:
    """Read `name=value` texts into the codec's frozen options.

    Raises ConfigError with every problem: an unknown name (with the near ones), a value that does not fit.
    """
    fields = {field.encode_name: field for field in msgspec.structs.fields(codec.options)}
    problems = []
    values: dict[str, Any] = {}
    for name, text in given.items():
        if name not in fields:
            near = difflib.get_close_matches(name, fields, n=3, cutoff=0.5)
            hint = "did you mean " + " or ".join(near) + "?" if near else "options: " + ", ".join(sorted(fields))
            problems.append(Problem(f"{key_path}.{name}", f"{codec.name} has no option {name!r}", hint))
            continue
        try:
            values[name] = msgspec.convert(text, fields[name].type, strict=False)
        except msgspec.ValidationError as error:
            problems.append(Problem(f"{key_path}.{name}", f"{text!r} does not fit: {error}"))
    options = msgspec.convert(values, codec.options)
    try:
        options.zone()
    except ValueError as error:
        problems.append(Problem(f"{key_path}.timezone", str(error)))
    if problems:
        raise ConfigError(problems)
    return options
