"""Canonical events as lines of text: exact values, aligned columns, control characters escaped.

A line is a list of (text, style); styles are rich's and are dropped when the output is no terminal.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from rich.cells import cell_len

from relay.cli import layout
from relay.core.selection import kind_of
from relay.model.events import (
    ABSENT,
    TSO_LOGICAL_BITS,
    Absent,
    Cell,
    Column,
    Event,
    RowChange,
    SchemaChange,
    Source,
    TableSchema,
    TransactionMark,
)
from relay.model.records import Header
from relay.mysql.types import format_type
from relay.text.redaction import printable

Line = list[tuple[str, str]]

_STYLES = {
    "insert": "bold green",
    "read": "bold green",
    "update": "bold yellow",
    "delete": "bold red",
    "schema-change": "bold magenta",
}
_OTHER_STYLE = "bold cyan"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: A column of text is padded to the longest entry, but one long value must not push all others off the
#: screen.
_MAX_PADDING = 40


def event_lines(event: Event, position: str) -> list[Line]:
    """Return one event's block, without the empty line after it. `position`: that of its record."""
    kind = kind_of(event)
    heading: Line = [(f"{kind:8}", _STYLES.get(kind, _OTHER_STYLE))]
    if isinstance(event, RowChange):
        heading.append((f"  {printable(str(event.table))}", "bold"))
    elif isinstance(event, SchemaChange):
        table = str(event.table) if event.table.table else event.table.database
        heading.append((f"  {printable(table)}", "bold"))
    heading.append((f"  {printable(position)}", "dim"))
    lines: list[Line] = [heading, *_when(event.source, event.emitted_at_ns)]
    if isinstance(event, RowChange):
        lines += _row_lines(event)
    elif isinstance(event, SchemaChange):
        lines += _ddl_lines(event)
    elif isinstance(event, TransactionMark):
        count = "" if event.count is None else f", {event.count} events"
        lines.append([(f"  {'BEGIN' if event.is_begin else 'END'} {printable(event.id)}{count}", "")])
    return lines


def _when(source: Source, emitted_at_ns: int) -> list[Line]:
    """Return its time: in one line, or in several where that would not fit."""
    parts = []
    if source.commit_ts is not None:
        parts.append(
            f"commit ts {source.commit_ts} ({wall_time((source.commit_ts >> TSO_LOGICAL_BITS) * 1_000_000)})"
        )
    parts.append(f"changed {wall_time(source.event_time_ns)}")
    parts.append(f"sent {wall_time(emitted_at_ns)}")
    if source.gtid:
        parts.append(f"gtid {printable(source.gtid)}")
    columns, line = layout.width(), "  ".join(("", *parts))
    if columns is not None and cell_len(line) > columns:
        return [[(f"  {part}", "dim")] for part in parts]
    return [[(line, "dim")]]


def wall_time(nanoseconds: int) -> str:
    """Return the time in UTC, with as many fraction digits as it needs (3, 6 or 9)."""
    seconds, fraction = divmod(nanoseconds, 1_000_000_000)
    try:
        day = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%d %H:%M:%S")
    except OverflowError:
        return f"{nanoseconds} ns since 1970"
    digits = f"{fraction:09}"
    while digits.endswith("000") and len(digits) > 3:
        digits = digits[:-3]
    return f"{day}.{digits} UTC"


def _row_lines(event: RowChange) -> list[Line]:
    images = {
        name: row for name, row in (("before", event.before), ("after", event.after)) if row is not None
    }
    keys = event.schema.primary_key or ()
    table: list[Line] = [[(title, "dim") for title in ("", "column", "type", *images)]]
    for index, column in enumerate(event.schema.columns):
        cells = [row[index] for row in images.values()]
        changed = len(cells) > 1 and _differ(cells[0], cells[1])
        name = printable(column.name) + (" (key)" if column.name in keys else "")
        style = "yellow" if changed else ""
        table.append(
            [
                ("*" if changed else "", "bold yellow"),
                (name, style),
                (printable(format_type(column.type)), "cyan"),
                *((cell_text(cell), _cell_style(cell, style)) for cell in cells),
            ]
        )
    return aligned(table)


def _differ(one: Cell, other: Cell) -> bool:
    """Return whether two cells are different. Their texts are compared: 1.0 equals 1.00 as a number."""
    return cell_text(one) != cell_text(other)


def _cell_style(cell: Cell, style: str) -> str:
    if cell is None:
        return "italic magenta"
    return "italic dim" if cell is ABSENT else style


def cell_text(cell: Cell) -> str:
    """Return the cell exactly: text in quotes with escapes, binary as X'00FF', numbers bare, NULL, ABSENT."""
    if cell is None:
        return "NULL"
    if isinstance(cell, Absent):
        return "ABSENT"
    if isinstance(cell, bytes):
        return f"X'{cell.hex().upper()}'"
    return format(cell, "f") if isinstance(cell, Decimal) else repr(cell)


def bytes_text(data: bytes | None) -> str:
    """Return bytes in quotes where they are text, as X'00FF' where they are not, or NULL."""
    if data is None:
        return "NULL"
    try:
        return cell_text(data.decode())
    except UnicodeDecodeError:
        return cell_text(data)


def header_lines(headers: tuple[Header, ...]) -> list[Line]:
    """Return headers, one a line, values in quotes or as X'00FF'."""
    return [
        [(f"  {'headers' if number == 0 else '':10}", "dim"), (f"{printable(name)}  {bytes_text(value)}", "")]
        for number, (name, value) in enumerate(headers)
    ]


def aligned(table: list[Line]) -> list[Line]:
    """Pad the cells of a table, so that its columns are aligned."""
    widths = [
        max(min(cell_len(text), _MAX_PADDING) for text, _ in cells) for cells in zip(*table, strict=True)
    ]
    lines: list[Line] = []
    for row in table:
        line: Line = [("  ", "")]
        for (text, style), width in zip(row, widths, strict=True):
            line += [(text, style), (" " * max(0, width - cell_len(text)) + "  ", "")]
        lines.append(line)
    return lines


def _ddl_lines(event: SchemaChange) -> list[Line]:
    kinds = ", ".join(kind.value for kind in event.kinds) or "not understood"
    lines: list[Line] = [[(f"  {kinds}", ""), (f"  (in the message: {printable(event.wire_kind)})", "dim")]]
    lines += [[("  " + text, "magenta")] for text in printable(event.ddl, "\n", None).split("\n")]
    lines += [[(f"  {printable(str(pair.old))} -> {printable(str(pair.new))}", "")] for pair in event.renamed]
    if event.after is not None:
        note = "" if event.after.complete else " (put together from rows, may lack columns)"
        lines.append([(f"  definition of {printable(str(event.after.id))} after it{note}:", "dim")])
        lines += definition_lines(event.after)
    return lines


def definition_lines(schema: TableSchema) -> list[Line]:
    """Return a table's columns with types and attributes, and its keys and indexes."""
    lines = aligned([_definition_row(column) for column in schema.columns])
    if schema.primary_key:
        lines.append([(f"    primary key ({printable(', '.join(schema.primary_key))})", "")])
    lines += [
        [(f"    unique key {printable(key.name)} ({printable(', '.join(key.columns))})", "")]
        for key in schema.unique_keys
    ]
    lines += [
        [(f"    index {printable(index.name)} ({printable(', '.join(index.columns))})", "")]
        for index in schema.indexes
    ]
    return lines


def _definition_row(column: Column) -> Line:
    return [
        ("", ""),
        (printable(column.name), ""),
        (printable(format_type(column.type)), "cyan"),
        (_attributes(column), ""),
    ]


def _attributes(column: Column) -> str:
    words = [{True: "null", False: "not null", None: "null or not unknown"}[column.nullable]]
    if not isinstance(column.default, Absent):
        text = column.default.text
        if text is None:
            text = "NULL"
        elif not column.default.is_expression:
            text = repr(text)
        words.append(f"default {text}")
    if column.generated is not None:
        words.append(f"generated {column.generated.value}")
    if column.auto_increment:
        words.append("auto_increment")
    if column.on_update is not None:
        words.append(f"on update {column.on_update}")
    return printable(", ".join(words))
