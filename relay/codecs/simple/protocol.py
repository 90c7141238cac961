"""The common parts of the protocols of both encodings of Simple."""

from __future__ import annotations

from functools import partial

import msgspec

from relay.codecs.codec import Codec, NonDdlMarker, TemplateSupport
from relay.codecs.detection import DetectionRule
from relay.codecs.simple.decoder import SimpleDecoder
from relay.codecs.simple.encoder import SimpleEncoder
from relay.codecs.simple.messages import SimpleWire
from relay.codecs.simple.options import SimpleJsonOptions, SimpleOptions, carries
from relay.templates.ops import Marker


def codec_of(
    wire: SimpleWire,
    title: str,
    options: type[SimpleOptions],
    detection_rule: DetectionRule,
    non_ddl_marker: NonDdlMarker | None = None,
    marker: Marker | None = None,
) -> Codec:
    """Return the protocol of this encoding; `title` and the others: see `Codec`."""
    return Codec(
        name=wire.name,
        title=title,
        options=options,
        decodes=msgspec.structs.replace(carries(options()), start_ts=options is SimpleJsonOptions),
        encodes=carries,
        decoder=partial(SimpleDecoder, wire),
        encoder=partial(SimpleEncoder, wire),
        ddl_everywhere=True,
        rows_need_definitions=True,
        non_ddl_marker=non_ddl_marker,
        detection_rule=detection_rule,
        templates=TemplateSupport(
            # Except rows with a definition before them, which have no templates.
            writes_rows_alone=lambda _: True,
            marker=marker,
        ),
    )
