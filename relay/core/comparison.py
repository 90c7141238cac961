"""Compares two streams of the same changes in any protocols.

`Comparison` takes the changes of both sides as they arrive, and counts those in both, those that differ, and
those missing on one side. Changes are matched by table and key. The order of changes with the same key
matters, and so does the order in a table without a key; that of different keys does not. Unmatched changes
wait for the other side, up to `window` changes in total, so memory is bounded; a change that arrives later
than that counts as missing on one side and as additional on the other.

Before two changes count as different, `explain` is called to find out whether their protocols are the reason;
it returns the losses. The comparison covers operation, key, both images, column by column, and the effect of
statements, but not times or positions, which two producers may report differently.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

import msgspec

from relay.catalog import Catalog
from relay.codecs.losses import Loss
from relay.model.errors import DdlNotUnderstood
from relay.model.events import ABSENT, Cell, DdlKind, Op, Row, RowChange, SchemaChange, TableId, TableSchema
from relay.model.records import ConsumerRecord
from relay.mysql.ddl.tokens import tokenize

#: Changes of one key that wait on both sides before they are compared although the first ones differ.
_MUCH: Final = 32
_DDL: Final = "schema-change"
Cells = Mapping[str, Cell]
Key = tuple[str, ...]


class Change(msgspec.Struct, frozen=True):
    """A change in the form in which it is compared. Images omit absent columns.

    kind: The operation, or `schema-change`.
    json_columns: Columns whose texts are compared as JSON.
    key_columns: The row's key as known to this side; () if unknown.
    is_inferred: The types were inferred from the message.
    record, catalog: The source record, and the catalog before it.
    ddl: The text of a statement.
    words: The statement's tokens, regardless of quoting.
    meaning: The statement's effect; None if unknown.
    """

    kind: str
    table: TableId
    before: Cells | None
    after: Cells | None
    json_columns: frozenset[str]
    key_columns: tuple[str, ...]
    is_inferred: bool
    record: ConsumerRecord
    catalog: Catalog
    ddl: str = ""
    words: tuple[str, ...] = ()
    meaning: tuple[object, ...] | None = None

    @property
    def row(self) -> Cells:
        """The image with the key: the new row, or the old one of a delete."""
        return self.after if self.after is not None else self.before or {}


def changes_of(event: object, record: ConsumerRecord, catalog: Catalog) -> Iterator[Change]:
    """Yield the comparable changes of an event: none for events other than rows and statements.

    An update that changes the row's key becomes a delete and an insert, as some producers write it. Raises
    DecodeError for malformed values.
    """
    if isinstance(event, SchemaChange):
        description = event.ddl, _plain(event.ddl), _meaning(event)
        yield Change(_DDL, event.table, None, None, frozenset(), (), False, record, catalog, *description)
    if not isinstance(event, RowChange):
        return
    schema = event.schema
    before, after = _cells(schema, event.before), _cells(schema, event.after)
    key = schema.handle_key() or event.images.message_key_columns or ()

    def change(op: Op, before: Cells | None, after: Cells | None) -> Change:
        json_columns = frozenset(column.name for column in schema.columns if column.type.base == "json")
        return Change(
            op.value, schema.id, before, after, json_columns, key, not schema.complete, record, catalog
        )

    if event.op is Op.UPDATE and before and after and _moves(before, after, key):
        yield change(Op.DELETE, before, None)
        yield change(Op.INSERT, None, after)
    else:
        yield change(event.op, before, after)


#: Statements that the names of tables describe completely, except for charsets.
_DESCRIBED_BY_TABLES: Final = frozenset(
    {
        DdlKind.CREATE_DATABASE,
        DdlKind.DROP_DATABASE,
        DdlKind.DROP_TABLE,
        DdlKind.TRUNCATE_TABLE,
        DdlKind.RENAME_TABLE,
        DdlKind.DROP_VIEW,
    }
)
#: Statements that the resulting definitions describe completely.
_DESCRIBED_BY_DEFINITIONS: Final = _DESCRIBED_BY_TABLES | {
    DdlKind.CREATE_TABLE,
    DdlKind.ADD_COLUMN,
    DdlKind.DROP_COLUMN,
    DdlKind.MODIFY_COLUMN,
    DdlKind.RENAME_COLUMN,
    DdlKind.SET_DEFAULT,
    DdlKind.ADD_INDEX,
    DdlKind.DROP_INDEX,
    DdlKind.RENAME_INDEX,
    DdlKind.ADD_PRIMARY_KEY,
    DdlKind.DROP_PRIMARY_KEY,
    DdlKind.TABLE_COMMENT,
}


def _plain(ddl: str) -> tuple[str, ...]:
    """Return the tokens of a statement without differences between servers in letter case, quotes and `=`."""
    try:
        tokens = tokenize(ddl, backslash_escapes=True)
    except DdlNotUnderstood:
        return tuple(ddl.strip(" \t\r\n;").split())
    return tuple(
        token.text.upper() if token.kind in {"word", "name"} else token.text
        for token in tokens
        if token.text not in {";", "="}
    )


def _meaning(event: SchemaChange) -> tuple[object, ...] | None:
    """Return the effect of a statement, with the resulting definitions of its tables.

    None if these do not describe it completely.
    """
    kinds = frozenset(event.kinds)
    if not kinds or not kinds <= (_DESCRIBED_BY_DEFINITIONS if event.definitions else _DESCRIBED_BY_TABLES):
        return None
    return event.kinds, event.targets, event.renamed, [_shape(schema) for schema in event.definitions]


def _shape(schema: TableSchema) -> tuple[object, ...]:
    """Return a definition without charsets, which not every protocol carries."""
    columns = [
        (
            column.name,
            msgspec.structs.replace(column.type, charset=None, collation=None),
            column.nullable is False,
            column.default,
            column.comment or "",
        )
        for column in schema.columns
    ]
    keys = sorted([(key.name, key.columns, is_unique) for key, is_unique in schema.ordered_keys()])
    return schema.id, schema.primary_key, columns, keys, schema.comment or ""


def _cells(schema: TableSchema, row: Row | None) -> Cells | None:
    if row is None:
        return None
    return {column.name: cell for column, cell in zip(schema.columns, row, strict=True) if cell is not ABSENT}


def _moves(before: Cells, after: Cells, key: Sequence[str]) -> bool:
    return any(name in before and name in after and before[name] != after[name] for name in key)


def differing(one: Change, other: Change) -> list[str]:
    """Return the differences: `operation`, `before`, `after`, `statement`, or names of columns.

    `before` and `after` mean an image that one side lacks.
    """
    if one.kind != other.kind:
        return ["operation"]
    if one.words != other.words and (one.meaning is None or one.meaning != other.meaning):
        return ["statement"]
    found: dict[str, None] = {}
    for name in ("before", "after"):
        mine, others = getattr(one, name), getattr(other, name)
        if (mine is None) != (others is None):
            found[name] = None
        elif mine is not None and mine != others:
            is_json = one.json_columns | other.json_columns
            found |= dict.fromkeys(_columns(mine, others, is_json))
        elif mine is not None:
            # Numbers of different types may be equal: 1.0 and 1.00, 1 and True.
            found |= dict.fromkeys(each for each in mine if _form(mine[each]) != _form(others[each]))
    return list(found)


def _columns(one: Cells, other: Cells, is_json: frozenset[str]) -> Iterator[str]:
    for name in dict.fromkeys([*one, *other]):
        if (
            name not in one
            or name not in other
            or (
                _form(one[name]) != _form(other[name])
                and not (name in is_json and _same_json(one[name], other[name]))
            )
        ):
            yield name


def _form(cell: Cell) -> object:
    if isinstance(cell, Decimal):
        return "decimal", format(cell, "f")
    return type(cell).__name__, repr(cell) if isinstance(cell, float) else cell


def _same_json(one: Cell, other: Cell) -> bool:
    """Return whether two texts are the same JSON: servers print it with and without blanks."""
    if not (isinstance(one, str) and isinstance(other, str)):
        return False
    try:
        return bool(_typed(_document(one)) == _typed(_document(other)))
    except (ValueError, RecursionError):
        return False


def _typed(value: Any) -> object:  # noqa: ANN401 - any JSON
    """Return a document in which true is not 1, nor 1 the DOUBLE 1.0: MySQL distinguishes them."""
    if isinstance(value, dict):
        return {name: _typed(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_typed(each) for each in value]
    return type(value), value


#: Reads JSON without rounding its numbers.
_document: Final = json.JSONDecoder(parse_float=Decimal).decode


#: Returns the losses of the protocols that explain why two changes differ, or (None as the second) why the
#: other side lacks one; None if they do not explain it. `side`: the first change's.
Explain = Callable[[Change, Change | None, int], Counter[Loss] | None]


class Difference(NamedTuple):
    """Two changes that differ, or one that only one side has (None for the other)."""

    changes: tuple[Change | None, Change | None]
    what: tuple[str, ...]


class _Pending:
    """The waiting changes of a key, of both sides. `is_stuck`: the first ones of both differ."""

    __slots__ = ("is_stuck", "sides")

    def __init__(self) -> None:
        self.sides: tuple[deque[Change], deque[Change]] = deque(), deque()
        self.is_stuck = False


class Comparison:
    """Compares two sides; see the module.

    `keys`: key columns of some tables, overriding those of the sides. `most`: maximum number of differences
    kept as examples.
    """

    def __init__(
        self, explain: Explain, window: int, most: int, keys: Mapping[TableId, tuple[str, ...]] | None = None
    ) -> None:
        self._explain, self._window, self._most = explain, window, most
        self._keys = dict(keys or {})
        self._pending: dict[tuple[TableId, Key | None], _Pending] = {}
        #: How many changes wait for one of the other side.
        self.waiting = 0
        self.equal = 0
        #: Pairs whose difference, and changes whose absence, the protocols explain; the losses by kind.
        self.explained = 0
        self.losses: Counter[Loss] = Counter()
        #: By table: pairs that differ, and changes on one side only.
        self.different: Counter[TableId] = Counter()
        self.only: tuple[Counter[TableId], Counter[TableId]] = Counter(), Counter()
        self.examples: list[Difference] = []

    @property
    def is_equal(self) -> bool:
        """Whether the protocols explain all differences."""
        return not (self.different or any(self.only))

    def add(self, change: Change, side: int) -> None:
        """Add a change of a side, 0 or 1."""
        table = change.table
        if table not in self._keys and change.key_columns:
            self._keys[table] = change.key_columns
            self._enqueue_again(table)
        self._enqueue(change, side)
        if self.waiting > self._window:
            self._resolve_oldest()

    def finish(self) -> None:
        """Resolve all changes that still wait."""
        while self._pending:
            self._resolve(next(iter(self._pending)))

    def _enqueue(self, change: Change, side: int) -> None:
        key = change.table, self._key_of(change)
        pending = self._pending.setdefault(key, _Pending())
        pending.sides[side].append(change)
        self.waiting += 1
        self._match(pending)
        if not any(pending.sides):
            del self._pending[key]
        elif pending.is_stuck and min(map(len, pending.sides)) >= _MUCH:
            self._resolve(key, is_end=False)

    def _enqueue_again(self, table: TableId) -> None:
        """Assign keys to a table's changes that arrived before its key was known."""
        pending = self._pending.pop((table, None), None)
        for side in (0, 1) if pending is not None else ():
            for change in pending.sides[side] if pending is not None else ():
                self.waiting -= 1
                self._enqueue(change, side)

    def _key_of(self, change: Change) -> Key | None:
        names, row = self._keys.get(change.table, ()), change.row
        if not names or any(name not in row for name in names):
            return None
        return tuple([_key_text(row[name]) for name in names])

    def _match(self, pending: _Pending) -> None:
        """Remove the first changes of both sides while they agree."""
        left, right = pending.sides
        while left and right and not pending.is_stuck:
            for one, other in ((left, right), (right, left)):
                if one[0].kind == "update" and other[0].kind == "delete":
                    if len(other) < 2:
                        return
                    self.waiting += _split(one, other)
            if not self._agree(left[0], right[0]):
                pending.is_stuck = True
                return
            left.popleft()
            right.popleft()
            self.waiting -= 2

    def _agree(self, one: Change, other: Change) -> bool:
        """Count a pair and return True if it is equal, or if the protocols explain its difference."""
        if not differing(one, other):
            self.equal += 1
            return True
        losses = self._explain(one, other, 0)
        if losses is None:
            return False
        self.explained += 1
        self.losses += losses
        return True

    def _resolve_oldest(self) -> None:
        """Resolve the changes that have waited longest."""
        while self.waiting > self._window // 2 and self._pending:
            self._resolve(next(iter(self._pending)))

    def _resolve(self, key: tuple[TableId, Key | None], *, is_end: bool = True) -> None:
        """Count the waiting changes of a key, aligned at the points where both sides agree.

        Unless `is_end`, changes after the last such point continue to wait.
        """
        pending = self._pending.pop(key)
        left, right = map(list, pending.sides)
        self.waiting -= len(left) + len(right)
        common = _common(left, right, self._may_agree)
        at_left = at_right = 0
        for left_at, right_at in common:
            self._differ(left[at_left:left_at], right[at_right:right_at])
            self._agree(left[left_at], right[right_at])
            at_left, at_right = left_at + 1, right_at + 1
        rest = left[at_left:], right[at_right:]
        if is_end or not common:
            self._differ(*rest)
        elif any(rest):
            pending.sides, pending.is_stuck = (deque(rest[0]), deque(rest[1])), all(rest)
            self._pending[key] = pending
            self.waiting += sum(map(len, rest))

    def _may_agree(self, one: Change, other: Change) -> bool:
        return not differing(one, other) or self._explain(one, other, 0) is not None

    def _differ(self, left: Sequence[Change], right: Sequence[Change]) -> None:
        """Count changes without any agreement: as different pairs, and then as changes on one side only."""
        for one, other in zip(left, right, strict=False):
            self.different[one.table] += 1
            self._keep(Difference((one, other), tuple(differing(one, other))))
        paired = min(len(left), len(right))
        for side, rest in enumerate((left[paired:], right[paired:])):
            for change in rest:
                self._lack(change, side)

    def _lack(self, change: Change, side: int) -> None:
        losses = self._explain(change, None, side)
        if losses is not None:
            self.explained += 1
            self.losses += losses
            return
        self.only[side][change.table] += 1
        self._keep(Difference((None, change) if side else (change, None), ()))

    def _keep(self, difference: Difference) -> None:
        if len(self.examples) < self._most:
            self.examples.append(difference)


def _split(one: deque[Change], other: deque[Change]) -> int:
    """Split the first change, an update, into a delete and an insert if the other side begins with these.

    Return the number of additional changes. Some producers write an update of a unique key so.
    """
    if other[1].kind != "insert" or one[0].before is None:
        return 0
    update = one.popleft()
    one.appendleft(msgspec.structs.replace(update, kind="insert", before=None))
    one.appendleft(msgspec.structs.replace(update, kind="delete", after=None))
    return 1


def _key_text(cell: Cell) -> str:
    """Return a key's cell in a form that is the same in every protocol."""
    if isinstance(cell, bytes):
        try:
            return cell.decode()
        except UnicodeDecodeError:
            return cell.hex()
    return format(cell, "f") if isinstance(cell, Decimal) else str(cell)


def _common(
    left: Sequence[Change], right: Sequence[Change], agree: Callable[[Change, Change], bool]
) -> list[tuple[int, int]]:
    """Return the index pairs of a longest common subsequence. Long sequences are compared only by index."""
    if len(left) * len(right) > _MOST_PAIRS:
        return [(at, at) for at in range(min(len(left), len(right))) if agree(left[at], right[at])]
    same = [[agree(one, other) for other in right] for one in left]
    longest = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i in reversed(range(len(left))):
        for j in reversed(range(len(right))):
            if same[i][j]:
                longest[i][j] = longest[i + 1][j + 1] + 1
            else:
                longest[i][j] = max(longest[i + 1][j], longest[i][j + 1])
    found, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        if same[i][j]:
            found.append((i, j))
            i, j = i + 1, j + 1
        elif longest[i + 1][j] >= longest[i][j + 1]:
            i += 1
        else:
            j += 1
    return found


#: Maximum pairs of changes of one key that are compared with one another.
_MOST_PAIRS: Final = 10_000
