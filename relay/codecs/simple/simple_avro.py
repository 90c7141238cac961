"""TiCDC Simple as Avro (protocol=simple, encoding-format=avro): the content of `ticdc-simple-json`, key null.

    0x16, then Message {type, payload: Watermark | Bootstrap | DDL | DML}

The schema is fixed and part of TiCDC (since v8.0.0): no header, no registry. BIGINT UNSIGNED is a separate
record, a TIMESTAMP a record with its zone; types of DATETIME and TIME lack the digits of a second, which
follow from their length. Not expressible: as for Simple as JSON. Verified with records of pingcap/ticdc
master b813e76f9 (2026-08-18).
"""

from __future__ import annotations

from typing import Final

from relay.codecs.simple import detection
from relay.codecs.simple.avro_wire import AvroWire
from relay.codecs.simple.options import SimpleOptions
from relay.codecs.simple.protocol import codec_of
from relay.templates.ops import Marker

NAME: Final = "ticdc-simple-avro"

CODEC: Final = codec_of(
    AvroWire(NAME),
    "TiCDC Simple as Avro (protocol=simple, encoding-format=avro)",
    SimpleOptions,
    detection.avro,
    # Rows of version 1: database, table, id of the table, operation.
    marker=Marker("value", size=4, values=("string", "string", "long", "long")),
)
