"""The schema pass: find the DDL of a source in parallel, and learn it into the catalog of all tasks.

A DDL record is decoded three times:

1. by the worker that finds it (`FindDdl`), with an empty catalog: does it hold DDL, and of which time?
2. by the driver that learns it (`learn_ddl`): the order of times is known only when all have been found;
3. by the task that translates it (`translation`), with the catalog of all.

A resumed run decodes the records in its checkpoint twice: for the times, and to learn them. With
`schema.wait_for_ddl` the DDL of other partitions is found and learned ahead, and again when its step comes.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from relay.catalog import Catalog
from relay.catalog.definitions import is_definition
from relay.catalog.redacted_records import is_redacted, redacted_tso, source_topic
from relay.codecs.codec import NonDdlMarker
from relay.config import Config
from relay.config.wiring import check_table_names, translator_of
from relay.core.translator import Translator
from relay.io.resolver import Resolver
from relay.model.errors import DecodeError, SchemaMissing
from relay.model.events import Bootstrap, Event, SchemaChange
from relay.model.lookups import ClaimCheck, Need
from relay.model.records import ConsumerRecord
from spark_backfill.files import Captured
from spark_backfill.frames import RECORDS, Columns, Lines, Reader, read_records, record_batch
from spark_backfill.registries import NO_ANSWERS, RegistryAnswers, RegistrySchemas, task_resolver

#: `DdlRecord` in columns. The time is text: it may not fit in 64 bits.
FOUND: Final = f"{RECORDS}, tso string"
DDL_COLUMNS: Final = ("topic", "partition", "offset", "timestamp_ms", "key", "value", "headers", "tso")
#: The member of a record file's line with a textual value.
_VALUE: Final = '"value":"'


class DdlRecord(NamedTuple):
    """A record with DDL, and when its statement happened, in units of a commit ts."""

    record: ConsumerRecord
    tso: int

    @property
    def position(self) -> tuple[str, int, int]:
        """Return topic, partition and offset of the source record."""
        return source_topic(self.record), self.record.partition, self.record.offset

    @classmethod
    def of_relay(cls, record: ConsumerRecord) -> DdlRecord:
        """Return a record of relay's own. Raises Malformed."""
        return cls(record, redacted_tso(record) if is_redacted(record) else record.offset)


def empty_catalog() -> Catalog:
    """Return a catalog that keeps every version: all DDL is learned before the first row."""
    return Catalog(limit=sys.maxsize)


class FindDdl:
    """Find the records that change a catalog: those with DDL, or a definition alone.

    Unreadable records change nothing. `name`: of the input, for errors.
    """

    def __init__(
        self, config: Config, reader: Reader, name: str = "input", known: RegistryAnswers = NO_ANSWERS
    ) -> None:
        self.config, self.reader, self.name, self.known = config, reader, name, known

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the records with DDL, as `FOUND`."""
        translator, resolver = translator_of(self.config), task_resolver(self.config, self.known)
        marker = translator.route.source.non_ddl_marker
        for batch in batches:
            found = []
            for record in read_records(self.reader, batch, self.name):
                if marker is not None and marker.matches(record.key, record.value):
                    continue
                if is_definition(record):  # of an exported schema history
                    found.append(DdlRecord.of_relay(record))
                    continue
                events = _events(translator, record, resolver)
                if any(isinstance(event, SchemaChange | Bootstrap) for event in events):
                    found.append(DdlRecord(record, _tso(events)))
            if found:
                yield _batch(found)


def _events(translator: Translator, record: ConsumerRecord, resolver: Resolver) -> list[Event]:
    """Return the events of a record, independent of earlier ones; none if it cannot be read."""
    translator.catalog = Catalog(limits=translator.catalog.limits)
    try:
        return _inspected(translator, record, resolver)
    except (DecodeError, ClaimCheck, SchemaMissing):
        return []


def _inspected(translator: Translator, record: ConsumerRecord, resolver: Resolver) -> list[Event]:
    """Return the events of a record. A claim check holds a row, and is not fetched."""
    while True:
        try:
            return translator.inspect(record)
        except ClaimCheck:
            raise
        except Need as need:
            translator.provide(need, resolver.fetch(need))


def _tso(events: Iterable[Event]) -> int:
    """Return the time of the latest event."""
    return max([event.source.tso for event in events], default=0)


def _batch(found: list[DdlRecord]) -> pa.RecordBatch:
    rows = record_batch([each.record for each in found])
    times = pa.array([str(each.tso) for each in found], pa.string())
    return pa.RecordBatch.from_arrays([*rows.columns, times], names=[*rows.schema.names, "tso"])


def with_times(
    config: Config, records: Iterable[ConsumerRecord], schemas: RegistrySchemas | None = None
) -> list[DdlRecord]:
    """Determine the times of records that contain DDL."""
    translator, resolver = translator_of(config), (schemas or RegistrySchemas(config)).resolver
    found = []
    for record in records:
        if is_definition(record):
            found.append(DdlRecord.of_relay(record))
        else:
            found.append(DdlRecord(record, _tso(_events(translator, record, resolver))))
    return found


def find_ddl(
    captured: Captured, config: Config, name: str = "input", known: RegistryAnswers = NO_ANSWERS
) -> list[DdlRecord]:
    """Collect the records with DDL in the driver, which collects no others.

    `name`: of the input, for errors. `known`: the answers of registries.
    """
    return collect_ddl(ddl_frame(captured, config, name, known))


def ddl_frame(
    captured: Captured, config: Config, name: str = "input", known: RegistryAnswers = NO_ANSWERS
) -> DataFrame:
    """Return the records with DDL as a frame of `FOUND`, which nothing has computed yet."""
    frame, reader = captured.frame, captured.reader
    marker = translator_of(config).route.source.non_ddl_marker
    # Most rows are recognized by their bytes, inside the JVM.
    if marker is not None and isinstance(reader, Columns):
        frame = frame.where(~_matches(marker))
    elif marker is not None and isinstance(reader, Lines) and marker.part == "value":
        frame = frame.where(~matches_in_line(marker))
    return frame.mapInArrow(FindDdl(config, reader, name, known), FOUND)


def collect_ddl(frame: DataFrame) -> list[DdlRecord]:
    """Collect the rows of `FOUND` in the driver."""
    found: list[DdlRecord] = []
    for batch in frame.toArrow().to_batches():
        times = map(int, batch.column("tso").to_pylist())
        found += map(DdlRecord, Columns().read(batch), times)
    return found


#: What a checkpoint keeps of DDL records, by position.
StoredDdl = dict[tuple[str, int, int], ConsumerRecord]


def learn_ddl(
    config: Config,
    ddl: Iterable[DdlRecord],
    catalog: Catalog,
    schemas: RegistrySchemas | None = None,
    stored: StoredDdl | None = None,
) -> Catalog:
    """Return the catalog after this DDL, learned by time, and by offset inside a partition.

    `stored` receives what a checkpoint keeps of records that have changed the catalog, on a route that hides
    values.
    """
    ordered = []
    newest: Counter[tuple[str, int]] = Counter()
    for each in sorted(ddl, key=lambda each: each.position):
        topic, partition, _ = each.position
        # The order of a partition holds even where its times go back.
        newest[topic, partition] = max(newest[topic, partition], each.tso)
        ordered.append((newest[topic, partition], each.position, each.record))
    translator = translator_of(config)
    translator.catalog = msgspec.structs.replace(catalog, limits=translator.catalog.limits)
    resolver = (schemas or RegistrySchemas(config)).resolver
    stored = {} if stored is None else stored
    is_redacting = translator.catalog.redaction is not None
    for _, position, record in sorted(ordered, key=lambda found: found[:2]):
        before = translator.catalog
        resolver.learn(translator, record)
        if is_redacting and translator.catalog is not before:
            kept = translator.storable(record)
            stored |= {} if kept is None else {position: kept}
    check_table_names(translator)
    return translator.catalog


def stored_ddl(config: Config, ddl: Iterable[DdlRecord], stored: StoredDdl) -> list[ConsumerRecord]:
    """Return what a checkpoint keeps of learned DDL. `stored`: as `learn_ddl` has filled it."""
    if translator_of(config).route.redaction is None:
        return [each.record for each in ddl]
    return [stored[each.position] for each in ddl if each.position in stored]


def _matches(marker: NonDdlMarker) -> Column:
    """Return `NonDdlMarker.matches` as an expression of Spark."""
    part = F.coalesce(F.col(marker.part), F.lit(b""))
    return _has_marks(part, marker, lambda mark: F.lit(bytearray(mark)))


def matches_in_line(marker: NonDdlMarker) -> Column:
    """Return `NonDdlMarker.matches` for a line of a record file as an expression of Spark.

    Lines that relay did not write, with the value last, never match.

    Inside the value's text every quote is escaped, so plain quotes around a comma begin another member.
    """
    line, begin = F.col("value").cast("string"), F.lit(_VALUE)
    value = F.substring_index(line, _VALUE, -1)
    is_last = F.contains(line, begin) & ~F.contains(value, F.lit('","')) & ~F.contains(value, F.lit('", "'))
    return is_last & _has_marks(value, marker, lambda mark: F.lit(json.dumps(mark.decode())[1:-1]))


def _has_marks(text: Column, marker: NonDdlMarker, literal: Callable[[bytes], Column]) -> Column:
    every = F.lit(True)
    for group in marker.groups:
        one = F.lit(False)
        for mark in group:
            one = one | F.contains(text, literal(mark))
        every = every & one
    for mark in marker.never:
        every = every & ~F.contains(text, literal(mark))
    return every
