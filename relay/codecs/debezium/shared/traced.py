"""The variable parts of Debezium's messages of one row, for templates.

A dialect declares the members that differ (`VariableMembers`). A column's values follow from the layout that
reads them. Everything else, including the schema block, is the same in every message of the shape. The Kafka
key may have any values, unless a layout reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from relay.catalog import Catalog
from relay.codecs.codec import AfterDdl
from relay.codecs.debezium.shared.json_kinds import FLOAT32, NUMERIC, SPELLED
from relay.codecs.debezium.shared.layouts import Layout, LayoutColumn
from relay.codecs.debezium.shared.messages import RowBody
from relay.codecs.debezium.shared.rows import DebeziumRowDecoder
from relay.codecs.debezium.shared.values import unsigned64
from relay.codecs.shared.traced import conversion
from relay.codecs.shared.traced_messages import (
    CellTokens,
    Declaration,
    MemberForm,
    TracedPart,
    TracedRow,
    VariableMember,
    bounded,
)
from relay.model.events import ABSENT, Images, Position, RowChange, Source, TableSchema
from relay.model.records import TIME_END_MS, ConsumerRecord
from relay.mysql.conversion_names import READ_DOUBLE, READ_FLOAT, READ_INTEGER
from relay.templates.ops import Conversion, Kinds, Take
from relay.templates.scanning import SCALAR
from relay.templates.tracing import NotTemplatable, Trace

#: A time that the parser accepts (`Milliseconds`).
TIME: Final = bounded(-TIME_END_MS, TIME_END_MS)


class VariableMembers(NamedTuple):
    """The members of a row's message that differ between messages of a shape: by the names of the fields, of
    the payload itself, `source` and `transaction`.
    """

    body: Mapping[str, MemberForm]
    source: Mapping[str, MemberForm]
    transaction: Mapping[str, MemberForm] = {}


#: A dialect's payload, of rows or of every kind of message.
B = TypeVar("B", bound=RowBody)


class TracedDebeziumRow(TracedRow):
    """A message of one row, split into ops. Raises NotTemplatable."""

    def __init__(
        self,
        rows: DebeziumRowDecoder,
        record: ConsumerRecord,
        change: RowChange,
        catalog: Catalog,
        trace: Trace,
        variable: VariableMembers,
    ) -> None:
        key, value = TracedPart(record.key), TracedPart(record.value)
        payload = () if value.root.at(("payload",)) is None else ("payload",)
        super().__init__(record, change, trace, key, value, payload)
        layout = rows.layout(change.table, self.reader)
        if value.text[:1] != b"{" or layout is None or self.reader.known is None:
            raise NotTemplatable
        #: The newest DDL of the table, if only the log position orders the row after it.
        self._ddl_in_log = _ddl_in_log(change, record, catalog)
        self._body = self._declared(variable.body)
        self._source = self._declared(variable.source, "source")
        self._transaction = self._declared(variable.transaction, "transaction")
        if self._ddl_in_log is not None:
            # Positions are compared within one file: no condition can compare file names.
            self._source.pop("file", None)
        for declared in (self._body, self._source, self._transaction):
            value.vary(declared)
        _vary_key(key)
        self.vary_cells(layout.names, lambda part: [*self._cells(layout, part)], catalog.limits)
        self.split()

    def _declared(self, forms: Mapping[str, MemberForm], *path: str) -> dict[str, VariableMember]:
        """Return the declaration of members of an object of the payload."""
        return {name: VariableMember((*self._payload, *path, name), form) for name, form in forms.items()}

    def traced_body(self, body: B) -> B:
        """Return a decoded payload with traced members."""
        traced = self.value.traced(body, self._body, self.trace)
        images: Any = {"before": self.trace.refused(), "after": self.trace.refused()}
        parts = {"source": self._source, "transaction": self._transaction}
        return msgspec.structs.replace(traced, **images, **dict(self._traced_parts(body, parts)))

    def _traced_parts(
        self, body: RowBody, parts: Mapping[str, Declaration]
    ) -> Iterator[tuple[str, msgspec.Struct]]:
        for name, declared in parts.items():
            part = getattr(body, name)
            if declared and part is not None:
                yield name, self.value.traced(part, declared, self.trace)

    def read_traced(
        self,
        _op: object,
        _body: object,
        source: Source,
        time_ns: int,
        _record: object,
        catalog: Catalog,
        _losses: object,
    ) -> tuple[TableSchema, Images]:
        """Return the row like the functions that read rows, but with traced cells."""
        if self._ddl_in_log is None:
            self.follow_ddl(self.reader.known, Position(source.commit_ts, time_ns, "", 0, 0), catalog)
        else:
            _, newest = catalog.newest(self.reader.schema.id)
            if newest is not self.reader.known:
                raise NotTemplatable
            self._after = _log_follows(source, self._ddl_in_log)
        return self.images()

    def _cells(self, layout: Layout, part: str) -> Iterator[CellTokens]:
        """Yield the tokens of an image's columns. Raises NotTemplatable if it lacks one."""
        for column in layout.columns:
            token = self.value.root.at((*self.path_of(part), column.name))
            if token is None:
                raise NotTemplatable
            yield _cell(column, layout.unavailable, self.value.text_of(token), token.kind)


#: The members of a key with a schema block.
_WRAPPER: Final = {"schema", "payload"}
_NOT_NULL: Final = Take(tuple(kind for kind in SCALAR.kinds if kind != "null"))


def _vary_key(key: TracedPart) -> None:
    """Let the values of a key differ; its schema block has none.

    With a `payload` of null, a key has no columns; with another scalar value, `payload` is a column.
    """
    members = key.root.members
    if members is None:
        key.vary_scalars()
        return
    is_wrapper = members.keys() <= _WRAPPER
    for name, token in members.items():
        is_column = is_wrapper and token.kind is not None
        if name != "schema" and not (is_column and token.kind == "null"):
            key.vary_scalars((name,), given=_NOT_NULL if is_column else SCALAR)


# ---------------------------------------------------------------- cells

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
_print = msgspec.json.Encoder().encode


def _cell(column: LayoutColumn, unavailable: frozenset[str], text: bytes, kind: str | None) -> CellTokens:
    """Return the possible values of a column: ambiguous and missing values have other shapes, and so has a
    negative number that means a large one.

    text, kind: The token in the captured message.
    """
    wanted, kinds, read = column.form.kind, _kinds_of(column.form.kind), _conversion(column)
    refused = [_print(each) for each in unavailable] if wanted is str else []
    if column.null_value is not ABSENT:
        kinds, tokens = _tokens_of(column.null_value, kinds)
        refused += tokens
    if text in refused:
        raise NotTemplatable
    for doubt, _ in column.doubts:
        if doubt is not ABSENT:
            kinds, tokens = _tokens_of(doubt, kinds)
            if text in tokens:
                return CellTokens(kinds, read, tokens, is_one=True)
            refused += tokens
    if kind != "null" and kind not in kinds:
        raise NotTemplatable
    if column.form.read is not unsigned64:
        return CellTokens((*kinds, "null"), read, tuple(refused))
    if kind == "null":
        return CellTokens(("null",), read)
    return CellTokens(kinds, read, tuple(refused), is_negative=text.startswith(b"-"))


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


def _conversion(column: LayoutColumn) -> Conversion | None:
    """Return the conversion of a column's tokens. Raises NotTemplatable if it has no name."""
    kind, read = column.form.kind, column.form.read
    if read is not None:
        if kind is FLOAT32:
            raise NotTemplatable
        return conversion(read)
    for known, _, found in _KINDS:
        if kind is known:
            return found
    raise NotTemplatable


# ---------------------------------------------------------------- order


def _ddl_in_log(change: RowChange, record: ConsumerRecord, catalog: Catalog) -> Position | None:
    """Return the position of the table's newest DDL if only the log position orders the row after it."""
    at, _ = catalog.newest(change.table)
    if at is None or at.log is None or change.source.commit_ts is not None:
        return None
    millisecond_ns = change.source.event_time_ns // 1_000_000 * 1_000_000
    is_same_partition = at.partition == record.partition and at.topic == record.topic
    return None if is_same_partition or millisecond_ns > at.event_time_ns else at


def _log_follows(source: Source, at: Position) -> AfterDdl:
    """Note that rows of other partitions come later in the log than DDL, as the actual one does. The source's
    position is traced, but not its file.
    """
    file, position = source.binlog_file, source.binlog_position
    if at.log is None or file is None or position is None:
        raise NotTemplatable
    log_file = len(file), file
    if log_file < at.log[:2] or (log_file == at.log[:2] and not position > at.log[2]):
        raise NotTemplatable
    return AfterDdl(at, is_alone=False)
