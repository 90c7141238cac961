"""Traced rows: changes whose cells stand for the values of a message, while its template is derived.

A decoder that offers templates (`relay.codecs.codec.TracingDecoder`) declares which parts of a message are
the same in all messages of its shape, and returns the same change with traced values. It raises
`NotTemplatable` if a message of that shape might mean anything else. Encoders write such changes like any
other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn, TypeVar

import msgspec

from relay.catalog import EffectiveSchema
from relay.codecs.codec import AfterDdl
from relay.codecs.shared.compiled import Null, RowFunction, plain_row_function
from relay.codecs.shared.conversions import Convert, Read, Write, conversion_steps
from relay.codecs.shared.rows import ProjectedCells, TypedReader, TypedRows
from relay.codecs.shared.shaped import written_in_key
from relay.model.events import ABSENT, Position, RowProjection, TableSchema, Value
from relay.model.records import ConsumerRecord
from relay.mysql.conversion_names import READ_INTEGER, READ_SIGNED, conversion_of, kernel_name, loss_of
from relay.templates.avro_ops import AvroOp
from relay.templates.ops import Changed, Choice, Conversion, Put
from relay.templates.tracing import NotTemplatable, Trace, Traced, TracedCell, TracedNumber, TracedOp, Written

_NULL: Final = b"null"
#: The conversion that prints any value.
_READABLE: Final[Conversion] = ("row-key",)
#: Reads whose numbers are those of the tokens; but in an unsigned column negative tokens stand for 64-bit
#: numbers from this one on.
_UNSIGNED: Final[Conversion] = ("unsigned64",)
_PLAIN_INTEGERS: Final[tuple[Conversion | None, ...]] = (
    None,
    ("int",),
    ("natural",),
    READ_INTEGER,
    READ_SIGNED,
    _UNSIGNED,
)
_NEGATIVE: Final = 1 << 63
_name = msgspec.json.Encoder().encode

F = TypeVar("F", bound=Callable[..., Any])


def conversion(function: Callable[..., Any] | None) -> Conversion | None:
    """Return the name of a column's function; None for none. Raises NotTemplatable if it has no name."""
    if function is None:
        return None
    found = conversion_of(function)
    if found is None:
        raise NotTemplatable
    return found


def follows_ddl(
    known: TableSchema | None,
    effective: EffectiveSchema,
    commit_ts: TracedNumber | None,
    event_time_ns: TracedNumber,
    record: ConsumerRecord,
) -> AfterDdl | None:
    """Note that rows must follow the same DDL of their table, and precede the same, as the actual one, which
    was read as `known`.

    `effective`: the catalog's facts of the actual row. Returns the part that conditions cannot express:
    without a commit ts, rows in the partition of the DDL are ordered by their offsets, others by event time.
    Raises NotTemplatable if the catalog is ambiguous, and for rows before DDL that only commit ts could
    order.
    """
    if effective.schema is not known:
        raise NotTemplatable
    if effective.later:
        _precedes(effective.later, commit_ts)
    at = effective.at
    if at is None:
        return None
    if commit_ts is not None and at.commit_ts is not None:
        if not commit_ts > at.commit_ts:
            raise NotTemplatable
        return None
    after = AfterDdl(at, is_alone=not event_time_ns > at.event_time_ns)
    if not after.allows(record):
        raise NotTemplatable
    return after


def _precedes(later: Sequence[Position], commit_ts: TracedNumber | None) -> None:
    """Note that rows must precede all of this DDL. Raises NotTemplatable."""
    times = [at.commit_ts for at in later if at.commit_ts is not None]
    # At the time of a statement a table may already have its definition
    # (`Catalog.created_at_same_instant`).
    if commit_ts is None or len(times) < len(later) or not commit_ts < min(times):
        raise NotTemplatable


def writing_avro(op: AvroOp, *conversion: Any) -> Callable[[F], F]:  # noqa: ANN401 - see `kernel_name`
    """Return a decorator that marks a write whose results are Avro: `op` encodes what the conversion
    prints.
    """

    def mark(function: F) -> F:
        function.avro = op  # type: ignore[attr-defined]  # functions take attributes
        return kernel_name(*conversion)(function)

    return mark


def avro_of(write: Callable[..., Any] | None) -> AvroOp | None:
    """Return the Avro of a write's results (`writing_avro`); None if they are not Avro."""
    return getattr(write, "avro", None)


class TracedCells(dict[str, Any]):
    """A row of traced cells, by column, in the target's spelling."""

    def copy(self) -> TracedCells:
        """Return the same cells."""
        return TracedCells(self)

    def __or__(self, old: Any) -> TracedCells:  # type: ignore[override]  # noqa: ANN401 - of traced cells alone
        """Return these cells, overridden by those of an old row."""
        return TracedCells({name: _merged(new, old.get(name)) for name, new in self.items()})

    def changed(self, new: Mapping[str, Any]) -> TracedOp:
        """Return the op that prints, in braces, the cells of this old row that differ from a new one's."""
        traced = {name: old for name, old in self.items() if isinstance(old, Traced)}
        if any(new[name] != constant for name, constant in self.items() if name not in traced) or not traced:
            raise NotTemplatable
        members = [(_name(name) + b":", put_of(old), put_of(new[name])) for name, old in traced.items()]
        trace: Trace = next(iter(traced.values())).trace
        return TracedOp(trace, Changed(tuple(members)))


def _merged(new: Traced, old: Traced | None) -> Traced:
    if old is None or not isinstance(new, Traced):  # a constant is the same in both
        return new
    if isinstance(new, TracedCell) and isinstance(old, TracedCell):
        return TracedCell(new.trace, (*old.slots, *new.slots))
    over, under = put_of(old), put_of(new)
    if over._replace(slots=()) != under._replace(slots=()):
        raise NotTemplatable
    return TracedOp(new.trace, over._replace(slots=(*over.slots, *under.slots)))


class TracedKey(list[Any]):
    """The canonical cells of a key as traced values; ABSENT for a missing one.

    `actual`: the cells of the actual message; None if unknown, or if equal cells may be written in two ways.
    """

    actual: list[Any] | None = None

    def __init__(self, cells: Iterable[tuple[Any, Conversion | None]]) -> None:
        """Initialize from traced cells, or ABSENT, and the conversion of each."""
        super().__init__(
            [
                cell if cell is ABSENT else cell.written(read, conversion(written_in_key))
                for cell, read in cells
            ]
        )

    def __contains__(self, wanted: object) -> bool:
        """Return whether it has this very object: ABSENT."""
        return any(cell is wanted for cell in self)

    def __ne__(self, other: object) -> bool:
        """Return whether they differ in the actual message, and note it for all; if unknown, return False, as
        for most keys.
        """
        if not isinstance(other, TracedKey) or ABSENT in self or ABSENT in other:
            raise NotTemplatable
        if self.actual is not None and other.actual is not None and self.actual != other.actual:
            pairs = [(put_of(old), put_of(new)) for old, new in zip(self, other, strict=True)]
            self[0].trace.differ(pairs)
            return True
        keep_same(zip(self, other, strict=True))
        return False

    def __eq__(self, other: object) -> bool:
        """See `__ne__`."""
        return not self != other

    __hash__ = None  # as lists have none


def choosing(
    function: Callable[[str | None], int], null: int, small: int, large: int = 0, least: int | None = None
) -> Callable[[str | None], int]:
    """Name a function of a cell's text for templates (`relay.templates.ops.Choice`)."""
    function.choice = null, small, large, least  # type: ignore[attr-defined]  # functions take attributes
    return function


def choice_of(function: Callable[[str | None], int], cell: Traced) -> TracedOp:
    """Return the op that prints the number that such a function returns for a cell. Raises NotTemplatable for
    other functions.
    """
    found = getattr(function, "choice", None)
    if found is None:
        raise NotTemplatable
    null, small, large, least = found
    put = put_of(cell)
    if least is not None and put.read not in _PLAIN_INTEGERS:
        raise NotTemplatable
    if put.read == _UNSIGNED and not cell.trace.negative.isdisjoint(put.slots):
        if least is None or least > _NEGATIVE or not cell.trace.negative.issuperset(put.slots):
            raise NotTemplatable
        small, least = large, None
    op = Choice(put.slots, b"%d" % null, b"%d" % small, b"%d" % large, least)
    return TracedOp(cell.trace, op)


def put_of(cell: Any) -> Put:  # noqa: ANN401 - a result of a row function
    """Return the op that prints a cell. Raises NotTemplatable for other values."""
    op = cell.op() if isinstance(cell, Traced) else None
    if not isinstance(op, Put):
        raise NotTemplatable
    return op


def counted_null(value: Any, lost: list[Any], loss: str) -> Null:  # noqa: ANN401 - any value that msgspec prints
    """Return the function for a NULL that becomes this value and is counted as this loss, in a form
    that templates know.
    """

    def null() -> Any:  # noqa: ANN401 - any value that msgspec prints
        lost.append(loss)
        return value

    null.replacement = value, loss  # type: ignore[attr-defined]  # functions take attributes
    return null


def _replaced(null: Null | None) -> tuple[bytes | None, str | None]:
    """Return the replacement text of NULL, and the loss kind for which it is counted; no text if unknown."""
    if null is None:
        return _NULL, None
    found = getattr(null, "replacement", None)
    if found is None:
        return None, None
    value, loss = found
    text = _name(value)
    return (None, None) if b"\\" in text else (text, loss)  # escapes depend on the target


class TracedReader(TypedReader):
    """The reader of traced rows: it names conversions for encoders, and reads nothing."""

    reads_as: Sequence[Conversion | None]

    @classmethod
    def of(cls, reader: TypedReader, reads_as: Sequence[Conversion | None] | None = None) -> TracedReader:
        """Return the traced twin of a reader. `reads_as`: the conversion of each cell's token; by default
        `reads` of a parsed token. Raises NotTemplatable if a read has no name.
        """
        made = cls.__new__(cls)
        made.__dict__.update(reader.__dict__)
        made.forget_made()
        made.reads_as = [conversion(read) for read in reader.reads] if reads_as is None else reads_as
        return made

    def row_function(
        self,
        writes: Sequence[Write | None],
        shortcuts: Mapping[tuple[Read, Write | None], Convert],  # noqa: ARG002 - they are equivalent
        nulls: Sequence[Null | None] | None = None,
        *,
        names: Sequence[str] | None = None,
        as_struct: bool = False,  # noqa: ARG002 - rows are dicts
        is_compiled: bool = True,  # noqa: ARG002 - they are made once
    ) -> RowFunction:
        """Return the function that makes the target's values from traced cells; see `TypedReader`."""
        names = self.names if names is None else names
        replaced = map(_replaced, nulls or [None] * len(writes))
        forms = [
            Written(read, conversion(write), null, null_loss, loss_of(write), avro_of(write))
            for read, write, (null, null_loss) in zip(self.reads_as, writes, replaced, strict=True)
        ]

        constants = [
            plain_row_function([name], [conversion_steps(None, write, {})], [null])
            for name, write, null in zip(names, writes, nulls or [None] * len(writes), strict=True)
        ]

        def values(cells: Sequence[Any]) -> dict[str, Any]:
            found: dict[str, Any] = {}
            for name, cell, form, constant in zip(names, cells, forms, constants, strict=True):
                if isinstance(cell, TracedCell):
                    found[name] = cell.written_as(form)
                else:  # a constant of a `RowProjection`: the same in every row
                    found |= constant([cell])
            return found

        return values

    def traced_cells(self, writes: Sequence[Write | None]) -> RowFunction:
        """Return the same function for a target that compares old cells with new ones."""
        values = self.row_function(writes, {})
        return lambda cells: TracedCells(values(cells))

    def row(self, cells: Sequence[Any], _part: str) -> tuple[Any, ...]:
        """Return a row of placeholders: canonical values are not traced, but an encoder may test for a row.
        Note that all cells must be readable.
        """
        row: list[Any] = [ABSENT] * len(self.schema.columns)
        for at, cell, read in zip(self.indexes, cells, self.reads_as, strict=True):
            row[at] = self._look_at(cell, read)
        return tuple(row)

    def _look_at(self, cell: Any, read: Conversion | None) -> Any:  # noqa: ANN401 - a placeholder
        """Note that a cell must be readable, and return a placeholder for its value."""
        if not isinstance(cell, TracedCell):
            raise NotTemplatable
        if read is not None:
            cell.trace.look_at(cell.slots, read, _READABLE)
        return cell.trace.refused()

    def cells_at(self, indexes: Sequence[int], cells: Sequence[Any], _part: str) -> TracedKey:
        """Return the traced cells of a key."""
        found = dict(zip(self.indexes, zip(cells, self.reads_as, strict=True), strict=True))
        return TracedKey([found.get(at, (ABSENT, None)) for at in indexes])

    def raw_key(self, *_: object) -> NoReturn:
        """Refuse, like `row`."""
        raise NotTemplatable

    def _project(self, projection: RowProjection) -> tuple[TypedReader, ProjectedCells]:
        """See `TypedReader`. Raises NotTemplatable for conversions of values without a name."""
        reader, cells = super()._project(projection)
        reads_as = [
            None if each.is_constant else _composed(self.reads_as[at], each.convert)
            for at, _, each in self._kept_in(projection)
        ]
        return TracedReader.of(reader, reads_as), cells

    def _check_readable(self, at: int, value: Any, _part: str) -> None:  # noqa: ANN401 - a traced cell
        """Note that a cell that is not used must be readable."""
        self._look_at(value, self.reads_as[at])


class TracedRows(TypedRows, frozen=True, eq=False, gc=False):
    """Images of traced cells; the reader is a `TracedReader`. `keeps_keys`: the actual images'
    `keys_unchanged_on_wire`.
    """

    keeps_keys: bool

    @property
    def possible_indexes(self) -> NoReturn:
        """Refuse: callers want canonical values."""
        raise NotTemplatable

    def keys_unchanged_on_wire(self) -> bool:
        """Note that the key columns have the same values in both images, if the actual ones have. Else the
        columns that an encoder asks for decide.
        """
        old, new = self.old, self.new
        if self.keeps_keys and old is not None and new is not None:
            keep_same((old[at], new[at]) for at in self.reader.key_cells)
        return self.keeps_keys

    def projected(self, projection: RowProjection) -> TracedRows:
        """See `TypedRows`."""
        found = super().projected(projection)
        return TracedRows(found.reader, found.old, found.new, self.keeps_keys)


def _composed(read: Conversion | None, convert: Callable[[Value], Value] | None) -> Conversion | None:
    """Return the conversion that reads a cell and replaces its value. Raises like `conversion`."""
    replacing = conversion(convert)
    return read if replacing is None else (*replacing, *(read or ()))


def keep_same(pairs: Any) -> None:  # noqa: ANN401 - pairs of traced cells
    """Note that cells have the same values in two images; one with only a first slot may be missing there."""
    for old, new in pairs:
        old.trace.same(put_of(old).slots[0], put_of(new).slots[0])
