"""The contract of every codec, relay's own and those of other packages: what is written about each is found
through the codec itself, so a protocol that is added is tested without a change here.

docs/architecture.md, "How a protocol is added", says what of this a new codec meets first.
"""

from __future__ import annotations

import enum
import functools
import itertools
import json
import random
import time
import typing
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from types import UnionType
from typing import Any, NamedTuple, TypeVar

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from option_choices import Given, option_sets
from strategies import Case, cases, creation
from support import CAPTURED, captured, protocol_of, reading_options

from relay import (
    ABSENT,
    Bootstrap,
    CodecError,
    ConsumerRecord,
    DecodeError,
    EncodeError,
    Event,
    Heartbeat,
    Lossy,
    Need,
    Op,
    ProducerRecord,
    Resolver,
    RowChange,
    Rows,
    SchemaChange,
    Snapshot,
    Source,
    TableSchema,
    Transaction,
    TransactionMark,
    Translator,
    Watermark,
)
from relay.catalog import Catalog
from relay.cli.loss_words import route_losses
from relay.codecs import PROTOCOLS
from relay.codecs.codec import Decoder, Payload, side_of
from relay.codecs.given_options import parse_options
from relay.codecs.losses import (
    SOURCE_LOSSES,
    TRANSACTION_LOSSES,
    UNSUPPORTED_EVENT_LOSSES,
    Before,
    Carries,
    Keys,
)
from relay.model import Cell, Column, ColumnType, Row
from relay.mysql.types import FRACTIONAL
from relay.needs import Answers

Found = TypeVar("Found")
TIME_MS = 1_795_254_665_538
COMMIT_TS = TIME_MS << 18
#: No record of the size that is met here may take longer, on a busy machine too.
MAX_SECONDS = 5.0

DEBEZIUM = {"debezium-json", "debezium-avro"}
READABLE = [name for name, codec in PROTOCOLS.items() if codec.is_readable]

every_codec = pytest.mark.parametrize("protocol", PROTOCOLS)
every_readable_codec = pytest.mark.parametrize("protocol", READABLE)

# ---------------------------------------------------------------- what a codec brings


class Wire:
    """A codec's encoder, and a decoder that is told what its producer was told; needs of both are answered."""

    def __init__(self, protocol: str, given: Given, reading: Given | None = None) -> None:
        self.codec = PROTOCOLS[protocol]
        sides = {
            field.encode_name: side_of(field.type) for field in msgspec.structs.fields(self.codec.options)
        }
        told = {name: value for name, value in given.items() if sides[name] != "target"}
        shaped = {name: value for name, value in given.items() if sides[name] != "source"}
        written = parse_options(self.codec, shaped, "to", "target")
        read = parse_options(self.codec, told | (reading or {}), "from", "source")
        self.is_of_producer = told == given
        self.without_dates = {"date", "datetime"} | (
            {"timestamp"}
            if given.get("zero-dates") == "null" or protocol in DEBEZIUM | {"maxwell-json"}
            else set()
        )
        #: Whether columns have their own names in rows.
        self.has_names = given.get("field.name.adjustment.mode", "none") == "none" and not (
            self.codec.uses_registry  # Avro has no other names
        )
        self._answers = Answers()
        self.carries = self.codec.encodes(written)
        self._encoder = self.codec.open_encoder(written, self._answers)
        self._decoder = self.codec.open_decoder(read, self._answers) if self.codec.is_readable else None
        self._catalog, self._offset = Catalog(), 0
        if self.codec.rows_need_definitions:
            self.sent(CREATED)
            self._offset = 0

    def write(self, *events: Event) -> tuple[list[ConsumerRecord], list[Lossy]]:
        """The messages of events, as records of a topic, and what was counted."""

        def encode() -> tuple[list[Payload], list[Lossy]]:
            lossy: list[Lossy] = []
            return list(self._encoder.encode(events, caused_by, lossy)), lossy

        caused_by = ConsumerRecord("topic", 0, self._offset, TIME_MS, None, None)
        payloads, lossy = self._answered(encode)
        records = [
            ConsumerRecord(
                "topic", 0, self._offset + number, TIME_MS, payload.key, payload.value, payload.headers
            )
            for number, payload in enumerate(payloads)
        ]
        self._offset += len(records)
        return records, lossy

    def read(self, record: ConsumerRecord) -> list[Event]:
        """The events of a message."""
        return self.counted(record)[0]

    def counted(self, record: ConsumerRecord) -> tuple[list[Event], list[Lossy]]:
        """The same, and what the reader counts."""

        def decode() -> tuple[tuple[list[Event], Catalog], list[Lossy]]:
            lossy: list[Lossy] = []
            return self._reader.decode(record, self._catalog, lossy), lossy

        (events, self._catalog), lossy = self._answered(decode)
        return events, lossy

    def knows(self, schema: TableSchema) -> bool:
        """Whether what was read has taught the decoder this definition."""
        return self._catalog.newest(schema.id)[1] == schema

    def sent(self, *events: Event) -> tuple[list[Event], list[Lossy]]:
        """What a reader gets of events, and what the writer counts."""
        records, lossy = self.write(*events)
        return [event for record in records for event in self.read(record)], lossy

    def is_refused(self, record: ConsumerRecord) -> bool:
        """Whether this is no message; anything but events, a DecodeError or a Need fails, and so does waiting."""
        began = time.perf_counter()
        try:
            for event in self._reader.decode(record, self._catalog, [])[0]:
                if isinstance(event, RowChange):
                    _ = event.before, event.after
        except DecodeError as error:
            assert (error.protocol, bool(error.reason)) == (self.codec.name, True)
            return True
        except Need:
            return False
        finally:
            assert time.perf_counter() - began < MAX_SECONDS
        return False

    @property
    def _reader(self) -> Decoder:
        assert self._decoder is not None, f"{self.codec.name} is only written"
        return self._decoder

    def _answered(self, call: Callable[[], Found]) -> Found:
        while True:
            try:
                return call()
            except Need as need:
                self._answers.provide(need, Resolver().fetch(need))


def wires(protocol: str) -> list[Wire]:
    """A wire for each set of options."""
    return [Wire(protocol, given) for given in sets_of(protocol)]


@functools.cache
def sets_of(protocol: str) -> list[Given]:
    """The sets of options that are tried; finding them takes as long as many messages."""
    return option_sets(PROTOCOLS[protocol])


#: Where there are more sets of options, each case is tried with so many of them.
MOST_WIRES = 21


def some_wires(protocol: str, case: Case) -> list[Wire]:
    """A wire for each set of options, or for some of many: the same ones for the same case."""
    sets = sets_of(protocol)
    if len(sets) > MOST_WIRES:
        sets = random.Random(case.created.ddl).sample(sets, MOST_WIRES)
    return [Wire(protocol, given) for given in sets]


# ---------------------------------------------------------------- events of every kind

SOURCE = Source("elsewhere", TIME_MS * 1_000_000, COMMIT_TS)
AT_NS = (TIME_MS + 5) * 1_000_000
CREATED = creation(
    "CREATE TABLE `orders` (`id` INT PRIMARY KEY, `a` VARCHAR(9), `b` BLOB, `c` FLOAT, `d` DECIMAL(9,2), "
    "`e` TIMESTAMP(3) NULL, `f` ENUM('x','y'))",
    msgspec.structs.replace(SOURCE, commit_ts=COMMIT_TS - (9 << 18)),
    AT_NS,
)
ROWS: dict[int, Row] = {
    1: (1, "a", b"\x00\xff", 1.5, Decimal("1.20"), "2024-01-01 00:00:00.500", 2),
    2: (2, "é\"'", None, None, Decimal("-0.01"), None, 1),
}


def table() -> TableSchema:
    assert CREATED.after is not None
    return CREATED.after


def row(op: Op, before: Row | None, after: Row | None, source: Source = SOURCE, **more: Any) -> RowChange:
    return RowChange(op, table(), Rows(before, after), source, AT_NS, **more)


def insert(source: Source = SOURCE, **more: Any) -> RowChange:
    return row(Op.INSERT, None, ROWS[1], source, **more)


CHANGES = [
    insert(),
    row(Op.INSERT, None, ROWS[2]),
    row(Op.UPDATE, ROWS[1], (1, "b", *ROWS[1][2:])),
    row(Op.DELETE, ROWS[2], None),
    row(Op.READ, None, ROWS[1], msgspec.structs.replace(SOURCE, snapshot=Snapshot.TRUE)),
]
OTHERS: list[Event] = [
    Watermark(SOURCE, AT_NS),
    Heartbeat(SOURCE, AT_NS),
    Bootstrap(table(), SOURCE, AT_NS),
    TransactionMark(True, "tx:9", SOURCE, AT_NS),
    TransactionMark(False, "tx:9", SOURCE, AT_NS, 2, ((table().id, 2),)),
]


def messages(wire: Wire, *, with_ddl: bool = True) -> list[ConsumerRecord]:
    """A message of every kind that the wire has."""
    events = [*([CREATED] if with_ddl else []), *CHANGES, *OTHERS]
    return [record for event in events for record in wire.write(event)[0]]


# ---------------------------------------------------------------- garbage


@every_readable_codec
@settings(max_examples=200)
@given(key=st.none() | st.binary(max_size=60), value=st.none() | st.binary(max_size=200))
def test_arbitrary_bytes_are_events_or_refused(protocol: str, key: bytes | None, value: bytes | None) -> None:
    Wire(protocol, {}).is_refused(ConsumerRecord("topic", 0, 0, 0, key, value))


@every_readable_codec
def test_a_message_cut_anywhere_is_events_or_refused(protocol: str) -> None:
    sets = option_sets(PROTOCOLS[protocol])
    for wire in (Wire(protocol, sets[0]), Wire(protocol, sets[-1])):
        for record in messages(wire):
            for part in ("key", "value"):
                whole: bytes = getattr(record, part) or b""
                for end in range(len(whole)):
                    wire.is_refused(msgspec.structs.replace(record, **{part: whole[:end]}))
            wire.read(record)


@every_readable_codec
def test_a_message_with_any_bit_flipped_is_events_or_refused(protocol: str) -> None:
    wire = Wire(protocol, {})
    for record in messages(wire):
        for part in ("key", "value"):
            whole: bytes = getattr(record, part) or b""
            # Of schemas as long as Debezium's not every byte.
            for at in range(0, len(whole), 1 + len(whole) // 500):
                for other in (whole[at] ^ (1 << at % 8), b'"0{\x00\xff'[at % 5]):
                    flipped = whole[:at] + bytes([other]) + whole[at + 1 :]
                    wire.is_refused(msgspec.structs.replace(record, **{part: flipped}))
        wire.read(record)


@pytest.mark.parametrize("file", CAPTURED)
def test_captured_messages_cut_and_flipped_are_events_or_refused(file: str) -> None:
    chance = random.Random(20261121)
    wire = Wire(protocol_of(file), {}, reading_options(file))
    for record in captured(file)[:60]:
        assert wire.codec.rows_need_definitions or not wire.is_refused(record)
        for part in ("key", "value"):
            whole = bytearray(getattr(record, part) or b"")
            if whole:
                end = chance.randrange(len(whole))
                wire.is_refused(msgspec.structs.replace(record, **{part: bytes(whole[:end])}))
                for _ in range(chance.randint(1, 4)):
                    whole[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
                wire.is_refused(msgspec.structs.replace(record, **{part: bytes(whole)}))


# ---------------------------------------------------------------- round trip


@every_readable_codec
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases())
def test_what_is_written_is_read_back_as_far_as_the_codec_carries_it(protocol: str, case: Case) -> None:
    for wire in some_wires(protocol, case):
        carries = wire.carries
        if not (carries.ddl or carries.column_types):
            continue  # nothing tells bytes from their base64
        if carries.ddl:
            (change,), _ = wire.sent(case.created)
            assert isinstance(change, SchemaChange)
            assert told(change) == told(case.created)
        try:
            changes, lossy = wire.sent(*case.changes)
        except EncodeError:
            assert not wire.has_names  # two columns would have the same one
            continue
        assert len(changes) == len(case.changes)
        projected = [project(one, carries, wire.without_dates) for one in case.changes]
        for change, expected in zip(changes, projected, strict=True):
            assert isinstance(change, RowChange)
            images = [sayable(one, wire) for one in (change, expected)]
            is_key = change.op is Op.DELETE and not (carries.delete_image or carries.ddl)
            if is_key:  # nothing tells of the other columns
                images[1] = [row and [cell for cell in row if cell is not ABSENT] for row in images[1]]
            assert images[0] == images[1]
            if change.op is not expected.op:  # what an UPDATE without its old row looks like
                assert (change.op, expected.op, carries.before) == (Op.INSERT, Op.UPDATE, Before.NONE)
            assert is_key or described(change.schema, wire) == described(expected.schema, wire)
            for name, what in (("event_time_ns", Lossy.EVENT_TIME), ("commit_ts", Lossy.COMMIT_TS)):
                is_kept = getattr(change.source, name) == getattr(expected.source, name)
                assert is_kept or what in lossy


def sayable(change: RowChange, wire: Wire) -> list[list[object] | None]:
    """Both images; without TIME and DATETIME where not every value of them can be said, JSON without the
    space that Debezium leaves out, and Maxwell's null, which is that of JSON and that of SQL, as the latter.
    """
    left_out = set() if wire.carries.every_time else {"time", "datetime"}
    is_compact = wire.codec.name in DEBEZIUM
    # Times that are counted, of which no definition tells the digits.
    has_open_digits = wire.codec.name == "ticdc-debezium-avro" and not wire.carries.ddl

    def said(column: Column, cell: Cell) -> object:
        if column.type.base in left_out:
            return None
        if has_open_digits and column.type.base in FRACTIONAL and "." in str(cell):
            return str(cell).rstrip("0").rstrip(".")
        if wire.codec.name == "maxwell-json" and (column.type.base, cell) == ("json", "null"):
            return None
        is_document = is_compact and column.type.base == "json" and isinstance(cell, str)
        return json.loads(str(cell)) if is_document else cell

    return [
        None
        if row is None
        else [said(column, cell) for column, cell in zip(change.schema.columns, row, strict=True)]
        for row in (change.before, change.after)
    ]


def within(column_type: ColumnType, number: Decimal) -> Decimal:
    """A number of a DECIMAL column; the greatest one for that which it became as a double."""
    greatest = Decimal((0, (9,) * (column_type.length or 10), -(column_type.scale or 0)))
    return greatest.copy_sign(number) if abs(number) > greatest else number


def told(change: SchemaChange) -> tuple[object, ...]:
    return change.ddl, change.table, change.kinds, change.after


def described(schema: TableSchema, wire: Wire) -> object:
    """The definition that a reader has: the whole one where the DDL came, else what rows tell of it."""
    carries = wire.carries
    if carries.ddl:
        return schema
    types = [
        (column.name if wire.has_names else None, column.type if carries.type_parameters else None)
        for column in schema.columns
    ]
    return schema.id, types, schema.primary_key if carries.primary_key else None


def project(change: RowChange, carries: Carries, without_dates: set[str]) -> RowChange:
    """The change as far as a protocol can say it: what `project` is in relay's architecture.

    `without_dates`: the types that have no zero dates where the protocol does not have every date.
    """
    op, source, before, after = change.op, change.source, change.before, change.after
    if not carries.commit_ts:
        source = msgspec.structs.replace(source, commit_ts=None)
    if op is Op.DELETE and not carries.delete_image and before is not None:
        key = change.schema.handle_key()
        before = tuple(
            cell if column.name in key else ABSENT
            for column, cell in zip(change.schema.columns, before, strict=True)
        )
    if op is Op.UPDATE and carries.before is Before.NONE:
        before = None
    if not carries.event_time_milliseconds:
        source = msgspec.structs.replace(source, event_time_ns=source.event_time_ns // 10**9 * 10**9)
    before, after = (_projected(change.schema, row, carries, without_dates) for row in (before, after))
    return msgspec.structs.replace(change, images=Rows(before, after), source=source)


def _projected(schema: TableSchema, row: Row | None, carries: Carries, without_dates: set[str]) -> Row | None:
    if row is None:
        return None
    cells = zip(schema.columns, row, strict=True)
    return tuple(_cell(column, cell, carries, without_dates) for column, cell in cells)


def _cell(column: Column, cell: Cell, carries: Carries, without_dates: set[str]) -> Cell:
    if isinstance(cell, Decimal) and not carries.exact_decimals:
        return within(column.type, Decimal(format(Decimal(repr(float(cell))), f".{column.type.scale}f")))
    has_no_zero = column.type.base in without_dates and not carries.every_date
    if has_no_zero and str(cell).startswith("0000"):
        return None
    return cell


@every_readable_codec
def test_each_update_without_its_old_row_is_counted_by_who_reads_it_and_by_nobody_else(protocol: str) -> None:
    """One row's loss says nothing of another's: a decoder knows of which rows the source does not tell."""
    unknown = row(Op.UPDATE, None, ROWS[1])
    for wire in wires(protocol):
        wire.sent(CREATED)
        try:
            records, counted = wire.write(unknown, CHANGES[2], unknown)
        except EncodeError:
            continue  # an option wants it so
        assert Lossy.BEFORE_UNKNOWN not in counted
        for record in records:
            events, lossy = wire.counted(record)
            changes = [event for event in events if isinstance(event, RowChange)]
            unread = [change for change in changes if change.op is Op.UPDATE and change.before is None]
            assert lossy.count(Lossy.BEFORE_UNKNOWN) == len(unread)


@every_readable_codec
@pytest.mark.parametrize("event", OTHERS, ids=lambda event: type(event).__name__)
def test_events_other_than_rows_are_read_back_or_counted(protocol: str, event: Event) -> None:
    for wire in wires(protocol):
        read, lossy = wire.sent(event)
        assert (UNSUPPORTED_EVENT_LOSSES[type(event)] in lossy) is (read == [])
        if isinstance(event, Watermark):
            assert wire.carries.watermark is bool(read)
        if isinstance(event, TransactionMark):
            assert wire.carries.transaction_marks is bool(read)
        if isinstance(event, Bootstrap):
            assert wire.knows(event.schema) is bool(read)
        for found in read:
            assert type(found) is type(event)
            assert found.source.commit_ts == event.source.commit_ts or Lossy.COMMIT_TS in lossy
            # How a definition is shown is the producer's own.
            for name in set(event.__struct_fields__) - {"source", "emitted_at_ns", "ddl", "told"}:
                assert getattr(found, name) == getattr(event, name)


@every_codec
def test_ddl_is_written_or_counted(protocol: str) -> None:
    for wire in wires(protocol):
        records, lossy = wire.write(CREATED)
        assert (bool(records), Lossy.DDL in lossy) == (wire.carries.ddl, not wire.carries.ddl)


@every_codec
@pytest.mark.parametrize("event", OTHERS, ids=lambda event: type(event).__name__)
def test_events_other_than_rows_are_written_or_counted(protocol: str, event: Event) -> None:
    for wire in wires(protocol):
        records, lossy = wire.write(event)
        assert (UNSUPPORTED_EVENT_LOSSES[type(event)] in lossy) is (records == [])


def test_every_kind_of_event_has_a_counter_for_targets_without_a_message() -> None:
    assert {*typing.get_args(Event)} - {RowChange} == set(UNSUPPORTED_EVENT_LOSSES)


# ---------------------------------------------------------------- losses

#: Values of facts that protocols do not take in any form; all others are made from the field's type.
VALUES: dict[str, Any] = {
    "commit_ts": COMMIT_TS,
    "start_ts": COMMIT_TS - 5,
    "gtid": "3e11fa47-71ca-11e1-9e33-c80aa9429562:23",
    "binlog_position": 484,
    "extras": {"unheard-of": 1},
}
#: What a fact is nothing without.
TOGETHER: dict[str, dict[str, Any]] = {"binlog_position": {"binlog_file": "mysql-bin.000003"}}
BARE = Source("elsewhere", TIME_MS * 1_000_000)
FACTS = {name: what for name, what in SOURCE_LOSSES.items() if what is not None}


def value_of(kind: type[msgspec.Struct], name: str) -> Any:
    if name in VALUES:
        return VALUES[name]
    hint = typing.get_type_hints(kind)[name]
    choices = typing.get_args(hint) if isinstance(hint, UnionType) else (hint,)
    (plain,) = (choice for choice in choices if choice is not type(None))
    if issubclass(plain, enum.Enum):
        return next(iter(plain))
    return {int: 2, str: "prod", bytes: b"t\x80\xff"}[plain]


def source_with(name: str) -> Source:
    return msgspec.structs.replace(BARE, **{name: value_of(Source, name)}, **TOGETHER.get(name, {}))


def test_every_fact_of_an_event_has_a_counter() -> None:
    assert list(SOURCE_LOSSES) == list(Source.__struct_fields__)
    assert list(TRANSACTION_LOSSES) == list(Transaction.__struct_fields__)
    assert set(SOURCE_LOSSES) - set(FACTS) == {
        "connector",
        "event_time_ns",
        "binlog_file",
        "time_unit_ns",
        "binlog_row",
    }
    for what in {*FACTS.values(), *TRANSACTION_LOSSES.values()} - {Lossy.EXTRAS}:
        assert what is not None
        assert str(what).replace("-", "_") in Carries.__struct_fields__


@every_readable_codec
@pytest.mark.parametrize("name", FACTS)
def test_a_fact_of_a_rows_source_is_read_back_or_counted(protocol: str, name: str) -> None:
    source, what = source_with(name), FACTS[name]
    for wire in wires(protocol):
        (read,), lossy = wire.sent(insert(source))
        is_kept = getattr(read.source, name) == getattr(source, name)
        assert is_kept is not (what in lossy)
        if what not in {Lossy.EXTRAS, Lossy.SOURCE_NAME}:  # these depend on which ones they are
            assert wire.carries.has(what) is is_kept
            assert is_told(what, wire.carries) is not is_kept


@every_codec
@pytest.mark.parametrize("name", FACTS)
def test_a_fact_of_a_rows_source_is_carried_or_counted(protocol: str, name: str) -> None:
    """Which extras and names are lost depends on what they are."""
    source, what = source_with(name), FACTS[name]
    for wire in wires(protocol):
        _, lossy = wire.write(insert(source))
        if what not in {Lossy.EXTRAS, Lossy.SOURCE_NAME}:
            assert wire.carries.has(what) is (what not in lossy)
        if not PROTOCOLS[protocol].is_readable:
            assert is_told(what, wire.carries) or wire.carries.has(what) or what is Lossy.EXTRAS


@every_codec
def test_a_deleted_row_is_written_or_counted(protocol: str) -> None:
    for wire in wires(protocol):
        records, lossy = wire.write(CHANGES[3])
        assert bool(records) is wire.carries.deletes is (Lossy.DELETE not in lossy)
        assert (Lossy.DELETE_IMAGE in lossy) is (wire.carries.deletes and not wire.carries.delete_image)


@every_readable_codec
@pytest.mark.parametrize("name", sorted(set(FACTS) - {"snapshot"}))
def test_a_fact_of_a_statements_source_is_read_back_or_counted(protocol: str, name: str) -> None:
    source = source_with(name)
    change = msgspec.structs.replace(CREATED, source=source)
    for wire in wires(protocol):
        read, lossy = wire.sent(change)
        assert (
            all(getattr(event.source, name) == getattr(source, name) for event in read)
            or FACTS[name] in lossy
        )


@every_readable_codec
@pytest.mark.parametrize("name", TRANSACTION_LOSSES)
def test_a_rows_transaction_is_read_back_or_counted(protocol: str, name: str) -> None:
    of_row = Transaction("tx:9", **({} if name == "id" else {name: value_of(Transaction, name)}))
    what = TRANSACTION_LOSSES[name]
    assert what is not None
    for wire in wires(protocol):
        (read,), lossy = wire.sent(insert(transaction=of_row))
        assert isinstance(read, RowChange)
        is_kept = getattr(read.transaction, name, None) == getattr(of_row, name)
        assert is_kept is wire.carries.has(what) is not (what in lossy)
        assert is_told(what, wire.carries) is not is_kept


@every_readable_codec
def test_the_event_time_has_its_milliseconds_or_they_are_counted(protocol: str) -> None:
    for wire in wires(protocol):
        (read,), lossy = wire.sent(insert(BARE))
        is_kept = read.source.event_time_ns == BARE.event_time_ns
        assert is_kept is wire.carries.event_time_milliseconds is not (Lossy.EVENT_TIME_PRECISION in lossy)


@every_readable_codec
def test_a_row_of_a_snapshot_is_told_from_one_of_the_log_or_counted(protocol: str) -> None:
    for wire in wires(protocol):
        (read,), lossy = wire.sent(row(Op.READ, None, ROWS[1]))
        assert isinstance(read, RowChange)
        assert (read.op is Op.READ or read.source.snapshot is not None) is not (Lossy.SNAPSHOT in lossy)


@every_readable_codec
def test_a_decoder_finds_whatever_a_producer_writes(protocol: str) -> None:
    """With options of its own: those that stand on the target side alone are relay's."""
    decodes = PROTOCOLS[protocol].decodes
    for wire in (wire for wire in wires(protocol) if wire.is_of_producer):
        for name in set(Carries.__struct_fields__) - {"before"}:
            assert getattr(decodes, name) or not getattr(wire.carries, name), name


def is_told(what: Lossy, carries: Carries) -> bool:
    """Whether `relay formats` names this as lost on a route from a source that says everything."""
    fields: dict[str, Any] = {**dict.fromkeys(Carries.__struct_fields__, True), "before": Before.FULL}
    everything = Carries(**fields)
    return what.replace("-", "_") in {loss.what for loss in route_losses(everything, carries)}


# ---------------------------------------------------------------- keys


@every_codec
def test_keys_stand_for_what_the_codec_says(protocol: str) -> None:
    """Of equal keys a compacted topic keeps the last message."""
    keys = PROTOCOLS[protocol].keys
    for wire in wires(protocol):
        by_row: dict[Cell, set[bytes | None]] = defaultdict(set)
        for change in CHANGES:
            image: Row = change.after or change.before or ()
            by_row[image[0]] |= {record.key for record in wire.write(change)[0]}
        found = set().union(*by_row.values())
        assert (found == {None}) is (keys is Keys.NONE)
        assert keys is Keys.NONE or None not in found
        if keys is Keys.ROW:
            assert [len(of_row) for of_row in by_row.values()] == [1, 1]
            assert len(found) == 2
        if keys is Keys.MESSAGE:
            assert by_row[1] & by_row[2], "rows of one transaction have one key"


# ---------------------------------------------------------------- row signature


@every_codec
def test_a_row_signature_matches_rows_and_never_ddl(protocol: str) -> None:
    signature = PROTOCOLS[protocol].row_signature
    if signature is None:
        return
    texts = [
        "".join(mark.decode() for group in signature.groups for mark in group),
        '"type":"INSERT","isDdl":false,"op":"c","t":1}',
    ]
    statements = [
        creation(f"CREATE TABLE t (a INT PRIMARY KEY COMMENT '{text}')", SOURCE, AT_NS) for text in texts
    ]
    for number, wire in enumerate(wires(protocol)):
        for statement in (CREATED, *statements):
            assert not any(signature.matches(r.key, r.value) for r in wire.write(statement)[0])
        if number == 0:  # with other options messages may be compressed
            # A tombstone has nothing to be known by.
            rows = [record for change in CHANGES for record in wire.write(change)[0] if record.value]
            assert all(signature.matches(record.key, record.value) for record in rows)


# ---------------------------------------------------------------- zones


@every_readable_codec
@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai", "-03:30"])
def test_a_timestamp_survives_in_the_zone_of_both_sides(protocol: str, zone: str) -> None:
    has_zone = "timezone" in PROTOCOLS[protocol].options.__struct_fields__
    wire = Wire(protocol, {"timezone": zone} if has_zone else {})
    read = [event for record in messages(wire) for event in wire.read(record)]
    place = [column.name for column in table().columns].index("e")
    after = [change.after[place] for change in read if isinstance(change, RowChange) and change.after]
    assert after == [ROWS[1][place], ROWS[2][place], ROWS[1][place], ROWS[1][place]]


# ---------------------------------------------------------------- after an error


def changed(records: Sequence[ConsumerRecord], chance: random.Random) -> Iterator[ConsumerRecord]:
    """What may come instead of messages: other keys and values, cut and flipped ones."""
    keys, values = ({getattr(record, part) for record in records} for part in ("key", "value"))
    for record in records:
        for key in (*sorted(key for key in keys if key), None, b"", b"{}", b"\xff", b'{"payload":{}}'):
            yield msgspec.structs.replace(record, key=key)
        for value in (*sorted(value for value in values if value)[:3], None, b"{}", b"\x00"):
            yield msgspec.structs.replace(record, value=value)
        for part in ("key", "value"):
            whole = bytearray(getattr(record, part) or b"")
            for _ in range(min(len(whole), 12)):
                one = whole.copy()
                one[chance.randrange(len(one))] ^= 1 << chance.randrange(8)
                yield msgspec.structs.replace(record, **{part: bytes(one)})
                yield msgspec.structs.replace(record, **{part: bytes(whole[: chance.randrange(len(whole))])})


class Outcome(NamedTuple):
    """What a translator makes of a record: the output, or the error, and what is counted meanwhile."""

    made: list[ProducerRecord] | str
    lossy: Counter[Lossy]


def outcome(translator: Translator, record: ConsumerRecord) -> Outcome:
    before = translator.lossy
    try:
        made: list[ProducerRecord] | str = Resolver().translate(translator, record)
    except CodecError as error:
        made = str(error)
    return Outcome(made, translator.lossy - before)


#: Every source and every target several times: what a decoder keeps has nothing to do with the encoder.
ROUTES = [
    (source, target)
    for (at, source), (to, target) in itertools.product(enumerate(READABLE), enumerate(PROTOCOLS))
    if (at - to) % 4 == 0
]


@pytest.mark.parametrize(("source", "target"), ROUTES)
def test_nothing_that_was_refused_or_taken_back_shows_in_what_follows(source: str, target: str) -> None:
    """Neither in the translator's state nor in the caches of decoder and encoder."""
    for with_ddl, strict in itertools.product((True, False), ("false", "true")):
        good = messages(Wire(source, {}), with_ddl=with_ddl and PROTOCOLS[source].decodes.ddl)
        fresh, used = (Translator(source, target, None, {"strict": strict}) for _ in range(2))
        bad = list(changed(good, random.Random(20261123)))
        for number, record in enumerate(good):
            state = used.state
            for other in bad[number :: len(good)]:
                counted = used.events, used.lossy
                try:
                    used.translate(other)
                except (DecodeError, EncodeError, Need):
                    assert used.state == state
                    assert (used.events, used.lossy) == counted
                used.restore(state)
            assert outcome(used, record) == outcome(fresh, record)
