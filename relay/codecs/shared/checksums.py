"""Checksums of rows, computed like TiDB's over the values of all columns.

A CRC32 over the columns in the order of the definition, without virtual ones; NULL adds nothing. TiDB uses
the order in which columns were added, which a definition does not show: after ADD COLUMN … FIRST or AFTER the
two orders differ. Source: pingcap/ticdc pkg/sink/codec/common/verify_checksum.go (2026-08).
"""

from __future__ import annotations

import math
import struct
import zlib
from decimal import Decimal
from typing import Final

from relay.model.events import ABSENT, Cell, ColumnType, Generated, Row, TableSchema, Value
from relay.mysql.numbers import decimal_text, is_vector
from relay.mysql.types import FLOATS

#: TiCDC's version number of this algorithm; the classic architecture has 1.
CHECKSUM_VERSION: Final = 2
_NUMBER: Final = struct.Struct("<Q")
_DOUBLE: Final = struct.Struct("<d")
_FLOAT: Final = struct.Struct("<f")
_LENGTH: Final = struct.Struct("<I")
_MASK: Final = (1 << 64) - 1


def row_checksum(schema: TableSchema, row: Row) -> int | None:
    """Return the checksum of a row; None if it lacks columns, has a label of ENUM or SET whose number is
    unknown, or a text that is no VECTOR.
    """
    found = 0
    for column, cell in zip(schema.columns, row, strict=True):
        if column.generated is Generated.VIRTUAL or cell is None:
            continue
        data = _data(cell, column.type)
        if data is None:
            return None
        found = zlib.crc32(data, found)
    return found


def _data(cell: Cell, column_type: ColumnType) -> bytes | None:
    base = column_type.base
    if cell is ABSENT or cell is None or (base in {"enum", "set"} and isinstance(cell, str)):
        return None
    if isinstance(cell, int):
        return _NUMBER.pack(cell & _MASK)
    if base in FLOATS and isinstance(cell, float):
        value = _single(cell) if base == "float" else cell
        # pingcap/tidb pkg/util/rowcodec/common.go, `appendDatumForChecksum`
        return _DOUBLE.pack(value if math.isfinite(value) else 0)
    if base == "vector":
        return _vector(str(cell))
    data = _text(cell)
    if base == "binary":
        # Some formats omit trailing zeros.
        data = data.ljust(column_type.length or 0, b"\0")
    return _LENGTH.pack(len(data)) + data


def _single(number: float) -> float:
    """Return the nearest 32-bit float; infinity beyond the largest."""
    try:
        found: float = _FLOAT.unpack(_FLOAT.pack(number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)
    return found


def _text(cell: Value) -> bytes:
    if isinstance(cell, bytes):
        return cell
    return (decimal_text(cell) if isinstance(cell, Decimal) else str(cell)).encode()


def _vector(text: str) -> bytes | None:
    """Return a VECTOR's numbers as bytes; None for other text."""
    if not is_vector(text):
        return None
    try:
        numbers = [float(part) for part in text[1:-1].split(",") if part]
    except ValueError:
        return None
    return _LENGTH.pack(len(numbers)) + b"".join([_FLOAT.pack(_single(number)) for number in numbers])
