"""Columns in TiCDC's dialect of Debezium JSON: the form of their values, and the types that they imply.

Source: pingcap/ticdc pkg/sink/codec/debezium/{codec,helper}.go (2026-08); its records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec

from relay.codecs.debezium.shared.defaults import null_default, zero_is_null
from relay.codecs.debezium.shared.dialect import (
    AmbiguousValue,
    DebeziumValueFormat,
    Object,
    plain_column_names,
)
from relay.codecs.debezium.shared.json_kinds import FLOAT32, SPELLED, fitting
from relay.codecs.debezium.shared.messages import Key, key_of
from relay.codecs.debezium.shared.schemas import (
    DeclaredColumn,
    agrees,
    counts_micros,
    inferred_type,
    ticdc_field,
)
from relay.codecs.debezium.shared.value_writing import DebeziumValueWriter
from relay.codecs.debezium.shared.values import double_reader, read_bits, unsigned64
from relay.codecs.losses import Loss
from relay.codecs.shared.base64_text import read_base64
from relay.codecs.shared.conversions import Read
from relay.codecs.shared.debezium_temporal import (
    date_text,
    datetime_text,
    is_too_fine_text,
    time_text,
    timestamp_text,
)
from relay.model.events import ABSENT, Column, ColumnType, Generated, TableSchema
from relay.mysql.conversion_names import kernel_name
from relay.mysql.members import label_reader
from relay.mysql.types import BINARIES


def read_of(column_type: ColumnType, *, is_known: bool, is_key: bool = False) -> Read | None:
    """Return the function from a value in TiCDC's dialect to its canonical value; None if they are the same.

    `is_known`: the type has its parameters. Else fractions of seconds get the digits that they need.
    `is_key`: the column belongs to its table's key; a DECIMAL may then be text.
    """
    base, length = column_type.base, column_type.length
    digits = length if is_known else None
    if base == "bigint" and column_type.unsigned:
        return unsigned64
    if base == "decimal":
        read = double_reader(column_type)
        spelled = kernel_name("spelled-decimal", length, column_type.scale)(
            lambda spelled: read(Decimal(spelled))
        )
        return spelled if is_key else read
    if base == "bit":
        return int if length == 1 else read_bits
    if base in BINARIES:
        return read_base64
    if base == "datetime":
        unit_micros = 1 if counts_micros(column_type) else 1000
        return kernel_name("datetime-count", unit_micros, digits)(
            lambda count: datetime_text(count * unit_micros, digits)
        )
    if base == "timestamp":
        return kernel_name("iso-timestamp", digits)(lambda iso: timestamp_text(iso, digits))
    if base == "time":
        return kernel_name("time-count", 1, 1, digits)(lambda micros: time_text(micros, digits))
    return date_text if base == "date" else label_reader(column_type, has_escapes=True)


#: The Python types of JSON values, by Connect type.
_KINDS: Final[dict[str, Any]] = {
    "boolean": bool, "int8": int, "int16": int, "int32": int, "int64": int,
    "float": FLOAT32, "double": float,
}  # fmt: skip


def _kind_of(column_type: ColumnType, *, is_key: bool = False) -> Any:  # noqa: ANN401 - a type
    """Return the Python type of the column's JSON values; DECIMAL is a number that keeps its digits."""
    if column_type.base == "decimal":
        return SPELLED if is_key else Decimal
    return _KINDS.get(ticdc_field(column_type).type, str)


class TicdcColumns:
    """TiCDC's dialect."""

    key_of = staticmethod(key_of)
    unavailable: frozenset[str] = frozenset()
    reads_keys = False
    #: Blocks also have the virtual generated columns.
    has_whole_rows = False
    added_key_fields: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._defaults = DebeziumValueWriter()

    def complete(self, images: Sequence[Object | None], key: Key, wanted: frozenset[str] | None) -> None:
        """Add the key's columns: TiCDC's `column-selectors` may remove them from rows, but not from the key.

        Old rows have the same key: TiCDC splits an UPDATE that changes it, unless `output-raw-change-event`
        is also set. `wanted`: the columns that a key of the table can have; None if unknown.
        """
        columns = key.payload or {}
        if wanted is not None:
            columns = {name: value for name, value in columns.items() if name in wanted}
        for image in images:
            if image is not None:
                for name, value in columns.items():
                    image.setdefault(name, Decimal(repr(value)) if type(value) is float else value)

    def has_values(self, column: Column) -> bool:
        """Return whether rows have the column; TiCDC never sends virtual generated ones."""
        return column.generated is not Generated.VIRTUAL

    def known_columns(self, known: TableSchema, names: Sequence[str]) -> Mapping[str, Column]:  # noqa: ARG002 - names are unchanged
        """Return the definition's columns that rows have, by their name on the wire."""
        return {column.name: column for column in known.columns if self.has_values(column)}

    column_names = staticmethod(plain_column_names)

    def fits(self, column: Column, declared: DeclaredColumn | None, value: object) -> bool:
        """Return whether the catalog's column agrees with both the block and the value."""
        is_agreed = declared is None or agrees(column, declared)
        return is_agreed and fitting(_kind_of(column.type), value) is not ABSENT

    def declared_type(self, declared: DeclaredColumn, value: object) -> ColumnType | None:
        """Return the type that the block declares, None if the value contradicts it."""
        column_type = inferred_type(declared)
        return None if fitting(_kind_of(column_type), value) is ABSENT else column_type

    def form(
        self,
        column: Column,
        declared: DeclaredColumn | None,  # noqa: ARG002 - a type has one form
        value: object,  # noqa: ARG002 - for all values
        *,
        is_known: bool,
        is_key: bool,
    ) -> DebeziumValueFormat:
        """Return the form of the column's values."""
        return DebeziumValueFormat(
            _kind_of(column.type, is_key=is_key),
            read_of(column.type, is_known=is_known, is_key=is_key),
            is_too_fine=is_too_fine_text if column.type.base == "timestamp" else None,
        )

    def doubts(
        self,
        column: Column,
        form: DebeziumValueFormat,
        declared: DeclaredColumn | None,  # noqa: ARG002 - the definition suffices
    ) -> Iterator[AmbiguousValue]:
        """Yield the ambiguous wire values: the default or NULL, 1970-01-01 or a date not in the calendar."""
        default = None
        if column.default is not ABSENT:
            default = null_default(column, self._defaults.of(column))
            self._defaults.lost.clear()
        if default is not None:
            value = fitting(form.kind, msgspec.json.decode(msgspec.json.encode(default)))
            yield value, Loss.NULL_OR_DEFAULT
        elif column.nullable is False and column.type.base in {"date", "datetime"}:
            yield 0, Loss.EPOCH_OR_ZERO_DATE

    def null_value(self, column: Column, declared: DeclaredColumn | None) -> Any:  # noqa: ANN401, ARG002 - any JSON value
        """Return the value that means NULL besides NULL itself, ABSENT if none does."""
        return 0 if zero_is_null(column) else ABSENT

    def inferred_type(self, value: object) -> ColumnType | None:  # noqa: ARG002 - rows have neither
        """Return None: TiDB's columns are neither objects nor arrays."""
        return None

    def declares_types(self, block: bytes) -> bool:
        """Return whether a schema block has the catalog's types."""
        return b'"tidb_type"' in block
