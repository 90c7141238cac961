"""Oracle GoldenGate's JSON: the output of its Big Data handlers with `format=json`. Flink reads it, too.

    {"table":"SHOP.ORDERS","op_type":"U","op_ts":"2020-05-13 15:40:06.000000",
     "current_ts":"2020-05-13T15:40:07.000000","pos":"00000000000000002928","primary_keys":["ID"],
     "before":{row},"after":{row}}

`op_type` is I, U, D or T (a truncated table). Not expressible: types of columns, DDL except TRUNCATE,
transactions. Sources: Oracle GoldenGate for Big Data 12.3 to 23, "Using the JSON Formatter"; Flink 2.1.
"""

from __future__ import annotations

from typing import Final

from relay.codecs.codec import Codec, NonDdlMarker, TemplateSupport, encodes_nothing
from relay.codecs.ogg.decoder import OggDecoder
from relay.codecs.ogg.detection import detect
from relay.codecs.ogg.options import CARRIES, NAME, OggOptions
from relay.templates.ops import Marker

CODEC: Final = Codec(
    name=NAME,
    title="Oracle GoldenGate's JSON, one row per message",
    options=OggOptions,
    decodes=CARRIES,
    encodes=encodes_nothing,
    decoder=OggDecoder,
    encoder=None,
    non_ddl_marker=NonDdlMarker(
        ((b'"op_type":"I"', b'"op_type":"U"', b'"op_type":"D"'),), never=(b'"op_type":"T"',)
    ),
    detection_rule=detect,
    templates=TemplateSupport(marker=Marker("value", b"", b',"op_ts":')),
)
