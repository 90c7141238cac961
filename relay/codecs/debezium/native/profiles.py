"""Profiles of `debezium-json` and `debezium-avro`: sets of options with which a known reader reads all
tables, and the reasons.

Based on Flink 2.3, Connect 4.3, Apicurio's converter 2.6 and Debezium's JDBC sink 3.4 (tests/readers).
"""

from __future__ import annotations

from typing import Final

#: Messages that neither Flink nor a sink accepts.
_ROWS_ALONE: Final = {
    "unavailable.value.placeholder": "",
    "key-change-headers": "false",
    "heartbeats": "drop",
    "ddl": "drop",
    "watermarks": "drop",
}
_CONNECT: Final = {
    "time.precision.mode": "microseconds",
    "bigint.unsigned.handling.mode": "precise",
    "bit": "number",
    "time": "text",
    "wide-decimals": "text",
    "vector": "text",
    "enum-schema": "string",
    "zero-dates": "null",
    "schema-columns": "optional",
}

JSON_PROFILES: Final = {
    "flink": {
        "schemas.enable": "false",
        "tombstones.on.delete": "false",
        "decimal.handling.mode": "string",
        "bigint.unsigned.handling.mode": "string",
        "bit": "number",
        "temporal": "text",
        "vector": "text",
        "replace.null.with.default": "false",
        **_ROWS_ALONE,
    },
    "kafka-connect": {**_CONNECT, "replace.null.with.default": "false", **_ROWS_ALONE},
}
AVRO_PROFILES: Final = {
    "flink": {
        "tombstones.on.delete": "false",
        "decimal.handling.mode": "string",
        "bigint.unsigned.handling.mode": "precise",
        "bit": "number",
        "temporal": "text",
        "vector": "text",
        "ignore.default.for.nullables": "true",
        **_ROWS_ALONE,
    },
    "kafka-connect": {**_CONNECT, "ignore.default.for.nullables": "true", **_ROWS_ALONE},
}

_PLACEHOLDER: Final = "the placeholder would be stored as the column's value"
_FLINK_REASONS: Final = {
    "tombstones.on.delete": "Flink skips records without a value",
    "vector": "Flink reads the text as STRING",
    "unavailable.value.placeholder": _PLACEHOLDER,
    "key-change-headers": "Flink reads no headers",
    **dict.fromkeys(("heartbeats", "ddl", "watermarks"), "the job fails on messages that are not rows"),
}
_CONNECT_REASONS: Final = {
    "time.precision.mode": "one unit for columns with any number of fractional digits",
    "bigint.unsigned.handling.mode": "from 2^63 on, long is negative",
    "bit": "the JDBC sink fails on io.debezium.data.Bits",
    "time": "the JDBC sink fails on a TIME of a day or more, and on a negative one",
    "wide-decimals": "the JDBC sink supports at most 38 digits",
    "vector": "text for every database",
    "enum-schema": "text for every database; an ENUM created by the sink would lack the empty label",
    "zero-dates": "only MySQL has such dates; with zero-dates=text, all dates would be text",
    "schema-columns": "a default in the schema would replace NULL; a zero date becomes NULL in any column",
    "unavailable.value.placeholder": _PLACEHOLDER,
    "key-change-headers": "Connect's SimpleHeaderConverter fails on them",
    **dict.fromkeys(("heartbeats", "ddl", "watermarks"), "the JDBC sink fails on messages that are not rows"),
}
_STORED_DEFAULT: Final = "NULL would be stored as the default"
_READ_DEFAULT: Final = "NULL would be read as the default"

JSON_REASONS: Final = {
    "flink": {
        **_FLINK_REASONS,
        "schemas.enable": "read with schema-include=false, which is Flink's default",
        "decimal.handling.mode": "DECIMAL is read from text with all its digits; the job fails on bytes",
        "bigint.unsigned.handling.mode": "DECIMAL(20, 0) is read from text; from 2^63 on, long is negative",
        "bit": "DECIMAL(20, 0) takes a number; the job fails on booleans and bytes",
        "temporal": "DATE and TIMESTAMP are read from MySQL's text; the job fails on numbers",
        "replace.null.with.default": _READ_DEFAULT,
    },
    "kafka-connect": {**_CONNECT_REASONS, "replace.null.with.default": _STORED_DEFAULT},
}
AVRO_REASONS: Final = {
    "flink": {
        **_FLINK_REASONS,
        "decimal.handling.mode": "read as STRING; Flink would misread bytes, without an error, if the scale "
        "of the message differs from the declared one, as after an ALTER",
        "bigint.unsigned.handling.mode": "DECIMAL(20, 0) is read from bytes; from 2^63 on, long is negative",
        "bit": "one type for all lengths, DECIMAL(20, 0); otherwise BOOLEAN, or BYTES, lowest byte first",
        "temporal": "read as STRING; Flink's Avro format supports at most 3 fractional digits, reads "
        "microseconds as milliseconds without an error, and fails on zero dates",
        "ignore.default.for.nullables": _READ_DEFAULT,
    },
    "kafka-connect": {**_CONNECT_REASONS, "ignore.default.for.nullables": _STORED_DEFAULT},
}
