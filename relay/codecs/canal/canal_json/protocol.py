"""Upstream Canal's flat JSON: one message a row event (1…N rows of one operation), DDL as text.

    data database es gtid id isDdl mysqlType old pkNames sql sqlType table ts type

Written by alibaba/canal (FlatMessage, fastjson) for `flatMessage=true`, members in alphabetical order; `gtid`
since 1.1.7; `isDdl` of database DDL is false up to 1.1.4. Every value is text or null; `old` of an UPDATE
holds the changed columns. Not expressible: commit ts, watermarks, transactions, binlog positions,
nullability, defaults. Written like Canal 1.1.8, but one row a message, `es` with milliseconds and decimals
with their full scale. Verified with records of Canal 1.1.8 on MySQL 8.0.12.
"""

from __future__ import annotations

from typing import Final

from relay.codecs.canal import detection
from relay.codecs.canal.canal_json.decoder import CanalJsonDecoder
from relay.codecs.canal.canal_json.encoder import CanalJsonEncoder
from relay.codecs.canal.canal_json.messages import NAME
from relay.codecs.canal.canal_json.options import CanalOptions, carries
from relay.codecs.canal.shared.split_rows import parts
from relay.codecs.codec import Codec, NonDdlMarker, TemplateSupport
from relay.templates.ops import Marker

#: For Flink's `canal-json` format (2.3, CanalJsonDeserializationSchema).
_FLINK: Final = {
    "ddl": "drop",
    "watermarks": "drop",
    "max-batch-size": "1",
    "missing-before": "insert",
    "enum": "label",
    "binary": "base64",
    "zero-dates": "text",
    "timestamp-format": "sql",
}

_FLINK_REASONS: Final = {
    "ddl": "the job fails on a statement other than CREATE",
    "watermarks": "the job fails on watermarks",
    "max-batch-size": "with several rows in a message, Flink gives one row the old values of another",
    "missing-before": "the job fails on an UPDATE without its old row",
    "enum": "Flink reads the column as STRING, and would show a number instead of the label",
    "binary": "BYTES is read as base64, and the job fails on other text",
    "zero-dates": "declare such a column as STRING; with zero-dates=null it can be DATE or TIMESTAMP",
    "timestamp-format": "iso is for tables with canal-json.timestamp-format.standard=ISO-8601",
}

#: For Canal's client and its adapters (1.1.8, client-adapter 1.1.7): as Canal itself sends it.
_CANAL_ADAPTER: Final = {
    "ddl": "keep",
    "watermarks": "drop",
    "max-batch-size": "1",
    "missing-before": "insert",
    "enum": "index",
    "binary": "producer",
    "zero-dates": "keep",
    "timestamp-format": "sql",
}

_CANAL_ADAPTER_REASONS: Final = {
    "ddl": "Canal sends statements, and the adapter applies them",
    "watermarks": "Canal has no watermarks, and the adapter treats one as a change without rows",
    "max-batch-size": "the adapter would also read several rows per message",
    "missing-before": "the adapter would read an UPDATE without its old row as one that changes nothing",
    "enum": "the adapter expects numbers, with sqlType 4 and -7",
    "binary": "the adapter expects a character for each byte, with sqlType 2004",
    "zero-dates": "the adapter reads them and converts them to null itself",
    "timestamp-format": "the adapter reads MySQL's text",
}

CODEC: Final = Codec(
    name=NAME,
    title="Alibaba Canal's JSON messages (flatMessage=true)",
    options=CanalOptions,
    decodes=carries(CanalOptions()),
    encodes=carries,
    decoder=CanalJsonDecoder,
    encoder=CanalJsonEncoder,
    non_ddl_marker=NonDdlMarker(
        ((b'"isDdl":false',), (b'"type":"INSERT"', b'"type":"UPDATE"', b'"type":"DELETE"')),
        (b'"isDdl":true',),
    ),
    profiles={"flink": _FLINK, "canal-adapter": _CANAL_ADAPTER},
    profile_reasons={"flink": _FLINK_REASONS, "canal-adapter": _CANAL_ADAPTER_REASONS},
    detection_rule=detection.upstream,
    templates=TemplateSupport(
        writes_rows_alone=lambda options: options.max_batch_size == 1,
        writes_events_alone=lambda options: options.max_batch_size == 1,
        parts=parts,
        marker=Marker("value", b',"table":', b',"ts":'),
    ),
)
