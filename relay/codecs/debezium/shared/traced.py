"""Templates of rows of Debezium JSON: images, the numbers and texts around them, and the key.

A dialect lists the paths of its numbers and texts, and makes a change of the traced ones. Everything that it
does not list, including the schema block, is the same in every message of the shape. The Kafka key may have
any values, unless a layout reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

import msgspec

from relay.codecs.debezium.shared.json_kinds import FLOAT32, NUMERIC, SPELLED
from relay.codecs.debezium.shared.layouts import Layout
from relay.codecs.debezium.shared.rows import DebeziumRowDecoder
from relay.codecs.debezium.shared.values import unsigned64
from relay.codecs.shared.rows import TypedRows
from relay.codecs.shared.traced import TracedReader, TracedRows, conversion
from relay.model.events import ABSENT, RowChange
from relay.model.records import ConsumerRecord
from relay.mysql.conversion_names import READ_DOUBLE, READ_FLOAT, READ_INTEGER
from relay.templates.ops import (
    Above,
    Among,
    Below,
    Condition,
    Conversion,
    Kind,
    Kinds,
    Members,
    SourceOp,
    Take,
    Unordered,
)
from relay.templates.scanning import INTEGER, SCALAR, JsonToken, Path, parsed, source_ops
from relay.templates.tracing import NotTemplatable, Trace, TracedCell, TracedNumber, TracedText

#: Kinds of JSON values of a column, besides null, and the conversion of columns without a reading function.
_KINDS: Final[tuple[tuple[Any, Kinds, Conversion | None], ...]] = (
    (int, ("integer",), READ_INTEGER),
    (float, ("integer", "number"), READ_DOUBLE),
    (FLOAT32, ("integer", "number"), READ_FLOAT),
    (str, ("string",), None),
)
#: The same for kinds that always have a reading function.
_READ_KINDS: Final[tuple[tuple[Any, Kinds], ...]] = (
    (bool, ("boolean",)),
    (Decimal, ("integer", "number")),
    (NUMERIC, ("integer", "number")),
    (SPELLED, ("integer", "number", "string")),
)
#: Integers from here on may share a float with others.
_EXACT_FLOATS: Final = 1 << 53
_TEXT: Final = Take(("string",))
_BEFORE, _AFTER = "before", "after"
_print = msgspec.json.Encoder().encode


class _Cell(NamedTuple):
    """A column's value in an image. `tokens`: it is one of these, or none of them. `is_negative`: whether it
    is a negative number, None if that does not matter.
    """

    path: Path
    kinds: Kinds
    tokens: tuple[bytes, ...]
    is_one: bool
    is_negative: bool | None = None

    def conditions(self, slot: int) -> Iterator[Condition]:
        """Yield the conditions that hold in all messages."""
        if self.tokens:
            yield Among(slot, self.tokens, self.is_one)
        if self.is_negative is not None:
            yield Below(slot, 0) if self.is_negative else Above(slot, -1)


class RowMessage:
    """A row's message split into ops. `payload`: the payload's path; paths of numbers and texts are below it.

    A number or a text that is missing or null, and an empty text, is the same in all messages. Raises
    NotTemplatable.
    """

    def __init__(
        self,
        rows: DebeziumRowDecoder,
        record: ConsumerRecord,
        change: RowChange,
        trace: Trace,
        numbers: Sequence[Path],
        texts: Sequence[Path] = (),
    ) -> None:
        value, images = record.value or b"", change.images
        if value[:1] != b"{" or type(images) is not TypedRows:
            raise NotTemplatable
        layout = rows.layout(change.table, images.reader)
        if layout is None or layout.reader.known is None:
            raise NotTemplatable
        #: The definition that the row was read with.
        self.known = layout.reader.known
        self._value, self._trace, self._images, self._layout = value, trace, images, layout
        self._root = parsed(value)
        self._payload: Path = ("payload",) if self._root.at(("payload",)) is not None else ()
        given: dict[Path, Take | Members | Unordered] = dict(self._given(numbers, "integer", INTEGER))
        given |= self._given(texts, "string", _TEXT)
        cells = list(self._cells())
        given |= {cell.path: Take(cell.kinds) for cell in cells}
        self.key, first_slot = _key_ops(record.key)
        self.value, self._slots = source_ops(value, self._root, given, first_slot)
        for cell in cells:
            slot = self._slots[cell.path]
            trace.conditions += cell.conditions(slot)
            if cell.is_negative:
                trace.negative.add(slot)

    def _token(self, path: Path) -> bytes:
        """Return the text of a value of the payload; null if it is missing."""
        token = self._root.at((*self._payload, *path))
        return b"null" if token is None else self._value[token.start : token.end]

    def _given(self, paths: Sequence[Path], kind: Kind, take: Take) -> Iterator[tuple[Path, Take]]:
        for path in paths:
            whole = (*self._payload, *path)
            token = self._root.at(whole)
            if token is None or self._token(path) in (b"null", b'""'):
                continue
            if token.kind != kind:
                raise NotTemplatable
            yield whole, take

    def number(self, path: Path, least: int | None = None, end: int | None = None) -> TracedNumber | None:
        """Return the number at the path, if any; it is within these bounds in all messages."""
        slot = self._slots.get((*self._payload, *path))
        if slot is None:
            return None
        number = TracedNumber(self._trace, slot, int(self._token(path)))
        if (least is not None and not number >= least) or (end is not None and not number < end):
            raise NotTemplatable
        return number

    def text(self, path: Path) -> TracedText | None:
        """Return the text at the path, if any and not empty."""
        slot = self._slots.get((*self._payload, *path))
        return None if slot is None else TracedText(self._trace, slot)

    # ------------------------------------------------------------ images

    def images(self) -> TracedRows:
        """Return the images of traced cells."""
        layout, images = self._layout, self._images
        reader = TracedReader.of(layout.reader, [_read_as(*each) for each in _reads(layout)])
        old = None if images.old is None else self._traced(_BEFORE)
        new = None if images.new is None else self._traced(_AFTER)
        return TracedRows(reader, old, new, images.keys_unchanged_on_wire())

    def _traced(self, part: str) -> list[TracedCell]:
        payload, slots = self._payload, self._slots
        return [TracedCell(self._trace, (slots[*payload, part, name],)) for name in self._layout.names]

    def _cells(self) -> Iterator[_Cell]:
        """Yield the column values of the row's images."""
        images, layout = self._images, self._layout
        for part, cells in ((_BEFORE, images.old), (_AFTER, images.new)):
            if cells is None:
                continue
            image = self._root.at((*self._payload, part))
            if image is None or (image.members or {}).keys() != set(layout.names):
                raise NotTemplatable
            for at, name in enumerate(layout.names):
                path = (*self._payload, part, name)
                token = image.at((name,))
                yield self._cell(at, path, self._token((part, name)), None if token is None else token.kind)

    def _cell(self, at: int, path: Path, text: bytes, kind: Kind | None) -> _Cell:
        """Return the possible values of a column: ambiguous and missing values have other shapes, and so has
        a negative number that means a large one.
        """
        layout = self._layout
        wanted = layout.kinds[at]
        kinds = _kinds_of(wanted)
        refused = [_print(each) for each in layout.unavailable] if wanted is str else []
        if at in layout.null_values:
            kinds, tokens = _tokens_of(layout.null_values[at], kinds)
            refused += tokens
        if text in refused:
            raise NotTemplatable
        for index, doubt, _ in layout.doubts:
            if index == at and doubt is not ABSENT:
                kinds, tokens = _tokens_of(doubt, kinds)
                if text in tokens:
                    return _Cell(path, kinds, tokens, is_one=True)
                refused += tokens
        if kind != "null" and kind not in kinds:
            raise NotTemplatable
        if layout.reader.reads[at] is unsigned64:
            if kind == "null":
                return _Cell(path, ("null",), (), is_one=False)
            return _Cell(path, kinds, tuple(refused), is_one=False, is_negative=text.startswith(b"-"))
        return _Cell(path, (*kinds, "null"), tuple(refused), is_one=False)


def _kinds_of(kind: Any) -> Kinds:  # noqa: ANN401 - a type
    for known, kinds, _ in _KINDS:
        if kind is known:
            return kinds
    for known, kinds in _READ_KINDS:
        if kind is known:
            return kinds
    raise NotTemplatable


def _tokens_of(value: Any, kinds: Kinds) -> tuple[Kinds, tuple[bytes, ...]]:  # noqa: ANN401 - a wire value
    """Return kinds of tokens of which each value has one spelling, and the tokens of this value among them.

    Among numbers, only integers have one spelling. Raises NotTemplatable for a value whose tokens are
    unknown.
    """
    if type(value) is str and kinds == ("string",):
        return kinds, (_print(value),)
    if type(value) is bool and kinds == ("boolean",):
        return kinds, (_print(value),)
    if type(value) in {int, float, Decimal} and "integer" in kinds:
        if type(value) is float and not -_EXACT_FLOATS < value < _EXACT_FLOATS:
            raise NotTemplatable
        return ("integer",), (b"%d" % int(value),) if value == int(value) else ()
    raise NotTemplatable


def _reads(layout: Layout) -> Iterator[tuple[Any, Any]]:
    return zip(layout.reader.reads, layout.kinds, strict=True)


def _read_as(read: Any, kind: Any) -> Conversion | None:  # noqa: ANN401 - a read, a type
    """Return the conversion of a column's tokens. Raises NotTemplatable if it has no name."""
    if read is not None:
        if kind is FLOAT32:
            raise NotTemplatable
        return conversion(read)
    for known, _, found in _KINDS:
        if kind is known:
            return found
    raise NotTemplatable


# ---------------------------------------------------------------- keys


def _key_ops(key: bytes | None) -> tuple[tuple[SourceOp, ...] | None, int]:
    """Return the ops of a key with any values, and their number of slots. Raises NotTemplatable for broken
    JSON.
    """
    if key is None:
        return None, 0
    root = parsed(key)
    ops, slots = source_ops(key, root, dict.fromkeys(_values(root), SCALAR), 0)
    return ops, len(slots)


def _values(root: JsonToken, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of a key's values; its schema block has none."""
    if root.members is None and root.items is None:
        yield path
    for name, member in (root.members or {}).items():
        if path or name != "schema":
            yield from _values(member, (*path, name))


def fitting_change(
    change: RowChange, message: RowMessage, source: Mapping[str, Any], emitted_at_ns: TracedNumber
) -> RowChange:
    """Return the change with traced images, these members of its source, and the time it was made."""
    return msgspec.structs.replace(
        change,
        images=message.images(),
        source=msgspec.structs.replace(change.source, **source),
        emitted_at_ns=emitted_at_ns,
    )
