"""Read the rows of change events in Spark's workers, as text by column.

The columns of `TEXT_ROWS`, one row for each image pair, and for each statement that empties a table:

    database, table, version, op, commit_ts, event_us
    source_topic, source_partition, source_offset, number
    before, after     the values of the version's columns as text (`row_types`); NULL for no image
    exact, absent     values that their columns cannot hold, and columns that an image lacks, by `after.name`
    error             why the source record could not be read; all columns but its position are NULL
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import pyarrow as pa

from relay.codecs.losses import Loss
from relay.config import Config
from relay.config.wiring import error_policies_of, translator_of
from relay.core.dead_letters import error_headers
from relay.core.error_policies import Policy
from relay.core.selection import kind_of
from relay.model.errors import DefinitionMissing, RelayError
from relay.model.events import (
    Absent,
    DdlKind,
    Event,
    Position,
    Row,
    RowChange,
    SchemaChange,
    TableId,
    TableSchema,
)
from relay.model.lookups import Need
from relay.model.records import ConsumerRecord
from spark_backfill.counts import Accumulator, BackfillCounts, hand_over
from spark_backfill.dataframes import ERROR_FIELDS
from spark_backfill.frames import FLUSH_BYTES, FLUSH_RECORDS, Reader, read_records
from spark_backfill.registries import NO_ANSWERS, RegistryAnswers, task_resolver
from spark_backfill.row_types import Fit, exact_text, fit_of
from spark_backfill.row_versions import ColumnTypes, TableVersions, versions_of
from spark_backfill.task_errors import stopped_at
from spark_backfill.terms import KEEP_PARTITION, Bounds, Broadcast

_ERROR: Final = pa.struct([(name, pa.string()) for name in ERROR_FIELDS])
_TEXTS: Final = pa.list_(pa.string())
_ARROW: Final = pa.schema(
    [
        ("database", pa.string()),
        ("table", pa.string()),
        ("version", pa.int32()),
        ("op", pa.string()),
        ("commit_ts", pa.int64()),
        ("event_us", pa.int64()),
        ("source_topic", pa.string()),
        ("source_partition", pa.int32()),
        ("source_offset", pa.int64()),
        ("number", pa.int32()),
        ("before", _TEXTS),
        ("after", _TEXTS),
        ("exact", pa.map_(pa.string(), pa.string())),
        ("absent", _TEXTS),
        ("error", _ERROR),
    ]
)
ERROR_TYPE: Final = f"struct<{', '.join(f'{name}: string' for name in ERROR_FIELDS)}>"
TEXT_ROWS: Final = (
    "database string, table string, version int, op string, commit_ts bigint, event_us bigint, "
    "source_topic string, source_partition int, source_offset bigint, number int, "
    "before array<string>, after array<string>, exact map<string, string>, absent array<string>, "
    f"error {ERROR_TYPE}"
)
#: The operation of a statement that empties a table.
TRUNCATE: Final = "truncate"
_EMPTYING: Final = frozenset({DdlKind.TRUNCATE_TABLE, DdlKind.DROP_TABLE, DdlKind.DROP_DATABASE})
#: Definitions whose conversions are kept.
_MOST_IMAGES: Final = 1000
_EVERYTHING: Final = Bounds()
#: The first integer beyond Spark's bigint.
_END: Final = 1 << 63


class Chosen(NamedTuple):
    """The only table and version whose rows are read; `version` from 0."""

    table: TableId
    version: int


class ReadRows:
    """Read the rows of a task.

    chosen: The only table to read; None for all selected tables with definitions.
    counters: They get the counters of the task; None for none.
    bounds, known: As in `Translate`.
    """

    def __init__(  # noqa: PLR0913 - the inputs of a task
        self,
        config: Config,
        reader: Reader,
        catalog: Broadcast,
        *,
        chosen: Chosen | None = None,
        counters: Accumulator | None = None,
        bounds: Bounds = _EVERYTHING,
        known: RegistryAnswers = NO_ANSWERS,
    ) -> None:
        self.config, self.reader, self.catalog, self.chosen = config, reader, catalog, chosen
        self.counters, self.bounds, self.known = counters, bounds, known

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows, with the columns of `TEXT_ROWS`. Raises Stopped."""
        task, rows, size = _RowsTask(self), list[dict[str, Any]](), 0
        for batch in batches:
            for record in task.within_bounds(read_records(self.reader, batch)):
                found = task.rows_of(record)
                rows += found
                size += len(found) * len(record.value or b"")
                if len(rows) >= FLUSH_RECORDS or size >= FLUSH_BYTES:
                    yield pa.RecordBatch.from_pylist(rows, schema=_ARROW)
                    rows, size = [], 0
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=_ARROW)
        task.hand_over_counts()


class _RowsTask:
    """One run over the records of a Spark partition."""

    def __init__(self, job: ReadRows) -> None:
        self._job, self._chosen = job, job.chosen
        self._translator = translator_of(job.config, job.config.backfill.end_commit_ts or None)
        self._translator.catalog = self._catalog = job.catalog.value
        self._resolver = task_resolver(job.config, job.known)
        self._errors = error_policies_of(job.config, KEEP_PARTITION)
        self._counts = BackfillCounts()
        self._versions: dict[TableId, TableVersions] = {}
        self._images: dict[tuple[TableSchema, int], _Images] = {}

    def within_bounds(self, records: Iterable[ConsumerRecord]) -> list[ConsumerRecord]:
        """Return the records that are within the bounds, and count them."""
        return self._counts.read_within(records, self._job.bounds)

    def rows_of(self, record: ConsumerRecord) -> list[dict[str, Any]]:
        """Return the rows of a record. Raises Stopped."""
        try:
            rows = self._read(record)
        except RelayError as error:
            rows = self._refused(record, error)
        topic, partition, offset = record.position
        source = {"source_topic": topic, "source_partition": partition, "source_offset": offset}
        return [row | source for row in rows]

    def _refused(self, record: ConsumerRecord, error: RelayError) -> list[dict[str, Any]]:
        """Return the row of a record that cannot be read, or none. Raises Stopped."""
        policy = self._errors.apply(error, record, self._translator).policy
        if policy is Policy.STOP:
            raise stopped_at(record, error, self._translator) from error
        self._counts.count_failed("skipped", error.code)
        return [] if policy is Policy.SKIP else [{"number": 0, "error": _described(error, record)}]

    def _read(self, record: ConsumerRecord) -> list[dict[str, Any]]:
        """Return the rows of a record, without their source. Raises RelayError."""
        try:
            events = self._translator.inspect(record)
        except Need:
            events = self._resolver.inspect(self._translator, record)
        selection, left_out = self._translator.route.selection, list[Loss]()
        numbered = list(enumerate(events))
        if selection is not None:
            kept, losses = selection.filter(events)
            left_out += losses
            selected = set(map(id, kept))
            numbered = [(number, event) for number, event in numbered if id(event) in selected]
        rows: list[dict[str, Any]] = []
        for number, event in numbered:
            if isinstance(event, RowChange):
                rows += self._row(event, event.source.at(record), number)
            elif isinstance(event, SchemaChange):
                rows += self._emptied(event, event.source.at(record), number)
        if self._job.counters is not None:
            self._count([event for _, event in numbered], left_out, rows, record)
        return rows

    def _count(
        self, events: list[Event], left_out: list[Loss], rows: list[dict[str, Any]], record: ConsumerRecord
    ) -> None:
        """Count a record that was read."""
        counts = self._counts
        counts.lost.update(map(str, left_out))
        counts.written.update(f"{row['database']}.{row['table']}/{row['version']}" for row in rows)
        for event in events:
            counts.events[kind_of(event)] += 1
            if not isinstance(event, RowChange):
                continue
            table = str(event.table)
            counts.tables.setdefault(table, Counter())[kind_of(event)] += 1
            if not event.schema.complete:
                counts.inferred[table] += 1
                if table not in counts.inferred_reasons:
                    why = self._catalog.why_unknown(event.table, event.source.at(record))
                    counts.inferred_reasons[table] = str(why)

    def hand_over_counts(self) -> None:
        """Add the counters, by the number of the Spark partition, to those of all tasks."""
        if self._job.counters is not None:
            self._counts.lost.update({str(what): count for what, count in self._translator.losses.items()})
            hand_over(self._counts, self._job.counters)

    def _row(self, event: RowChange, at: Position, number: int) -> Iterator[dict[str, Any]]:
        """Yield the row of a change, if it is to be read. Raises DefinitionMissing."""
        version = self._version(event.table, at)
        if version is None:
            if self._chosen is None:
                reason = f"the columns of {event.table} have no types, because its definition is not known"
                raise DefinitionMissing(self._job.config.route.from_, "", reason)
            return
        key = event.schema, version
        images = self._images.get(key)
        if images is None:
            if len(self._images) >= _MOST_IMAGES:  # definitions that rows declare may be of any number
                self._images.clear()
            columns = self._versions_of(event.table).columns[version]
            images = self._images[key] = _Images(event.schema, columns)
        row = _facts(event, event.op.value, event.table, version, number)
        exact, absent = row["exact"], list[str]()
        for name, cells in (("before", event.before), ("after", event.after)):
            row[name] = None if cells is None else images.texts(name, cells, exact, absent)
        yield row | {"exact": list(exact.items()), "absent": absent}

    def _emptied(self, event: SchemaChange, at: Position, number: int) -> Iterator[dict[str, Any]]:
        """Yield a row for each table that a statement empties."""
        for table in dict.fromkeys(self._emptied_tables(event)):
            version = self._version(table, at)
            if version is not None:
                row = _facts(event, TRUNCATE, table, version, number)
                yield row | {"exact": list(row["exact"].items()), "absent": []}

    def _emptied_tables(self, event: SchemaChange) -> Iterator[TableId]:
        for statement in event.each_statement():
            if _EMPTYING.isdisjoint(statement.kinds):
                continue
            for table in statement.targets:
                if table.table:
                    yield table
                    continue
                tables = self._catalog.histories.get(table.database)
                yield from (TableId(table.database, name) for name, _ in (tables.items() if tables else ()))

    def _version(self, table: TableId, at: Position) -> int | None:
        """Return the index of the version of a row; None if it is not to be read."""
        if self._chosen is not None and table != self._chosen.table:
            return None
        versions = self._versions_of(table)
        if not versions.columns:
            return None
        version = versions.at(at)
        return version if self._chosen is None or version == self._chosen.version else None

    def _versions_of(self, table: TableId) -> TableVersions:
        found = self._versions.get(table)
        if found is None:
            found = self._versions[table] = versions_of(self._catalog, table)
        return found


class _Images:
    """The images of rows with one definition, as text by the columns of a version."""

    def __init__(self, schema: TableSchema, columns: ColumnTypes) -> None:
        self._count = len(columns)
        indexes = {name: at for at, name in enumerate(columns)}
        #: Of each column of the definition: its name, its place in the version, and its conversion.
        self._cells: list[tuple[str, int | None, Fit | None]] = []
        for column in schema.columns:
            kind = columns.get(column.name)
            fit = None if kind is None else fit_of(column.type, kind)
            self._cells.append((column.name, indexes.get(column.name), fit))
        in_schema = {column.name for column in schema.columns}
        self._missing = [name for name in columns if name not in in_schema]

    def texts(
        self, image: str, row: Row, exact: dict[str, str | None], absent: list[str]
    ) -> list[str | None]:
        """Return the texts of an image; add to `exact` and `absent`."""
        texts: list[str | None] = [None] * self._count
        absent += [f"{image}.{name}" for name in self._missing]
        for cell, (name, index, fit) in zip(row, self._cells, strict=True):
            text = None
            if isinstance(cell, Absent):
                if index is not None:
                    absent.append(f"{image}.{name}")
                continue
            if cell is not None and fit is not None:
                text = fit(cell)
            if index is not None:
                texts[index] = text
            if index is None or (cell is not None and text is None):
                exact[f"{image}.{name}"] = None if cell is None else exact_text(cell)
        return texts


def _facts(
    event: RowChange | SchemaChange, op: str, table: TableId, version: int, number: int
) -> dict[str, Any]:
    """Return the columns about an event, beside its images."""
    source, exact = event.source, dict[str, str | None]()
    commit_ts: int | None = source.commit_ts
    if commit_ts is not None and not -_END <= commit_ts < _END:
        exact["commit_ts"], commit_ts = str(commit_ts), None
    event_us, rest_ns = divmod(source.event_time_ns, 1000)
    has_time = -_END <= event_us < _END
    if rest_ns or not has_time:
        exact["event_time_ns"] = str(source.event_time_ns)
    return {
        "database": table.database,
        "table": table.table,
        "version": version + 1,
        "op": op,
        "commit_ts": commit_ts,
        "event_us": event_us if has_time else None,
        "number": number,
        "exact": exact,
    }


def _described(error: RelayError, record: ConsumerRecord) -> dict[str, str]:
    headers = dict(error_headers(record, error))
    return {name: (headers[header] or b"").decode() for name, header in ERROR_FIELDS.items()}
