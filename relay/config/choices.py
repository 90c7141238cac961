"""The words that keys of the configuration may have as values."""

from __future__ import annotations

from enum import StrEnum


class Start(StrEnum):
    """Where a partition without a committed offset begins."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSETS = "offsets"
    TIMESTAMP = "timestamp"
    COMMIT_TS = "commit-ts"


class Compression(StrEnum):
    """Compression of the batches that relay writes."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Mode(StrEnum):
    """What a target topic holds after a crash: repeats (`at-least-once`), or each record once
    (`exactly-once`).
    """

    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


class SecurityProtocol(StrEnum):
    """How brokers are spoken to."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"


class Mechanism(StrEnum):
    """How relay proves who it is."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


class Watermarks(StrEnum):
    """What happens to watermarks when rows are spread over the partitions anew."""

    KEEP = "keep"
    DROP = "drop"


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


class Layout(StrEnum):
    """What the folders of a backfill's output are named by: topic and partition, the day, or the table."""

    TOPIC = "topic"
    DATE = "date"
    TABLE = "table"
