"""The words that keys of the configuration may have as values."""

from __future__ import annotations

from enum import StrEnum


class Mode(StrEnum):
    """What a target topic holds after a crash: repeats (`at-least-once`), or each once (`exactly-once`)."""

    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


class Watermarks(StrEnum):
    """What happens to watermarks when rows are repartitioned."""

    KEEP = "keep"
    DROP = "drop"


class PartitionBy(StrEnum):
    """What a row's partition goes by; see `relay.routing.partitioning.Partitioning`. AUTO: in a rule as for
    the
    rest; else index-value where there is a number of partitions, and source where there is none.
    """

    AUTO = "auto"
    SOURCE = "source"
    INDEX_VALUE = "index-value"
    TABLE = "table"
    KEY = "key"


class End(StrEnum):
    """Where a backfill ends."""

    LATEST = "latest"
    OFFSETS = "offsets"
    TIMESTAMP = "timestamp"
    COMMIT_TS = "commit-ts"


class FileFormat(StrEnum):
    """How records lie in files: columns named as Kafka's fields, or record files, one record a line."""

    PARQUET = "parquet"
    JSON_LINES = "json-lines"


class InputFormat(StrEnum):
    """How records to read lie in files: as `FileFormat`, or as the storage sink of TiCDC has written them."""

    PARQUET = "parquet"
    JSON_LINES = "json-lines"
    TICDC_STORAGE = "ticdc-storage"


class OutputLayout(StrEnum):
    """What the folders of a backfill's output are named by: topic and partition, the day, or the table."""

    TOPIC = "topic"
    DATE = "date"
    TABLE = "table"


class OverBudget(StrEnum):
    """What relay does when more records fail than the budget of [errors] allows: it ends before the next one
    that fails, or goes on with a check that fails.
    """

    STOP = "stop"
    DEGRADE = "degrade"


class Wait(StrEnum):
    """Whether rows wait for DDL of partition 0; AUTO: where the source's DDL travels there alone."""

    AUTO = "auto"
    TRUE = "true"
    FALSE = "false"
