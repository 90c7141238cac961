"""TiCDC Canal-JSON: one row, DDL statement or watermark a message, one JSON object a Kafka record, key null.

    row             id database table pkNames isDdl type es ts sql sqlType mysqlType old data [_tidb]
    control         id database table pkNames isDdl type es ts sql sqlType mysqlType data old [_tidb]

Since v4.0.9; `_tidb` (commit ts, watermarks) since v5.4.0 with `enable-tidb-extension`. Before v5.4.0 an
INSERT has `old: [null]`, a DELETE repeats the row in `old`, and `ts` is 0. Every value is text or null. Not
expressible: transactions, binlog positions, GTIDs, type parameters (unless `content-compatible`),
nullability, defaults. TiCDC writes `mysqlType` in random member order; relay in table order. Verified with
records of pingcap/ticdc master b813e76f9 (2026-08-18).
"""

from __future__ import annotations

from typing import Final

from relay.codecs.canal import detection
from relay.codecs.canal.ticdc.decoder import TicdcCanalDecoder
from relay.codecs.canal.ticdc.encoder import TicdcCanalEncoder
from relay.codecs.canal.ticdc.messages import NAME
from relay.codecs.canal.ticdc.options import TicdcOptions, carries
from relay.codecs.codec import Codec, NonDdlMarker, TemplateSupport
from relay.templates.ops import Marker

CODEC: Final = Codec(
    name=NAME,
    title="TiCDC Canal-JSON (protocol=canal-json), all releases",
    options=TicdcOptions,
    decodes=carries(TicdcOptions(enable_tidb_extension=True, content_compatible=True, output_row_key=True)),
    encodes=carries,
    decoder=TicdcCanalDecoder,
    encoder=TicdcCanalEncoder,
    non_ddl_marker=NonDdlMarker(
        (
            (b'"isDdl":false',),
            (b'"type":"INSERT"', b'"type":"UPDATE"', b'"type":"DELETE"', b'"type":"TIDB_WATERMARK"'),
        ),
        (b'"isDdl":true',),
    ),
    detection_rule=detection.ticdc,
    templates=TemplateSupport(
        writes_rows_alone=lambda _: True,
        writes_events_alone=lambda _: True,
        marker=Marker("value", b"", b',"es":'),
    ),
)
