"""Templates of Canal's packets: a row, the marks of its transaction, and the splitting of packets.

A template's source are the fields of the packet in the order of the captured one. Text cells, times,
positions, GTIDs and ids of transactions have slots, and so have numbers and texts that relay ignores, such as
the length of the event in the log. All other fields are constants. Packets with fields that Canal's messages
do not have, fields of another type, or single fields that come twice have no template.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from relay.codecs.canal.canal_protobuf import packets
from relay.codecs.canal.canal_protobuf.packets import Boundary, Entry, Header, OpenTransaction, PacketReader
from relay.codecs.canal.canal_protobuf.protobuf import FieldSpan, bytes_field, number_field, spans
from relay.codecs.canal.shared.messages import DELETE, INSERT, UPDATE
from relay.codecs.canal.shared.rows import TextRows
from relay.codecs.canal.shared.traced import NEW_ROW, OLD_ROW
from relay.codecs.codec import Message
from relay.codecs.losses import Loss
from relay.model.events import Event, RowChange, Transaction, TransactionMark
from relay.model.records import ConsumerRecord
from relay.mysql.types import BINARIES
from relay.templates.ops import (
    Constant,
    Enter,
    Leave,
    Marker,
    MessageFields,
    OneOf,
    Repeated,
    SourceOp,
    Text,
    Varint,
)
from relay.templates.scanning import Path
from relay.templates.tracing import NotTemplatable, Trace, TracedNumber, TracedText

#: What an entry is; also the first step of the paths of its slots.
BEGIN: Final = "begin"
ROW: Final = "row"
END: Final = "end"
_ROLES: Final = {packets.BEGIN: BEGIN, packets.ROWS: ROW, packets.END: END}
_ORDER: Final = (BEGIN, ROW, END)


class PartEntries(NamedTuple):
    """The entries of a packet as `parts` makes it: one of rows, the marks of its transaction, or both.
    `losses`: those of parsing.
    """

    begin: tuple[Entry, Boundary] | None
    row: Entry | None
    end: tuple[Entry, Boundary] | None
    losses: list[Loss]

    @classmethod
    def of(cls, reader: PacketReader, value: bytes) -> PartEntries:
        """Return the entries of a packet. Raises NotTemplatable for other packets."""
        losses: list[Loss] = []
        entries = list(reader.entries_of(value, losses))
        roles = [_ROLES.get(entry.kind, "") for entry in entries]
        if roles != [role for role in _ORDER if role in roles]:
            raise NotTemplatable
        found = dict(zip(roles, entries, strict=True))
        marks = {
            role: (entry, reader.boundary(entry, losses)) for role, entry in found.items() if role != ROW
        }
        if any(entry.unknown or boundary.props for entry, boundary in marks.values()):
            raise NotTemplatable
        return cls(marks.get(BEGIN), found.get(ROW), marks.get(END), losses)


# ---------------------------------------------------------------- the fields


class _Form(NamedTuple):
    """How a field of a message is matched.

    how: `same`: as a constant. `number`, `text`: with any value. `entry`, `row`, `column`: as a message of
        that kind. A mapping: as a message with these fields, by number.
    is_bytes: Whether the field has bytes (a text or a message), not a number.
    may_repeat: Whether the message may contain the field several times.
    name: The member of the decoded struct that has the value; "" for a value that relay ignores.
    """

    how: str | Mapping[int, _Form]
    is_bytes: bool
    may_repeat: bool = False
    name: str = ""


_SAME_NUMBER: Final = _Form("same", is_bytes=False)
_SAME_BYTES: Final = _Form("same", is_bytes=True)
_SAME_BYTES_REPEATED: Final = _Form("same", is_bytes=True, may_repeat=True)
_NUMBER: Final = _Form("number", is_bytes=False)
_PAIR: Final = {1: _SAME_BYTES, 2: _Form("text", is_bytes=True)}
_COLUMNS: Final = _Form("column", is_bytes=True, may_repeat=True)
_ROW: Final = {1: _COLUMNS, 2: _COLUMNS, 3: _SAME_BYTES_REPEATED}
_HEADER: Final = {
    1: _SAME_NUMBER,
    2: _SAME_BYTES,
    3: _Form("number", is_bytes=False, name="position"),
    4: _SAME_NUMBER,
    5: _SAME_BYTES,
    6: _Form("number", is_bytes=False, name="time_ms"),
    7: _SAME_NUMBER,
    8: _SAME_BYTES,
    9: _SAME_BYTES,
    10: _NUMBER,
    11: _SAME_NUMBER,
    12: _Form(_PAIR, is_bytes=True, may_repeat=True),
    13: _Form("text", is_bytes=True, name="gtid"),
}
_CHANGE: Final = {
    1: _NUMBER,
    2: _SAME_NUMBER,
    10: _SAME_NUMBER,
    11: _SAME_BYTES,
    12: _Form("row", is_bytes=True),
    13: _SAME_BYTES_REPEATED,
    14: _SAME_BYTES,
}
_BOUNDARY: Final = {
    1: _NUMBER,
    2: _Form("text", is_bytes=True, name="id"),
    4: _Form("number", is_bytes=False, name="thread_id"),
}
_ENTRIES: Final = {
    ROW: {1: _Form(_HEADER, is_bytes=True), 2: _SAME_NUMBER, 3: _Form(_CHANGE, is_bytes=True)},
    BEGIN: {1: _Form(_HEADER, is_bytes=True), 2: _SAME_NUMBER, 3: _Form(_BOUNDARY, is_bytes=True)},
}
_ENTRIES[END] = _ENTRIES[BEGIN]
_BODY: Final = {1: _NUMBER, 2: _Form("entry", is_bytes=True, may_repeat=True)}
_PACKET: Final = {
    1: _SAME_NUMBER,
    2: _SAME_NUMBER,
    3: _SAME_NUMBER,
    4: _SAME_NUMBER,
    5: _Form(_BODY, is_bytes=True),
}
#: Numbers of fields of packets, bodies, entries and changes.
_BODY_FIELD, _ENTRY, _KIND, _STORE_VALUE, _ROW_DATA = 5, 2, 2, 3, 12
#: The tag of a row in a change.
_ROW_TAG: Final = b"\x62"
#: Numbers of fields of a column.
_INDEX, _SQL_TYPE, _NAME, _IS_KEY, _UPDATED, _IS_NULL = range(1, 7)
_VALUE, _LENGTH, _MYSQL_TYPE = range(8, 11)
_COLUMN_NUMBERS: Final = frozenset({_INDEX, _SQL_TYPE, _IS_KEY, _UPDATED, _IS_NULL, _LENGTH})
_COLUMN_FIELDS: Final = _COLUMN_NUMBERS | {_NAME, _VALUE, _MYSQL_TYPE}
_UPDATED_OR_NOT: Final = OneOf((b"\x28\x00", b"\x28\x01"))
#: A value, after `isNull`: a text, NULL, or an empty text, which has no field.
_CELL: Final = Text(b"\x30\x00\x42", b"\x30\x01", b"\x30\x00")
#: The framing of packets, by tags.
FRAMING: Final = MessageFields(outer=0x2A, inner=0x12, kind=0x10, begin=packets.BEGIN, end=packets.END)
#: The names of database and table, after the type MYSQL of the source.
MARKER: Final = Marker("value", b"\x38\x02\x42", texts=2)
#: By operation: which row each of the fields `beforeColumns` (1) and `afterColumns` (2) has.
_IMAGES: Final = {
    INSERT: {2: NEW_ROW},
    UPDATE: {1: OLD_ROW, 2: NEW_ROW},
    DELETE: {1: NEW_ROW},
}


class TracedPacket:
    """The fields of a packet as ops, and its variable values.

    change: The row.
    slots: The slots of its values, by path.
    """

    def __init__(self, data: bytes | None, change: RowChange | None = None) -> None:
        self.ops: tuple[SourceOp, ...] | None = None
        self.slots: dict[Path, int] = {}
        self._data, self._found, self._paths = data, _Ops(), list[Path]()
        self._images: Mapping[int, Path] = {}
        self._varies_sql_types = False
        if change is not None:
            self._images = _IMAGES.get(change.op, {})
            self._varies_sql_types = _ignores_sql_types(change)

    def split(self, first_slot: int) -> int:
        """Make the ops and the slots, numbered from `first_slot`; return the next slot. Raises
        NotTemplatable.
        """
        if self._data is None:
            return first_slot
        try:
            self._message(0, len(self._data), _PACKET, ())
        except ValueError:
            raise NotTemplatable from None
        self.ops = self._found.ops
        # Values without a name have slots that nothing refers to.
        self.slots = {path: first_slot + at for at, path in enumerate(self._paths) if path}
        if len(self.slots) < sum(map(bool, self._paths)):
            raise NotTemplatable
        return first_slot + len(self._paths)

    def _message(self, at: int, end: int, forms: Mapping[int, _Form], path: Path) -> None:
        """Add the ops of a message's fields. `path`: that of its slots. Raises NotTemplatable, ValueError."""
        seen = set[int]()
        for field in spans(self._bytes, at, end):
            form = forms.get(field.number)
            if form is None or form.is_bytes is not (field.value is None) or field.is_fixed:
                raise NotTemplatable
            if field.number in seen and not form.may_repeat:
                raise NotTemplatable
            seen.add(field.number)
            self._field(field, form, path)

    @property
    def _bytes(self) -> bytes:
        return self._data or b""

    def _field(self, field: FieldSpan, form: _Form, path: Path) -> None:
        how, found, data = form.how, self._found, self._bytes
        if how == "same":
            found.add_text(data[field.start : field.end])
            return
        tag = data[field.start : _tag_end(data, field.start)]
        slot = (*path, form.name) if form.name else ()
        if how == "text" and field.value_start == field.end:
            found.add_text(data[field.start : field.end])
            return
        if how == "text":
            self._add(Text(tag), slot)
            return
        found.add_text(tag)
        if how == "number":
            self._add(Varint(), slot)
        elif how == "row":
            self._row(field, path)
        elif how == "column":
            self._column(field)
        elif how == "entry":
            role = _role(data, field)
            self._nested(field, _ENTRIES[role], (role,))
        elif isinstance(how, Mapping):
            self._nested(field, how, path)

    def _nested(self, field: FieldSpan, forms: Mapping[int, _Form], path: Path) -> None:
        self._found.add(Enter())
        self._message(field.value_start, field.end, forms, path)
        self._found.add(Leave())

    def _row(self, row: FieldSpan, path: Path) -> None:
        """Add the ops of a row, which may be repeated."""
        outside, self._found = self._found, _Ops()
        self._nested(row, _ROW, path)
        outside.add(Repeated(self._found.ops, _ROW_TAG))
        self._found = outside

    def _add(self, op: Varint | Text, path: Path) -> None:
        self._found.add(op)
        self._paths.append(path)

    def _column(self, column: FieldSpan) -> None:
        """Add the ops of a column."""
        data, found = self._bytes, self._found
        row = self._images.get(_tag_number(data, column.start))
        if row is None:
            raise NotTemplatable
        fields = _column_fields(data, column)
        name = _value(data, fields[_NAME]).decode()
        is_unsigned = _MYSQL_TYPE in fields and b"unsigned" in _value(data, fields[_MYSQL_TYPE]).lower()
        varying = {_LENGTH, _SQL_TYPE} if is_unsigned and self._varies_sql_types else {_LENGTH}
        found.add(Enter())
        for number, field in fields.items():
            text = data[field.start : field.end]
            if number == _IS_NULL:
                if text not in {_CELL.null, _CELL.empty} or (text == _CELL.null and _VALUE in fields):
                    raise NotTemplatable
                self._add(_CELL, (*row, name))
            elif number == _UPDATED and text in _UPDATED_OR_NOT.texts:
                found.add(_UPDATED_OR_NOT)
            elif number in varying:
                found.add_text(data[field.start : field.value_start])
                self._add(Varint(), ())
            elif number != _VALUE:
                found.add_text(text)
        found.add(Leave())

    # ------------------------------------------------------------ traced values

    def header(self, role: str, header: Header, trace: Trace) -> Header:
        """Return the header of an entry with traced values."""
        return msgspec.structs.replace(header, **self._traced(role, header, trace))

    def mark(
        self, role: str, mark: tuple[Entry, Boundary] | None, trace: Trace
    ) -> tuple[Entry, Boundary] | None:
        """Return a mark with traced values."""
        if mark is None:
            return None
        entry, boundary = mark
        entry = msgspec.structs.replace(entry, header=self.header(role, entry.header, trace))
        return entry, msgspec.structs.replace(boundary, **self._traced(role, boundary, trace))

    def opened(self, opened: OpenTransaction, trace: Trace) -> OpenTransaction:
        """Return the transaction of the row with a traced number of its thread."""
        begin = self._traced(BEGIN, Boundary(thread_id=opened.thread_id), trace)
        return opened._replace(thread_id=begin.get("thread_id", opened.thread_id))

    def _traced(self, role: str, struct: msgspec.Struct, trace: Trace) -> dict[str, Any]:
        """Return the traced values of the fields of a struct."""
        found: dict[str, Any] = {}
        for (*of, name), slot in self.slots.items():
            if of != [role] or not isinstance(name, str) or not hasattr(struct, name):
                continue
            value = getattr(struct, name)
            found[name] = (
                TracedNumber(trace, slot, value) if isinstance(value, int) else TracedText(trace, slot)
            )
        return found


def _column_fields(data: bytes, column: FieldSpan) -> dict[int, FieldSpan]:
    """Return the fields of a column by number: each once, in the order of their numbers.

    Raises NotTemplatable for other columns, and ValueError for bytes that are no message.
    """
    fields = list(spans(data, column.value_start, column.end))
    numbers = [field.number for field in fields]
    if numbers != sorted(set(numbers)) or not _COLUMN_FIELDS.issuperset(numbers):
        raise NotTemplatable
    if not {_NAME, _IS_NULL}.issubset(numbers):
        raise NotTemplatable
    for field in fields:
        is_number = field.value is not None
        if field.is_fixed or is_number is not (field.number in _COLUMN_NUMBERS):
            raise NotTemplatable
    return dict(zip(numbers, fields, strict=True))


def _value(data: bytes, field: FieldSpan) -> bytes:
    return data[field.value_start : field.end]


class _Ops:
    """Ops in order, with adjacent constants as one."""

    def __init__(self) -> None:
        self._ops: list[SourceOp] = []

    def add_text(self, text: bytes) -> None:
        """Add a constant."""
        last = self._ops[-1] if self._ops else None
        if isinstance(last, Constant):
            self._ops[-1] = Constant(last.text + text)
        else:
            self._ops.append(Constant(text))

    def add(self, op: SourceOp) -> None:
        """Add another op."""
        self._ops.append(op)

    @property
    def ops(self) -> Any:  # noqa: ANN401 - those of a part, or of a round
        """All ops."""
        return tuple(self._ops)


def _tag_end(data: bytes, at: int) -> int:
    while data[at] >= 0x80:
        at += 1
    return at + 1


def _tag_number(data: bytes, at: int) -> int:
    """Return the number of a field whose tag is one byte."""
    return data[at] >> 3


def _ignores_sql_types(change: RowChange) -> bool:
    """Return whether no value of a row is read by its `sqlType`. That of unsigned types varies."""
    images = change.images
    if not isinstance(images, TextRows) or images.reader.sql_types:
        return False
    columns = [images.reader.schema.columns[at] for at in images.reader.indexes]
    return not any(column.type.base in BINARIES for column in columns)


def without_transaction(event: Event, trace: Trace) -> Event:
    """Return a row whose transaction may be another, and its number there, too."""
    if not isinstance(event, RowChange) or event.transaction is None:
        return event
    order = None if event.transaction.order is None else trace.refused()
    return msgspec.structs.replace(event, transaction=Transaction(trace.refused(), order))


def without_counts(event: Event, trace: Trace) -> Event:
    """Return a mark whose transaction may have any number of rows."""
    if not isinstance(event, TransactionMark) or event.count is None:
        return event
    return msgspec.structs.replace(event, count=trace.refused(), table_counts=trace.refused())


# ---------------------------------------------------------------- packets of several rows


def parts(record: ConsumerRecord) -> Sequence[Message]:
    """Split a packet like an engine (`FRAMING`), and entries of several rows into one for each row.

    Empty for a packet of one row, for one with statements or heartbeats, and for other bytes.
    """
    data = record.value or b""
    try:
        found = list(_parts(data))
    except (ValueError, IndexError):
        return ()
    return () if found == [data] else [(record.key, part) for part in found]


def _parts(data: bytes) -> Iterator[bytes]:
    """Yield the parts of a packet. Raises ValueError, IndexError."""
    *_, body = spans(data, 0, len(data))
    fields = list(spans(data, body.value_start, body.end))
    entries = [field for field in fields if field.number == _ENTRY]
    numbers = data[body.value_start : entries[0].start]
    if body.number != _BODY_FIELD or fields[-len(entries) :] != entries:
        raise ValueError("not a packet of entries alone")

    def alone(*made: bytes) -> bytes:
        return data[: body.start] + bytes_field(_BODY_FIELD, numbers + b"".join(made))

    roles = [_role(data, entry) for entry in entries]
    texts = [data[entry.start : entry.end] for entry in entries]
    at = 0
    while at < len(entries):
        first = at + (roles[at] == BEGIN)
        behind = first
        while behind < len(entries) and roles[behind] == ROW:
            behind += 1
        end = behind + (behind < len(entries) and roles[behind] == END)
        begin_marks, end_marks = texts[at:first], texts[behind:end]
        if begin_marks or end_marks:
            yield alone(*begin_marks, *end_marks)
        for entry in entries[first:behind]:
            for row in _one_row_entries(data, entry):
                yield alone(*begin_marks, row, *end_marks)
        at = end


def _one_row_entries(data: bytes, entry: FieldSpan) -> Iterator[bytes]:
    """Yield an entry for each row of an entry. Raises ValueError for one without rows."""
    (value,) = [field for field in spans(data, entry.value_start, entry.end) if field.number == _STORE_VALUE]
    fields = list(spans(data, value.value_start, value.end))
    rows = [field for field in fields if field.number == _ROW_DATA]
    if not rows:
        raise ValueError("a statement")
    before, behind = data[value.value_start : rows[0].start], data[rows[-1].end : value.end]
    for row in rows:
        change = bytes_field(_STORE_VALUE, before + data[row.start : row.end] + behind)
        yield bytes_field(
            _ENTRY, data[entry.value_start : value.start] + change + data[value.end : entry.end]
        )


def _role(data: bytes, entry: FieldSpan) -> str:
    """Return the role of an entry. Raises ValueError for one without, and for a mark that engines do not
    recognize (`MessageFields`).
    """
    fields = list(spans(data, entry.value_start, entry.end))
    kinds = [field.value for field in fields if field.number == _KIND]
    role = _ROLES.get((kinds or [packets.ROWS])[-1] or 0)
    if role is None:
        raise ValueError("a heartbeat, or another kind of entry")
    if role != ROW:
        before = fields[: [field.number for field in fields].index(_KIND)]
        texts = [bytes_field(each.number, data[each.value_start : each.end]) for each in before]
        head = b"".join(texts) + number_field(_KIND, kinds[0] or 0)
        if len(before) > 1 or not data.startswith(head, entry.value_start):
            raise ValueError("a mark whose kind is not in its usual place")
    return role
