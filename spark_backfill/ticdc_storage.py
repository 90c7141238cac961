"""A folder of TiCDC's storage sink as a source (see `ticdc_layout`).

The sink has no topics. Its records get the name of the one source topic, partition 0, and as offset their
number in the order of all files: a schema file counts as one record, a data file as its lines. The timestamp
of a row is its `es`, that of DDL is its version's. Lines are counted first, so that a file may be split over
tasks in any way; but counting and translating must split it in the same way (see `_pin_blocks`). A file that
is added later changes the numbers after it: 64 bits cannot hold a line number together with the commit ts and
the names of tables by which files are ordered.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from relay.codecs import PROTOCOLS
from relay.codecs.given_options import parse_options
from relay.config import Config
from relay.config.wiring import translator_of
from relay.model.errors import ConfigError, Problem
from relay.model.events import TSO_LOGICAL_BITS, SchemaChange, Source
from relay.model.lookups import LookupCache
from relay.model.records import ConsumerRecord
from spark_backfill.files import PATTERN, Captured, plain_path
from spark_backfill.hadoop import files_below, hadoop_path, qualified
from spark_backfill.schema_pass import DdlRecord
from spark_backfill.ticdc_layout import SinkFile, in_order, newest, renames_in_order, statement_of

_PROTOCOL: Final = "ticdc-canal-json"
_EVENT_TIME: Final = re.compile(rb'"es":(\d{1,18})[,}]')
#: Spark's setting for the smallest number of splits of its input.
_LEAST_SPLITS: Final = "spark.sql.files.minPartitionNum"
_ROWS: Final = "value binary, path string, block bigint"
#: The offset of the first line of every block.
_STARTS: Final = "path string, block bigint, start bigint"


def storage_problems(config: Config) -> list[Problem]:
    """Find problems of a configuration that reads a storage sink."""
    problems = []
    if config.route.from_ != _PROTOCOL:
        message = "of TiCDC's storage sink only Canal-JSON is read"
        problems.append(Problem("route.from", message, f'set from = "{_PROTOCOL}"'))
    if len(config.source.topics) != 1:
        message = "must name one topic: records of a storage sink have none, and get this one"
        problems.append(Problem("source.topics", message))
    return problems


def read_storage(spark: SparkSession, config: Config) -> tuple[Captured, list[DdlRecord]]:
    """Return the records below `input`, and the statements that make the tables.

    Raises ConfigError, RecordsGone, Malformed.
    """
    root, paths = _listed(spark, config.backfill.input)
    files = in_order(paths)
    if not files:
        message = f"no files of a storage sink in {config.backfill.input}"
        raise ConfigError([Problem("backfill.input", message)])
    texts = _texts(spark, [f"{root}/{path}" for path, file in files.items() if not file.is_data])
    statements = {
        path: statement_record(config, path, files[path], texts[plain_path(f"{root}/{path}")])
        for path in files
        if not files[path].is_data
    }
    _pin_blocks(spark)
    lines = _lines(spark, [f"{root}/{path}" for path, file in files.items() if file.is_data])
    changes = {path: each.change for path, each in statements.items() if each}
    starts, offsets = _numbered(renames_in_order(files, changes), root, _counted(lines))
    ddl = [(each.is_known, each.at(offsets[path])) for path, each in statements.items() if each]
    known = [
        (bytearray(record.value or b""), "", record.offset, record.offset)
        for is_known, (record, _) in ddl
        if is_known
    ]
    frame = spark.createDataFrame(known, f"{_ROWS}, start bigint")
    if lines is not None:
        # With one side sent to every task, a block's lines remain in order.
        blocks = spark.createDataFrame(starts, _STARTS)
        frame = frame.unionAll(lines.join(F.broadcast(blocks), ["path", "block"]).select(*frame.columns))
    return Captured(frame, StorageReader(config.source.topics[0]), newest(files)), [each for _, each in ddl]


def _listed(spark: SparkSession, path: str) -> tuple[str, list[str]]:
    """Return the folder in Hadoop's form, and the paths of all files below it."""
    folder, system = hadoop_path(spark, path)
    if not system.exists(folder):
        raise ConfigError([Problem("backfill.input", f"{path} does not exist")])
    root = qualified(folder, system).rstrip("/")
    return root, [each[len(root) + 1 :] for each in files_below(spark, folder, system)]


def _pin_blocks(spark: SparkSession) -> None:
    """Make Spark split the same files alike in every job of the session.

    By default it splits by the number of cores at that moment, and executors come and go.
    """
    if spark.conf.get(_LEAST_SPLITS, None) is None:
        cores = (
            spark.conf.get("spark.sql.leafNodeDefaultParallelism", None)
            or spark.sparkContext.defaultParallelism
        )
        spark.conf.set(_LEAST_SPLITS, str(cores))


def _lines(spark: SparkSession, paths: list[str]) -> DataFrame | None:
    if not paths:
        return None
    text = spark.read.text([PATTERN.sub(r"\\\1", path) for path in paths])
    return text.select(
        F.col("value").cast("binary").alias("value"),
        F.col("_metadata.file_path").alias("path"),
        F.col("_metadata.file_block_start").alias("block"),
    )


def _counted(lines: DataFrame | None) -> dict[str, list[tuple[int, int, str]]]:
    """Return, by path, the beginning of each block, its number of lines, and the path in Spark's form."""
    found: dict[str, list[tuple[int, int, str]]] = {}
    if lines is None:
        return found
    table = lines.groupBy("path", "block").count().toArrow()
    for path, block, count in zip(*(column.to_pylist() for column in table.columns), strict=True):
        found.setdefault(plain_path(unquote(path)), []).append((block, count, path))
    return found


def _numbered(
    files: Mapping[str, SinkFile], root: str, counted: Mapping[str, list[tuple[int, int, str]]]
) -> tuple[pa.Table, dict[str, int]]:
    """Return the first offset of every block as `_STARTS`, and the offsets of the schema files."""
    paths: list[str] = []
    blocks: list[int] = []
    starts: list[int] = []
    schema_offsets: dict[str, int] = {}
    offset = 0
    for path, file in files.items():
        if not file.is_data:
            schema_offsets[path] = offset
            offset += 1
            continue
        for block, count, spelled in sorted(counted.get(plain_path(f"{root}/{path}"), [])):
            paths.append(spelled)
            blocks.append(block)
            starts.append(offset)
            offset += count
    columns = [pa.array(paths, pa.string()), pa.array(blocks, pa.int64()), pa.array(starts, pa.int64())]
    return pa.Table.from_arrays(columns, names=["path", "block", "start"]), schema_offsets


def _texts(spark: SparkSession, paths: list[str]) -> dict[str, bytes]:
    if not paths:
        return {}
    text = spark.read.text([PATTERN.sub(r"\\\1", path) for path in paths], wholetext=True)
    rows = text.select(
        F.col("value").cast("binary").alias("value"), F.col("_metadata.file_path").alias("path")
    ).collect()
    return {plain_path(unquote(row.path)): bytes(row.value) for row in rows}


class StatementRecord(NamedTuple):
    """The DDL of a schema file, as the message that TiCDC would have sent to a topic.

    `is_known`: a user's statement.
    """

    record: ConsumerRecord
    change: SchemaChange
    is_known: bool

    def at(self, offset: int) -> DdlRecord:
        """Return the record with its offset."""
        return DdlRecord(msgspec.structs.replace(self.record, offset=offset), self.change.source.tso)


def statement_record(config: Config, path: str, file: SinkFile, text: bytes) -> StatementRecord | None:
    """Return the statement in a schema file, as the message that TiCDC would send; None if it has none."""
    found = statement_of(path, file, text)
    if found is None:
        return None
    time_ms = file.version >> TSO_LOGICAL_BITS
    source = Source("ticdc", time_ms * 1_000_000, file.version)
    sent = SchemaChange(found.sql, file.table_id, (), "QUERY", source, source.event_time_ns)
    record = ConsumerRecord(config.source.topics[0], 0, 0, time_ms, None, None)
    events = translator_of(config).inspect(_with_message(record, sent))
    (change,) = (event for event in events if isinstance(event, SchemaChange))
    # The message has a field for the kind of statement, and only the decoder can determine it.
    record = _with_message(record, msgspec.structs.replace(sent, kinds=change.kinds))
    return StatementRecord(record, change, found.is_known)


def _with_message(record: ConsumerRecord, change: SchemaChange) -> ConsumerRecord:
    """Return the record with the statement as TiCDC writes it."""
    codec = PROTOCOLS[_PROTOCOL]
    options = parse_options(codec, {"enable-tidb-extension": "true"}, "backfill.input_format")
    (payload,) = codec.open_encoder(options, LookupCache()).encode([change], record, [])
    return msgspec.structs.replace(record, value=payload.value)


class StorageReader:
    """Read rows of lines as records: with their file, their block of it, and the first offset of the block.

    DDL is a block by itself, without a file. A task reads a block from its beginning to its end; every task
    has a separate reader.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        #: How many lines of each block were read.
        self._lines: Counter[tuple[str, int]] = Counter()

    def read(self, batch: pa.RecordBatch) -> Iterator[ConsumerRecord]:
        """Yield the records of a batch, without blank lines."""
        lines = self._lines
        columns = (batch.column(name).to_pylist() for name in ("value", "path", "block", "start"))
        for value, path, block, start in zip(*columns, strict=True):
            offset = start + lines[path, block]
            lines[path, block] += 1
            if value and not value.isspace():
                found = _EVENT_TIME.search(value)
                yield ConsumerRecord(self.topic, 0, offset, int(found[1]) if found else -1, None, value)
