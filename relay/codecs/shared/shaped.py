"""Keys and tombstones of rows as readers want them: `key` and `tombstones`, of every target that has them.

`encoder_of` makes the encoders. Without these options it returns the codec's own; with them one that encodes
row by row, sets each row's key, and puts a tombstone after a DELETE. Events other than rows stay as the
target's producer writes them.

With a rule's `key` in [[target.topics]], tables have keys of the columns that it names, in its order,
whatever the options are. A row that lacks one of them is refused.

A key is a compact JSON object of the key's columns, those of a primary key in table order: integers, YEAR,
BIT and the numbers of ENUM and SET as numbers, FLOAT and DOUBLE too; DECIMAL, characters, dates and times as
text, TIMESTAMP in UTC; binary values as base64. It is the same for every target and `enum`, `binary` or
`timezone`. An UPDATE that changes the key is written as DELETE and INSERT; otherwise the record of the old
key would stay where only the newest record of each key counts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec

from relay.codecs.codec import ChosenKey, Codec, EncodedRecord, Encoder, Options, chooses_none
from relay.codecs.losses import Loss
from relay.codecs.row_keys import has_row_keys, without_key
from relay.codecs.shared.caches import ByteCache, CachePool, columns_bytes, schema_bytes
from relay.codecs.shared.large_messages import RECORD_OVERHEAD, LargeMessageOptions
from relay.codecs.shared.ticdc import split_chosen_keys, split_updates
from relay.model.errors import NotRepresentable
from relay.model.events import ABSENT, Event, Op, RowChange, TableSchema
from relay.model.lookups import LookupCache
from relay.model.records import ConsumerRecord
from relay.mysql.conversion_names import kernel_name
from relay.mysql.numbers import decimal_text
from relay.templates.tracing import mark_of

#: Memory of a table's key columns, and the share of a run's cache for all of them.
_KEY_BYTES: Final = 500
_COLUMN_BYTES: Final = 100
_SHARE: Final = 8
_DELETE: Final = Op.DELETE

_to_json = msgspec.json.Encoder(enc_hook=mark_of).encode


def encoder_of(
    codec: Codec, options: Options, answers: LookupCache, chosen: ChosenKey | None = None
) -> Encoder:
    """Return the encoder of a target with these options. `chosen`: the rules for keys, None without any; the
    codec must support them (`key_rule_problem`).
    """
    if chosen is not None and codec.keys.encoder is not None:
        return codec.keys.encoder(options, answers, chosen)
    if chosen is not None or has_row_keys(options) or getattr(options, "tombstones", False):
        return _KeyedEncoder(codec, options, answers, chosen or chooses_none)
    return codec.open_encoder(options, answers)


class _KeyedEncoder:
    """An encoder whose rows get another key, or tombstones."""

    def __init__(self, codec: Codec, options: Options, answers: LookupCache, chosen: ChosenKey) -> None:
        self._codec, self._options, self._answers, self._chosen = codec, options, answers, chosen
        self._inner = codec.open_encoder(options, answers)
        self._has_tombstones: bool = getattr(options, "tombstones", False)
        self._has_row_keys = has_row_keys(options)
        self._key_of = RowKeys(codec.name, CachePool(answers.limits.cache_bytes // _SHARE), chosen).key_of
        self._most_bytes: int | None = None
        if isinstance(options, LargeMessageOptions):
            self._most_bytes = options.max_message_bytes - RECORD_OVERHEAD

    @property
    def prepare(self) -> Callable[[list[Event]], list[Event]]:
        """Split updates of keys, in addition to those that the target's producer splits."""
        key_of = self._own_key if self._has_row_keys or self._has_tombstones else None
        return functools.partial(_prepared, self._inner.prepare, key_of, self._chosen)

    def _own_key(self, schema: TableSchema) -> tuple[str, ...]:
        """Return the columns of a table's key; none if a rule chooses them."""
        return () if self._chosen(schema.id) else schema.handle_key()

    def encode(
        self, events: Sequence[Event], source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterator[EncodedRecord]:
        """Yield the events' messages; see `relay.codecs.codec.Encoder`."""
        for event in events:
            if isinstance(event, RowChange):
                yield from self._row(event, source_record, losses)
            else:
                yield from self._inner.encode([event], source_record, losses)

    def _row(
        self, change: RowChange, source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterable[EncodedRecord]:
        counted = len(losses)
        payloads = list(self._inner.encode([change], source_record, losses))
        if not (self._has_row_keys or self._chosen(change.table)):
            key = payloads[0].key if change.schema.handle_key() else None
        else:
            key = self._key_of(change)
            if self._is_too_large(payloads, key):
                del losses[counted:]
                payloads = self._reencoded(key or b"", change, source_record, losses)
            payloads = [msgspec.structs.replace(each, key=key) for each in payloads]
        if self._has_tombstones and change.op is _DELETE and key is not None:
            payloads.append(EncodedRecord(key, None))
        return payloads

    def _is_too_large(self, payloads: Sequence[EncodedRecord], key: bytes | None) -> bool:
        most = self._most_bytes
        return most is not None and any(len(key or b"") + len(each.value or b"") > most for each in payloads)

    def _reencoded(
        self, key: bytes, change: RowChange, source_record: ConsumerRecord, losses: list[Loss]
    ) -> list[EncodedRecord]:
        """Encode the row again, within a limit reduced by the size of the key. Raises MessageTooLarge."""
        options: Any = self._options
        most = max(1, options.max_message_bytes - len(key))
        smaller = msgspec.structs.replace(options, max_message_bytes=most)
        return list(self._codec.open_encoder(smaller, self._answers).encode([change], source_record, losses))


def _prepared(
    prepare: Callable[[list[Event]], list[Event]] | None,
    key_of: Callable[[TableSchema], tuple[str, ...]] | None,
    chosen: ChosenKey,
    events: list[Event],
) -> list[Event]:
    if prepare is not None:
        events = prepare(events)
    if key_of is not None:
        events = split_updates(events, key_of)
    return split_chosen_keys(events, chosen)


class RowKeys:
    """The keys of rows, by table version."""

    def __init__(self, protocol: str, pool: CachePool, chosen: ChosenKey = chooses_none) -> None:
        self._protocol, self._chosen = protocol, chosen
        self._columns: ByteCache[TableSchema, tuple[tuple[int, ...], list[str]]] = pool.cache()

    def key_of(self, change: RowChange) -> bytes | None:
        """Return the row's key after the change, before a DELETE; None if the table has none, or the row
        lacks a column of it. Raises KeyColumnsMissing if it lacks one that a rule names, NotRepresentable for
        a value without a JSON form.
        """
        indexes, names = self._columns.get(change.schema) or self._key_columns(change.schema)
        cells = change.images.cells_at(indexes, is_old=change.op is _DELETE) if indexes else None
        if cells is None or ABSENT in cells:
            if chosen := self._chosen(change.table):
                has = [column.name for column in change.schema.columns]
                if indexes:
                    has = [name for name, cell in zip(names, cells or (), strict=False) if cell is not ABSENT]
                raise without_key(self._protocol, change.table, chosen, has)
            return None
        try:
            return _to_json({name: written_in_key(cell) for name, cell in zip(names, cells, strict=True)})
        except (ValueError, OverflowError, TypeError, msgspec.MsgspecError):
            reason = "a value of the row's key cannot be represented in JSON"
            raise NotRepresentable(self._protocol, "key", reason) from None

    def _key_columns(self, schema: TableSchema) -> tuple[tuple[int, ...], list[str]]:
        index_of = {column.name: at for at, column in enumerate(schema.columns)}
        key = self._chosen(schema.id) or sorted(schema.handle_key(), key=lambda name: index_of.get(name, -1))
        indexes = tuple([index_of[name] for name in key if name in index_of])
        if len(indexes) < len(key):
            indexes = ()
        columns = [schema.columns[at] for at in indexes]
        size = _KEY_BYTES + columns_bytes(columns, _COLUMN_BYTES) + schema_bytes(schema)
        return self._columns.keep(schema, (indexes, [column.name for column in columns]), size)


@kernel_name("row-key")
def written_in_key(cell: Any) -> Any:  # noqa: ANN401 - any value, and its JSON form
    """Return the JSON form of a key column's value."""
    return decimal_text(cell) if isinstance(cell, Decimal) else cell
