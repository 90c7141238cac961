"""Target options for values and events that a reader could misread.

A function that decides for one event raises NotRepresentable if the option refuses it; the text style of
values is chosen once for an encoder or decoder (`shaped_style`). Codecs offer those values of an option that
their format supports. The decoder counts facts that its source lacks.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from relay.codecs.codec import Options
from relay.codecs.shared.base64_text import base64_text, read_base64
from relay.model.errors import NotRepresentable
from relay.model.events import Op, TableSchema
from relay.mysql.values import TextStyle, read_hex

_ABOUT: Final = "an UPDATE whose old row the source does not have: "
_SIDE: Final = {"side": "target"}
#: For a format whose keys are not part of the message. `relay.codecs.shared.shaped` writes both.
Key = Annotated[
    Literal["producer", "primary-key"],
    Meta(
        description="Kafka key of a row: the producer's, or its primary key (else the unique key that "
        "identifies it) as a JSON object; null without one",
        extra=_SIDE,
    ),
]
Tombstones = Annotated[
    bool, Meta(description="write a tombstone with the same key after each DELETE", extra=_SIDE)
]
#: For a format in which an UPDATE cannot lack its old row, or means INSERT without it.
InsertUnknownBefore = Annotated[
    Literal["insert", "refuse"],
    Meta(description=_ABOUT + "written as an INSERT, or refused", extra=_SIDE),
]
#: For a format in which an UPDATE may lack its old row.
KeepUnknownBefore = Annotated[
    Literal["update", "insert", "refuse"],
    Meta(
        description=_ABOUT + "written without it, as an INSERT, or refused",
        extra=_SIDE,
    ),
]

#: For a format whose values are text. On the source side the option describes the producer.
Members = Annotated[
    Literal["index", "label"],
    Meta(description="ENUM and SET: numbers, or labels (`b`; `a,c`) where the members are known"),
]
Binary = Annotated[
    Literal["producer", "base64", "hex"],
    Meta(description="binary values: the producer's text, base64 (BINARY(n) with all its n bytes), or hex"),
]
ZeroDates = Annotated[
    Literal["keep", "null", "text"],
    Meta(
        description="dates that are not in the calendar (0000-00-00): as the producer writes them, null "
        "(counted; not in the key's columns), or MySQL's text",
        extra=_SIDE,
    ),
]
TimestampFormat = Annotated[
    Literal["sql", "iso"],
    Meta(description="separator of date and time in DATETIME and TIMESTAMP: a space, or `T`"),
]

_READ_BINARY: Final = {"producer": None, "base64": read_base64, "hex": read_hex}
_WRITE_BINARY: Final = {"producer": None, "base64": base64_text, "hex": bytes.hex}

_UPDATE: Final = Op.UPDATE
_INSERT: Final = Op.INSERT


def shaped_style(style: TextStyle, options: Options) -> TextStyle:
    """Return a producer's text style with the changes of a codec's options (those above)."""
    given = {name: getattr(options, name, None) for name in ("enum", "binary", "zero_dates")}
    binary = given["binary"] or "producer"
    return msgspec.structs.replace(
        style,
        read_binary=_READ_BINARY[binary] or style.read_binary,
        write_binary=_WRITE_BINARY[binary],
        has_labels=given["enum"] == "label",
        has_null_dates=given["zero_dates"] == "null",
        is_iso=getattr(options, "timestamp_format", None) == "iso",
    )


def column_styles(schema: TableSchema, style: TextStyle) -> list[TextStyle]:
    """Return the style of each of a table's columns: with `zero-dates=null`, dates of its key keep their
    text. Readers join rows by the key, and NULL would be the key of several rows.
    """
    if not style.has_null_dates:
        return [style] * len(schema.columns)
    key, of_key = frozenset(schema.handle_key()), msgspec.structs.replace(style, has_null_dates=False)
    return [of_key if column.name in key else style for column in schema.columns]


def op_without_before(wanted: str, protocol: str) -> Op:
    """Return the operation for an UPDATE without its old row. Raises NotRepresentable if it is refused."""
    if wanted == "refuse":
        reason = "an UPDATE whose old row is unknown; the target option missing-before=insert writes it"
        raise NotRepresentable(protocol, "", reason)
    return _INSERT if wanted == "insert" else _UPDATE
