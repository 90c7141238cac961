"""TiCDC Simple as JSON (protocol=simple): one row, statement, definition or watermark a message, key null.

    row         version database table tableID type commitTs [startTs] buildTs schemaVersion
                [claimCheckLocation] [handleKeyOnly] [checksum] [data] [old]
    DDL         version type sql commitTs buildTs [tableSchema] [preTableSchema]
    BOOTSTRAP   version type commitTs=0 buildTs tableSchema
    WATERMARK   version type commitTs buildTs

Since v8.0.0; `startTs` since v8.5.8. A row has no types: it names the version of its table's definition,
which came with a DDL message or a BOOTSTRAP. Not expressible: transactions, binlog positions, GTIDs,
comments, which columns are generated, auto-incremented or have ON UPDATE, and DEFAULT NULL. Verified with
records of pingcap/ticdc master b813e76f9 (2026-08-18).
"""

from __future__ import annotations

from typing import Final

from relay.codecs.codec import NonDdlMarker
from relay.codecs.simple import detection
from relay.codecs.simple.json_wire import JsonWire
from relay.codecs.simple.options import SimpleJsonOptions
from relay.codecs.simple.protocol import codec_of
from relay.templates.ops import Marker

NAME: Final = "ticdc-simple-json"

CODEC: Final = codec_of(
    JsonWire(NAME),
    "TiCDC Simple as JSON (protocol=simple)",
    SimpleJsonOptions,
    detection.json,
    NonDdlMarker(
        (
            (
                b'"type":"INSERT"',
                b'"type":"UPDATE"',
                b'"type":"DELETE"',
                b'"type":"WATERMARK"',
            ),
        ),
        (b'"tableSchema":', b'"sql":'),
    ),
    Marker("value", b'"database":', b',"commitTs":'),
)
