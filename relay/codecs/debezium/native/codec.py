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

from relay.catalog import Catalog
from relay.codecs.codec import Codec, RowSignature
from relay.codecs.debezium.native.message_writing import NAME
from relay.codecs.debezium.native.options import DebeziumOptions
from relay.codecs.debezium.native.writing import Encoder, carries
from relay.codecs.losses import Keys, Lossy
from relay.errors import UnsupportedMessage
from relay.model import Event
from relay.needs import Answers
from relay.records import ConsumerRecord

PROFILES: Final = {
    "flink": {
        "schemas.enable": "false",
        "tombstones.on.delete": "false",
        "decimal.handling.mode": "string",
        "bigint.unsigned.handling.mode": "string",
        "bit": "number",
        "temporal": "text",
        "replace.null.with.default": "false",
        "key-change-headers": "false",
    },
    "kafka-connect": {
        "time.precision.mode": "microseconds",
        "bigint.unsigned.handling.mode": "precise",
        "bit": "number",
        "time": "text",
        "wide-decimals": "text",
        "enum-schema": "string",
        "zero-dates": "null",
        "schema-columns": "optional",
        "replace.null.with.default": "false",
        "key-change-headers": "false",
    },
}


class Decoder:
    """Reads nothing yet."""

    def __init__(self, options: DebeziumOptions, answers: Answers) -> None: ...

    def decode(
        self,
        record: ConsumerRecord,  # noqa: ARG002
        catalog: Catalog,  # noqa: ARG002
        lossy: list[Lossy],  # noqa: ARG002
    ) -> tuple[list[Event], Catalog]:
        """Refuse every message."""
        raise UnsupportedMessage(NAME, "", "this protocol is written only")


CODEC: Final = Codec(
    name=NAME,
    title="Debezium JSON, as Debezium's MySQL connector and Kafka Connect's JsonConverter write it",
    options=DebeziumOptions,
    decodes=carries(DebeziumOptions()),
    encodes=carries,
    decoder=Decoder,
    encoder=Encoder,
    keys=Keys.ROW,
    row_signature=RowSignature(((b'"op":"c"', b'"op":"u"', b'"op":"d"', b'"op":"r"'),)),
    profiles=PROFILES,
)
