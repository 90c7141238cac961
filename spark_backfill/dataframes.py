"""Translate DataFrames: functions for notebooks and pipelines.

    from spark_backfill import definitions, translate

    records = spark.read.format("kafka")….load()
    ddl = definitions(records, source="ticdc-canal-json")
    translate(records, source="ticdc-canal-json", target="debezium-json", ddl=ddl).write.format("kafka")…

They work on batches and streams, on classic Spark and over Spark Connect: they use no object of the JVM, no
broadcast and no accumulator. What workers must know is part of the function that Spark sends them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame

from relay.catalog import Catalog
from relay.codecs.given_options import OptionValue
from relay.config import Config
from relay.config.wiring import translator_of
from relay.core.dead_letters import CODE_HEADER, DETAIL_HEADER, PATH_HEADER, PROTOCOL_HEADER
from relay.model.errors import ConfigError, Problem
from spark_backfill.arguments import (
    FAILED,
    OnError,
    Policies,
    Registries,
    arguments_named,
    config_of,
    without_logins,
)
from spark_backfill.counts import BackfillCounts, Parts
from spark_backfill.files import Captured, as_records
from spark_backfill.frames import ARROW_PRODUCED, PRODUCED, Columns
from spark_backfill.registries import RegistrySchemas, sides_of
from spark_backfill.schema_pass import DDL_COLUMNS, collect_ddl, ddl_frame, empty_catalog, learn_ddl
from spark_backfill.terms import Bounds, Terms
from spark_backfill.translation import Translate

#: The columns of a result: those of Kafka's sink, then where a record came from.
_COLUMNS: Final = (
    *("topic", "partition", "key", "value", "headers"),
    "timestamp_millis(timestamp_ms) AS timestamp",
    *("source_topic", "source_partition", "source_offset", "number"),
)
#: The fields of `error`, and the headers of a dead letter that have them.
ERROR_FIELDS: Final = {
    "code": CODE_HEADER,
    "protocol": PROTOCOL_HEADER,
    "path": PATH_HEADER,
    "reason": DETAIL_HEADER,
}
_MAP: Final = pa.map_(pa.string(), pa.int64())
#: The column of `with_counts`, in Arrow and in Spark.
_COUNTS: Final = pa.field(
    "counts",
    pa.struct(
        [
            ("records_read", pa.int64()),
            ("records_written", pa.int64()),
            ("events", _MAP),
            ("lost", _MAP),
            ("failed", _MAP),
            ("inferred_tables", _MAP),
            ("unwritten_statements", pa.list_(pa.string())),
        ]
    ),
)
_COUNTS_TYPE: Final = (
    "struct<records_read: bigint, records_written: bigint, events: map<string, bigint>, "
    "lost: map<string, bigint>, failed: map<string, bigint>, inferred_tables: map<string, bigint>, "
    "unwritten_statements: array<string>>"
)


def translate(  # noqa: PLR0913 - the settings of a route
    df: DataFrame,
    *,
    source: str,
    target: str,
    source_options: Mapping[str, OptionValue] | None = None,
    target_options: Mapping[str, OptionValue] | None = None,
    ddl: DataFrame | None = None,
    topic: str = "{topic}",
    topics: Sequence[Mapping[str, Any]] = (),
    partitions: int = 0,
    partition_by: str = "auto",
    watermarks: str = "keep",
    include_tables: Sequence[str] = (),
    exclude_tables: Sequence[str] = (),
    include_events: Sequence[str] = (),
    exclude_events: Sequence[str] = (),
    source_partitions: Mapping[str, int] | None = None,
    source_registry: Mapping[str, Any] | None = None,
    target_registry: Mapping[str, Any] | None = None,
    on_error: str = "stop",
    dead_letter_topic: str = "",
    group_id: str = "",
    with_counts: bool = False,
) -> DataFrame:
    """Return the records of a DataFrame in another format, with the columns of Kafka's sink.

    df: Records with the columns of Spark's Kafka source, of a batch or a stream; `headers` may be missing.
    source, target, source_options, target_options: As in [route], where they are from, to and so on.
    include_tables, exclude_tables, include_events, exclude_events: As in [route].
    topic, topics, partitions, partition_by, watermarks: As in [target].
    ddl: The definitions that rows are read with, as `definitions` returns them; read at once. Without them a
        row has only the definitions before it in its task, and otherwise types inferred from its message.
    source_partitions: The number of partitions by source topic. Used only if the source has DDL in one
        partition and the target in each: by default, those of a batch's records.
    source_registry, target_registry: The keys of [source.schema_registry] and [target.schema_registry], for a
        batch. The driver asks them at once, and registers the target's schemas.
    on_error: `stop`, `skip`, `dead-letter` (a record of `dead_letter_topic`), or `column`: a row without a
        topic, whose column `error` says why.
    dead_letter_topic, group_id: As in [errors] and [source]; the group is part of the route's name in dead
        letters.
    with_counts: Whether to add a column `counts`: each task's last row has no topic, and the task's counters.

    The result has topic, partition, key, value, headers, timestamp, source_topic, source_partition,
    source_offset and number, the record's number among those of its source record, from 0; then `error` and
    `counts` if chosen. Raises ConfigError, which names arguments, and RegistryUnavailable and SchemaRefused.
    The query itself fails with Spark's error; with `on_error="stop"` its text has `relay-stopped:` and the
    record's position, code and reason.
    """
    sides = {"from": source, "to": target}
    options = {"from_options": source_options or {}, "to_options": target_options or {}}
    tables = {"include_tables": include_tables, "exclude_tables": exclude_tables}
    events = {"include_events": include_events, "exclude_events": exclude_events}
    to_write = {"topic": topic, "topics": topics, "watermarks": watermarks}
    spread = {"partitions": partitions, "partition_by": partition_by}
    registries = Registries(source_registry, target_registry)
    policies = Policies(on_error, dead_letter_topic, group_id)
    config = config_of(sides | options | tables | events, to_write | spread, registries, policies)
    return _translated(df, config, ddl, source_partitions, OnError(on_error), with_counts=with_counts)


def _translated(
    df: DataFrame,
    config: Config,
    ddl: DataFrame | None,
    source_partitions: Mapping[str, int] | None,
    on_error: OnError,
    *,
    with_counts: bool,
) -> DataFrame:
    """Return the result of `translate` for a configuration."""
    records = records_of(df)
    schemas = schemas_of(config, records)
    catalog = SentCatalog(catalog_of(config, ddl, schemas))
    terms = Terms(sources=_sources(config, records, source_partitions))
    schemas.register(records, catalog, Bounds(), terms)
    counters, sent = _TaskCounts(), without_logins(config)
    work = Translate(sent, Columns(), catalog, counters, Bounds(), terms, known=schemas.known)
    return _selected(records, work, on_error, counters if with_counts else None)


def definitions(
    df: DataFrame,
    *,
    source: str,
    source_options: Mapping[str, OptionValue] | None = None,
    source_registry: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Return the records of a DataFrame that have DDL or a table's definition, for `ddl` of `translate`.

    df: As for `translate`. An exported schema history also has such records.
    source, source_options, source_registry: As for `translate`.

    The result has topic, partition, offset, timestamp_ms, key, value, headers, and `tso`, the statement's
    time. Without a registry, nothing is read before the result is used; saved as a table it serves later
    queries. Raises the errors of `translate`.
    """
    # Any target serves: only the source is read.
    route = {"from": source, "to": "flat-json", "from_options": source_options or {}}
    config, records = config_of(route, {"topic": "{topic}"}, Registries(source_registry)), records_of(df)
    return ddl_frame(records, without_logins(config), "df", schemas_of(config, records).known)


def _selected(
    records: Captured, work: Translate, on_error: OnError, counters: _TaskCounts | None
) -> DataFrame:
    """Return the columns of a result. `counters`: those of each task, None to leave them out."""
    columns = list(_COLUMNS)
    if on_error is OnError.COLUMN:
        columns = [f"nullif(topic, '{FAILED}') AS topic", *columns[1:], _error_column()]
    if counters is None:
        return records.frame.mapInArrow(work, PRODUCED).selectExpr(*columns)
    counted = records.frame.mapInArrow(_WithCounts(work, counters), f"{PRODUCED}, counts {_COUNTS_TYPE}")
    return counted.selectExpr(*columns, "counts")


class SentCatalog(NamedTuple):
    """A catalog that is pickled into a task's function; `value` as in Spark's broadcasts."""

    value: Catalog


class _TaskCounts:
    """The counters of one task, which stay in it."""

    def __init__(self) -> None:
        self.counts = BackfillCounts()

    def add(self, term: Parts) -> None:
        """Keep the counters."""
        (self.counts,) = term.values()


class _WithCounts:
    """Translate the rows of a task, and end with a row of its counters."""

    def __init__(self, work: Translate, counters: _TaskCounts) -> None:
        self.work, self.counters = work, counters

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the records, then the counters."""
        schema = ARROW_PRODUCED.append(_COUNTS)
        for batch in self.work(batches):
            none = pa.nulls(batch.num_rows, _COUNTS.type)
            yield pa.RecordBatch.from_arrays([*batch.columns, none], schema=schema)
        yield pa.RecordBatch.from_pylist([{"counts": _row_of(self.counters.counts)}], schema=schema)


def _row_of(counts: BackfillCounts) -> dict[str, object]:
    written = [count for name, count in counts.written.items() if not name.startswith(f"{FAILED}/")]
    failed = sum(counts.failed.values(), Counter[str]())
    return {
        "records_read": counts.read,
        "records_written": sum(written),
        "events": list(counts.events.items()),
        "lost": list(counts.lost.items()),
        "failed": list(failed.items()),
        "inferred_tables": list(counts.inferred.items()),
        "unwritten_statements": list(counts.unwritten),
    }


def records_of(df: Any) -> Captured:
    """Return the records of a DataFrame. Raises ConfigError, which names the argument."""
    if not isinstance(df, DataFrame):
        raise ConfigError([Problem("df", f"is no DataFrame, but {type(df).__name__}")])
    try:
        return Captured(as_records(df), Columns())
    except ConfigError as error:
        raise arguments_named(error) from None


def schemas_of(config: Config, records: Captured) -> RegistrySchemas:
    """Return the schemas that records name. Raises ConfigError, RegistryUnavailable, SchemaRefused."""
    try:
        schemas = RegistrySchemas(config)
    except ConfigError as error:
        raise arguments_named(error) from None
    if sides_of(config) and records.frame.isStreaming:
        message = "is a stream, and registries are asked before the query"
        raise ConfigError([Problem("df", message, "translate the batches of foreachBatch")])
    schemas.find_named(records, "df")
    return schemas


def catalog_of(config: Config, ddl: Any, schemas: RegistrySchemas | None = None) -> Catalog:
    """Return the catalog with these definitions. Raises ConfigError."""
    if ddl is None:
        return empty_catalog()
    problem = None
    if not isinstance(ddl, DataFrame):
        problem = Problem("ddl", f"is no DataFrame, but {type(ddl).__name__}", "definitions() returns one")
    elif ddl.isStreaming:
        problem = Problem("ddl", "is a stream", "save the definitions as a table, and read that")
    elif missing := [name for name in DDL_COLUMNS if name not in ddl.columns]:
        problem = Problem("ddl", f"has no column {', '.join(missing)}", "definitions() returns all columns")
    if problem is not None:
        raise ConfigError([problem])
    return learn_ddl(config, collect_ddl(ddl.select(*DDL_COLUMNS)), empty_catalog(), schemas)


def _sources(config: Config, records: Captured, given: Mapping[str, int] | None) -> Sequence[tuple[str, int]]:
    """Return the source's partitions (topic, number), where its DDL is written to all of them."""
    if not translator_of(config).copies_ddl:
        return ()
    if given is not None:
        if not all(isinstance(count, int) and count > 0 for count in given.values()):
            raise ConfigError([Problem("source_partitions", "has a value that is no number of partitions")])
        return [(topic, number) for topic, count in given.items() for number in range(count)]
    if records.frame.isStreaming:
        message = "is missing: the target has DDL in each partition, and a stream has no list of them"
        raise ConfigError([Problem("source_partitions", message, 'such as {"orders": 6}')])
    found = records.frame.select("topic", "partition").where("partition IS NOT NULL").distinct()
    return sorted((row.topic, row.partition) for row in found.collect())


def _error_column() -> str:
    """Return the expression of `error`, which a dead letter has in its last headers of these names."""
    fields = ", ".join(
        f"'{field}', CAST(element_at(filter(headers, each -> each.key = '{header}'), -1).value AS STRING)"
        for field, header in ERROR_FIELDS.items()
    )
    return f"CASE WHEN topic = '{FAILED}' THEN named_struct({fields}) END AS error"
