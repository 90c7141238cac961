"""Build messages for detection rules (`relay.codecs.detection`): decompressed, with their Avro."""

from __future__ import annotations

from typing import Final

import msgspec

from relay.codecs.detection import DetectionMessage, behind_schema_id
from relay.codecs.shared.avro import frame_of, has_id_header
from relay.codecs.shared.large_messages import Decompression, LargeMessageCompression, decompressed
from relay.model.errors import DecodeError, Malformed, UnsupportedMessage
from relay.model.limits import DEFAULT_LIMITS
from relay.model.records import ConsumerRecord, Header

#: Longer messages are not examined, compressed or not: naming a format is not worth the memory.
MOST_BYTES: Final = 1 << 20
_LIMITS: Final = msgspec.structs.replace(DEFAULT_LIMITS, decompressed_bytes=MOST_BYTES)
_LZ4: Final = b"\x04\x22\x4d\x18"


def message_of(
    key: bytes | None, value: bytes, headers: tuple[Header, ...] = (), schema: str = ""
) -> DetectionMessage:
    """Return a message for detection rules. `schema`: the text of the schema it names, if known."""
    avro = _avro_in(value, headers)
    if len(value) > MOST_BYTES:
        return DetectionMessage(key, value[:MOST_BYTES], headers, schema=schema, avro=avro)
    try:
        text = decompressed("", "", value, LargeMessageCompression.AUTO, Decompression(_LIMITS))
    except DecodeError:
        text = value
    compression = ""
    if text is not value:
        compression = "lz4" if value.startswith(_LZ4) else "snappy"
        if not text.lstrip().startswith((b"{", b"\x16")):
            # Many short texts can be read as a block of snappy.
            text, compression = value, ""
    return DetectionMessage(key, value, headers, text=text, compression=compression, schema=schema, avro=avro)


def _avro_in(value: bytes, headers: tuple[Header, ...]) -> bytes | None:
    """Return the Avro in a value whose schema id is in the value or in a header; None if there is none."""
    if not has_id_header(headers, "value"):
        return behind_schema_id(value)
    try:
        frame = frame_of("", ConsumerRecord("", 0, 0, 0, None, value, headers), "value")
    except (Malformed, UnsupportedMessage):
        return None
    return None if frame is None else frame.body
