"""Records as columns: their form in Spark, and conversions for workers.

    topic, partition, offset, timestamp_ms, key, value, headers   `RECORDS`: a record to translate
    topic, partition, timestamp_ms, key, value, headers           `PRODUCED`: a record to write, and
    source_topic, source_partition, source_offset, number         where it came from, the target's order
    database, table                                               `PRODUCED_WITH_TABLES`: its table as well

Record files come as their lines (`Lines`): workers parse them, exactly as the command line does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, repeat
from typing import Final, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from relay.io.record_lines import parse_record
from relay.model.errors import Malformed, RelayError
from relay.model.events import TableId
from relay.model.records import ConsumerRecord, Header, ProducerRecord
from spark_backfill.task_errors import Stopped

HEADERS: Final = "array<struct<key: string, value: binary>>"
RECORDS: Final = (
    "topic string, partition int, offset bigint, timestamp_ms bigint, key binary, value binary, "
    f"headers {HEADERS}"
)
PRODUCED: Final = (
    f"topic string, partition int, timestamp_ms bigint, key binary, value binary, headers {HEADERS}, "
    "source_topic string, source_partition int, source_offset bigint, number int"
)
PRODUCED_WITH_TABLES: Final = f"{PRODUCED}, database string, table string"
_ARROW_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_ARROW_RECORDS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", _ARROW_HEADERS),
    ]
)
ARROW_PRODUCED: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("timestamp_ms", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", _ARROW_HEADERS),
        ("source_topic", pa.string()),
        ("source_partition", pa.int32()),
        ("source_offset", pa.int64()),
        ("number", pa.int32()),
    ]
)
_ARROW_TABLES: Final = pa.schema([*ARROW_PRODUCED, ("database", pa.string()), ("table", pa.string())])
#: Bytes and records after which a worker's output is passed to Spark.
FLUSH_BYTES: Final = 4 << 20
FLUSH_RECORDS: Final = 10_000


class Reader(Protocol):
    """Read the rows of a frame as records; a value that Spark sends to its workers."""

    def read(self, batch: pa.RecordBatch) -> Iterator[ConsumerRecord]:
        """Yield the records of a batch, in its order. Raises Malformed for a row that is not a record."""
        ...


class Columns(NamedTuple):
    """Rows with the columns of `RECORDS`."""

    def read(self, batch: pa.RecordBatch) -> Iterator[ConsumerRecord]:
        """Read the records of a batch.

        Raises Malformed for a position that is NULL or negative, and for a header without a name.
        """
        check_positions(batch)
        *plain, headers = (batch.column(name) for name in _ARROW_RECORDS.names)
        columns = [column.to_pylist() for column in plain]
        found = _headers_in(headers)
        if headers.null_count < len(headers) and headers.values.field("key").null_count:
            _check_names(columns, found)
        return map(ConsumerRecord, *columns, found)


def check_positions(batch: pa.RecordBatch) -> None:
    """Raise Malformed if a position in a batch of `RECORDS` is NULL or negative."""
    for name in ("topic", "partition", "offset"):
        if batch.column(name).null_count:
            words = "" if name == "topic" else ", or not an integer"
            raise Malformed("record", name, f"the column is NULL{words}")
    for name in ("partition", "offset"):
        if (pc.min(batch.column(name)).as_py() or 0) < 0:
            raise Malformed("record", name, "a number of the column is negative")


def _check_names(columns: Sequence[Sequence[object]], found: Iterable[tuple[Header, ...]]) -> None:
    """Raise Malformed with the position of the first header without a name."""
    for topic, partition, offset, headers in zip(*columns[:3], found, strict=False):
        if any(name is None for name, _ in headers):
            raise Malformed("record", f"{topic}/{partition}/{offset}: headers", "a name is NULL")


class Lines(NamedTuple):
    """Rows with a line of a record file as bytes, its file, and where its block of the file begins."""

    def read(self, batch: pa.RecordBatch) -> Iterator[ConsumerRecord]:
        """Yield the records of a batch, without blank lines."""
        for at, line in enumerate(batch.column("value").to_pylist()):
            text = line.removeprefix(b"\xef\xbb\xbf").rstrip(b"\r")
            if text and not text.isspace():
                try:
                    yield parse_record(text)
                except ValueError as error:
                    path, block = (batch.column(name)[at].as_py() for name in ("path", "block"))
                    location = f"{path}, a line after byte {block}"
                    raise Malformed("record file", location, str(error)) from error


def read_records(reader: Reader, batch: pa.RecordBatch, name: str = "input") -> Iterator[ConsumerRecord]:
    """Yield the records of a batch. Raises Stopped for an invalid record. `name`: its input, for errors."""
    try:
        yield from reader.read(batch)
    except RelayError as error:
        raise Stopped(error, name) from error


def record_batch(records: Sequence[ConsumerRecord]) -> pa.RecordBatch:
    """Return records as a batch of `RECORDS`."""
    names = ("topic", "partition", "offset", "timestamp_ms", "key", "value")
    columns = [[getattr(record, name) for record in records] for name in names]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _ARROW_RECORDS, strict=False)]
    return pa.RecordBatch.from_arrays(
        [*arrays, _headers([record.headers for record in records])], schema=_ARROW_RECORDS
    )


class Produced:
    """Gather records to write until they suffice for a batch of `PRODUCED`.

    The batch is one of `PRODUCED_WITH_TABLES` if `assign_tables` is called.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._records: list[ProducerRecord] = []
        self._sources: list[ConsumerRecord] = []
        self._numbers: list[int] = []
        self._tables: list[TableId | None] = []
        self._size = 0

    def add(self, produced: Sequence[ProducerRecord], source: ConsumerRecord, first: int = 0) -> None:
        """Add the records of a source record, from the one with the number `first` on."""
        for number, record in enumerate(produced, first):
            self._records.append(record)
            self._sources.append(source)
            self._numbers.append(number)
            self._size += len(record.value or b"") + len(record.key or b"")

    def assign_tables(self, tables: Iterable[TableId | None]) -> None:
        """Assign tables to the records that were added since the last call."""
        self._tables.extend(tables)

    @property
    def is_full(self) -> bool:
        """Return whether the batch is large enough to send."""
        return self._size >= FLUSH_BYTES or len(self._records) >= FLUSH_RECORDS

    def take(self) -> pa.RecordBatch | None:
        """Return the gathered records as a batch, None if there are none, and begin anew."""
        records, sources = self._records, self._sources
        if not records:
            return None
        columns = [
            [record.topic for record in records],
            [record.partition for record in records],
            [record.timestamp_ms for record in records],
            [record.key for record in records],
            [record.value for record in records],
            [source.topic for source in sources],
            [source.partition for source in sources],
            [source.offset for source in sources],
            self._numbers,
        ]
        types = [field.type for field in ARROW_PRODUCED if field.name != "headers"]
        arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
        headers, tables = _headers([record.headers for record in records]), _tables(self._tables)
        schema = _ARROW_TABLES if tables else ARROW_PRODUCED
        self._begin()
        return pa.RecordBatch.from_arrays([*arrays[:5], headers, *arrays[5:], *tables], schema=schema)


def records_to_write(batch: pa.RecordBatch) -> Iterator[ProducerRecord]:
    """Read the rows of `PRODUCED` as records."""
    columns = [
        batch.column(name).to_pylist() for name in ("topic", "partition", "timestamp_ms", "key", "value")
    ]
    return map(ProducerRecord, *columns, _headers_in(batch.column("headers")))


def _headers_in(column: pa.ListArray) -> Iterable[tuple[Header, ...]]:
    """Return the headers of every row.

    They are read from the arrays beneath the rows: as a row, each header would be a dictionary.
    """
    if column.null_count == len(column):
        return repeat((), len(column))
    starts = column.offsets.to_pylist()
    pairs = column.values
    names, values = pairs.field("key").to_pylist(), pairs.field("value").to_pylist()
    headers = list(zip(names, values, strict=True))
    return [tuple(headers[start:end]) for start, end in pairwise(starts)]


def _tables(given: Sequence[TableId | None]) -> list[pa.Array]:
    """Return the columns of database and table, NULL for none."""
    if not given:
        return []
    names = ("database", "table")
    return [
        pa.array([(getattr(table, name) or None) if table else None for table in given], pa.string())
        for name in names
    ]


def _headers(given: Iterable[Sequence[Header]]) -> pa.Array:
    offsets, names, values = [0], [], []
    for headers in given:
        for name, value in headers:
            names.append(name)
            values.append(value)
        offsets.append(len(names))
    pairs = pa.StructArray.from_arrays(
        [pa.array(names, pa.string()), pa.array(values, pa.binary())], names=["key", "value"]
    )
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pairs)
