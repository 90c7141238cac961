"""Applies the changes of a statement to a table's definition.

`define_table` and `alter_table` are pure and never raise; a change that does not fit the definition yields
None, because no definition is better than a wrong one. All changes of one ALTER TABLE refer to the columns
before it (MySQL can swap two columns in one statement), so keys refer to column objects here and get their
column names at the end. Column and index names are compared case-insensitively, as the server does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from relay.model.events import ABSENT, Column, ColumnType, Default, Index, TableId, TableSchema, UniqueKey
from relay.model.limits import MYSQL_COLUMNS
from relay.mysql.charsets import CHARSET, full_collation
from relay.mysql.ddl.columns import bits_text
from relay.mysql.ddl.statements import (
    AddColumn,
    AddForeignKey,
    AddIndex,
    AddPeriod,
    AddPrimaryKey,
    Bits,
    Change,
    ColumnDefinition,
    DropColumn,
    DropIndex,
    DropPrimaryKey,
    ModifyColumn,
    RenameColumn,
    RenameIndex,
    SetDefault,
    TableCharset,
    TableComment,
)
from relay.mysql.types import BINARIES, CHARS, INTEGERS, parse_type

#: Maximum bytes of a character, for charsets where it is not 1 (MySQL: SHOW CHARACTER SET).
_CHARACTER_BYTES: Final = {
    "utf8mb4": 4, "utf8": 3, "utf8mb3": 3, "gbk": 2, "gb2312": 2, "gb18030": 4, "big5": 2, "sjis": 2,
    "cp932": 2, "euckr": 2, "ujis": 3, "eucjpms": 3, "ucs2": 2, "utf16": 4, "utf16le": 4, "utf32": 4,
}  # fmt: skip
#: Maximum changes of a statement: a table has at most 4096 columns and 64 keys (TiDB: up to 512), and real
#: statements change its charset only a few times.
_CHANGES: Final = 5000
_INDEXES: Final = 512
_CHARSETS: Final = 16
#: Maximum bytes of a VARCHAR.
_VARCHAR_BYTES: Final = 65_535
#: The four sizes of TEXT and BLOB by their maximum number of bytes.
_SIZES: Final = (("tiny", 2**8 - 1), ("", 2**16 - 1), ("medium", 2**24 - 1), ("long", 2**32 - 1))


class _Inconsistent(Exception):
    """A change does not fit the definition."""


class _Slot(msgspec.Struct, eq=False, gc=False):
    """A column during ALTER TABLE. `old`, `name`: its lower-case name before the statement ("" for a new
    column) and now.

    Every statement creates one for each column of its table, so it is a struct, which costs a quarter of an
    ordinary object.
    """

    old: str
    name: str
    column: Column

    def become(self, column: Column) -> None:
        """Replace the definition, which may have another name."""
        self.name, self.column = column.name.lower(), column


class _Key:
    """A secondary index during ALTER TABLE. `old`: its lower-case name before the statement, "" for a new
    one.
    """

    def __init__(
        self, name: str, slots: list[_Slot], *, is_unique: bool = False, is_implied: bool = False
    ) -> None:
        self.slots, self.is_unique, self.is_implied = slots, is_unique, is_implied
        self.old = ""
        self.become(name)

    def become(self, name: str) -> None:
        """Change the name."""
        self.name, self.lower = name, name.lower()

    def columns(self) -> tuple[str, ...]:
        return tuple(slot.column.name for slot in self.slots)


def define_table(
    table: TableId, changes: tuple[Change, ...], charset: str | None = None, collation: str | None = None
) -> TableSchema | None:
    """Return the definition from CREATE TABLE in a database with this default charset and collation; None if
    it contradicts itself.
    """
    charset = charset or charset_of(collation)
    empty = TableSchema(table, (), primary_key=(), charset=charset, collation=collation)
    schema = alter_table(empty, changes)
    return schema if schema is not None and schema.columns else None


def alter_table(schema: TableSchema, changes: tuple[Change, ...]) -> TableSchema | None:
    """Return the definition after these changes; None if one of them does not fit it."""
    try:
        return _Alteration(schema).run(changes)
    except _Inconsistent:
        return None


class _Alteration:
    """Alters a definition in MySQL's order: drop, rename and modify, add and move columns, add keys."""

    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema
        self.charset, self.collation, self.comment = schema.charset, schema.collation, schema.comment
        names = [column.name.lower() for column in schema.columns]
        self.slots = list(map(_Slot, names, names, schema.columns))
        self.primary = (
            None if schema.primary_key is None else [self._before(name) for name in schema.primary_key]
        )
        self.is_nonclustered = schema.is_nonclustered
        self.indexes = [
            _Key(
                key.name,
                [self._before(name) for name in key.columns],
                is_unique=is_unique,
                is_implied=isinstance(key, Index) and key.is_implied,
            )
            for key, is_unique in schema.ordered_keys()
        ]
        for key in self.indexes:
            key.old = key.lower
        #: Columns that the statement adds or modifies, by the id of the change.
        self.of_change: dict[int, _Slot] = {}
        self.is_converted = False
        #: Lower-case index names, valid if there are as many as indexes, and the last number tried per
        #: column.
        self._taken: tuple[set[str], dict[str, int]] = (set(), {})
        #: Approximate number of foreign keys so far: the server does not reuse the numbers of unnamed ones.
        self.foreign_keys = max([_fk_number(key.name) for key in self.indexes], default=0)

    def run(self, changes: tuple[Change, ...]) -> TableSchema:
        if len(changes) > _CHANGES or sum(isinstance(each, TableCharset) for each in changes) > _CHARSETS:
            raise _Inconsistent
        of_added = self._of_added(changes)
        for phase in (_TABLE, _OLD):
            self._apply_all(each for each in changes if isinstance(each, phase) and id(each) not in of_added)
        for change in changes:
            if isinstance(change, AddColumn) or id(change) in of_added:
                self._apply(change)
            if isinstance(change, ModifyColumn):
                self._move(change)
        if self.is_converted:
            self._convert()
        self._add_keys(changes)
        return self._result()

    def _apply_all(self, changes: Iterable[Change]) -> None:
        for change in changes:
            self._apply(change)

    def _add_keys(self, changes: tuple[Change, ...]) -> None:
        """Add keys, including those of column attributes, in the order in which the server names them."""
        self._taken = set(), {}  # indexes are only added from here on
        for change in changes:
            if isinstance(change, (AddColumn, ModifyColumn)):
                self._column_keys(self.of_change.get(id(change)), change.definition)
            elif isinstance(change, _KEYS):
                self._apply(change)
        for phase in (_FOREIGN_KEYS, _PERIODS):
            self._apply_all(each for each in changes if isinstance(each, phase))

    def _of_added(self, changes: tuple[Change, ...]) -> set[int]:
        """Return the ids of changes to columns that the same statement adds, which MariaDB allows."""
        added = {each.definition.column.name.lower() for each in changes if isinstance(each, AddColumn)}
        added.difference_update(slot.old for slot in self.slots)
        altered = (each for each in changes if isinstance(each, (ModifyColumn, SetDefault)))
        return {id(each) for each in altered if each.name.lower() in added}

    def _apply(self, change: Change) -> None:  # noqa: C901, PLR0912 - one case a change
        match change:
            case TableCharset():
                self._table_charset(change)
            case TableComment(comment):
                self.comment = comment
            case DropColumn(name, tolerant):
                self._drop_column(name, tolerant=tolerant)
            case ModifyColumn():
                self._modify(change)
            case RenameColumn(old, new, tolerant):
                if not tolerant or self._has(old):
                    slot = self._before(old)
                    slot.become(msgspec.structs.replace(slot.column, name=new))
            case SetDefault(name, default, tolerant):
                if not tolerant or self._has(name):
                    self._set_default(self._before(name), default)
            case DropPrimaryKey():
                self.primary, self.is_nonclustered = [], False
            case DropIndex(name):
                self._drop_index(name)
            case RenameIndex(old, new):
                for key in self._before_called(old):
                    key.become(new)
                self._taken = set(), {}
            case AddColumn():
                self._add_column(change)
            case AddPrimaryKey(columns, is_nonclustered, tolerant, not_null):
                if not (tolerant and self.primary):
                    self.primary = None if columns is None else [self._after(name) for name in columns]
                    self._not_null(not_null)
                    self._note_clustered(is_nonclustered=is_nonclustered)
            case AddIndex(name, columns, is_unique, tolerant, replaces):
                if replaces:
                    self._drop_keys(self._called(name))
                if not (tolerant and self._called(name)):
                    slots = [self._after(column) for column in columns or ()]
                    self._add_index(name, slots, is_unique=is_unique)
            case AddPeriod(columns, is_of_system):
                self._not_null(filter(self._has, columns))
                if is_of_system:
                    self._add_to_keys(columns[-1])
            case AddForeignKey(name, columns):
                self._add_foreign_key(name, columns)
            case _:
                pass

    def _before(self, name: str) -> _Slot:
        """Return the column with this name before the statement, else the one with this name now (TiDB
        applies changes one by one).
        """
        wanted = name.lower()
        for slot in self.slots:
            if slot.old == wanted:
                return slot
        return self._after(name)

    def _after(self, name: str) -> _Slot:
        """Return the column that has this name now."""
        found = self._find(name)
        if found is None:
            raise _Inconsistent
        return found

    def _find(self, name: str) -> _Slot | None:
        wanted = name.lower()
        for slot in self.slots:
            if slot.name == wanted:
                return slot
        return None

    def _has(self, name: str) -> bool:
        return self._find(name) is not None

    def _table_charset(self, change: TableCharset) -> None:
        collation = full_collation(change.collation, change.charset or self.charset)
        charset = change.charset or charset_of(collation)
        for slot in self.slots:
            if not change.convert:
                # Columns keep the charset inherited from the table, so it becomes explicit where it was
                # implied.
                kept = _pinned(slot.column.type, self.charset or CHARSET, self.collation)
                slot.column = msgspec.structs.replace(slot.column, type=kept)
            elif change.widens:
                widened = _widened(slot.column.type, self.charset, charset)
                slot.column = msgspec.structs.replace(slot.column, type=widened)
        self.charset, self.collation = charset, collation
        self.is_converted = self.is_converted or change.convert

    def _convert(self) -> None:
        """Apply the table's charset to all columns, including those that the statement adds or modifies."""
        for slot in self.slots:
            if slot.column.type.charset != "binary":
                converted = settled(_without_charset(slot.column.type), self.charset)
                slot.column = msgspec.structs.replace(slot.column, type=converted)

    def _not_null(self, names: Iterable[str]) -> None:
        for name in names:
            slot = self._after(name)
            slot.column = msgspec.structs.replace(slot.column, nullable=False)

    def _drop_column(self, name: str, *, tolerant: bool) -> None:
        if tolerant and not self._has(name):
            return
        slot = self._before(name)
        if slot in self.of_change.values():  # no server drops a column that the same statement modifies
            raise _Inconsistent
        self.slots.remove(slot)
        if self.primary:
            self.primary = [one for one in self.primary if one is not slot]
        for key in self.indexes:
            key.slots = [one for one in key.slots if one is not slot]
        self.indexes = [key for key in self.indexes if key.slots]

    def _modify(self, change: ModifyColumn) -> None:
        if change.tolerant and not self._has(change.name):
            return
        slot = self._before(change.name)
        slot.become(self._column(change.definition))
        self.of_change[id(change)] = slot

    def _move(self, change: ModifyColumn) -> None:
        slot = self.of_change.get(id(change))
        if slot is not None and change.after is not None:
            self.slots.remove(slot)
            self._insert(slot, change.after)

    def _add_column(self, change: AddColumn) -> None:
        column = self._column(change.definition)
        if change.tolerant and self._has(column.name):
            return
        if len(self.slots) == MYSQL_COLUMNS:
            raise _Inconsistent
        slot = _Slot("", column.name.lower(), column)
        self._insert(slot, change.after)
        self.of_change[id(change)] = slot

    def _insert(self, slot: _Slot, after: str | None) -> None:
        if after is None:
            self.slots.append(slot)
        elif not after:
            self.slots.insert(0, slot)
        else:
            self.slots.insert(self.slots.index(self._after(after)) + 1, slot)

    def _column(self, definition: ColumnDefinition) -> Column:
        """Return the column. The table's charset completes its type, and the type a bit literal's default."""
        column_type = settled(definition.column.type, self.charset)
        default = definition.column.default
        if definition.bits is not None:
            default = _bits_default(definition.bits, column_type)
        return msgspec.structs.replace(definition.column, type=column_type, default=default)

    def _column_keys(self, slot: _Slot | None, definition: ColumnDefinition) -> None:
        if slot is not None and definition.is_primary:
            self.primary = [slot]
            self._note_clustered(is_nonclustered=definition.is_nonclustered)
        if slot is not None and definition.is_unique:
            self._add_index("", [slot], is_unique=True)

    def _set_default(self, slot: _Slot, default: Default | Bits | None) -> None:
        value = _bits_default(default, slot.column.type) if isinstance(default, Bits) else default
        slot.column = msgspec.structs.replace(slot.column, default=ABSENT if value is None else value)

    def _drop_index(self, name: str) -> None:
        self._drop_keys(self._before_called(name))

    def _drop_keys(self, dropped: list[_Key]) -> None:
        self.indexes = [key for key in self.indexes if not any(key is each for each in dropped)]

    def _before_called(self, name: str) -> list[_Key]:
        """Return the indexes with this name before the statement, else those with this name now (TiDB applies
        changes one by one).
        """
        wanted = name.lower()
        return [key for key in self.indexes if key.old == wanted] or self._called(name)

    def _add_index(
        self, name: str, slots: list[_Slot], *, is_unique: bool = False, is_implied: bool = False
    ) -> None:
        """Add an index. Without a name it gets its first column's, numbered if that is taken, as in MySQL.

        It replaces a foreign key's implied index of the same name. An index that already exists is not added
        again: its statement is a repeat.
        """
        if not slots:
            return
        for key in self._called(name):
            if key.is_implied:
                self.indexes.remove(key)
            elif (key.slots, key.is_unique) == (slots, is_unique):
                return
        if len(self.indexes) == _INDEXES:
            raise _Inconsistent
        chosen = name or self._free_name(slots[0].column.name)
        self.indexes.append(_Key(chosen, slots, is_unique=is_unique, is_implied=is_implied))

    def _add_to_keys(self, name: str) -> None:
        """Append a column to the primary key and to all unique keys that lack it."""
        slot = self._find(name)
        unique = [key.slots for key in self.indexes if key.is_unique]
        for slots in [self.primary, *unique] if self.primary else unique:
            if slot is not None and slots is not None and slot not in slots:
                slots.append(slot)

    def _called(self, name: str) -> list[_Key]:
        wanted = name.lower()
        return [key for key in self.indexes if key.lower == wanted]

    def _free_name(self, column: str) -> str:
        """Return the first of the names `a`, `a_2`, `a_3` and so on that is free; PRIMARY never is."""
        taken, tried = self._taken
        if len(taken) != len(self.indexes):
            taken, tried = {key.lower for key in self.indexes}, {}
        number = tried.get(column, 0) + 1
        while (name := _numbered(column, number).lower()) in taken or name == "primary":
            number += 1
        chosen, tried[column] = _numbered(column, number), number
        taken.add(chosen.lower())
        self._taken = taken, tried
        return chosen

    def _note_clustered(self, *, is_nonclustered: bool) -> None:
        """Record whether TiDB stores rows by the primary key; one added to an existing table is an index."""
        self.is_nonclustered = is_nonclustered or bool(self.schema.columns)

    def _add_foreign_key(self, name: str, columns: Sequence[str]) -> None:
        """Add the index of a foreign key, which TiDB creates if no index begins with its columns.

        In an existing table TiDB adds it like ADD INDEX, and then disregards the key by which it stores the
        rows (pingcap/tidb pkg/ddl/create_table.go, `addIndexForForeignKey`; executor.go, `CreateForeignKey`).
        """
        self.foreign_keys += 1
        found = [self._find(column) for column in columns]
        slots = [slot for slot in found if slot is not None]
        if not slots:
            return
        keys = [key.slots for key in self.indexes if key.slots[0] is slots[0]]
        is_new = not self.schema.columns
        if is_new or self.is_nonclustered or not self._has_integer_key():
            keys.append(self.primary or [])
        if not any(key[: len(slots)] == slots for key in keys):
            self._add_index(name or f"fk_{self.foreign_keys}", slots, is_implied=is_new)

    def _has_integer_key(self) -> bool:
        return [slot.column.type.base in INTEGERS for slot in self.primary or ()] == [True]

    def _result(self) -> TableSchema:
        if len({slot.name for slot in self.slots}) != len(self.slots):
            raise _Inconsistent
        for slot in self.primary or ():
            slot.column = msgspec.structs.replace(slot.column, nullable=False)
        return TableSchema(
            id=self.schema.id,
            columns=tuple([slot.column for slot in self.slots]),
            primary_key=None if self.primary is None else tuple(slot.column.name for slot in self.primary),
            unique_keys=tuple(UniqueKey(key.name, key.columns()) for key in self.indexes if key.is_unique),
            indexes=tuple(
                Index(key.name, key.columns(), key.is_implied) for key in self.indexes if not key.is_unique
            ),
            complete=self.schema.complete,
            charset=self.charset,
            collation=self.collation,
            comment=self.comment,
            key_order=key_order([(key.name, key.is_unique) for key in self.indexes]),
            is_nonclustered=self.is_nonclustered and self._has_integer_key(),
        )


def _numbered(column: str, number: int) -> str:
    return column if number == 1 else f"{column}_{number}"


def _fk_number(name: str) -> int:
    """Return the number in a foreign key's index name that TiDB generated; 0 for other names."""
    prefix, number = name[:3].lower(), name[3:]
    if prefix == "fk_" and number.isascii() and number.isdigit():
        return int(number)
    return 0


def key_order(keys: Sequence[tuple[str, bool]]) -> tuple[str, ...]:
    """Return `TableSchema.key_order` for keys in this order, each with whether it is unique."""
    unique = [is_unique for _, is_unique in keys]
    return () if unique == sorted(unique, reverse=True) else tuple([name for name, _ in keys])


_TABLE: Final = (TableCharset, TableComment)
_OLD: Final = (DropColumn, ModifyColumn, RenameColumn, SetDefault, DropPrimaryKey, DropIndex, RenameIndex)
_KEYS: Final = (AddPrimaryKey, AddIndex)
_FOREIGN_KEYS: Final = (AddForeignKey,)
_PERIODS: Final = (AddPeriod,)


def settled(column_type: ColumnType, table_charset: str | None) -> ColumnType:
    """Return the type of a column in a table with this charset.

    A collation implies its charset. Charset `binary` turns character types into binary types; TEXT(n) and
    BLOB(n) become the smallest type that holds n characters (MySQL Reference Manual §13.3.1, §13.3.4), and so
    does VARCHAR(n) if n characters of its charset exceed a VARCHAR; a server in strict mode refuses that.
    """
    if not _has_charset(column_type) and column_type.base not in BINARIES:
        return column_type
    collation = full_collation(column_type.collation, column_type.charset or table_charset)
    charset = column_type.charset or charset_of(collation)
    column_type = msgspec.structs.replace(column_type, collation=collation)
    effective = charset or table_charset
    if column_type.base in CHARS and effective == "binary":
        arguments = "" if column_type.length is None else f"({column_type.length})"
        column_type, charset = parse_type(f"{column_type.base}{arguments} character set binary"), None
    return msgspec.structs.replace(_resized(column_type, effective), charset=charset)


def _resized(column_type: ColumnType, charset: str | None) -> ColumnType:
    """Return the type with the base that holds its length in this charset, which is None if unknown."""
    base, length = column_type.base, column_type.length
    if length is None:
        return column_type
    if base == "varchar" and charset and length * _character_bytes(charset) > _VARCHAR_BYTES:
        base = "text"
    if base not in {"text", "blob"}:
        return column_type
    size = length * (_character_bytes(charset) if base == "text" else 1)
    prefix = next((prefix for prefix, limit in _SIZES if size <= limit), "long")
    return ColumnType(prefix + base, charset=column_type.charset, collation=column_type.collation)


def _character_bytes(charset: str | None) -> int:
    return _CHARACTER_BYTES.get(charset, 1) if charset else 4  # utf8mb4 is the default of both servers


def charset_of(collation: str | None) -> str | None:
    """Return the charset of a collation, which its name begins with: utf8mb4 for `utf8mb4_bin`."""
    return collation.split("_", 1)[0] if collation else None


def _pinned(column_type: ColumnType, charset: str | None, collation: str | None) -> ColumnType:
    if column_type.charset is not None or charset is None or not _has_charset(column_type):
        return column_type
    return msgspec.structs.replace(column_type, charset=charset, collation=collation)


def _widened(column_type: ColumnType, old: str | None, new: str | None) -> ColumnType:
    """Return the type that holds as many characters in the new charset as this one in its own (`old`: the
    table's, for a column without one): TEXT of latin1 becomes MEDIUMTEXT of utf8mb4.
    """
    prefix, is_text, _ = column_type.base.partition("text")
    if not is_text or column_type.base not in CHARS:
        return column_type
    characters = dict(_SIZES)[prefix] // _character_bytes(column_type.charset or old)
    size = characters * _character_bytes(new)
    if size <= dict(_SIZES)[prefix]:
        return column_type
    wider = next((prefix for prefix, limit in _SIZES if size <= limit), "long")
    return msgspec.structs.replace(column_type, base=f"{wider}text")


def _without_charset(column_type: ColumnType) -> ColumnType:
    if not _has_charset(column_type):
        return column_type
    return msgspec.structs.replace(column_type, charset=None, collation=None)


def _has_charset(column_type: ColumnType) -> bool:
    return column_type.base in CHARS or column_type.base in {"enum", "set"}


def _bits_default(bits: Bits, column_type: ColumnType) -> Default:
    """Return the default of a `b'…'` literal: text for character and binary columns, else a number."""
    if _has_charset(column_type) or column_type.base in BINARIES:
        return Default(bits_text(bits))
    if bits.size <= 8:
        return Default(str(bits.number))
    return Default("0x" + bits.number.to_bytes(bits.size, "big").hex())
