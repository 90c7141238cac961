"""Decoder of Simple, for both encodings."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from relay.catalog import Catalog, DdlMessage, apply_bootstrap, apply_ddl, definition_after
from relay.codecs.codec import TracedMessage, ValueDecoder
from relay.codecs.losses import Loss
from relay.codecs.shared.checksums import CHECKSUM_VERSION, row_checksum
from relay.codecs.shared.large_messages import (
    Decompression,
    LargeMessageCompression,
    claim_check_parts,
    claim_checked,
    decompressed,
)
from relay.codecs.shared.local_times import event_time_ns
from relay.codecs.shared.ticdc import CONNECTOR, TSO_END, is_restored
from relay.codecs.shared.unknown_members import merged
from relay.codecs.simple.ddl_types import DDL_TYPES
from relay.codecs.simple.definitions import TableEntry, definition, entry_text, is_tso, named_id
from relay.codecs.simple.messages import (
    BOOTSTRAP,
    OPS,
    VERSION,
    WATERMARK,
    Checksum,
    SimpleMessage,
    SimpleWire,
)
from relay.codecs.simple.options import SimpleOptions
from relay.codecs.simple.rows import ReadImages, SimpleRowDecoder, definition_of_version
from relay.model.errors import Malformed, UnsupportedMessage
from relay.model.events import (
    TSO_LOGICAL_BITS,
    Bootstrap,
    DdlKind,
    Event,
    Images,
    Op,
    Position,
    Row,
    RowChange,
    SchemaChange,
    Source,
    TableChange,
    TableId,
    TableSchema,
    Watermark,
)
from relay.model.limits import check_levels
from relay.model.lookups import LookupCache
from relay.model.records import TIME_END_MS, ConsumerRecord
from relay.templates.tracing import Trace

#: Dialect name in `TableChange` of a message's table facts.
DIALECT: Final = "ticdc-simple"
SCHEMA, PRE_SCHEMA = "tableSchema", "preTableSchema"
_NS_PER_MS: Final = 1_000_000
_LOCATION: Final = "claimCheckLocation"


class SimpleDecoder(ValueDecoder):
    """Decodes Simple of all releases."""

    def __init__(self, wire: SimpleWire, options: SimpleOptions, answers: LookupCache) -> None:
        self._wire, self._options, self._answers, self._limits = wire, options, answers, answers.limits
        self._name = wire.name
        self._compression = options.large_message_handle_compression
        self._is_packed = self._compression in {LargeMessageCompression.LZ4, LargeMessageCompression.SNAPPY}
        self._rules = _Rules(
            wire.name,
            verifies=options.integrity_check_level != "none",
            refuses_corrupted=options.corruption_handle_level == "error",
        )
        self._rows = SimpleRowDecoder(wire, options.zone(), answers.limits)

    def decode_value(
        self, value: bytes, record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
    ) -> tuple[list[Event], Catalog]:
        """Return the record's event; see `relay.codecs.codec.Decoder`."""
        message = self._read(value)
        if message.data is not None or message.old is not None:
            if message.claim_check_location is not None:
                unknown = message.unknown
                message = self._stored(message)
                message.unknown = merged(unknown, message.unknown)
            return [interpret(message, record, catalog, losses, self._rows.read, self._rules)], catalog
        source = source_of(message, record, losses)
        if message.type == WATERMARK:
            return [Watermark(source, emitted_at_ns(message, record))], catalog
        if message.type == BOOTSTRAP:
            return self._bootstrap(message, record, catalog)
        if message.type in DDL_TYPES:
            return self._ddl(message, source, record, catalog, losses)
        if message.type in OPS:
            raise Malformed(self._name, "data", "a row message without a row")
        raise UnsupportedMessage(self._name, "type", "not a type of TiCDC Simple")

    def traced(
        self, record: ConsumerRecord, change: RowChange, catalog: Catalog, trace: Trace
    ) -> TracedMessage:
        """Return the row's message with traced values; see `TracingDecoder`."""
        row, message = self._wire.traced(record, change, trace, self._limits)

        def read(*_: object) -> tuple[TableSchema, Images]:
            return row.images()

        check(message, self._name)
        return row.message([interpret(message, row.record, catalog, [], read, self._rules)])

    def _read(self, value: bytes) -> SimpleMessage:
        if self._is_packed or not self._wire.is_plain(value):
            value = decompressed(self._name, "", value, self._compression, Decompression(self._limits))
        message = self._wire.read(value, self._limits)
        check(message, self._name)
        return message

    def _stored(self, stub: SimpleMessage) -> SimpleMessage:
        """Return the full message for this one, which has only the handle key.

        Raises Malformed if the claim-check object holds another message.
        """
        data = claim_checked(self._name, _LOCATION, stub.claim_check_location, self._answers, self._options)
        parts = claim_check_parts(data)
        try:
            stored = data if parts is None else parts.value
            check_levels(self._name, "", stored)
            message = self._read(stored)
        except (Malformed, UnsupportedMessage) as error:
            reason = f"its object: {error.path or 'message'}: {error.reason}"
            raise Malformed(self._name, _LOCATION, reason) from None
        if _identity(message) != _identity(stub) or message.claim_check_location is not None:
            raise Malformed(self._name, _LOCATION, "its object holds another message")
        return message

    # ------------------------------------------------------------ definitions

    def _bootstrap(
        self, message: SimpleMessage, record: ConsumerRecord, catalog: Catalog
    ) -> tuple[list[Event], Catalog]:
        if message.table_schema is None:
            raise Malformed(self._name, SCHEMA, "a BOOTSTRAP without its definition")
        event, catalog = self._defined(message.table_schema, message, record, catalog)
        return [event], catalog

    def _defined(
        self, entry: TableEntry, message: SimpleMessage, record: ConsumerRecord, catalog: Catalog
    ) -> tuple[Bootstrap, Catalog]:
        """Return the definition that an entry without a statement declares, and the catalog with it."""
        table, source = TableId(entry.schema, entry.table), source_of(message, record, [])
        self._check_version(entry)
        known = definition_of_version(catalog, table, entry.version, entry.tableID)
        schema = known or self._definition(entry, catalog.newest(table)[1], catalog, is_current=False)
        change = TableChange(BOOTSTRAP, SCHEMA, table, schema, entry_text(entry), DIALECT)
        event = Bootstrap(schema, source, emitted_at_ns(message, record), None, change)
        if known is None:
            catalog = apply_bootstrap(catalog, event, _definition_position(entry.version, source, record))
        return event, catalog

    def _ddl(
        self,
        message: SimpleMessage,
        source: Source,
        record: ConsumerRecord,
        catalog: Catalog,
        losses: list[Loss],
    ) -> tuple[list[Event], Catalog]:
        entries = {SCHEMA: message.table_schema, PRE_SCHEMA: message.pre_table_schema}
        declared = {name: entry for name, entry in entries.items() if entry is not None}
        if _shows_before(message):
            _, catalog = self._defined(declared.pop(PRE_SCHEMA), message, record, catalog)
        # For EXCHANGE PARTITION other formats name the second table.
        ddl, about = message.sql or "", declared.get(PRE_SCHEMA) or declared.get(SCHEMA)
        table = TableId("", "") if about is None else TableId(about.schema, about.table)
        statement = DdlMessage(
            ddl,
            table,
            message.type,
            source,
            source.at(record),
            emitted_at_ns(message, record),
            is_restored(ddl),
        )
        learned, change = apply_ddl(catalog, statement)
        found = {
            name: self._declared_definition(entry, change, statement, learned, catalog)
            for name, entry in declared.items()
        }
        if not _drops(change, message.type):
            definitions = tuple(found.values())
            learned, change = apply_ddl(catalog, msgspec.structs.replace(statement, definitions=definitions))
        if not change.kinds:
            losses.append(Loss.DDL_NOT_UNDERSTOOD)
        changes = [
            TableChange(message.type, name, found[name].id, found[name], entry_text(entry), DIALECT)
            for name, entry in declared.items()
        ]
        return [msgspec.structs.replace(change, table_changes=tuple(changes))], learned

    def _declared_definition(
        self,
        entry: TableEntry,
        change: SchemaChange,
        statement: DdlMessage,
        learned: Catalog,
        catalog: Catalog,
    ) -> TableSchema:
        """Return the definition that an entry of a statement declares."""
        self._check_version(entry)
        table = TableId(entry.schema, entry.table)
        known = definition_after(learned, statement, table)
        if known is None:
            before = (*change.dropped_tables(), *change.views)
            known = next((each for each in before if each.id == table), None)
        if known is not None:
            return self._definition(entry, known, catalog, is_current=True)
        return self._definition(entry, catalog.newest(table)[1], catalog, is_current=False)

    def _definition(
        self, entry: TableEntry, known: TableSchema | None, catalog: Catalog, *, is_current: bool
    ) -> TableSchema:
        found = definition(entry, known, self._name, self._limits, is_current=is_current)
        if found.version is None and catalog.redacted(found) != found:
            # The catalog has a part of the definition only, from which the version cannot be derived.
            return msgspec.structs.replace(found, version=entry.version)
        return found

    def _check_version(self, entry: TableEntry) -> None:
        if not 0 <= entry.version < TSO_END:
            raise Malformed(self._name, f"{SCHEMA}.version", "not a timestamp of TiDB")


def _is_of_partition(message: SimpleMessage, schema: TableSchema) -> bool:
    """Return whether a row has another id than its table: the source's, or the one that relay derives from
    its name.
    """
    if schema.table_id is not None:
        return message.table_id != schema.table_id
    return not is_tso(message.schema_version) and message.table_id != named_id(schema.id)


def _definition_position(version: int, source: Source, record: ConsumerRecord) -> Position:
    """Return the position from which a definition is valid: the time in its version, if there is one."""
    if not is_tso(version):
        return source.at(record)
    time_ns = (version >> TSO_LOGICAL_BITS) * _NS_PER_MS
    return Position(version, time_ns, record.topic, record.partition, record.offset)


def _shows_before(message: SimpleMessage) -> bool:
    """Return whether `preTableSchema` is the table before the statement (classic architecture); else it is
    another table.
    """
    shown, other = message.table_schema, message.pre_table_schema
    if shown is None or other is None:
        return False
    has_its_name = (shown.schema, shown.table) == (other.schema, other.table)
    return has_its_name or (bool(shown.tableID) and shown.tableID == other.tableID)


def _drops(change: SchemaChange, type_: str) -> bool:
    """Return whether a statement drops its tables."""
    return type_ == "ERASE" or not {DdlKind.DROP_TABLE, DdlKind.DROP_VIEW}.isdisjoint(change.kinds)


def _is_sum(schema: TableSchema, row: Row | None, checksum: int) -> bool:
    """Return whether this may be the checksum of a row; 0 means that there is none."""
    found = row_checksum(schema, row) if row is not None and checksum else None
    return found is None or found == checksum


def _identity(message: SimpleMessage) -> tuple[object, ...]:
    """Return the identity that a message shares with the one in its claim-check object."""
    return message.database, message.table, message.type, message.commit_ts, message.schema_version


# ---------------------------------------------------------------- check, interpret


class _Rules(NamedTuple):
    """A decoder's protocol, for errors, and whether it verifies checksums and refuses corrupted rows."""

    protocol: str
    verifies: bool
    refuses_corrupted: bool


def check(message: SimpleMessage, protocol: str) -> None:
    """Check the version and the timestamps of a message. Raises Malformed and UnsupportedMessage."""
    if message.version != VERSION:
        raise UnsupportedMessage(protocol, "version", f"not {VERSION}, the only one that relay knows")
    _check_tso(protocol, "commitTs", message.commit_ts)
    _check_tso(protocol, "schemaVersion", message.schema_version)
    if message.start_ts:
        _check_tso(protocol, "startTs", message.start_ts)


def _check_tso(protocol: str, path: str, number: int) -> None:
    if not 0 <= number < TSO_END:
        raise Malformed(protocol, path, "not a timestamp of TiDB (an integer from 0 to 2^64 - 1)")


def interpret(
    message: SimpleMessage,
    record: ConsumerRecord,
    catalog: Catalog,
    losses: list[Loss],
    read: ReadImages,
    rules: _Rules,
) -> RowChange:
    """Return the row of a message. `read`: reads its images. Raises DecodeError."""
    op = OPS.get(message.type)
    if op is None:
        raise UnsupportedMessage(rules.protocol, "type", "a row that is not of INSERT, UPDATE or DELETE")
    if (message.old if op is Op.DELETE else message.data) is None:
        path = "old" if op is Op.DELETE else "data"
        raise Malformed(rules.protocol, path, "a row message without its row")
    schema, images = read(message, op, catalog, losses)
    if op is Op.UPDATE and message.old is None:
        losses.append(Loss.BEFORE_MISSING)
    source = source_of(message, record, losses)
    if message.table_id and _is_of_partition(message, schema):
        source = msgspec.structs.replace(source, physical_partition=message.table_id)
    if message.checksum is not None:
        _verify(rules, message.checksum, schema, images, losses)
    return RowChange(op, schema, images, source, emitted_at_ns(message, record))


def _verify(rules: _Rules, found: Checksum, schema: TableSchema, images: Images, losses: list[Loss]) -> None:
    """Count or refuse a row that is marked as corrupted, or does not match its checksum."""
    path = "checksum.corrupted" if found.corrupted else ""
    if not path and rules.verifies and found.version <= CHECKSUM_VERSION:
        if not _is_sum(schema, images.after, found.current):
            path = "checksum.current"
        elif not _is_sum(schema, images.before, found.previous):
            path = "checksum.previous"
    if path and rules.refuses_corrupted:
        reason = "the row is corrupted: its checksum is not that of its values"
        raise Malformed(rules.protocol, path, reason)
    if path:
        losses.append(Loss.CHECKSUM)


def source_of(message: SimpleMessage, record: ConsumerRecord, losses: list[Loss]) -> Source:
    """Return the origin of a message's event."""
    commit_ts, start_ts, unknown = message.commit_ts, message.start_ts or None, message.unknown
    if message.type == BOOTSTRAP:
        return Source(CONNECTOR, emitted_at_ns(message, record), unknown_fields=unknown)
    if not commit_ts and message.type != WATERMARK:
        time_ns = event_time_ns(None, message.build_ts * _NS_PER_MS, record, losses)
        return Source(CONNECTOR, time_ns, None, start_ts, unknown_fields=unknown)
    time_ns = (commit_ts >> TSO_LOGICAL_BITS) * _NS_PER_MS
    if unknown is None:
        return Source(CONNECTOR, time_ns, commit_ts, start_ts)
    return Source(CONNECTOR, time_ns, commit_ts, start_ts, unknown_fields=unknown)


def emitted_at_ns(message: SimpleMessage, record: ConsumerRecord) -> int:
    """Return the time when TiCDC made a message: `buildTs`, else the record's timestamp."""
    build_ts = message.build_ts
    if not 0 < build_ts < TIME_END_MS:
        build_ts = record.time_ms(message.commit_ts >> TSO_LOGICAL_BITS)
    return build_ts * _NS_PER_MS
