"""A codec with its options, for writing and reading in tests; events of every kind; types of decoded cells."""

from __future__ import annotations

import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from relay.catalog import Catalog
from relay.codecs.codec import Codec, Decoder, EncodedRecord, side_of
from relay.codecs.given_options import parse_options
from relay.codecs.losses import Loss
from relay.io.resolver import Resolver
from relay.model.errors import DecodeError
from relay.model.events import (
    ABSENT,
    Bootstrap,
    Cell,
    Column,
    Event,
    Heartbeat,
    Op,
    Row,
    RowChange,
    Rows,
    Snapshot,
    Source,
    TableSchema,
    TransactionMark,
    Watermark,
)
from relay.model.lookups import LookupCache, Need
from relay.model.records import ConsumerRecord
from relay.mysql.types import BINARIES, INTEGER_BITS
from relay.testing.option_sets import OptionTexts
from relay.testing.strategies import creation

Found = TypeVar("Found")
TIME_MS: Final = 1_795_254_665_538
COMMIT_TS: Final = TIME_MS << 18
#: No record of the size that is met here may take longer, on a busy machine too.
MAX_SECONDS: Final = 5.0


class Differences(NamedTuple):
    """How read values may differ from written ones, where `Capabilities` has no field for it.

    `without_zero_dates`: types whose zero dates become NULL where the protocol does not have every date.
    `has_names`: columns keep their names in rows. `is_compact`: JSON loses its white space.
    `has_open_digits`: the number of written digits of a second is unknown. `has_no_json_null`: the document
    `null` is read as NULL.
    """

    without_zero_dates: frozenset[str] = frozenset({"date", "datetime"})
    has_names: bool = True
    is_compact: bool = False
    has_open_digits: bool = False
    has_no_json_null: bool = False


class Wire:
    """A codec's encoder, and a decoder with the producer's options; needs are answered."""

    def __init__(
        self,
        codec: Codec,
        options: OptionTexts,
        more_source_options: OptionTexts | None = None,
        differences: Differences | None = None,
    ) -> None:
        self.codec = codec
        self.differences = differences or Differences()
        sides = {
            field.encode_name: side_of(field.type) for field in msgspec.structs.fields(self.codec.options)
        }
        self.source_options = {name: value for name, value in options.items() if sides[name] != "target"}
        target_options = {name: value for name, value in options.items() if sides[name] != "source"}
        written = parse_options(self.codec, target_options, "to", "target")
        read = parse_options(self.codec, self.source_options | (more_source_options or {}), "from", "source")
        self.has_only_source_options = self.source_options == options
        self._answers = LookupCache()
        self.carries = self.codec.encodes(written)
        self._encoder = self.codec.open_encoder(written, self._answers) if self.codec.is_writable else None
        self._decoder = self.codec.open_decoder(read, self._answers) if self.codec.is_readable else None
        self.catalog, self._offset = Catalog(), 0
        if self.codec.rows_need_definitions:
            self.round_trip(CREATED)
            self._offset = 0

    def write(self, *events: Event) -> tuple[list[ConsumerRecord], list[Loss]]:
        """Return the messages of events, as records of a topic, and the counted losses."""

        def encode() -> tuple[list[EncodedRecord], list[Loss]]:
            losses: list[Loss] = []
            assert self._encoder is not None, f"{self.codec.name} is only read"
            return list(self._encoder.encode(events, source_record, losses)), losses

        source_record = ConsumerRecord("topic", 0, self._offset, TIME_MS, None, None)
        payloads, losses = self._answered(encode)
        records = [
            ConsumerRecord(
                "topic", 0, self._offset + number, TIME_MS, payload.key, payload.value, payload.headers
            )
            for number, payload in enumerate(payloads)
        ]
        self._offset += len(records)
        return records, losses

    def read(self, record: ConsumerRecord) -> list[Event]:
        """Return the events of a message."""
        return self.read_with_losses(record)[0]

    def read_with_losses(self, record: ConsumerRecord) -> tuple[list[Event], list[Loss]]:
        """Return the events of a message, and the reader's losses."""

        def decode() -> tuple[tuple[list[Event], Catalog], list[Loss]]:
            losses: list[Loss] = []
            return self._reader.decode(record, self.catalog, losses), losses

        (events, self.catalog), losses = self._answered(decode)
        for event in events:
            check_cells(event)
        return events, losses

    def has_definition(self, schema: TableSchema) -> bool:
        """Return whether the decoder has learned this definition from the messages read."""
        return self.catalog.newest(schema.id)[1] == schema

    def round_trip(self, *events: Event) -> tuple[list[Event], list[Loss]]:
        """Return a reader's events, and the writer's losses."""
        records, losses = self.write(*events)
        return [event for record in records for event in self.read(record)], losses

    def is_refused(self, record: ConsumerRecord) -> bool:
        """Return whether this is no message.

        Anything but events, a DecodeError or a Need fails, and so does waiting.
        """
        began = time.perf_counter()
        try:
            for event in self._reader.decode(record, self.catalog, [])[0]:
                check_cells(event)
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
    """Return a message of every kind that the wire has."""
    events = [*([CREATED] if with_ddl else []), *CHANGES, *OTHERS]
    return [record for event in events for record in wire.write(event)[0]]


_TYPES: Final[dict[str, tuple[type, ...]]] = {
    **dict.fromkeys((*INTEGER_BITS, "year", "bit"), (int,)),
    **dict.fromkeys(("float", "double"), (float,)),
    **dict.fromkeys(("enum", "set"), (int, str)),
    **dict.fromkeys(BINARIES, (bytes,)),
    "decimal": (Decimal,),
}


def check_cells(event: Event) -> None:
    """Read the images of a row, and raise AssertionError for a cell of another type than its column's.

    An integer, YEAR or BIT is an int, FLOAT and DOUBLE a float, DECIMAL a Decimal, binary values bytes, ENUM
    and SET a number or, without known members, text; everything else is text.
    """
    if not isinstance(event, RowChange):
        return
    for image in (event.before, event.after):
        if image is None:
            continue
        columns = event.schema.columns
        assert type(image) is tuple
        assert len(image) == len(columns), "a row has a cell for each column, ABSENT where it has none"
        for column, cell in zip(columns, image, strict=True):
            assert is_canonical(column, cell), f"{column.name} {column.type.base}: {type(cell).__name__}"


def is_canonical(column: Column, cell: Cell) -> bool:
    """Return whether a cell is None, ABSENT, or a value of its column's type."""
    if cell is None or cell is ABSENT:
        return True
    return type(cell) in _TYPES.get(column.type.base, (str,))
