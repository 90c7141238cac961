"""TiCDC Open Protocol (protocol=open-protocol): framed events, one JSON key and one JSON value each.

    key:   {"ts": commit ts, "scm": database, "tbl": table, "t": 1 row | 2 DDL | 3 resolved}
    value: {"u": new row, "p": old row} | {"d": deleted row} | {"q": DDL, "t": its number} | nothing

Emitted by TiCDC since v4.0.0. All four generations are read (without flags before v4.0.5, columns in
alphabetical order in the classic architecture); the new architecture's is written. Not expressible:
parameters and members of types, charsets, defaults, transactions, the time when the message was made.
Verified with records of pingcap/ticdc master b813e76f9 (2026-08-18).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from relay.codecs.codec import Codec, Joining, KeySupport, Message, NonDdlMarker, TemplateSupport
from relay.codecs.losses import Keys
from relay.codecs.open_protocol.decoder import OpenProtocolDecoder
from relay.codecs.open_protocol.detection import detect
from relay.codecs.open_protocol.encoder import OpenProtocolEncoder
from relay.codecs.open_protocol.frames import LENGTH_BYTES, NAME, VERSION, joined, segments_in, separated
from relay.codecs.open_protocol.options import OpenOptions, carries
from relay.codecs.shared.large_messages import RECORD_OVERHEAD
from relay.model.records import ConsumerRecord
from relay.templates.ops import Frames, Marker


def joining(options: OpenOptions) -> Joining | None:
    """Return the rules for joining messages with these options."""
    if options.max_batch_size == 1:
        return None
    most_bytes = options.max_message_bytes - RECORD_OVERHEAD
    return Joining(options.max_batch_size, most_bytes, len(VERSION), _rows_in, joined)


#: Marks of row keys, and marks of the keys of rows that were too large; quotes inside a text are escaped, so
#: no text contains a mark.
_ROW_MARKS: Final = b'"t":1}', b'"t":1,"ptn":'
_ALONE_MARKS: Final = b'"ohk":', b'"ccl":'


def _rows_in(key: bytes, _: bytes) -> int:
    """Return the rows in a message of this encoder; 0 for a statement, a watermark, and a reduced row."""
    if any(mark in key for mark in _ALONE_MARKS) or not any(mark in key for mark in _ROW_MARKS):
        return 0
    return segments_in(key)


def parts(record: ConsumerRecord) -> Sequence[Message]:
    """Split a record of several events into messages of one event each."""
    key, value = record.key, record.value
    return [] if key is None or value is None else separated(key, value)


def writes_rows_alone(options: OpenOptions) -> bool:
    """Return whether every message has one row."""
    return options.max_batch_size == 1


CODEC: Final = Codec(
    name=NAME,
    title="TiCDC Open Protocol (protocol=open-protocol), all releases",
    options=OpenOptions,
    decodes=carries(OpenOptions()),
    encodes=carries,
    decoder=OpenProtocolDecoder,
    encoder=OpenProtocolEncoder,
    ddl_everywhere=True,
    joining=joining,
    non_ddl_marker=NonDdlMarker(
        ((b'"t":1}', b'"t":1,', b'"t":3}', b'"t":3,'),), never=(b'"t":2',), part="key"
    ),
    detection_rule=detect,
    keys=KeySupport(meaning=Keys.MESSAGE),
    templates=TemplateSupport(
        lengths_at=(len(VERSION), 0),
        marker=Marker("key", b'"scm":', b"}"),
        parts=parts,
        framing=Frames(VERSION, LENGTH_BYTES),
        writes_rows_alone=writes_rows_alone,
        writes_events_alone=writes_rows_alone,
    ),
)
