"""Debezium JSON: messages of Debezium's own MySQL connector, as Kafka Connect's JsonConverter prints them.

    key             {handle key columns}, null for a table without a key
    row             {before after source transaction op ts_ms ts_us ts_ns}; op is c, u, d or r
    tombstone       the key of a DELETE again, without a value
    TRUNCATE        a row's message without rows; op is t (skipped.operations=none)
    schema change   {source ts_ms databaseName schemaName ddl tableChanges}
    transaction     {status id event_count data_collections ts_ms}
    heartbeat       {ts_ms}

With schemas each is {"schema": {…}, "payload": {…}}, in key and value. It cannot say: commit ts, watermarks,
dates that are not in the calendar, NULL where a column has a default (replace.null.with.default), which type
of MySQL a number has.
"""

from __future__ import annotations

from typing import Final

from relay.codecs.codec import Codec, RowSignature
from relay.codecs.debezium.native.decoder import Decoder
from relay.codecs.debezium.native.options import NAME, DebeziumOptions
from relay.codecs.debezium.native.topics import ddl_topics
from relay.codecs.debezium.native.writing import NEW_KEY, OLD_KEY, Encoder, carries
from relay.codecs.losses import Keys
from relay.templates.ops import Marker

PROFILES: Final = {
    "flink": {
        "schemas.enable": "false",
        "tombstones.on.delete": "false",
        "decimal.handling.mode": "string",
        "bigint.unsigned.handling.mode": "string",
        "bit": "number",
        "temporal": "text",
        "vector": "text",
        "replace.null.with.default": "false",
        "key-change-headers": "false",
        "heartbeats": "drop",
        "ddl": "drop",
        "watermarks": "drop",
    },
    "kafka-connect": {
        "time.precision.mode": "microseconds",
        "bigint.unsigned.handling.mode": "precise",
        "bit": "number",
        "time": "text",
        "wide-decimals": "text",
        "vector": "text",
        "enum-schema": "string",
        "zero-dates": "null",
        "schema-columns": "optional",
        "replace.null.with.default": "false",
        "key-change-headers": "false",
        "heartbeats": "drop",
        "ddl": "drop",
        "watermarks": "drop",
    },
}

#: As Flink 2.3, Connect 4.3 and Debezium's JDBC sink 3.4 behave.
_REASONS: Final = {
    "flink": {
        "schemas.enable": "read with schema-include=false, which is Flink's default",
        "tombstones.on.delete": "Flink skips records without value",
        "decimal.handling.mode": "DECIMAL is read from text with all its digits; the job fails on bytes",
        "bigint.unsigned.handling.mode": "DECIMAL(20, 0) is read from text; from 2^63 on, long is negative",
        "bit": "DECIMAL(20, 0) takes a number; the job fails on booleans and bytes",
        "temporal": "DATE and TIMESTAMP are read from MySQL's text; the job fails on numbers",
        "replace.null.with.default": "NULL would be read as the default",
        "key-change-headers": "Flink reads no headers",
        "heartbeats": "the job fails on what is no row",
        "ddl": "the job fails on what is no row",
        "watermarks": "the job fails on what is no row",
    },
    "kafka-connect": {
        "time.precision.mode": "microseconds, whatever the digits of the column",
        "bigint.unsigned.handling.mode": "from 2^63 on, long is negative",
        "bit": "the JDBC sink fails on io.debezium.data.Bits",
        "time": "the JDBC sink fails on a TIME of a day or more, and on a negative one",
        "wide-decimals": "the JDBC sink takes at most 38 digits",
        "enum-schema": "text for every database; its own ENUM would have no empty label",
        "zero-dates": "no other database has such dates; zero-dates=text makes text of all dates",
        "schema-columns": "a default in the schema would replace NULL; a zero date may be NULL in any column",
        "replace.null.with.default": "NULL would be stored as the default",
        "key-change-headers": "Connect's SimpleHeaderConverter fails on them",
        "heartbeats": "the JDBC sink fails on what is no row",
        "ddl": "the JDBC sink fails on what is no row",
        "watermarks": "the JDBC sink fails on what is no row",
    },
}


CODEC: Final = Codec(
    name=NAME,
    title="Debezium JSON of its own MySQL and MariaDB connectors, 1.9 to 3.6",
    options=DebeziumOptions,
    decodes=carries(DebeziumOptions(provide_transaction_metadata=True, replace_null_with_default=False)),
    encodes=carries,
    decoder=Decoder,
    encoder=Encoder,
    keyed_encoder=Encoder,
    ddl_topics=ddl_topics,
    keys=Keys.ROW,
    row_signature=RowSignature(
        ((b'"op":"c"', b'"op":"u"', b'"op":"d"', b'"op":"r"', b'"status":"BEGIN"', b'"status":"END"'),)
    ),
    marker=Marker("value", b'"table":', b',"server_id":'),
    own_headers=frozenset({NEW_KEY, OLD_KEY}),
    profiles=PROFILES,
    profile_reasons=_REASONS,
)
