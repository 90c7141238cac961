"""Writing a row of Simple as Avro; its values and times may be traced."""

from __future__ import annotations

from typing import Any, Final

from relay.codecs.simple.avro_bytes import avro_block, avro_flag, avro_long, avro_optional, avro_text
from relay.codecs.simple.avro_values import NULL
from relay.codecs.simple.messages import BOOTSTRAP, WATERMARK, Checksum, Image, SimpleMessage
from relay.templates.avro_ops import Plain
from relay.templates.tracing import Traced, mark_of

#: The branch of a union of all types that each message is.
MESSAGE: Final = avro_long(11)
KINDS: Final = (WATERMARK, BOOTSTRAP, "DDL", "DML")
ROW_TYPES: Final = ("INSERT", "UPDATE", "DELETE")


def head_of(kind: str) -> bytes:
    """Return the bytes before the fields of a message of one of `KINDS`."""
    number = avro_long(KINDS.index(kind))
    return MESSAGE + number + number


def row_bytes(message: SimpleMessage) -> bytes:
    """Return the message of a row. Raises OverflowError and UnicodeError."""
    checksum = message.checksum
    return b"".join(
        (
            row_identity(message),
            _number(message.commit_ts),
            _number(message.build_ts),
            row_facts(message),
            avro_optional(None if checksum is None else _checksum(checksum)),
            _image(message.data),
            _image(message.old),
        )
    )


def row_identity(message: SimpleMessage) -> bytes:
    """Return the bytes before a row's times: its table and its operation."""
    return b"".join(
        (
            head_of("DML"),
            avro_long(message.version),
            avro_text(message.database or ""),
            avro_text(message.table or ""),
            avro_long(message.table_id),
            avro_long(ROW_TYPES.index(message.type)),
        )
    )


def row_facts(message: SimpleMessage) -> bytes:
    """Return the fields between a row's times and its checksum."""
    location = message.claim_check_location
    return b"".join(
        (
            avro_long(message.schema_version),
            avro_optional(None if location is None else avro_text(location)),
            avro_optional(avro_flag(True) if message.handle_key_only else None),
        )
    )


def _number(value: Any) -> bytes:  # noqa: ANN401 - an integer, or a traced one
    if isinstance(value, Traced):
        return value.trace.avro_mark(Plain("long"), value)
    return avro_long(value)


def _checksum(checksum: Checksum) -> bytes:
    return b"".join(
        (
            avro_long(checksum.version),
            avro_flag(checksum.corrupted),
            avro_long(checksum.current),
            avro_long(checksum.previous),
        )
    )


def _image(image: Image | None) -> bytes:
    if image is None:
        return b"\x00"
    entries = [avro_text(name) + (NULL if value is None else _cell(value)) for name, value in image.items()]
    return b"\x02" + avro_block(entries)


def _cell(value: Any) -> bytes:  # noqa: ANN401 - what `write_of` writes, or a traced cell
    if type(value) is bytes:
        return value
    return bytes(mark_of(value))
