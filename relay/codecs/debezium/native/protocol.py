"""Debezium JSON: messages of Debezium's own MySQL connector, as Kafka Connect's JsonConverter prints them.

    key             {handle key columns}, null for a table without a key
    row             {before after source transaction op ts_ms ts_us ts_ns}; op is c, u, d or r
    tombstone       the key of a DELETE again, without a value
    TRUNCATE        a row's message without rows; op is t (skipped.operations=none)
    schema change   {source ts_ms databaseName schemaName ddl tableChanges}
    transaction     {status id event_count data_collections ts_ms}
    heartbeat       {ts_ms}

With schemas each is {"schema": {…}, "payload": {…}}, in key and value. Not expressible: commit ts,
watermarks, dates that are not in the calendar, NULL where a column has a default (replace.null.with.default),
the MySQL type of a number.
"""

from __future__ import annotations

from typing import Final

from relay.codecs.codec import Codec, KeySupport, NonDdlMarker, TemplateSupport
from relay.codecs.debezium import detection
from relay.codecs.debezium.native.decoder import DebeziumJsonDecoder
from relay.codecs.debezium.native.encoder import NEW_KEY, OLD_KEY, DebeziumJsonEncoder, carries
from relay.codecs.debezium.native.messages import MARKER
from relay.codecs.debezium.native.options import NAME, DebeziumOptions
from relay.codecs.debezium.native.profiles import JSON_PROFILES, JSON_REASONS
from relay.codecs.debezium.native.topics import ddl_topics
from relay.codecs.losses import Keys

CODEC: Final = Codec(
    name=NAME,
    title="Debezium JSON, as Debezium's MySQL and MariaDB connectors 1.9 to 3.6 write it",
    options=DebeziumOptions,
    decodes=carries(
        DebeziumOptions(
            provide_transaction_metadata=True, replace_null_with_default=False, skipped_operations="none"
        )
    ),
    encodes=carries,
    decoder=DebeziumJsonDecoder,
    encoder=DebeziumJsonEncoder,
    ddl_topics=ddl_topics,
    non_ddl_marker=NonDdlMarker(
        ((b'"op":"c"', b'"op":"u"', b'"op":"d"', b'"op":"r"', b'"status":"BEGIN"', b'"status":"END"'),)
    ),
    own_headers=frozenset({NEW_KEY, OLD_KEY}),
    profiles=JSON_PROFILES,
    profile_reasons=JSON_REASONS,
    detection_rule=detection.native,
    keys=KeySupport(meaning=Keys.ROW, encoder=DebeziumJsonEncoder),
    templates=TemplateSupport(marker=MARKER),
)
