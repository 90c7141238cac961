"""TiCDC Simple as Avro (protocol=simple, encoding-format=avro): what `ticdc-simple-json` says, key null.

    0x16, then Message {type, payload: Watermark | Bootstrap | DDL | DML}

The schema is fixed and part of TiCDC (since v8.0.0): no header, no registry. BIGINT UNSIGNED is a record of
its own, a TIMESTAMP a record with its zone; types of DATETIME and TIME lack the digits of a second, which
follow from their length. It cannot say what Simple cannot say as JSON. Verified with records of pingcap/ticdc
master b813e76f9 (2026-08-18).
"""

from __future__ import annotations

from typing import Final

from relay.codecs.codec import Codec
from relay.codecs.simple.avro_wire import AvroWire
from relay.codecs.simple.decoder import SimpleDecoder
from relay.codecs.simple.encoder import SimpleEncoder
from relay.codecs.simple.options import SimpleOptions, carries
from relay.needs import Answers

NAME: Final = "ticdc-simple-avro"
_WIRE: Final = AvroWire(NAME)


def _decoder(options: SimpleOptions, answers: Answers) -> SimpleDecoder:
    return SimpleDecoder(_WIRE, options, answers)


def _encoder(options: SimpleOptions, answers: Answers) -> SimpleEncoder:
    return SimpleEncoder(_WIRE, options, answers)


CODEC: Final = Codec(
    name=NAME,
    title="TiCDC Simple as Avro (protocol=simple, encoding-format=avro)",
    options=SimpleOptions,
    decodes=carries(SimpleOptions()),
    encodes=carries,
    decoder=_decoder,
    encoder=_encoder,
    ddl_everywhere=True,
    rows_need_definitions=True,
)
