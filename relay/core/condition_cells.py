"""The cells of a row on which row rules depend, written and read beside the message of a template.

A template of a table with row rules writes these cells before the value of its message, as flat JSON: one
object for each image, each after its length. `ConditionCellWriter` traces them, `TemplateRowFilter` reads
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec

from relay.codecs import codec_named, encoder_of, split_images
from relay.codecs.codec import Encode
from relay.codecs.given_options import parse_options
from relay.model.events import (
    CellProjection,
    Images,
    Op,
    RowChange,
    RowProjection,
    TableSchema,
)
from relay.model.lookups import LookupCache
from relay.model.records import ConsumerRecord
from relay.rules.rows import RowFilter, RowRules, Verdict
from relay.rules.rows.conditions import Reader, number_of
from relay.rules.rows.expressions import EvaluationFailed
from relay.templates.route.deriving import CELLS_LENGTH_BYTES
from relay.templates.tracing import NotTemplatable

Condition = Callable[[Mapping[str, Any]], bool]
#: Types whose cells flat JSON has exactly.
_EXACT: Final = frozenset(
    {"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "year", "enum", "set"}
    | {"char", "varchar", "tinytext", "text", "mediumtext", "longtext"}
    | {"date", "datetime", "timestamp", "time"}
)
#: Only the row's columns, in forms without losses.
_OPTIONS: Final = {
    **dict.fromkeys(("op-column", "deleted-column", "database-column", "table-column", "time-column"), ""),
    "enum": "index",
    "decimals": "text",
}
_read: Final = msgspec.json.Decoder().decode


class CellWriter:
    """Writes some cells of a row's images as flat JSON."""

    def __init__(self, answers: LookupCache) -> None:
        codec = codec_named("flat-json", "to")
        options = parse_options(codec, _OPTIONS, "to.option", "target")
        self._encode: Encode = encoder_of(codec, options, answers).encode

    def texts(self, change: RowChange, indexes: Sequence[int], record: ConsumerRecord) -> list[bytes]:
        """Return the cells of each image of a traced row, by the indexes of their columns.

        Raises NotTemplatable.
        """
        ops = {Op.DELETE: [Op.DELETE], Op.UPDATE: [Op.DELETE, Op.INSERT]}.get(change.op, [Op.INSERT])
        halves = split_images(change.images) if change.op is Op.UPDATE else [change.images]
        return [
            self._text(change, op, images, indexes, record) for op, images in zip(ops, halves, strict=True)
        ]

    def _text(
        self, change: RowChange, op: Op, images: Images, indexes: Sequence[int], record: ConsumerRecord
    ) -> bytes:
        schema = _schema(change.schema, indexes)
        projection = RowProjection(
            schema, tuple(map(CellProjection, indexes)), lambda _: (), keeps_keys=False
        )
        row = msgspec.structs.replace(change, op=op, schema=schema, images=images.projected(projection))
        (payload,) = self._encode([row], record, [])
        if payload.value is None:
            raise NotTemplatable
        return payload.value


class ConditionCellWriter:
    """Writes the cells of rows of a route with row rules."""

    def __init__(self, rules: RowRules, cells: CellWriter) -> None:
        self.rules, self._cells = rules, cells

    def write(self, change: RowChange, record: ConsumerRecord) -> list[bytes] | None:
        """Return the cells of each image of a traced row; None for a table without rules.

        Raises NotTemplatable if a verdict depends on more than these cells.
        """
        rules = self.rules.filter_of(change.schema)
        if rules is None:
            return None
        indexes = rules.condition_columns()
        if indexes is None or any(change.schema.columns[at].type.base not in _EXACT for at in indexes):
            raise NotTemplatable
        return self._cells.texts(change, indexes, record)


def _schema(schema: TableSchema, indexes: Sequence[int]) -> TableSchema:
    """Return a definition with some of the columns, and without keys."""
    columns = tuple([schema.columns[at] for at in indexes])
    return msgspec.structs.replace(
        schema, columns=columns, primary_key=(), unique_keys=(), indexes=(), key_order=()
    )


class TemplateRowFilter:
    """The verdicts on rows of one template, by their cells. `op`, `schema`: those of the rows."""

    def __init__(self, rules: RowFilter, op: Op, schema: TableSchema) -> None:
        self._has_both = op is Op.UPDATE
        self._width = len(rules.condition_columns() or ())
        #: The column of a variable that is not the column's cell in JSON, and how it is read.
        self._converted: list[tuple[str, str, Reader | None]] = []
        for name, at, read in rules.variables():
            column = schema.columns[at]
            if column.type.base == "decimal":
                self._converted.append((name, column.name, _decimal))
            elif column.type.base in {"enum", "set"}:
                self._converted.append((name, column.name, read))
            elif name != column.name:
                self._converted.append((name, column.name, None))
        conditions = rules.expressions()
        self._condition = conditions[0] if len(conditions) == 1 else _all_of(conditions)

    def evaluate(self, value: bytes) -> tuple[Verdict | None, bytes]:
        """Return the verdict on a row, and its message's value without the cells before it.

        The verdict is None if only the pipeline can translate the row, or refuse it.
        """
        end = CELLS_LENGTH_BYTES + int.from_bytes(value[:CELLS_LENGTH_BYTES], "big")
        if self._has_both:
            end += CELLS_LENGTH_BYTES + int.from_bytes(value[end : end + CELLS_LENGTH_BYTES], "big")
        try:
            if self._has_both:
                verdict = self._of_update(value[:end])
            else:
                verdict = _KEPT if self._holds(value[CELLS_LENGTH_BYTES:end]) else _LEFT_OUT
        except (EvaluationFailed, ValueError, KeyError):
            return None, value[end:]
        return verdict, value[end:]

    def _of_update(self, cells: bytes) -> Verdict:
        end = CELLS_LENGTH_BYTES + int.from_bytes(cells[:CELLS_LENGTH_BYTES], "big")
        was_selected = self._holds(cells[CELLS_LENGTH_BYTES:end])
        is_selected = self._holds(cells[end + CELLS_LENGTH_BYTES :])
        if was_selected is is_selected:
            return _KEPT if is_selected else _LEFT_OUT
        return Verdict.ENTERS if is_selected else Verdict.LEAVES

    def _holds(self, text: bytes) -> bool:
        """Return whether all conditions hold for a row. Raises EvaluationFailed, ValueError, KeyError."""
        cells: dict[str, Any] = _read(text)
        if len(cells) < self._width:
            raise KeyError  # a column is absent
        # Several variables may be of one column, and one of them may have its name.
        row = dict(cells) if self._converted else cells
        for name, column, read in self._converted:
            cell = cells[column]
            row[name] = cell if cell is None or read is None else read(cell)
        return self._condition(row)


def _all_of(conditions: Sequence[Condition]) -> Condition:
    return lambda row: all(condition(row) for condition in conditions)


def _decimal(text: str) -> int | float:
    return number_of(Decimal(text))


_KEPT, _LEFT_OUT = Verdict.KEPT, Verdict.LEFT_OUT
