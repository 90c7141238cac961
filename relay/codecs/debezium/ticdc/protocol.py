"""TiCDC Debezium: one row, DDL statement or watermark a message, one JSON object in key and value each.

    key             {"payload": {handle key columns} [, "schema": {…}]}
    row             {"payload": {source ts_ms transaction op before after} [, "schema": {…}]}; op is c, u or d
    DDL             {"payload": {source ts_ms databaseName schemaName ddl tableChanges} [, "schema": {…}]}
    watermark       {"payload": {source ts_ms transaction op} [, "schema": {…}]}; op is m

Since v8.0.0; keys since v8.5.0; DDL, watermarks and `tidb_type` since v8.5.4 (classic: v9.0.0), `commit_ts`
and `cluster_id` declared since v26.3.3. No tombstones, no headers. Not expressible: decimals beyond 64-bit
floats, dates that are not in the calendar, years below 100, NULL where a column has a default, transactions,
binlog positions, GTIDs; and without `tidb_type` whether text is binary and numbers unsigned. TIMESTAMP is in
UTC, so `timezone` changes nothing. Verified with records of pingcap/ticdc master b813e76f9 (2026-08-18).
"""

from __future__ import annotations

from typing import Final

from relay.codecs.codec import Codec, KeySupport, NonDdlMarker, TemplateSupport
from relay.codecs.debezium import detection
from relay.codecs.debezium.ticdc.decoder import TicdcDebeziumDecoder
from relay.codecs.debezium.ticdc.encoder import TicdcDebeziumEncoder
from relay.codecs.debezium.ticdc.options import NAME, TicdcDebeziumOptions, carries
from relay.codecs.losses import Keys
from relay.templates.ops import Marker

CODEC: Final = Codec(
    name=NAME,
    title="TiCDC Debezium JSON (protocol=debezium), all releases",
    options=TicdcDebeziumOptions,
    decodes=carries(TicdcDebeziumOptions(enable_tidb_extension=True, debezium_include_start_ts=True)),
    encodes=carries,
    decoder=TicdcDebeziumDecoder,
    encoder=TicdcDebeziumEncoder,
    ddl_everywhere=True,
    non_ddl_marker=NonDdlMarker(((b'"op":"c"', b'"op":"u"', b'"op":"d"', b'"op":"r"', b'"op":"m"'),)),
    detection_rule=detection.ticdc,
    keys=KeySupport(meaning=Keys.ROW),
    templates=TemplateSupport(
        writes_rows_alone=lambda _: True,
        writes_events_alone=lambda _: True,
        marker=Marker("value", b'"db":', b',"server_id":'),
    ),
)
