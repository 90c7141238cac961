"""Derive templates from a decoder: replace the variable values of a captured one-row message by traced ones.

A decoder reads a message in three steps. `decode` makes a struct of its bytes, `check` refuses invalid
numbers, and `interpret` returns its events. The template of the message comes from the same steps:

1. The decoder declares the members that differ between messages, each with the form of its tokens
   (`TracedPart.vary`), and the tokens of the columns' cells (`TracedRow.vary_cells`). All other bytes are the
   same in all messages of the shape.
2. `TracedRow.split` makes the source ops.
3. `check` and `interpret` run on the decoded struct with traced members (`TracedPart.traced`), on a record
   with a traced position and time (`TracedRow.record`), and with traced cells (`TracedRow.read` or
   `TracedRow.images` in place of the function that reads rows).
4. `TracedRow.message` makes the `TracedMessage` of the events.

A change in `check` or `interpret` therefore changes the template as well, or prevents it. The declarations
(token forms and cell tokens) are a second description of `decode` and of the row reader: keep the two in
step. `test_changed_messages_become_the_same` compares them for every source. All functions raise
NotTemplatable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import tzinfo
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from relay.catalog import Catalog
from relay.codecs.codec import AfterDdl, TracedMessage
from relay.codecs.shared.rows import TypedRows
from relay.codecs.shared.traced import TracedReader, TracedRows, follows_ddl
from relay.model.events import Event, Position, RowChange, TableSchema, TransactionMark
from relay.model.limits import Limits
from relay.model.records import ConsumerRecord
from relay.templates.ops import (
    Above,
    Among,
    Below,
    Conversion,
    Kind,
    Kinds,
    Members,
    SourceOp,
    Take,
)
from relay.templates.scanning import (
    DIGITS,
    INTEGER,
    LAST_DIGITS,
    SCALAR,
    STRING,
    Given,
    JsonToken,
    Path,
    parsed,
    scalar_paths,
    source_ops,
)
from relay.templates.tracing import (
    NotTemplatable,
    Trace,
    TracedCell,
    TracedNumber,
    TracedSeconds,
    TracedText,
    traced_numbers,
)
from relay.text.durations import clock_seconds, local_datetime_micros

# ---------------------------------------------------------------- members


class MemberForm(NamedTuple):
    """How a variable member is matched and traced.

    value: Makes the traced value from the trace, the slot, and the token's text in the captured message.
    """

    given: Given
    value: Callable[[Trace, int, bytes], Any]


def _number(trace: Trace, slot: int, token: bytes) -> TracedNumber:
    return TracedNumber(trace, slot, int(token))


def bounded(least: int, end: int) -> MemberForm:
    """Return the form of an integer that the parser refuses outside of some bounds."""

    def value(trace: Trace, slot: int, token: bytes) -> TracedNumber:
        number = TracedNumber(trace, slot, int(token))
        if not (number >= least and number < end):
            raise NotTemplatable
        return number

    return MemberForm(INTEGER, value)


def _text(trace: Trace, slot: int, _token: bytes) -> TracedText:
    return TracedText(trace, slot)


def _seconds(trace: Trace, slot: int, _token: bytes) -> TracedSeconds:
    return TracedSeconds(trace, slot)


NUMBER: Final = MemberForm(INTEGER, _number)
#: A text that is not empty.
TEXT: Final = MemberForm(STRING, _text)
#: Seconds, with a fraction or without, that are decoded to nanoseconds.
SECONDS: Final = MemberForm(Take(("integer", "number")), _seconds)


def local_time(zone: tzinfo) -> MemberForm:
    """Return the form of a local date and time as text, decoded to nanoseconds since 1970. Raises
    NotTemplatable for a zone without a fixed offset from UTC.
    """
    offset = fixed_offset(zone)

    def value(trace: Trace, slot: int, token: bytes) -> TracedNumber:
        micros = local_datetime_micros(msgspec.json.decode(token, type=str), zone)
        return TracedNumber.of_datetime(trace, slot, offset, micros) * 1_000

    return MemberForm(STRING, value)


def wall_clock(zone: tzinfo) -> MemberForm:
    """Return the form of a local time of 14 digits as text (`20160610120000`), like `local_time`."""
    offset = fixed_offset(zone)

    def value(trace: Trace, slot: int, token: bytes) -> TracedNumber:
        seconds = clock_seconds(token[1:-1].decode(), zone)
        return TracedNumber.of_clock(trace, slot, offset, seconds) * 1_000_000_000

    return MemberForm(DIGITS, value)


def fixed_offset(zone: tzinfo) -> int:
    """Return a zone's constant offset from UTC in seconds. Raises NotTemplatable if it has none."""
    offset = zone.utcoffset(None)
    if offset is None:
        raise NotTemplatable
    return int(offset.total_seconds())


class VariableMember(NamedTuple):
    """A member of the JSON text, by its path, that differs between messages."""

    path: Path
    form: MemberForm


#: The variable members of a struct, by the names of its fields.
Declaration = Mapping[str, VariableMember]

M = TypeVar("M", bound=msgspec.Struct)

_EMPTY_TEXT: Final = b'""'


class TracedPart:
    """The key or the value of a record: JSON text from `start` on, after the ops `before`; None: missing."""

    def __init__(self, text: bytes | None, before: Sequence[SourceOp] = (), start: int = 0) -> None:
        self.text = text or b""
        self.root = JsonToken() if text is None else parsed(text, start)
        self.given: dict[Path, Given] = {}
        self.slots: dict[Path, int] = {}
        #: Paths of the only items of lists that have an item for each row in messages of several rows.
        self.rows: list[Path] = []
        self.ops: tuple[SourceOp, ...] | None = None
        self._before, self._start, self._is_missing = tuple(before), start, text is None

    def text_of(self, token: JsonToken) -> bytes:
        """Return the text of a token."""
        return self.text[token.start : token.end]

    def kind_at(self, path: Path) -> Kind | None:
        """Return the kind of the token at a path; None for an object, a list and a missing token."""
        token = self.root.at(path)
        return None if token is None else token.kind

    def vary(self, declared: Declaration) -> None:
        """Let these members differ. A member that is missing, null or empty in the captured message stays
        constant. So does a text that does not end in a colon and digits, if its form is LAST_DIGITS.
        """
        for path, form in declared.values():
            token = self.root.at(path)
            if token is not None and self._varies(token, form.given):
                self.given[path] = form.given

    def vary_scalars(self, path: Path = (), *, but: Collection[Path] = (), given: Given = SCALAR) -> None:
        """Let all values at and below a path differ, except for some paths."""
        token = None if self._is_missing else self.root.at(path)
        if token is not None:
            self.given |= {found: given for found in scalar_paths(token, path) if found not in but}

    def _varies(self, token: JsonToken, given: Given) -> bool:
        text = self.text_of(token)
        if token.kind == "null" or text == _EMPTY_TEXT:
            return False
        if given == LAST_DIGITS:
            start, colon, digits = text[1:-1].rpartition(b":")
            return token.kind == "string" and bool(start and colon) and digits.isdigit()
        if given == DIGITS:
            is_varying = text[1:-1].isdigit()
        else:
            is_varying = isinstance(given, Take) and token.kind in given.kinds
        if not is_varying:
            raise NotTemplatable
        return True

    def split(self, first_slot: int) -> int:
        """Make the ops and the slots, numbered from `first_slot`; return the next slot."""
        if not self._is_missing:
            ops, self.slots = source_ops(
                self.text, self.root, self.given, first_slot, self._start, rows=self.rows
            )
            self.ops = (*self._before, *ops)
        return first_slot + len(self.slots)

    def traced(self, message: M, declared: Declaration, trace: Trace) -> M:
        """Return a decoded struct with the traced values of the declared members. Other fields that differ
        between messages raise NotTemplatable when they are used.
        """
        others = self._undeclared(message, declared, trace.refused())
        return msgspec.structs.replace(message, **(others | self.traced_members(declared, trace)))

    def _undeclared(
        self, message: msgspec.Struct, declared: Declaration, refused: object
    ) -> dict[str, object]:
        """Return a value that refuses every operation for each field that differs between messages and is
        not declared. A dict keeps its names if only its values differ.
        """
        parents = {member.path[:-1] for member in declared.values()}
        varying = {path[: len(parent) + 1] for parent in parents for path in self.given}
        found: dict[str, object] = {}
        # Not `msgspec.structs.fields`, which evaluates the types of all fields each time.
        names = zip(message.__struct_fields__, message.__struct_encode_fields__, strict=True)
        for name, encode_name in names:
            paths = varying & {(*parent, encode_name) for parent in parents}
            if paths:
                value = getattr(message, name)
                has_names = isinstance(value, dict) and paths.isdisjoint(self.given)
                found[name] = dict.fromkeys(value, refused) if has_names else refused
        return found

    def traced_members(self, declared: Declaration, trace: Trace) -> dict[str, Any]:
        """Return the traced values of variable members, by field."""
        found = {}
        for name, (path, form) in declared.items():
            slot, token = self.slots.get(path), self.root.at(path)
            if slot is not None and token is not None:
                found[name] = form.value(trace, slot, self.text_of(token))
        return found


# ---------------------------------------------------------------- cells


class CellTokens(NamedTuple):
    """The tokens that a column's cells may have in an image, and the conversion that reads them.

    tokens: The only allowed tokens if `is_one`, otherwise refused tokens.
    is_negative: Whether all cells are negative numbers, or none is; None if both fit.
    tried: For a cell that is read but not written, the conversion that tests whether it can be read; None if
        every token can.
    path: The path of the value in the cell; None for the path in the reader's `parts`.
    """

    kinds: Kinds
    read: Conversion | None
    tokens: tuple[bytes, ...] = ()
    tried: Conversion | None = None
    path: Path | None = None
    is_one: bool = False
    is_negative: bool | None = None


class _Image(NamedTuple):
    """An image of the message. `under`: the part with the cells that this one lacks."""

    part: str
    cells: Sequence[CellTokens]
    under: str | None


# ---------------------------------------------------------------- the row


class SplitPart(Protocol):
    """The key or the value of a record. `ops`: its ops after `split`; None: missing."""

    ops: tuple[SourceOp, ...] | None

    def split(self, first_slot: int) -> int:
        """Make the ops and the slots, numbered from `first_slot`; return the next slot."""
        ...


Part = TypeVar("Part", bound=SplitPart)


def traced_record(record: ConsumerRecord, trace: Trace) -> ConsumerRecord:
    """Return a record with a traced offset and time. The other members refuse every operation, except for the
    topic, which is the same for all messages.
    """
    traced, refused = traced_numbers(record, trace), trace.refused()
    return msgspec.structs.replace(traced, key=refused, value=refused, headers=refused)


class TracedEvent(Generic[Part]):
    """A message of one row, whatever its cells are. `change`: its event, as decoded."""

    def __init__(
        self, record: ConsumerRecord, change: RowChange, trace: Trace, key: Part, value: Part
    ) -> None:
        self.key, self.value = key, value
        #: The record for `interpret`. Only its topic is the same for all messages.
        self.record: ConsumerRecord = traced_record(record, trace)
        self.change, self.trace = change, trace
        self._captured = record
        self._after: AfterDdl | None = None

    def split(self) -> None:
        """Make the ops of both parts."""
        self.value.split(self.key.split(0))

    def follow_ddl(self, known: TableSchema | None, at: Position, catalog: Catalog) -> None:
        """Note that other rows must follow the same DDL as this one, which was read as `known`. `at`: the
        row's traced position.
        """
        captured, change = self._captured, self.change
        effective = catalog.effective_schema(change.table, change.source.at(captured))
        commit_ts: Any = at.commit_ts
        event_time_ns: Any = at.event_time_ns
        self._after = follows_ddl(known, effective, commit_ts, event_time_ns, captured)

    def message(self, events: Sequence[Event]) -> TracedMessage:
        """Return the traced message of the row's events: its change, and the end of its transaction."""
        change, end = events[0] if events else None, events[1] if len(events) > 1 else None
        if len(events) > 2 or not isinstance(change, RowChange):
            raise NotTemplatable
        if not isinstance(end, TransactionMark | None):
            raise NotTemplatable
        return TracedMessage(self.key.ops, self.value.ops, change, self._after, end)


class TracedRow(TracedEvent[TracedPart]):
    """A message of one row of typed cells. `payload`: the path of the object with the images."""

    def __init__(
        self,
        record: ConsumerRecord,
        change: RowChange,
        trace: Trace,
        key: TracedPart,
        value: TracedPart,
        payload: Path = (),
    ) -> None:
        super().__init__(record, change, trace, key, value)
        self._payload = payload
        images = change.images
        if type(images) is not TypedRows:
            raise NotTemplatable
        self.reader, self._images = images.reader, images
        self._names: Sequence[str] = ()
        self._old: _Image | None = None
        self._new: _Image | None = None
        parts = images.reader.parts
        self._value_path: Path = tuple(parts.value.split(".")[1:])
        old, new = parts.deleted if images.new is None else parts.old, parts.new
        self._parts = (None if images.old is None else old, None if images.new is None else new)
        if any(map(self._has_cells, {parts.deleted, parts.old, parts.new}.difference(self._parts))):
            raise NotTemplatable

    def path_of(self, part: str) -> Path:
        """Return the path of an image."""
        return (*self._payload, part.rpartition(".")[2])

    def _has_cells(self, part: str) -> bool:
        token = self.value.root.at(self.path_of(part))
        return token is not None and token.kind != "null" and token.members != {}

    # ------------------------------------------------------------ before the split

    @property
    def parts(self) -> list[str]:
        """The message's images: the old row, the new row."""
        return [part for part in self._parts if part is not None]

    def vary_cells(
        self,
        names: Sequence[str],
        cells_of: Callable[[str], Sequence[CellTokens]],
        limits: Limits,
        *,
        is_old_partial: bool = False,
    ) -> None:
        """Let the values of the images' cells differ.

        names: The columns as the message names them, in the reader's order.
        cells_of: Returns the tokens of an image's cells in that order.
        is_old_partial: Old rows of UPDATEs may omit unchanged columns. By default only if the captured
            one does.
        """
        self._names = names
        old, new = self._parts
        for part in self.parts:
            cells = cells_of(part)
            present = self._values_of(part)
            under = new if part == old and (is_old_partial or len(present) < len(names)) else None
            if under is not None and present <= set(names):
                self._vary_some(part, under, cells, limits)
            elif under is None and present == set(names):
                for name, cell in zip(names, cells, strict=True):
                    self.value.given[*self.path_of(part), name, *self._path_in(cell)] = Take(cell.kinds)
            else:
                raise NotTemplatable
            image = _Image(part, cells, under)
            if part == new:
                self._new = image
            else:
                self._old = image

    def _values_of(self, part: str) -> set[str]:
        """Return the names of an image's cells. Raises NotTemplatable for a cell without a value."""
        image = self.value.root.at(self.path_of(part))
        members = {} if image is None else image.members or {}
        if not all(cell.at(self._value_path) for cell in members.values()):
            raise NotTemplatable
        return set(members)

    def _vary_some(self, part: str, under: str, cells: Sequence[CellTokens], limits: Limits) -> None:
        """Let an image contain any subset of the columns; each is written as in the image `under` it."""
        # A fuller old row has less than twice the members of this message, at two bytes each.
        if len(self.value.text) > limits.values:
            raise NotTemplatable
        text, root = self.value.text, self.value.root
        kinds = {name: cell.kinds for name, cell in zip(self._names, cells, strict=True)}
        whole = root.at(self.path_of(under))
        members, ends = [], set()
        for name, cell in ((whole and whole.members) or {}).items():
            value = cell.at(self._value_path)
            if value is None or name not in kinds:
                raise NotTemplatable
            members.append((text[cell.name_start : value.start], kinds[name]))
            ends.add(text[value.end : cell.end])
        if len(members) != len(kinds) or len(ends) != 1:
            raise NotTemplatable
        self.value.given[self.path_of(part)] = Members(tuple(members), ends.pop())

    def _path_in(self, cell: CellTokens) -> Path:
        return self._value_path if cell.path is None else cell.path

    # ------------------------------------------------------------ during interpretation

    def read(self, at: Position, catalog: Catalog) -> tuple[TableSchema, TypedRows]:
        """Return the row as a row decoder does, but with traced cells, and note that other rows must follow
        the same DDL as this one. `at`: the row's traced position.
        """
        self.follow_ddl(self.reader.known, at, catalog)
        return self.images()

    def images(self) -> tuple[TableSchema, TypedRows]:
        """Return the definition and the images, with traced cells, for formats whose rows name their schema
        version, so that no DDL condition is needed.
        """
        reads = [[cell.read for cell in image.cells] for image in (self._old, self._new) if image is not None]
        if reads[0] != reads[-1]:
            raise NotTemplatable
        old, new = (None if image is None else [*self._traced(image)] for image in (self._old, self._new))
        reader = TracedReader.of(self.reader, reads[0])
        return self.change.schema, TracedRows(reader, old, new, self._images.keys_unchanged_on_wire())

    def _traced(self, image: _Image) -> Iterator[TracedCell]:
        slots, trace = self.value.slots, self.trace
        for name, cell in zip(self._names, image.cells, strict=True):
            path = self._path_in(cell)
            own = (*self.path_of(image.part), name)
            slot = slots[own if image.under is not None else (*own, *path)]
            found: tuple[int, ...] = (slot,)
            if cell.tokens:
                trace.conditions.append(Among(slot, cell.tokens, cell.is_one))
            if cell.is_negative is not None:
                trace.conditions.append(Below(slot, 0) if cell.is_negative else Above(slot, -1))
            if cell.is_negative:
                trace.negative.add(slot)
            if image.under is not None:
                found += (slots[*self.path_of(image.under), name, *path],)
            if cell.tried is not None and cell.read is not None:
                trace.look_at(found, cell.read, cell.tried)
            yield TracedCell(trace, found)
