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
from relay.codecs.debezium.native.writing import Encoder, carries
from relay.codecs.losses import Keys

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


CODEC: Final = Codec(
    name=NAME,
    title="Debezium JSON of its own MySQL and MariaDB connectors, 1.9 to 3.6",
    options=DebeziumOptions,
    decodes=carries(DebeziumOptions(provide_transaction_metadata=True, replace_null_with_default=False)),
    encodes=carries,
    decoder=Decoder,
    encoder=Encoder,
    keys=Keys.ROW,
    row_signature=RowSignature(
        ((b'"op":"c"', b'"op":"u"', b'"op":"d"', b'"op":"r"', b'"status":"BEGIN"', b'"status":"END"'),)
    ),
    profiles=PROFILES,
)
