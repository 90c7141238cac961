"""Names of semantic types: the meanings of `name` in Connect schemas.

Sources: io.debezium.data and io.debezium.time of Debezium 3.6; org.apache.kafka.connect.data; pingcap/ticdc
pkg/sink/codec/debezium (2026-08) for `TIDB_VECTOR`.
"""

from __future__ import annotations

from typing import Final

BITS: Final = "io.debezium.data.Bits"
ENUM: Final = "io.debezium.data.Enum"
ENUM_SET: Final = "io.debezium.data.EnumSet"
JSON: Final = "io.debezium.data.Json"
VARIABLE_SCALE_DECIMAL: Final = "io.debezium.data.VariableScaleDecimal"
FLOAT_VECTOR: Final = "io.debezium.data.FloatVector"
DOUBLE_VECTOR: Final = "io.debezium.data.DoubleVector"
TIDB_VECTOR: Final = "io.debezium.data.TiDBVectorFloat32"
GEOMETRY: Final = "io.debezium.data.geometry.Geometry"
POINT: Final = "io.debezium.data.geometry.Point"

YEAR: Final = "io.debezium.time.Year"
# Days since 1970; as text.
DATE: Final = "io.debezium.time.Date"
ISO_DATE: Final = "io.debezium.time.IsoDate"
# A TIME in milliseconds; in microseconds; in nanoseconds; as text.
TIME: Final = "io.debezium.time.Time"
MICRO_TIME: Final = "io.debezium.time.MicroTime"
NANO_TIME: Final = "io.debezium.time.NanoTime"
ISO_TIME: Final = "io.debezium.time.IsoTime"
# A DATETIME in milliseconds; in microseconds; in nanoseconds; as text.
TIMESTAMP: Final = "io.debezium.time.Timestamp"
MICRO_TIMESTAMP: Final = "io.debezium.time.MicroTimestamp"
NANO_TIMESTAMP: Final = "io.debezium.time.NanoTimestamp"
ISO_TIMESTAMP: Final = "io.debezium.time.IsoTimestamp"
# A TIMESTAMP, as text with its zone.
ZONED_TIMESTAMP: Final = "io.debezium.time.ZonedTimestamp"

#: Prefix of the names of Kafka Connect's own logical types.
CONNECT_PREFIX: Final = "org.apache.kafka.connect.data."

DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
CONNECT_DATE: Final = "org.apache.kafka.connect.data.Date"
CONNECT_TIME: Final = "org.apache.kafka.connect.data.Time"
CONNECT_TIMESTAMP: Final = "org.apache.kafka.connect.data.Timestamp"
