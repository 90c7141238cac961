"""Enumerated values of configuration keys."""

from __future__ import annotations

from enum import StrEnum


class DeliveryMode(StrEnum):
    """The delivery guarantee of a target topic after a crash.

    Repeats (`at-least-once`), or each record once (`exactly-once`).
    """

    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


class Watermarks(StrEnum):
    """The handling of watermarks when rows are repartitioned."""

    KEEP = "keep"
    DROP = "drop"


class PartitionBy(StrEnum):
    """How a row's target partition is chosen; see `relay.routing.partitioning.Partitioning`.

    AUTO: in a rule, the setting of [target]; else index-value if the number of partitions is set, or source
    if it is not.
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
    """The format of records in files: columns named as Kafka's fields, or record files, one record a line."""

    PARQUET = "parquet"
    JSON_LINES = "json-lines"


class InputFormat(StrEnum):
    """The format of input files: as `FileFormat`, or as written by the storage sink of TiCDC."""

    PARQUET = "parquet"
    JSON_LINES = "json-lines"
    TICDC_STORAGE = "ticdc-storage"


class OutputLayout(StrEnum):
    """The folder names of a backfill's output: topic and partition, the day, or the table."""

    TOPIC = "topic"
    DATE = "date"
    TABLE = "table"


class OverBudget(StrEnum):
    """The action when more records fail than the budget of [errors] allows.

    relay ends before the next one that fails, or goes on with a failing check.
    """

    STOP = "stop"
    DEGRADE = "degrade"


class Wait(StrEnum):
    """Whether rows wait for DDL of partition 0; AUTO: if the source's DDL is only in that partition."""

    AUTO = "auto"
    TRUE = "true"
    FALSE = "false"
