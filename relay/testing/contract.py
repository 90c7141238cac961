"""Contract tests for codecs. The expectations are derived from the codec's own description.

docs/architecture.md, "How a protocol is added", describes the requirements of a new codec.
"""

from __future__ import annotations

import enum
import functools
import json
import random
import typing
from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from types import UnionType
from typing import Any, ClassVar, Final

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay.codecs import codec_named
from relay.codecs.codec import Codec
from relay.codecs.detected_messages import message_of
from relay.codecs.losses import (
    SOURCE_LOSSES,
    TRANSACTION_LOSSES,
    UNSUPPORTED_EVENT_LOSSES,
    Before,
    Capabilities,
    Keys,
    Loss,
)
from relay.core.detection import Detector
from relay.core.loss_texts import route_losses
from relay.core.translator import Translator
from relay.io.resolver import Resolver
from relay.model.errors import EncodeError, LimitExceeded
from relay.model.events import (
    ABSENT,
    Bootstrap,
    Cell,
    Column,
    ColumnType,
    Event,
    Op,
    Row,
    RowChange,
    Rows,
    SchemaChange,
    Source,
    TableSchema,
    Transaction,
    TransactionMark,
    Watermark,
)
from relay.model.limits import DEFAULT_LIMITS, Limits
from relay.model.records import ConsumerRecord
from relay.mysql.types import FRACTIONAL
from relay.testing.option_sets import OptionTexts, option_sets
from relay.testing.strategies import Case, cases, creation
from relay.testing.wires import (
    AT_NS,
    CHANGES,
    COMMIT_TS,
    CREATED,
    OTHERS,
    ROWS,
    SOURCE,
    TIME_MS,
    Differences,
    Wire,
    insert,
    messages,
    row,
    table,
)

#: Maximum number of option sets with which each case is tried.
MOST_WIRES: Final = 21

# ---------------------------------------------------------------- losses

#: Values of facts that protocols do not accept in any form; all others are made from the field's type.
VALUES: dict[str, Any] = {
    "commit_ts": COMMIT_TS,
    "start_ts": COMMIT_TS - 5,
    "gtid": "3e11fa47-71ca-11e1-9e33-c80aa9429562:23",
    "binlog_position": 484,
    "unknown_fields": {"unheard-of": 1},
}
#: Other facts that a fact requires.
REQUIRED_WITH: dict[str, dict[str, Any]] = {
    "binlog_position": {"binlog_file": "mysql-bin.000003"},
    "binlog_row": {"binlog_file": "mysql-bin.000003", "binlog_position": 484},
}
BARE = Source("elsewhere", TIME_MS * 1_000_000)
FACTS = {name: what for name, what in SOURCE_LOSSES.items() if what is not None}


def _positions(whole: bytes) -> range:
    """Return positions all over a text; of one as long as Debezium's schemas not every byte."""
    return range(0, len(whole), 1 + len(whole) // 200)


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
    return msgspec.structs.replace(BARE, **{name: value_of(Source, name)}, **REQUIRED_WITH.get(name, {}))


def is_listed(what: Loss, carries: Capabilities) -> bool:
    """Return whether `relay formats` lists this as a loss of a route from a source with every fact."""
    fields: dict[str, Any] = {**dict.fromkeys(Capabilities.__struct_fields__, True), "before": Before.FULL}
    everything = Capabilities(**fields)
    return what.replace("-", "_") in {loss.what for loss in route_losses(everything, carries)}


# ---------------------------------------------------------------- capabilities of a codec


def supported_images(change: RowChange, wire: Wire) -> list[list[object] | None]:
    """Return both images without values that may differ.

    Left out are TIME and DATETIME unless every value of them can be written, and the values that the wire's
    `Differences` leave open.
    """
    left_out = set() if wire.carries.every_time else {"time", "datetime"}
    is_compact = wire.differences.is_compact
    has_open_digits = wire.differences.has_open_digits and not wire.carries.ddl

    def supported(column: Column, cell: Cell) -> object:
        if column.type.base in left_out:
            return None
        if has_open_digits and column.type.base in FRACTIONAL and "." in str(cell):
            return str(cell).rstrip("0").rstrip(".")
        if wire.differences.has_no_json_null and (column.type.base, cell) == ("json", "null"):
            return None
        is_document = is_compact and column.type.base == "json" and isinstance(cell, str)
        return json.loads(str(cell)) if is_document else cell

    return [
        None
        if row is None
        else [supported(column, cell) for column, cell in zip(change.schema.columns, row, strict=True)]
        for row in (change.before, change.after)
    ]


def clamped(column_type: ColumnType, number: Decimal) -> Decimal:
    """Return a number clamped to the range of a DECIMAL column: as a double it may have exceeded it."""
    greatest = Decimal((0, (9,) * (column_type.length or 10), -(column_type.scale or 0)))
    return greatest.copy_sign(number) if abs(number) > greatest else number


def statement_parts(change: SchemaChange) -> tuple[object, ...]:
    return change.ddl, change.table, change.kinds, change.after


def supported_definition(schema: TableSchema, wire: Wire) -> object:
    """Return the definition that a reader has: the whole one if the DDL came, else the part in the rows."""
    carries = wire.carries
    if carries.ddl:
        return schema
    types = [
        (
            column.name if wire.differences.has_names else None,
            column.type if carries.type_parameters else None,
        )
        for column in schema.columns
    ]
    return schema.id, types, schema.primary_key if carries.primary_key else None


def project(change: RowChange, carries: Capabilities, without_dates: frozenset[str]) -> RowChange:
    """Return the change reduced to the facts of a protocol: `project` in relay's architecture.

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


def _projected(
    schema: TableSchema, row: Row | None, carries: Capabilities, without_dates: frozenset[str]
) -> Row | None:
    if row is None:
        return None
    cells = zip(schema.columns, row, strict=True)
    return tuple(_cell(column, cell, carries, without_dates) for column, cell in cells)


def _cell(column: Column, cell: Cell, carries: Capabilities, without_dates: frozenset[str]) -> Cell:
    if isinstance(cell, Decimal) and not carries.exact_decimals:
        return clamped(column.type, Decimal(format(Decimal(repr(float(cell))), f".{column.type.scale}f")))
    has_no_zero = column.type.base in without_dates and not carries.every_date
    if has_no_zero and str(cell).startswith("0000"):
        return None
    return cell


# ---------------------------------------------------------------- the contract


class CodecContract:
    """Requirements for a codec with any options. A subclass names the codec.

    `samples`: records as their producer wrote them, without DDL before them; a codec that is only read needs
    some. `differences`: how values may come back, with given options, where `Capabilities` has no field for
    it.
    """

    codec: ClassVar[Codec]
    samples: ClassVar[Sequence[ConsumerRecord]] = ()

    def differences(self, options: OptionTexts) -> Differences:  # noqa: ARG002 - for subclasses
        """Return how read values may differ from written ones with these options."""
        return Differences()

    def wire(self, options: OptionTexts) -> Wire:
        """Return an encoder and a decoder with these options."""
        return Wire(self.codec, options, None, self.differences(options))

    @classmethod
    @functools.cache
    def sets(cls) -> list[OptionTexts]:
        """Return the sets of options that are tried; finding them takes as long as many messages."""
        return option_sets(cls.codec)

    def wires(self) -> list[Wire]:
        """Return a wire for each set of options."""
        return [self.wire(options) for options in self.sets()]

    @classmethod
    @functools.cache
    def warm_wires(cls, test: str) -> list[Wire]:  # noqa: ARG003 - part of the key
        """Return the same wires for all cases of a test whose cases do not depend on each other: opening codecs
        and describing the table takes longer than the message of a case.
        """
        return cls().wires()

    def sampled_wires(self, case: Case) -> list[Wire]:
        """Return a wire for each set of options, or for some of many: the same ones for the same case."""
        sets = self.sets()
        if len(sets) > MOST_WIRES:
            sets = random.Random(case.created.ddl).sample(sets, MOST_WIRES)
        return [self.wire(options) for options in sets]

    def messages(self, wire: Wire) -> list[ConsumerRecord]:
        """Return a message of every kind: written, or the samples of a codec that is only read."""
        return messages(wire) if self.codec.is_writable else list(self.samples)

    def _require(self, *, reads: bool = False, writes: bool = False) -> None:
        if (reads and not self.codec.is_readable) or (writes and not self.codec.is_writable):
            pytest.skip(f"{self.codec.name} is only {'read' if self.codec.is_readable else 'written'}")

    def _require_rows_without_definitions(self) -> None:
        self._require(reads=True)
        if self.codec.rows_need_definitions:
            pytest.skip(f"rows of {self.codec.name} are read only after the definition of their table")

    # ------------------------------------------------------------ common omissions

    def test_relay_finds_the_codec_by_its_name(self) -> None:
        """A package brings it as an entry point of the group `relay.protocols`."""
        assert codec_named(self.codec.name, "codec") is self.codec

    def test_a_codec_that_is_only_read_has_samples(self) -> None:
        assert self.codec.is_writable or self.samples, "set `samples` to messages of a producer"

    def rows(self) -> list[ConsumerRecord]:
        """Return messages with rows."""
        if not self.codec.is_writable:
            return list(self.samples)
        wire = self.wire({})
        return [record for change in CHANGES for record in wire.write(change)[0] if record.value]

    def test_messages_have_detection_rules(self) -> None:
        """The detection rule matches the codec's messages, and detection names the codec."""
        self._require(reads=True)
        for record in self.rows():
            message = message_of(record.key, record.value or b"", record.headers)
            assert self.codec.detection_rule(message), "Codec.detection_rule does not match the message"
            assert self.codec.name in {each.readable for each in Detector().best(record)}

    def test_a_row_of_more_columns_than_the_limit_is_refused(self) -> None:
        self._require_rows_without_definitions()
        sizes = [
            (record, max((len(change.schema.columns) for change in self._changes(record)), default=0))
            for record in self.rows()
        ]
        wide = [(record, columns) for record, columns in sizes if columns > 1]
        if not wide:
            pytest.skip("no message has a row of several columns")
        for record, columns in wide:
            assert self._changes(record, limits=Limits(columns=columns))
            with pytest.raises(LimitExceeded, match="`columns`"):
                self._changes(record, limits=Limits(columns=columns - 1))

    def test_a_message_of_more_rows_than_the_limit_is_refused(self) -> None:
        self._require_rows_without_definitions()
        sizes = [
            (record, options, len(self._changes(record, options))) for record, options in self._batches()
        ]
        batches = [(record, options, rows) for record, options, rows in sizes if rows > 1]
        if not batches:
            pytest.skip("no message has several rows")
        for record, options, rows in batches:
            assert self._changes(record, options, Limits(rows=rows))
            with pytest.raises(LimitExceeded, match="`rows`"):
                self._changes(record, options, Limits(rows=rows - 1))

    def _batches(self) -> list[tuple[ConsumerRecord, OptionTexts]]:
        """Return messages that may have several rows, and the options for reading them."""
        if not self.codec.is_writable:
            return [(record, {}) for record in self.samples]
        return [
            (record, wire.source_options) for wire in self.wires() for record in wire.write(*CHANGES[:2])[0]
        ]

    def _changes(
        self, record: ConsumerRecord, options: OptionTexts | None = None, limits: Limits = DEFAULT_LIMITS
    ) -> list[RowChange]:
        reader = Translator.reader(self.codec.name, options, limits=limits)
        return [event for event in Resolver().inspect(reader, record) if isinstance(event, RowChange)]

    def test_samples_are_read(self) -> None:
        """With values of their columns' types (`relay.testing.wires`)."""
        self._require(reads=True)
        wire = self.wire({})
        for record in self.samples:
            assert wire.read(record)

    # ------------------------------------------------------------ garbage

    @settings(max_examples=200, suppress_health_check=[HealthCheck.differing_executors])
    @given(key=st.none() | st.binary(max_size=60), value=st.none() | st.binary(max_size=200))
    def test_arbitrary_bytes_are_events_or_refused(self, key: bytes | None, value: bytes | None) -> None:
        self._require(reads=True)
        self.wire({}).is_refused(ConsumerRecord("topic", 0, 0, 0, key, value))

    def test_a_message_cut_anywhere_is_events_or_refused(self) -> None:
        self._require(reads=True)
        sets = self.sets()
        for wire in (self.wire(sets[0]), self.wire(sets[-1])):
            for record in self.messages(wire):
                for part in ("key", "value"):
                    whole: bytes = getattr(record, part) or b""
                    for end in _positions(whole):
                        wire.is_refused(msgspec.structs.replace(record, **{part: whole[:end]}))
                wire.read(record)

    def test_a_message_with_any_bit_flipped_is_events_or_refused(self) -> None:
        self._require(reads=True)
        wire = self.wire({})
        for record in self.messages(wire):
            for part in ("key", "value"):
                whole: bytes = getattr(record, part) or b""
                for at in _positions(whole):
                    for other in (whole[at] ^ (1 << at % 8), b'"0{\x00\xff'[at % 5]):
                        flipped = whole[:at] + bytes([other]) + whole[at + 1 :]
                        wire.is_refused(msgspec.structs.replace(record, **{part: flipped}))
            wire.read(record)

    # ------------------------------------------------------------ round trip

    @settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors])
    @given(case=cases())
    def test_what_is_written_is_read_back_as_far_as_the_codec_carries_it(self, case: Case) -> None:
        self._require(reads=True, writes=True)
        for wire in self.sampled_wires(case):
            carries = wire.carries
            if not (carries.ddl or carries.column_types):
                continue  # bytes and their base64 cannot be distinguished
            if carries.ddl:
                (change,), _ = wire.round_trip(case.created)
                assert isinstance(change, SchemaChange)
                assert statement_parts(change) == statement_parts(case.created)
            try:
                changes, losses = wire.round_trip(*case.changes)
            except EncodeError:
                assert not wire.differences.has_names  # two columns would have the same one
                continue
            assert len(changes) == len(case.changes)
            projected = [project(one, carries, wire.differences.without_zero_dates) for one in case.changes]
            for change, expected in zip(changes, projected, strict=True):
                assert isinstance(change, RowChange)
                images = [supported_images(one, wire) for one in (change, expected)]
                is_key = change.op is Op.DELETE and not (carries.delete_image or carries.ddl)
                if is_key:  # the other columns are unknown
                    images[1] = [row and [cell for cell in row if cell is not ABSENT] for row in images[1]]
                assert images[0] == images[1]
                if change.op is not expected.op:  # the form of an UPDATE without its old row
                    assert (change.op, expected.op, carries.before) == (Op.INSERT, Op.UPDATE, Before.NONE)
                assert is_key or supported_definition(change.schema, wire) == supported_definition(
                    expected.schema, wire
                )
                for name, what in (("event_time_ns", Loss.EVENT_TIME), ("commit_ts", Loss.COMMIT_TS)):
                    is_kept = getattr(change.source, name) == getattr(expected.source, name)
                    assert is_kept or what in losses

    def test_each_update_without_its_old_row_is_counted_by_who_reads_it_and_by_nobody_else(self) -> None:
        """One row's loss is independent of another's: a decoder knows which rows lack data in the source."""
        self._require(reads=True, writes=True)
        unknown = row(Op.UPDATE, None, ROWS[1])
        for wire in self.wires():
            wire.round_trip(CREATED)
            try:
                records, counted = wire.write(unknown, CHANGES[2], unknown)
            except EncodeError:
                continue  # an option wants it so
            assert Loss.BEFORE_MISSING not in counted
            for record in records:
                events, losses = wire.read_with_losses(record)
                changes = [event for event in events if isinstance(event, RowChange)]
                unread = [change for change in changes if change.op is Op.UPDATE and change.before is None]
                assert losses.count(Loss.BEFORE_MISSING) == len(unread)

    @pytest.mark.parametrize("event", OTHERS, ids=lambda event: type(event).__name__)
    def test_events_other_than_rows_are_read_back_or_counted(self, event: Event) -> None:
        self._require(reads=True, writes=True)
        for wire in self.wires():
            records, losses = wire.write(event)
            assert (UNSUPPORTED_EVENT_LOSSES[type(event)] in losses) is (records == [])
            read = [event for record in records for event in wire.read(record)]
            assert (UNSUPPORTED_EVENT_LOSSES[type(event)] in losses) is (read == [])
            if isinstance(event, Watermark):
                assert wire.carries.watermark is bool(read)
            if isinstance(event, TransactionMark):
                assert wire.carries.transaction_marks is bool(read)
            if isinstance(event, Bootstrap):
                assert wire.has_definition(event.schema) is bool(read)
            for found in read:
                assert type(found) is type(event)
                assert found.source.commit_ts == event.source.commit_ts or Loss.COMMIT_TS in losses
                # The text of a definition differs between producers.
                for name in set(event.__struct_fields__) - {"source", "emitted_at_ns", "ddl", "table_change"}:
                    assert getattr(found, name) == getattr(event, name)

    def test_ddl_is_written_or_counted(self) -> None:
        self._require(writes=True)
        for wire in self.wires():
            records, losses = wire.write(CREATED)
            assert (bool(records), Loss.DDL in losses) == (wire.carries.ddl, not wire.carries.ddl)

    @pytest.mark.parametrize("event", OTHERS, ids=lambda event: type(event).__name__)
    def test_events_other_than_rows_are_written_or_counted(self, event: Event) -> None:
        """Of codecs that are only written; those that are read, too, are tested with what is read back."""
        self._require(writes=True)
        if self.codec.is_readable:
            pytest.skip(f"{self.codec.name} is read back")
        for wire in self.wires():
            records, losses = wire.write(event)
            assert (UNSUPPORTED_EVENT_LOSSES[type(event)] in losses) is (records == [])

    # ------------------------------------------------------------ losses

    @pytest.mark.parametrize("name", FACTS)
    def test_a_fact_of_a_rows_source_is_read_back_or_counted(self, name: str) -> None:
        """The loss of unknown fields and of column names depends on their values."""
        self._require(reads=True, writes=True)
        source, what = source_with(name), FACTS[name]
        for wire in self.warm_wires("rows"):
            (read,), losses = wire.round_trip(insert(source))
            is_kept = getattr(read.source, name) == getattr(source, name)
            assert is_kept is not (what in losses)
            if what not in {Loss.UNKNOWN_FIELDS, Loss.SOURCE_NAME}:
                assert wire.carries.has(what) is is_kept
                assert is_listed(what, wire.carries) is not is_kept

    @pytest.mark.parametrize("name", FACTS)
    def test_a_fact_of_a_rows_source_is_carried_or_counted(self, name: str) -> None:
        """Of codecs that are only written; the test before this one asserts more of the others."""
        self._require(writes=True)
        if self.codec.is_readable:
            pytest.skip(f"{self.codec.name} is read back")
        source, what = source_with(name), FACTS[name]
        for wire in self.warm_wires("rows"):
            _, losses = wire.write(insert(source))
            if what not in {Loss.UNKNOWN_FIELDS, Loss.SOURCE_NAME}:
                assert wire.carries.has(what) is (what not in losses)
            assert is_listed(what, wire.carries) or wire.carries.has(what) or what is Loss.UNKNOWN_FIELDS

    def test_a_deleted_row_is_written_or_counted(self) -> None:
        self._require(writes=True)
        for wire in self.wires():
            records, losses = wire.write(CHANGES[3])
            assert bool(records) is wire.carries.deletes is (Loss.DELETE not in losses)
            assert (Loss.DELETE_IMAGE in losses) is (wire.carries.deletes and not wire.carries.delete_image)

    @pytest.mark.parametrize("name", sorted(set(FACTS) - {"snapshot"}))
    def test_a_fact_of_a_statements_source_is_read_back_or_counted(self, name: str) -> None:
        self._require(reads=True, writes=True)
        source = source_with(name)
        change = msgspec.structs.replace(CREATED, source=source)
        for wire in self.warm_wires("statements"):
            read, losses = wire.round_trip(change)
            assert (
                all(getattr(event.source, name) == getattr(source, name) for event in read)
                or FACTS[name] in losses
            )

    @pytest.mark.parametrize("name", TRANSACTION_LOSSES)
    def test_a_rows_transaction_is_read_back_or_counted(self, name: str) -> None:
        self._require(reads=True, writes=True)
        of_row = Transaction("tx:9", **({} if name == "id" else {name: value_of(Transaction, name)}))
        what = TRANSACTION_LOSSES[name]
        assert what is not None
        for wire in self.warm_wires("transactions"):
            (read,), losses = wire.round_trip(insert(transaction=of_row))
            assert isinstance(read, RowChange)
            is_kept = getattr(read.transaction, name, None) == getattr(of_row, name)
            assert is_kept is wire.carries.has(what) is not (what in losses)
            assert is_listed(what, wire.carries) is not is_kept

    def test_the_event_time_has_its_milliseconds_or_they_are_counted(self) -> None:
        self._require(reads=True, writes=True)
        for wire in self.wires():
            (read,), losses = wire.round_trip(insert(BARE))
            is_kept = read.source.event_time_ns == BARE.event_time_ns
            assert (
                is_kept is wire.carries.event_time_milliseconds is not (Loss.EVENT_TIME_PRECISION in losses)
            )

    def test_a_row_of_a_snapshot_is_marked_or_counted(self) -> None:
        self._require(reads=True, writes=True)
        for wire in self.wires():
            (read,), losses = wire.round_trip(row(Op.READ, None, ROWS[1]))
            assert isinstance(read, RowChange)
            assert (read.op is Op.READ or read.source.snapshot is not None) is not (Loss.SNAPSHOT in losses)

    def test_a_decoder_finds_whatever_a_producer_writes(self) -> None:
        """Options for the target side alone belong to relay, and are left out."""
        self._require(reads=True, writes=True)
        decodes = self.codec.decodes
        for wire in (wire for wire in self.wires() if wire.has_only_source_options):
            for name in set(Capabilities.__struct_fields__) - {"before"}:
                assert getattr(decodes, name) or not getattr(wire.carries, name), name

    # ------------------------------------------------------------ keys

    def test_keys_identify_what_the_codec_declares(self) -> None:
        """Of equal keys a compacted topic keeps the last message."""
        self._require(writes=True)
        keys = self.codec.keys.meaning
        for wire in self.wires():
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

    # ------------------------------------------------------------ non_ddl_marker

    def test_the_non_ddl_marker_matches_rows_and_never_ddl(self) -> None:
        self._require(writes=True)
        marker = self.codec.non_ddl_marker
        if marker is None:
            return
        texts = [
            "".join(mark.decode() for group in marker.groups for mark in group),
            '"type":"INSERT","isDdl":false,"op":"c","t":1}',
        ]
        statements = [
            creation(f"CREATE TABLE t (a INT PRIMARY KEY COMMENT '{text}')", SOURCE, AT_NS) for text in texts
        ]
        for number, wire in enumerate(self.wires()):
            for statement in (CREATED, *statements):
                assert not any(marker.matches(r.key, r.value) for r in wire.write(statement)[0])
            if number == 0:  # with other options messages may be compressed
                # A tombstone has no features to detect.
                rows = [record for change in CHANGES for record in wire.write(change)[0] if record.value]
                assert all(marker.matches(record.key, record.value) for record in rows)

    # ------------------------------------------------------------ zones

    @pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai", "-03:30"])
    def test_a_timestamp_survives_in_the_zone_of_both_sides(self, zone: str) -> None:
        self._require(reads=True, writes=True)
        has_zone = "timezone" in self.codec.options.__struct_fields__
        wire = self.wire({"timezone": zone} if has_zone else {})
        read = [event for record in self.messages(wire) for event in wire.read(record)]
        index = [column.name for column in table().columns].index("e")
        after = [change.after[index] for change in read if isinstance(change, RowChange) and change.after]
        assert after == [ROWS[1][index], ROWS[2][index], ROWS[1][index], ROWS[1][index]]
