"""Rules of one table: by the names of its columns, and compiled for a version of its definition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from relay.codecs.losses import Loss
from relay.model.errors import NotRepresentable
from relay.model.events import (
    CellProjection,
    Column,
    Index,
    RowChange,
    RowProjection,
    TableId,
    TableSchema,
    UniqueKey,
)
from relay.rules.columns.replacements import HashKey
from relay.rules.columns.rules import (
    HASH_DIGITS,
    KEY_HASH_DIGITS,
    ColumnAction,
    ColumnRule,
    ParsedColumnRule,
)
from relay.rules.columns.target_columns import NotApplicable, TargetColumn, target_column
from relay.rules.rewriting import folded

_DROP, _RENAME, _KEEP, _HASH = (
    ColumnAction.DROP,
    ColumnAction.RENAME,
    ColumnAction.KEEP,
    ColumnAction.HASH,
)


class Effect(NamedTuple):
    """The effect of a table's rules on the column with a name.

    name: Its name in the target.
    dropping: The action that drops it, if any.
    value_rule: The rule that replaces its values, if any.
    """

    name: str
    dropping: ColumnAction | None = None
    value_rule: ColumnRule | None = None

    @property
    def is_dropped(self) -> bool:
        """Whether the target does not have the column."""
        return self.dropping is not None

    @property
    def hides(self) -> bool:
        """Whether values of the column do not reach the target."""
        return self.is_dropped or self.value_rule is not None

    @property
    def merges_rows(self) -> bool:
        """Whether different values may become equal, so that a key of them no longer identifies a row."""
        if self.value_rule is None:
            return False
        is_hash = self.value_rule.action is _HASH
        return not is_hash or (self.value_rule.length or HASH_DIGITS) < KEY_HASH_DIGITS


class TableRules:
    """The rules of one table, in the order of the configuration.

    Of the rules that match a column, the first one that replaces or drops it applies, and the first one that
    renames it.
    """

    def __init__(self, rules: Sequence[ParsedColumnRule], target: str, hash_key: HashKey) -> None:
        self.rules, self.target, self._hash_key = tuple(rules), target, hash_key
        self._kept = [rule for rule in rules if rule.rule.action is _KEEP]
        self._effects: dict[str, Effect] = {}

    def effect(self, name: str) -> Effect:
        """Return the effect on the column with this name."""
        found = self._effects.get(name)
        if found is None:
            if len(self._effects) >= _MOST_NAMES:
                self._effects.clear()
            found = self._effects[name] = self._effect_on(name)
        return found

    def _effect_on(self, name: str) -> Effect:
        if self._kept and not any(rule.has_column(name) for rule in self._kept):
            return Effect(name, _KEEP)
        matching = [parsed.rule for parsed in self.rules if parsed.has_column(name)]
        new_name = next((rule.name for rule in matching if rule.action is _RENAME), name)
        for rule in matching:
            if rule.action is _DROP:
                return Effect(name, _DROP)
            if rule.action not in {_RENAME, _KEEP}:
                return Effect(new_name, value_rule=rule)
        return Effect(new_name)

    def changes(self, name: str) -> bool:
        """Return whether the rules have an effect on the column with this name."""
        return self.effect(name) != Effect(name)

    def column(self, table: TableId, column: Column) -> TargetColumn:
        """Return a column's definition in the target, with what becomes of its values.

        The column must not be dropped. Raises NotRepresentable for a type to which its rule does not apply.
        """
        effect = self.effect(column.name)
        renamed = column
        if effect.name != column.name:
            renamed = msgspec.structs.replace(column, name=effect.name)
        if effect.value_rule is None:
            return TargetColumn(renamed)
        try:
            return target_column(effect.value_rule, renamed, self._hash_key)
        except NotApplicable as error:
            reason = f"the column of {table} is of type {column.type.base}, and {error}"
            raise NotRepresentable(self.target, column.name, reason) from None

    def names(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the names in the target of columns of which none is dropped."""
        return tuple([self.effect(name).name for name in columns])


#: Maximum number of cached names of a table; the columns of a definition are at most 4096.
_MOST_NAMES: Final = 10_000


class TableProjection:
    """The rules of a table for one version of its definition. `schema`: the target's definition.

    Raises NotRepresentable for rules that cannot be applied.
    """

    def __init__(self, rules: TableRules, schema: TableSchema) -> None:
        self._rules, self._source = rules, schema
        key = schema.handle_key()
        self._check_key(key)
        cells: list[CellProjection] = []
        columns: list[Column] = []
        for at, column in enumerate(schema.columns):
            if rules.effect(column.name).is_dropped:
                continue
            found = rules.column(schema.id, column)
            columns.append(found.column)
            cells.append(CellProjection(at, found.convert, found.constant))
        if not columns:
            reason = f"the rules drop all columns of {schema.id}: exclude the table instead"
            raise NotRepresentable(rules.target, "", reason)
        self._check_names(columns)
        unique = tuple([self._unique(key) for key in schema.unique_keys if self._identifies(key)])
        indexes = tuple([self._index(index) for index in schema.indexes if self._has_all(index.columns)])
        names = {key.name for key in unique} | {index.name for index in indexes}
        self.schema = msgspec.structs.replace(
            schema,
            columns=tuple(columns),
            primary_key=None if schema.primary_key is None else rules.names(schema.primary_key),
            unique_keys=unique,
            indexes=indexes,
            key_order=tuple([name for name in schema.key_order if name in names]),
        )
        #: Whether values of some of its columns do not reach the target.
        self.hides_values = any(rules.effect(column.name).hides for column in schema.columns)
        keeps_keys = not any(map(rules.changes, key or [column.name for column in schema.columns]))
        self._projection = RowProjection(self.schema, tuple(cells), self._message_key, keeps_keys)
        self._keys: dict[tuple[str, ...], tuple[str, ...]] = {}

    def change(self, change: RowChange, losses: list[Loss]) -> RowChange:
        """Return a change of a row as it is written. Raises DecodeError for a malformed value.

        Members that may have values of any of its columns are lost if values of some are hidden.
        """
        source = change.source
        members = (source.row_key, source.unknown_fields)
        if self.hides_values and members != (None, None):
            losses += [loss for loss, member in zip(_OF_MEMBERS, members, strict=True) if member is not None]
            source = msgspec.structs.replace(source, row_key=None, unknown_fields=None)
        images = change.images.projected(self._projection)
        return msgspec.structs.replace(change, schema=self.schema, images=images, source=source)

    def _message_key(self, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Return the names of the columns that a message declares as the row's key."""
        if not names:
            return names
        found = self._keys.get(names)
        if found is None:
            self._check_key(names)
            found = self._rules.names(names)
            if len(self._keys) < _MOST_KEYS:
                self._keys[names] = found
        return found

    def _check_key(self, names: Sequence[str]) -> None:
        """Refuse rules after which a key would no longer identify rows. Raises NotRepresentable."""
        for name in names:
            effect = self._rules.effect(name)
            if effect.is_dropped or effect.merges_rows:
                action = effect.dropping if effect.value_rule is None else effect.value_rule.action
                raise NotRepresentable(self._rules.target, name, _key_reason(self._source.id, action))

    def _check_names(self, columns: Sequence[Column]) -> None:
        """Refuse a definition with two columns of one name. Raises NotRepresentable."""
        seen: set[str] = set()
        for column in columns:
            if folded(column.name) in seen:
                reason = f"a rule renames a column of {self._source.id} to the name of another one"
                raise NotRepresentable(self._rules.target, column.name, reason)
            seen.add(folded(column.name))

    def _has_all(self, names: Sequence[str]) -> bool:
        return not any(self._rules.effect(name).is_dropped for name in names)

    def _identifies(self, key: UniqueKey) -> bool:
        """Return whether a unique key is still unique."""
        return self._has_all(key.columns) and not any(
            self._rules.effect(name).merges_rows for name in key.columns
        )

    def _unique(self, key: UniqueKey) -> UniqueKey:
        return msgspec.structs.replace(key, columns=self._rules.names(key.columns))

    def _index(self, index: Index) -> Index:
        return msgspec.structs.replace(index, columns=self._rules.names(index.columns))


def _key_reason(table: TableId, action: ColumnAction | None) -> str:
    if action is _HASH:
        return (
            f"the column is part of the key of {table}, and a hash of fewer than {KEY_HASH_DIGITS} digits "
            "could merge rows: use a longer one"
        )
    return (
        f"the column is part of the key of {table}, and action {action} would merge its rows: exclude it "
        "from the rule, or use hash or rename"
    )


#: The losses of a source's row key and unknown members.
_OF_MEMBERS: Final = (Loss.ROW_KEY, Loss.UNKNOWN_FIELDS)
#: Maximum number of cached keys of a definition; messages of one producer declare the same one.
_MOST_KEYS: Final = 100
