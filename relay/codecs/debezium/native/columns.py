"""Columns in the dialect of Debezium's own connectors: the form of their values, and the types that they
imply.

The schema block decides; for messages without one, the column is assumed to have the schema that connectors
with the source's options make of the catalog's type. Names changed by `field.name.adjustment.mode` are mapped
back to the catalog's, or, for `avro_unicode`, to the original ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from relay.codecs.debezium.native.declared_types import declared_type, expected
from relay.codecs.debezium.native.messages import key_of
from relay.codecs.debezium.native.options import DebeziumOptions
from relay.codecs.debezium.native.value_formats import form_of
from relay.codecs.debezium.shared.defaults import null_default, zero_is_null
from relay.codecs.debezium.shared.dialect import AmbiguousValue, DebeziumValueFormat, Object
from relay.codecs.debezium.shared.json_kinds import fitting
from relay.codecs.debezium.shared.messages import Key
from relay.codecs.debezium.shared.schemas import DeclaredColumn
from relay.codecs.losses import Loss
from relay.codecs.shared.base64_text import base64_text
from relay.model.events import ABSENT, Column, ColumnType, TableSchema

#: The epoch, which connectors write for dates that are not in the calendar.
_EPOCHS: Final = (0, "1970-01-01Z", "1970-01-01T00:00:00Z")


class DebeziumColumns:
    """The dialect of Debezium's own connectors with these options."""

    key_of = staticmethod(key_of)
    reads_keys = True
    has_whole_rows = True
    #: The field by which ByLogicalTableRouter distinguishes tables, by default (`key.field.name`).
    added_key_fields = frozenset({"__dbz__physicalTableIdentifier"})

    def __init__(self, options: DebeziumOptions) -> None:
        self._options = options
        self.unavailable = _placeholders(options.placeholder())

    def complete(self, images: Sequence[Object | None], key: Key, wanted: frozenset[str] | None) -> None:  # noqa: ARG002 - rows have all columns
        """Remove values that the log did not have from each image; their columns are absent then."""
        for image in images:
            for name in [name for name, value in (image or {}).items() if self._is_unavailable(value)]:
                del (image or {})[name]

    def _is_unavailable(self, value: object) -> bool:
        return type(value) is str and value in self.unavailable

    def has_values(self, column: Column) -> bool:  # noqa: ARG002 - generated ones, too
        """Return True: rows have every column."""
        return True

    def known_columns(self, known: TableSchema, names: Sequence[str]) -> Mapping[str, Column]:
        """Return the definition's columns by their name on the wire."""
        columns = {column.name: column for column in known.columns}
        if columns.keys() >= set(names):
            return columns
        for mode in ("avro_unicode", "avro"):
            adjusted = {adjusted_name(name, mode): column for name, column in columns.items()}
            if len(adjusted) == len(columns) and adjusted.keys() >= set(names):
                return adjusted
        return columns

    def column_names(self, names: Sequence[str]) -> Mapping[str, str]:
        """Return the names from before `avro_unicode`, if the option is set; else unchanged."""
        if self._options.field_name_adjustment_mode == "avro_unicode":
            found = {name: _original(name) for name in names}
            if len(set(found.values())) == len(found):
                return found
        return {name: name for name in names}

    def fits(self, column: Column, declared: DeclaredColumn | None, value: object) -> bool:
        """Return whether the catalog's column agrees with both the block and the value."""
        return self._form(column, declared, value, is_known=True) is not None

    def declared_type(self, declared: DeclaredColumn, value: object) -> ColumnType | None:
        """Return the type that the block declares, None if the value contradicts it."""
        column_type = declared_type(declared, self._options)
        form = form_of(column_type, declared, value, self._options, is_known=False)
        return None if form is None else column_type

    def form(
        self,
        column: Column,
        declared: DeclaredColumn | None,
        value: object,
        *,
        is_known: bool,
        is_key: bool,  # noqa: ARG002 - key columns have no form of their own
    ) -> DebeziumValueFormat:
        """Return the form of the column's values; for an inferred type, that of JSON."""
        form = self._form(column, declared, value, is_known=is_known)
        if form is None:
            return (
                DebeziumValueFormat(bool, int)
                if type(value) is bool
                else DebeziumValueFormat(_LIKE.get(type(value), str))
            )
        return form

    def _form(
        self, column: Column, declared: DeclaredColumn | None, value: object, *, is_known: bool
    ) -> DebeziumValueFormat | None:
        if declared is None:
            declared = expected(column.name, column.type, self._options, value)
        return form_of(column.type, declared, value, self._options, is_known=is_known)

    def doubts(
        self, column: Column, form: DebeziumValueFormat, declared: DeclaredColumn | None
    ) -> Iterator[AmbiguousValue]:
        """Yield the ambiguous wire values: the default or NULL, 1970-01-01 or a date that is not in the
        calendar. Debezium writes 1970-01-01 for such a date even in columns that can be NULL.
        """
        if self.null_value(column, declared) is not ABSENT:
            return
        default = _default(column, form, declared)
        if default is not ABSENT:
            yield default, Loss.NULL_OR_DEFAULT
        if column.type.base in {"date", "datetime"}:
            for value in _EPOCHS:
                if value != default and fitting(form.kind, value) is not ABSENT:
                    yield value, Loss.EPOCH_OR_ZERO_DATE

    def null_value(self, column: Column, declared: DeclaredColumn | None) -> Any:  # noqa: ANN401 - any JSON value
        """Return the value that means NULL besides NULL itself: nothing was inserted in 1970."""
        if not zero_is_null(column):
            return ABSENT
        default = 0 if declared is None else declared.default
        return default if default in _EPOCHS and default is not False else ABSENT

    def inferred_type(self, value: object) -> ColumnType | None:
        """Return GEOMETRY or VECTOR for values that only these types have."""
        if isinstance(value, dict) and "wkb" in value:
            return _GEOMETRY
        return _VECTOR if isinstance(value, list) else None

    def declares_types(self, block: bytes) -> bool:
        """Return whether a schema block has the catalog's types, which it has if they are propagated."""
        return b'"__debezium.source.column.type"' in block


_GEOMETRY, _VECTOR = ColumnType("geometry"), ColumnType("vector")
#: The kinds of columns of unknown type.
_LIKE: Final[dict[type, Any]] = {int: int, Decimal: float}


def _placeholders(placeholder: bytes) -> frozenset[str]:
    """Return the placeholders of a value that the log does not have (`unavailable.value.placeholder`): as
    text, as bytes in both forms of base64, and as hexadecimal digits.
    """
    if not placeholder:
        return frozenset()
    encoded = base64_text(placeholder)
    text = placeholder.decode("utf-8", "replace")
    return frozenset({text, encoded, encoded.replace("+", "-").replace("/", "_"), placeholder.hex()})


def _default(column: Column, form: DebeziumValueFormat, declared: DeclaredColumn | None) -> Any:  # noqa: ANN401 - any JSON value
    """Return the wire value that NULL is written as, ABSENT if there is none.

    Without a schema block it is known only for types whose values are the same in JSON.
    """
    if declared is not None:
        if not declared.optional or declared.default is None:
            return ABSENT
        default = declared.default
        return fitting(form.kind, Decimal(repr(default)) if type(default) is float else default)
    if form.read is not None and column.type.base not in {"enum", "set"}:
        return ABSENT
    default = null_default(column, None)
    return ABSENT if default is None else fitting(form.kind, default)


# ---------------------------------------------------------------- names


_AVRO_NAME: Final = re.compile(r"[^A-Za-z0-9_]")
_UNICODE_NAME: Final = re.compile(r"[^A-Za-z0-9]")
_ESCAPE: Final = re.compile(r"(?:_u[0-9a-fA-F]{4})+")


def adjusted_name(name: str, mode: str) -> str:
    """Return a column's name after `field.name.adjustment.mode` (io.debezium.schema SchemaNameAdjuster): a
    character that Avro does not allow becomes `_`, or `_u` and four digits of its code; `_` itself becomes a
    code then, too. A leading digit gets a `_` before it or becomes a code.
    """
    if mode == "avro":
        adjusted = _AVRO_NAME.sub("_", name)
        return "_" + adjusted if adjusted[:1].isdigit() else adjusted
    adjusted = _UNICODE_NAME.sub(lambda match: _codes(match[0]), name)
    return _codes(adjusted[0]) + adjusted[1:] if adjusted[:1].isdigit() else adjusted


def _codes(character: str) -> str:
    data = character.encode("utf-16-be", "surrogatepass")
    return "".join([f"_u{int.from_bytes(data[at : at + 2]):04x}" for at in range(0, len(data), 2)])


def _original(name: str) -> str:
    """Return the name before `avro_unicode`; unchanged if its codes are no text."""
    try:
        return _ESCAPE.sub(_characters, name)
    except UnicodeDecodeError:
        return name


def _characters(match: re.Match[str]) -> str:
    return bytes.fromhex(match[0].replace("_u", "")).decode("utf-16-be")
