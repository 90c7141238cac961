"""The schema catalogue: which definition a table had when a row changed. It learns from the stream's own DDL.

Contract: a `Catalog` is a value; `learn` gives a new one and never raises. Every table has a history of
versions, newest first, each with the position of the statement that made it. A row sees the newest version
whose statement strictly precedes it. A version also keeps its cause. So a statement that arrives late (from
another partition or topic) takes its place in the order of positions, and what was derived from the older
definition is derived again. The same statement seen twice (broadcast to all partitions, or replayed) is
recognised by the identity that its versions carry. Where a definition cannot be known (a table made by a
query, an ALTER that does not fit) the table is unknown rather than wrong.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar, overload

import msgspec

from relay.errors import DdlNotUnderstood
from relay.limits import DEFAULT_LIMITS, MYSQL_COLUMNS, Budget, Limits, exceeded
from relay.model import (
    Bootstrap,
    Column,
    ColumnType,
    DdlKind,
    Position,
    RenamedTable,
    SchemaChange,
    Source,
    TableId,
    TableSchema,
)
from relay.mysql.ddl import alter_table, define_table, read_ddl
from relay.mysql.ddl.default_database import default_databases
from relay.mysql.ddl.statements import (
    AddColumn,
    AlterDatabase,
    AlterTable,
    Change,
    CreateDatabase,
    CreateTable,
    CreateTableAs,
    CreateTableLike,
    Ddl,
    DropDatabase,
    DropTables,
    OtherChange,
    OtherStatement,
    RecoverTable,
    RenameTables,
    RenameTo,
    Statement,
    TableName,
    TruncateTable,
)

#: Versions kept of one table, unless a catalogue says otherwise. Rows and repeats that are older than the
#: oldest of so many find no definition and change nothing.
HISTORY_LIMIT: Final = 256

#: Columns and changes of columns that are kept of one table, all versions together, for each version of the
#: limit above; each takes some hundred bytes.
_PARTS_A_VERSION: Final = 256

_Identity = tuple[int | str | bytes, ...]


class _Define(msgspec.Struct, frozen=True, gc=False):
    """CREATE TABLE; None if the columns are unknown."""

    schema: TableSchema | None
    if_absent: bool = False


class _Alter(msgspec.Struct, frozen=True, gc=False):
    changes: tuple[Change, ...]


class _Copy(msgspec.Struct, frozen=True, gc=False):
    """The definition of another table: under its new name, or CREATE TABLE … LIKE."""

    source: TableId
    if_absent: bool = False


class _CopiedTo(msgspec.Struct, frozen=True, gc=False):
    """The other end of a copy; `is_moved` if the table has this name no more."""

    target: TableId
    is_moved: bool


class _Drop(msgspec.Struct, frozen=True, gc=False):
    pass


class _DropView(msgspec.Struct, frozen=True, gc=False):
    """A base table of that name stays: MySQL and TiDB pass over it, with IF EXISTS."""


class _Recover(msgspec.Struct, frozen=True, gc=False):
    source: TableId


_Effect = _Define | _Alter | _Copy | _CopiedTo | _Drop | _DropView | _Recover


class _Version(msgspec.Struct, frozen=True):
    """A table as left by a statement. `is_gone`: known not to exist; else a `schema` of None: unknown."""

    at: Position
    schema: TableSchema | None
    is_gone: bool
    effect: _Effect
    identity: _Identity


_History = tuple[_Version, ...]
_Value = TypeVar("_Value")
_Default = TypeVar("_Default")


class Layered(Mapping[str, _Value]):
    """A dict that never changes, of which a changed copy costs little however large it is.

    A copy shares the lower layer and has its own small upper one; when that has grown, the two become one.
    """

    def __init__(
        self, lower: dict[str, _Value] | None = None, upper: dict[str, _Value] | None = None
    ) -> None:
        self._lower, self._upper = lower or {}, upper or {}

    def with_one(self, key: str, value: _Value) -> Layered[_Value]:
        """Return a copy with this value."""
        upper = {**self._upper, key: value}
        if len(upper) * len(upper) > len(self._lower):
            return Layered({**self._lower, **upper})
        return Layered(self._lower, upper)

    @overload
    def get(self, key: str, /) -> _Value | None: ...

    @overload
    def get(self, key: str, /, default: _Default) -> _Value | _Default: ...

    def get(self, key: str, /, default: object = None) -> object:
        """Return the value, or the default."""
        found = self._upper.get(key)
        return self._lower.get(key, default) if found is None else found

    def differing(self, other: Layered[_Value]) -> list[str]:
        """Find the keys of which one of the two has no value, or another object. That costs little where one
        was made of the other by a few changes.
        """
        keys = self._upper.keys() | other._upper.keys()
        if self._lower is not other._lower:
            keys |= self._lower.keys() | other._lower.keys()
        return [key for key in keys if self.get(key) is not other.get(key)]

    def __getitem__(self, key: str) -> _Value:
        return self._upper[key] if key in self._upper else self._lower[key]

    def __iter__(self) -> Iterator[str]:
        yield from self._lower
        yield from (key for key in self._upper if key not in self._lower)

    def __len__(self) -> int:
        return len(self._lower.keys() | self._upper.keys())

    def __bool__(self) -> bool:
        # Asked for every row: without a count of all keys.
        return bool(self._upper or self._lower)

    def __repr__(self) -> str:
        return repr(dict(self))


_NO_TABLES: Final = Layered[_History]()


class Standing(NamedTuple):
    """The definition that a row has by its position. `at`: where the statement stands that made it, None if
    no statement precedes the row; `later`: where those stand that do not precede it.
    """

    at: Position | None
    schema: TableSchema | None
    later: Sequence[Position]


class Catalog(msgspec.Struct, frozen=True):
    """All tables' definitions, by database and table, as told by the stream. Immutable; may be pickled.

    `limit`: versions kept of one table. Who has read all DDL of a topic before its first row needs them all.
    `limits`: what a statement may cost.
    """

    histories: Layered[Layered[_History]] = msgspec.field(default_factory=Layered)
    limit: int = HISTORY_LIMIT
    limits: Limits = DEFAULT_LIMITS

    def table(self, id: TableId, at: Position) -> TableSchema | None:
        """The definition that a row at this position has; None if the table is unknown or dropped."""
        tables = self.histories.get(id.database)
        if tables is not None:
            for version in tables.get(id.table, ()):
                if version.at.precedes(at):
                    return version.schema
        return None

    def of_moment(self, id: TableId, at: Position) -> TableSchema | None:
        """The definition that a statement at this very moment has made, of a table that `table` does not know
        there: between partitions, nothing tells which of the two came first. None if there is none.
        """
        for version in self._history(id):
            if version.at.precedes(at):
                break
            if version.schema is not None and not at.precedes(version.at):
                return version.schema
        return None

    def has(self, id: TableId, at: Position) -> bool:
        """Whether a table of exactly this name is known to exist before this position, not only later."""
        history = self._history(id)
        return next((not version.is_gone for version in history if version.at.precedes(at)), False)

    def tables(self, topic: str, at: Position) -> Iterator[TableId]:
        """Find the tables, without views, that statements of this source topic have made, and that exist
        before this position.
        """
        for database, tables in self.histories.items():
            for table, history in tables.items():
                version = next((each for each in history if each.at.precedes(at)), None)
                if version is None or version.is_gone or version.at.topic != topic:
                    continue
                if version.schema is None or not version.schema.is_view:
                    yield TableId(database, table)

    @property
    def versions(self) -> int:
        """How many versions of tables it holds."""
        return sum([len(history) for tables in self.histories.values() for history in tables.values()])

    def changed_since(self, earlier: Catalog) -> list[TableId]:
        """Find the tables of which an earlier catalogue may say something else."""
        found: list[TableId] = []
        for database in self.histories.differing(earlier.histories):
            tables, others = (each.histories.get(database, _NO_TABLES) for each in (self, earlier))
            found += [TableId(database, table) for table in tables.differing(others)]
        return found

    def newest(self, id: TableId) -> tuple[Position | None, TableSchema | None]:
        """The newest definition and the position of its statement: what every row behind that position has.

        The position is None if no statement about the table is known.
        """
        history = self._history(id)
        return (history[0].at, history[0].schema) if history else (None, None)

    def standing(self, id: TableId, at: Position) -> Standing:
        """Return the definition that a row at this position has, and the statements before and behind it."""
        later: list[Position] = []
        for version in self._history(id):
            if version.at.precedes(at):
                return Standing(version.at, version.schema, later)
            later.append(version.at)
        return Standing(None, None, later)

    def definitions(self, id: TableId) -> Iterator[TableSchema]:
        """Give the definitions that a table has had, whatever their positions, the newest first."""
        for version in self._history(id):
            if version.schema is not None:
                yield version.schema

    def dropped(self, id: TableId, at: Position) -> TableSchema | None:
        """What a table that is dropped at this position was before; None if it is not, or nobody knows."""
        history = self._history(id)
        older = tuple(version for version in history if version.at.precedes(at))
        return _recovered(older) if older and isinstance(older[0].effect, _Drop) else None

    def _history(self, id: TableId) -> _History:
        tables = self.histories.get(id.database)
        return () if tables is None else tables.get(id.table, ())


class DdlMessage(msgspec.Struct, frozen=True):
    """A DDL statement as a message has it.

    `table` is what the envelope names (`table.table` may be ""). `wire_kind`, `emitted_at_ns`: as in
    `SchemaChange`. `is_restored`: the text is TiDB's own spelling (see `relay.mysql.ddl.reader`).
    `definitions`, `gone`: the tables that the message itself says to be so after the statement, or to be
    dropped; they count whatever the text says.
    """

    ddl: str
    table: TableId
    wire_kind: str
    source: Source
    at: Position
    emitted_at_ns: int
    is_restored: bool = False
    definitions: tuple[TableSchema, ...] = ()
    gone: tuple[TableId, ...] = ()


class DdlBudget:
    """What the statements of one record may still cost together: their number, and the columns that are gone
    through to alter tables, also again for the statements behind one that is late.
    """

    __slots__ = ("_columns", "statements")

    def __init__(self, limits: Limits) -> None:
        self.statements = Budget("ddl_statements", limits.ddl_statements)
        self._columns = _ALTERED_COLUMNS

    def altered(self, schema: TableSchema, changes: tuple[Change, ...]) -> TableSchema | None:
        """The definition after these changes; None, unknown, if they do not fit or too much was altered."""
        self._columns -= len(schema.columns) * (1 + len(changes) // _CHANGES_A_PASS)
        return None if self._columns < 0 else alter_table(schema, changes)


#: Columns that the statements of a record may go through. Double what one late statement takes, if all that
#: is kept of a table of the most columns comes behind it; some 0.5 µs each.
_ALTERED_COLUMNS: Final = 2 * HISTORY_LIMIT * MYSQL_COLUMNS
#: Looking so many columns up costs what going through all of them does, to take them apart and put together.
_CHANGES_A_PASS: Final = 16


def learn(
    catalog: Catalog, message: DdlMessage, budget: DdlBudget | None = None
) -> tuple[Catalog, SchemaChange]:
    """Apply a DDL statement as of its position; return the catalogue after it and the event.

    `budget`: of a record that may hold several messages; what they cost is taken from it.

    A text that is not understood gives an event without kinds; the table that it creates, alters, drops or
    renames is unknown from then on. Raises nothing but LimitExceeded.
    """
    ddl, table, at = message.ddl, message.table, message.at
    known = catalog
    statement = _read(message, catalog.limits)
    budget = budget or DdlBudget(catalog.limits)
    # A text that is not understood, or empty, is one, too.
    budget.statements.spend("ddl", "statement", "statements", max(len(statement.statements), 1))
    names = _Names(table, statement, known, at)
    identity = _identity(ddl, table, at)
    writer = _Writer(catalog, at, identity, budget)
    if not statement.statements and table.table and _CHANGES_A_TABLE(ddl):
        writer.record(table, _Define(None))  # an old definition might be a wrong one
    for part in statement.statements:
        if not _apply(writer, part, names):
            writer = _Writer(known, at, identity, budget)
            break
    for schema in message.definitions:
        writer.record(schema.id, _Define(schema))
    writer.drop(message.gone)
    catalog = writer.catalog()
    targets = tuple(dict.fromkeys(id_ for part in statement.statements for id_ in _targets_of(part, names)))
    about = _subject_of(table, targets, statement)
    after = _left_by(identity, catalog, about, at) if about.table else None
    told = dict.fromkeys([*targets, *(schema.id for schema in message.definitions)])
    known_after = [_left_by(identity, catalog, id_, at) for id_ in told]
    renamed = tuple(pair for part in statement.statements for pair in _renamed_by(part, names))
    named_before = dict.fromkeys([*(pair.old for pair in renamed), *targets])
    known_before = [known.table(id_, at) for id_ in named_before]
    event = SchemaChange(
        ddl=ddl,
        table=about,
        kinds=statement.kinds,
        wire_kind=message.wire_kind,
        source=message.source,
        emitted_at_ns=message.emitted_at_ns,
        targets=targets,
        renamed=renamed,
        after=None if after is None or after.is_view or DdlKind.DROP_VIEW in statement.kinds else after,
        definitions=tuple(schema for schema in known_after if schema is not None and not schema.is_view),
        known_before=tuple(schema for schema in known_before if schema is not None and not schema.is_view),
        views=_views(statement, targets, known, catalog, at, identity),
    )
    return catalog, event


def _read(message: DdlMessage, limits: Limits) -> Ddl:
    """Read the statement, one without parts if it is not understood. Raises LimitExceeded."""
    ddl = message.ddl
    if len(ddl) * _MOST_UTF8 > limits.ddl_bytes and len(ddl.encode(errors="replace")) > limits.ddl_bytes:
        raise exceeded("ddl", "statement", "bytes", "ddl_bytes", limits.ddl_bytes)
    read = _read_once if len(ddl) <= _LONGEST_REMEMBERED else read_ddl
    try:
        statement = read(
            ddl, backslash_escapes=not message.is_restored, most_statements=limits.ddl_statements
        )
    except DdlNotUnderstood:
        return Ddl((), ())
    for part in statement.statements:
        changes = part.changes if isinstance(part, CreateTable | AlterTable) else ()
        if len(changes) > limits.columns and sum(isinstance(c, AddColumn) for c in changes) > limits.columns:
            raise exceeded("ddl", "statement", "columns", "columns", limits.columns)
    return statement


#: TiCDC sends a statement once for each partition. What is remembered of one takes some 15 bytes for each of
#: its characters.
_LONGEST_REMEMBERED: Final = 2048
_read_once: Final = functools.lru_cache(maxsize=1024)(read_ddl)

#: Whether a text that is not understood may be about tables, by its first word behind comments. An atomic
#: group: see `relay.mysql.dumps`.
_CHANGES_A_TABLE: Final = re.compile(
    r"(?>(?:\s++|/\*!\d*+|/\*(?!!).*?\*/|(?:--|#)[^\n]*+\n)*)(?:ALTER|CREATE|DROP|RENAME)\b",
    re.IGNORECASE | re.DOTALL,
).match
#: Bytes of the longest character in UTF-8.
_MOST_UTF8: Final = 4


def define(catalog: Catalog, bootstrap: Bootstrap, at: Position) -> Catalog:
    """Apply a definition that came without a statement, as of its position; return the catalogue after it."""
    table = bootstrap.schema.id
    writer = _Writer(catalog, at, _identity("", table, at), DdlBudget(catalog.limits))
    writer.record(table, _Define(bootstrap.schema))
    return writer.catalog()


def _identity(ddl: str, table: TableId, at: Position) -> _Identity:
    """What is equal for copies of one statement. Parts of one RENAME share their commit ts, not the text.

    Versions keep it, so it has a digest of the text, which may be long.
    """
    stripped = ddl.strip(" \t\r\n;").encode(errors="surrogatepass")
    text = hashlib.blake2b(stripped, digest_size=16).digest() if stripped else b""
    if at.commit_ts is not None:
        return (at.commit_ts, table.database, table.table, text)
    if at.log is not None:
        return (*at.log, table.database, table.table, text)
    return (at.offset, at.partition, at.topic, table.database, table.table, text)


def left_by(catalog: Catalog, message: DdlMessage, table: TableId) -> TableSchema | None:
    """Return the definition that a statement, which was learnt, has left of a table."""
    return _left_by(_identity(message.ddl, message.table, message.at), catalog, table, message.at)


def _left_by(identity: _Identity, catalog: Catalog, table: TableId, at: Position) -> TableSchema | None:
    """Return the definition that a statement has left, whatever else was learnt at its position."""
    history = catalog._history(table)  # noqa: SLF001 - of this module
    own = next((version for version in history if version.identity == identity), None)
    return catalog.table(table, at) if own is None else own.schema


def _apply(writer: _Writer, statement: Statement, names: _Names) -> bool:
    """Record what a statement does. False if it cannot have happened here; nothing of it may then be kept."""
    match statement:
        case CreateTable() | CreateTableAs() | CreateTableLike():
            _apply_create(writer, statement, names)
        case DropTables(tables):
            writer.drop(dict.fromkeys(names(table) for table in tables if not names.is_doubtful(table)))
            _doubt(writer, tables, names)
        case AlterTable(table, changes):
            return _apply_alter(writer, table, changes, names)
        case RenameTables(pairs):
            return all(_move(writer, old, new, names) for old, new in pairs)
        case RecoverTable():
            old, new = names.recovered(statement)
            writer.record(new, _Recover(old))
        case DropDatabase(database):
            writer.drop_database(database)
        case OtherStatement():
            _apply_other(writer, statement, names)
    return True


def _doubt(writer: _Writer, tables: Iterable[TableName], names: _Names, *, is_made: bool = False) -> None:
    """Forget the definitions of all tables that doubtful names may mean. `is_made`: also where none was."""
    for table in dict.fromkeys(filter(names.is_doubtful, tables)):
        for possible in names.possible(table):
            if is_made or writer.has(possible):
                writer.record(possible, _Define(None))


def _apply_create(
    writer: _Writer, statement: CreateTable | CreateTableAs | CreateTableLike, names: _Names
) -> None:
    table, if_absent = names(statement.table), statement.if_not_exists
    if names.is_doubtful(statement.table):
        _doubt(writer, (statement.table,), names, is_made=True)
    elif isinstance(statement, CreateTable):
        writer.record(table, _Define(define_table(table, statement.changes), if_absent))
    elif isinstance(statement, CreateTableAs) or names.is_doubtful(statement.like):
        writer.record(table, _Define(None, if_absent))
    else:
        writer.copy(names(statement.like), table, if_absent=if_absent)


def _apply_other(writer: _Writer, statement: OtherStatement, names: _Names) -> None:
    """Of these statements only those about views change the catalogue."""
    if statement.kind not in {DdlKind.DROP_VIEW, DdlKind.CREATE_VIEW}:
        return
    is_made = statement.kind is DdlKind.CREATE_VIEW
    columns = [Column(name, ColumnType("unspecified"), nullable=True) for name in statement.columns or ()]
    for name in dict.fromkeys(statement.tables):
        if names.is_doubtful(name):
            _doubt(writer, (name,), names, is_made=is_made)
        elif is_made:
            view = TableSchema(names(name), tuple(columns), is_view=True)
            writer.record(view.id, _Define(view))
        else:
            writer.record(names(name), _DropView())


def _views(
    statement: Ddl,
    targets: tuple[TableId, ...],
    before: Catalog,
    after: Catalog,
    at: Position,
    identity: _Identity,
) -> tuple[TableSchema, ...]:
    """The views that a statement makes or renames, or those that it drops, as they were."""
    if DdlKind.DROP_VIEW in statement.kinds:
        found = [before.table(view, at) for view in targets]
    else:
        found = [_left_by(identity, after, view, at) for view in targets]
    return tuple(view for view in found if view is not None and view.is_view and view.columns)


def _apply_alter(writer: _Writer, table: TableName, changes: tuple[Change, ...], names: _Names) -> bool:
    shaping = tuple(change for change in changes if not isinstance(change, (OtherChange, RenameTo)))
    if shaping and not names.is_doubtful(table):
        writer.record(names(table), _Alter(shaping))
    elif shaping:
        _doubt(writer, (table,), names)
    return all(_move(writer, table, change.new, names) for change in changes if isinstance(change, RenameTo))


def _move(writer: _Writer, old: TableName, new: TableName, names: _Names) -> bool:
    """Rename a table, as `_Writer.move`. What was a doubtful one has an unknown definition."""
    if not names.is_doubtful(old) and not names.is_doubtful(new):
        return writer.move(names(old), names(new))
    if names.is_doubtful(old):
        _doubt(writer, (old,), names)
    else:
        writer.drop((names(old),))
    if names.is_doubtful(new):
        _doubt(writer, (new,), names, is_made=True)
    else:
        writer.record(names(new), _Define(None))
    return True


class _Writer:
    """Builds the catalogue after one statement, copying only what the statement touches."""

    def __init__(self, catalog: Catalog, at: Position, identity: _Identity, budget: DdlBudget) -> None:
        self._before, self._at, self._identity, self._budget = catalog, at, identity, budget
        self._histories = catalog.histories
        #: Databases that this text has dropped, and touched no more.
        self._dropped: set[str] = set()

    def catalog(self) -> Catalog:
        """The catalogue after the statement; the same object if nothing has changed."""
        if self._histories is self._before.histories:
            return self._before
        return msgspec.structs.replace(self._before, histories=self._histories)

    def record(self, table: TableId, effect: _Effect) -> None:
        """Give the table a version, in order of position, unless this very statement has given it before."""
        if self._is_repeated(table):
            return
        self._dropped.discard(table.database)
        history = self._history(table)
        place = 0
        while place < len(history) and self._at.precedes(history[place].at):
            place += 1
        if place == len(history) >= self._before.limit:
            return
        version = self._version(table, history[place:], self._at, effect, self._identity)
        copies = self._redo(table, history[:place], (version, *history[place:]))
        done: set[tuple[TableId, _Identity]] = set()
        while copies:
            target, identity = copies.pop(0)
            # A copy goes forward in time; only positions that contradict one another could lead here twice.
            if (target, identity) not in done:
                done.add((target, identity))
                copies += self._redo_copy(target, identity)

    def copy(
        self, source: TableId, target: TableId, *, if_absent: bool = False, is_moved: bool = False
    ) -> None:
        """Give `target` the definition of `source`, and note at `source` where it went."""
        if source != target:
            self.record(target, _Copy(source, if_absent))
            self.record(source, _CopiedTo(target, is_moved))

    def move(self, old: TableId, new: TableId) -> bool:
        """Rename a table. False if there is no such table: then the statement is a repeat.

        Maxwell sends `RENAME TABLE a TO x, b TO a` once for each pair with the whole text, at offsets of
        their own.
        """
        if self._at.commit_ts is None and not self._is_repeated(old) and self._state(self._history(old))[1]:
            return False
        self.copy(old, new, is_moved=True)
        return True

    def drop(self, tables: Iterable[TableId]) -> None:
        """Drop tables."""
        for table in tables:
            self.record(table, _Drop())

    def drop_database(self, database: str) -> None:
        """Drop all tables, and note it at the database itself for tables that turn up late."""
        if database in self._dropped:
            return
        for table in {*self._histories.get(database, ()), ""}:
            self.record(TableId(database, table), _Drop())
        self._dropped.add(database)

    def has(self, table: TableId) -> bool:
        """Whether a table of exactly this name is known to exist at this point of the statement."""
        history = self._history(table)
        return bool(history) and not self._state(history)[1]

    def _is_repeated(self, table: TableId) -> bool:
        """Whether the catalogue had this statement before: its own earlier effects do not count."""
        history = self._before._history(table)  # noqa: SLF001 - of this module
        return any(version.identity == self._identity for version in history)

    def _history(self, table: TableId) -> _History:
        tables = self._histories.get(table.database)
        if tables is None:
            return ()
        found = tables.get(table.table)
        return tables.get("", ()) if found is None else found

    def _state(self, history: _History) -> tuple[TableSchema | None, bool]:
        """The schema, and whether the table is gone, at this statement's position."""
        found = next((version for version in history if not self._at.precedes(version.at)), None)
        return (None, False) if found is None else (found.schema, found.is_gone)

    def _redo(self, table: TableId, newer: _History, older: _History) -> list[tuple[TableId, _Identity]]:
        """Put the newer versions on top of the older ones, derived again. Return the copies made of them."""
        copies = []
        for version in reversed(newer):
            older = (self._version(table, older, version.at, version.effect, version.identity), *older)
            if isinstance(version.effect, _CopiedTo):
                copies.append((version.effect.target, version.identity))
        tables = self._histories.get(table.database, _NO_TABLES)
        kept = _newest_parts(older[: self._before.limit], self._before.limit * _PARTS_A_VERSION)
        self._histories = self._histories.with_one(table.database, tables.with_one(table.table, kept))
        return copies

    def _redo_copy(self, target: TableId, identity: _Identity) -> list[tuple[TableId, _Identity]]:
        """Derive again the copy that this statement made, and what follows from it."""
        history = self._history(target)
        for place, version in enumerate(history):
            if version.identity == identity and isinstance(version.effect, _Copy):
                return self._redo(target, history[: place + 1], history[place + 1 :])
        return []

    def _version(
        self, table: TableId, older: _History, at: Position, effect: _Effect, identity: _Identity
    ) -> _Version:
        schema, is_gone = (older[0].schema, older[0].is_gone) if older else (None, False)
        exists = bool(older) and not is_gone
        match effect:
            case _Define(defined, if_absent):
                if not (if_absent and exists):
                    schema, is_gone = defined, False
            case _Alter(changes):
                schema, is_gone = None if schema is None else self._budget.altered(schema, changes), False
            case _Copy(source, if_absent):
                if not (if_absent and exists):
                    schema, is_gone = self._copied(source, table, identity), False
            case _Recover(source):
                schema, is_gone = _recovered(older if source == table else self._history(source)), False
            case _CopiedTo(_, is_moved):
                schema, is_gone = (None, True) if is_moved else (schema, is_gone)
            case _Drop() | _DropView():
                schema, is_gone = _dropped(effect, schema, is_gone=is_gone)
        if schema is not None and schema.id != table:
            schema = msgspec.structs.replace(schema, id=table)
        return _Version(at, schema, is_gone, effect, identity)

    def _copied(self, source: TableId, target: TableId, identity: _Identity) -> TableSchema | None:
        """Return the source's definition just before its copy was made; as of now if that is to come."""
        history = self._history(source)
        for place, version in enumerate(history):
            if (
                version.identity == identity
                and isinstance(version.effect, _CopiedTo)
                and version.effect.target == target
            ):
                return history[place + 1].schema if place + 1 < len(history) else None
        return self._state(history)[0]


def _newest_parts(history: _History, most: int) -> _History:
    """Return the newest versions that have no more than so many columns and changes together, or the newest
    one.
    """
    for count, version in enumerate(history):
        effect = version.effect
        most -= 1
        if isinstance(effect, _Alter):
            most -= len(effect.changes)
        elif isinstance(effect, _Define) and effect.schema is not None:
            most -= len(effect.schema.columns)
        if most < 0 and count:
            return history[:count]
    return history


def _dropped(
    effect: _Drop | _DropView, schema: TableSchema | None, *, is_gone: bool
) -> tuple[TableSchema | None, bool]:
    is_kept = isinstance(effect, _DropView) and (schema is None or not schema.is_view)
    return (schema, is_gone) if is_kept else (None, True)


def _recovered(history: _History) -> TableSchema | None:
    """The definition before the newest DROP; the present one if there is none (after TRUNCATE)."""
    for place, version in enumerate(history):
        if isinstance(version.effect, _Drop):
            return history[place + 1].schema if place + 1 < len(history) else None
    return history[0].schema if history else None


class _Names:
    """Full names of tables in a statement whose envelope names `table`, by what was `known` before it."""

    def __init__(self, table: TableId, statement: Ddl, known: Catalog, at: Position) -> None:
        self._table, self._known, self._at = table, known, at
        self._folded = (table.database.lower(), table.table.lower())
        self._databases = default_databases(statement.statements, table, known.histories, self._exists)

    def _exists(self, table: TableId) -> bool:
        return self._known.has(table, self._at)

    def is_doubtful(self, name: TableName) -> bool:
        """Whether several databases have what this name may mean."""
        return name.database is None and len(self._databases) > 1

    def possible(self, name: TableName) -> list[TableId]:
        """All that a doubtful name may mean."""
        return [TableId(database, name.table) for database in self._databases]

    def __call__(self, name: TableName) -> TableId:
        """The full name; where it is doubtful, in the envelope's database.

        TiDB compares names without case, and the envelope has the one that rows will have. A table that
        exists by exactly this name is meant by it: MySQL may tell `t` and `T` apart.
        """
        is_clear = len(self._databases) == 1
        found = name.within(self._databases[0] if is_clear else self._table.database)
        is_envelopes = (found.database.lower(), found.table.lower()) == self._folded
        return self._table if is_envelopes and not self._exists(found) else found

    def recovered(self, statement: RecoverTable) -> tuple[TableId, TableId]:
        """The name that the table had and the name that it gets. BY JOB names none, but the envelope does."""
        old = self._table if statement.table is None else self(statement.table)
        return old, old if statement.new is None else self(statement.new)


def _subject_of(table: TableId, targets: tuple[TableId, ...], statement: Ddl) -> TableId:
    """The event's table: the envelope's if the statement is about it, else the first target or a database."""
    if targets:
        # Canal's envelope may have the old name of a rename, or `a,` out of a list of tables.
        return table if table in targets else targets[0]
    for part in statement.statements:
        if isinstance(part, (CreateDatabase, DropDatabase, AlterDatabase)):
            return TableId(part.database or table.database, "")
    return table


def _targets_of(statement: Statement, names: _Names) -> Iterator[TableId]:
    """The tables that a part of a statement is about, by their names after it."""
    match statement:
        case DropTables(tables) | OtherStatement(_, tables):
            yield from map(names, tables)
        case RenameTables(pairs):
            yield from (names(new) for _, new in pairs)
        case AlterTable(table, changes):
            yield from (names(change.new) for change in changes if isinstance(change, RenameTo))
            if not any(isinstance(change, RenameTo) for change in changes):
                yield names(table)
            yield from (
                names(change.table) for change in changes if isinstance(change, OtherChange) and change.table
            )
        case RecoverTable():
            yield names.recovered(statement)[1]
        case CreateTable() | CreateTableLike() | CreateTableAs() | TruncateTable():
            yield names(statement.table)


def _renamed_by(statement: Statement, names: _Names) -> Iterator[RenamedTable]:
    """The pairs that a part of a statement renames."""
    if isinstance(statement, RenameTables):
        yield from (RenamedTable(names(old), names(new)) for old, new in statement.pairs)
    elif isinstance(statement, AlterTable):
        old = names(statement.table)
        yield from (
            RenamedTable(old, names(change.new))
            for change in statement.changes
            if isinstance(change, RenameTo)
        )
