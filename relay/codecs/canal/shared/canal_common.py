"""Common parts of upstream Canal's JSON and its packets: options, the text of values and types."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from relay.codecs.canal.shared.local_times import ZonedReaders, zoned
from relay.codecs.canal.shared.messages import CanalDialect
from relay.codecs.canal.shared.row_readers import Spelling, TextReaders
from relay.codecs.canal.shared.wire_table import SqlTypes, WireTable, are_full
from relay.codecs.codec import ZonedOptions
from relay.codecs.losses import Before, Capabilities
from relay.codecs.shared.shaping import (
    Binary,
    InsertUnknownBefore,
    Key,
    Members,
    TimestampFormat,
    Tombstones,
    ZeroDates,
    shaped_style,
)
from relay.mysql.conversion_names import kernel_name
from relay.mysql.numbers import java_text
from relay.mysql.types import format_type
from relay.mysql.values import Read, TextStyle, read_signed_bytes

#: In these types NULL has another `sqlType` than a value (LogEventConvert.java, 1.1.7 and later).
_NULL_SQL_TYPES: Final = {"set": 2004, "json": 1111}
_TEXTS: Final = ("text", "tinytext", "mediumtext", "longtext")


class UpstreamOptions(ZonedOptions, frozen=True):
    """Options of both forms of upstream Canal."""

    max_batch_size: Annotated[
        int,
        Meta(
            ge=1,
            description="rows per message; above 1, neighboring rows of one source record share a message",
            extra={"side": "target"},
        ),
    ] = 1
    missing_before: InsertUnknownBefore = "insert"
    enum: Members = "index"
    binary: Binary = "producer"
    zero_dates: ZeroDates = "keep"
    timestamp_format: TimestampFormat = "sql"
    key: Key = "producer"
    tombstones: Tombstones = False


def canal_carries(options: UpstreamOptions, before: Before) -> Capabilities:
    """Return the capabilities of both forms; `before`: the columns of the old row that an UPDATE has."""
    return Capabilities(
        before=before,
        delete_image=True,
        primary_key=True,
        type_parameters=True,
        ddl=True,
        watermark=False,
        every_date=options.zero_dates != "null",
        commit_ts=False,
        gtid=True,
    )


def canal_style(options: UpstreamOptions, *, read_binary: Callable[[str], bytes] | None = None) -> TextStyle:
    """Return Canal's text style with these options. `read_binary`: see `TextStyle`."""
    style = TextStyle(
        float_text=java_text,
        zero_year="0000",
        pads_binary=False,
        keeps_scale=False,
        is_loose=True,
        zone=options.zone(),
        read_binary=read_binary,
    )
    return shaped_style(style, options)


def canal_dialect(style: TextStyle) -> CanalDialect:
    """Return the dialect of Canal's rows of this style."""
    return CanalDialect(style, format_type, null_sql_types=_NULL_SQL_TYPES)


def canal_readers(protocol: str, style: TextStyle, most_bytes: int) -> TextReaders | ZonedReaders:
    """Return the readers for Canal's rows of this style, and for those of Huawei DRS."""
    spelling_of = functools.partial(_spelling, style)
    rows = TextReaders(
        protocol, style, are_full, spelling_of, _may_be_drs, is_druid=True, most_bytes=most_bytes
    )
    return zoned(rows, style)


#: Numbers of java.sql.Types that Huawei DRS writes and Canal does not: LONGVARCHAR, BINARY, VARBINARY, FLOAT,
#: and its own number for DATETIME.
_DRS_SQL_TYPES: Final = frozenset({-1, -2, -3, 6, 94})
#: Finds the start of such a number in any spelling: also as text, or with a fraction or an exponent.
_may_be_drs: Final = re.compile(rb':\s*(?:-[0-3]|[06"]|9[4.])').search


def _spelling(style: TextStyle, sql_types: SqlTypes, wire: WireTable) -> Spelling:
    """Return the spelling of values: Canal's, or that of Huawei DRS, which prints bytes as Java does."""
    marks = [name for name in wire.names if sql_types.all().get(name) in _DRS_SQL_TYPES]
    if marks:
        for name in marks:
            sql_types.get(name)
        return msgspec.structs.replace(style, read_binary=read_signed_bytes), {}
    return style, _mistaken_texts(sql_types, wire)


def _mistaken_texts(sql_types: SqlTypes, wire: WireTable) -> dict[str, Read]:
    """Find columns such as `TEXT(100)`, which Canal does not recognize as text.

    It sends their UTF-8 bytes as ISO 8859-1, with the type number of a BLOB.
    """
    types = wire.mysql_types or {}
    texts = [(name, types.get(name) or "") for name in wire.names]
    suspects = [name for name, text in texts if "(" in text and text.lower().startswith(_TEXTS)]
    # An unknown type is ignored: the column has the definition's type.
    return {
        name: read_mistaken_text
        for name in suspects
        if sql_types.get(name) == 2004 and wire.column_types.get(name) is not None
    }


@kernel_name("mistaken-text")
def read_mistaken_text(text: str) -> str:
    """Decode text whose UTF-8 bytes came as ISO 8859-1. Raises ValueError."""
    try:
        return text.encode("latin-1").decode()
    except UnicodeError:
        raise ValueError("neither text nor bytes of text") from None
