"""Simple as Avro: one schema, which is part of TiCDC, and neither a header nor a registry.

A message is the twelfth branch of a union of all types: 0x16, then `SimpleMessage`. Maps may have their
entries in any order; relay writes table order. Source: pingcap/ticdc
pkg/sink/codec/simple/{message.json,avro.go} (2026-08), and its records.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import tzinfo
from typing import Final

from msgspec import UNSET

from relay.codecs.shared.conversions import Read, Write
from relay.codecs.simple.avro_bytes import (
    SimpleAvroReader,
    TooManyItems,
    avro_block,
    avro_bytes,
    avro_flag,
    avro_long,
    avro_optional,
    avro_text,
)
from relay.codecs.simple.avro_rows import KINDS, MESSAGE, ROW_TYPES, head_of, row_bytes
from relay.codecs.simple.avro_traced import TracedAvroRow, traced_row
from relay.codecs.simple.avro_values import read_of, read_value, write_of
from relay.codecs.simple.definitions import ColumnEntry, DataType, IndexEntry, TableEntry, temporal_digits
from relay.codecs.simple.messages import BOOTSTRAP, OPS, WATERMARK, Checksum, Image, SimpleMessage
from relay.model.errors import Malformed, NotRepresentable
from relay.model.events import ColumnType, RowChange
from relay.model.limits import DEFAULT_LIMITS, Limits, exceeded
from relay.model.records import ConsumerRecord
from relay.mysql.types import BINARIES, FLOATS, INTEGERS, MAX_BITS, default_bytes, default_text
from relay.templates.tracing import Trace

_DDL_TYPES: Final = ("CREATE", "ALTER", "ERASE", "RENAME", "TRUNCATE", "CINDEX", "DINDEX", "QUERY")
_SIGNED: Final = INTEGERS | FLOATS | {"bit", "year", "decimal"}
_SCALED: Final = frozenset({"decimal", "timestamp"})


class AvroWire:
    """The encoding as Avro."""

    def __init__(self, name: str) -> None:
        self.name = name

    @staticmethod
    def is_plain(value: bytes) -> bool:
        """Return whether a value is an uncompressed message."""
        return value[:1] == MESSAGE

    def read(self, value: bytes, limits: Limits = DEFAULT_LIMITS) -> SimpleMessage:
        """Read a message. Raises Malformed and LimitExceeded."""
        if value[:1] != MESSAGE:
            raise Malformed(self.name, "", "does not begin as a message of Simple, with the byte 0x16")
        reader = SimpleAvroReader(value, 1, limits.values)
        try:
            message = _read(reader)
        except TooManyItems:
            raise exceeded(self.name, "value", "values", "values", limits.values) from None
        except UnicodeDecodeError:
            raise Malformed(self.name, "", "text that is not UTF-8") from None
        except ValueError as error:
            raise Malformed(self.name, "", str(error)) from None
        return message

    def write(self, message: SimpleMessage) -> bytes:
        """Write a message. Raises NotRepresentable for lone surrogates and for numbers beyond 64 bits."""
        try:
            if message.type in OPS:
                return row_bytes(message)
            if message.type == BOOTSTRAP:
                return head_of(BOOTSTRAP) + _bootstrap(message)
            if message.type == WATERMARK:
                return head_of(WATERMARK) + _stamps(message)
            return head_of("DDL") + _ddl(message)
        except (OverflowError, UnicodeError):
            reason = "text that is not Unicode, or a number beyond 63 bits"
            raise NotRepresentable(self.name, "", reason) from None

    def traced(
        self, record: ConsumerRecord, change: RowChange, trace: Trace, limits: Limits
    ) -> tuple[TracedAvroRow, SimpleMessage]:
        """Return a row with traced values, and its message with traced members. Raises NotTemplatable."""
        return traced_row(self.read(record.value or b"", limits), record, change, trace)

    def read_of(self, column_type: ColumnType, zone: tzinfo) -> Read:
        """Return the function from a column's value to the canonical one; `zone`: for a TIMESTAMP without."""
        return read_of(column_type, zone)

    def write_of(
        self, column_type: ColumnType, zone: tzinfo, zone_name: str, unmoved: Callable[[], None]
    ) -> Write | None:
        """Return the writing function of a column's canonical value."""
        return write_of(column_type, zone, zone_name, unmoved)


# ---------------------------------------------------------------- read


def _read(reader: SimpleAvroReader) -> SimpleMessage:
    kind = reader.choice(KINDS)
    if reader.choice(KINDS) != kind:
        raise ValueError("a payload that does not match its type")
    message = _READS[kind](reader)
    if not reader.is_done:
        raise ValueError("bytes after the message")
    return message


def _read_watermark(reader: SimpleAvroReader) -> SimpleMessage:
    return SimpleMessage(
        type=WATERMARK, version=reader.long(), commit_ts=reader.long(), build_ts=reader.long()
    )


def _read_bootstrap(reader: SimpleAvroReader) -> SimpleMessage:
    return SimpleMessage(
        type=BOOTSTRAP, version=reader.long(), build_ts=reader.long(), table_schema=_read_table(reader)
    )


def _read_ddl(reader: SimpleAvroReader) -> SimpleMessage:
    return SimpleMessage(
        version=reader.long(),
        type=reader.choice(_DDL_TYPES),
        sql=reader.text(),
        commit_ts=reader.long(),
        build_ts=reader.long(),
        table_schema=reader.optional(_read_table),
        pre_table_schema=reader.optional(_read_table),
    )


def _read_dml(reader: SimpleAvroReader) -> SimpleMessage:
    return SimpleMessage(
        version=reader.long(),
        database=reader.text(),
        table=reader.text(),
        table_id=reader.long(),
        type=reader.choice(ROW_TYPES),
        commit_ts=reader.long(),
        build_ts=reader.long(),
        schema_version=reader.long(),
        claim_check_location=reader.optional(SimpleAvroReader.text),
        handle_key_only=reader.optional(SimpleAvroReader.flag) is True,
        checksum=reader.optional(_read_checksum),
        data=reader.optional(_read_image),
        old=reader.optional(_read_image),
    )


_READS: Final[dict[str, Callable[[SimpleAvroReader], SimpleMessage]]] = {
    WATERMARK: _read_watermark,
    BOOTSTRAP: _read_bootstrap,
    "DDL": _read_ddl,
    "DML": _read_dml,
}


def _read_checksum(reader: SimpleAvroReader) -> Checksum:
    return Checksum(reader.long(), reader.flag(), reader.long(), reader.long())


def _read_image(reader: SimpleAvroReader) -> Image:
    return dict(reader.items(_read_member))


def _read_member(reader: SimpleAvroReader) -> tuple[str, object]:
    return reader.text(), read_value(reader)


def _read_table(reader: SimpleAvroReader) -> TableEntry:
    return TableEntry(
        reader.text(),
        reader.text(),
        reader.long(),
        reader.long(),
        list(reader.items(_read_column)),
        list(reader.items(_read_index)),
    )


def _read_column(reader: SimpleAvroReader) -> ColumnEntry:
    name, data_type, nullable = reader.text(), _read_type(reader), reader.flag()
    default = reader.optional(SimpleAvroReader.data)
    return ColumnEntry(name, data_type, nullable, _read_default(default, data_type.mysqlType))


def _read_default(default: bytes | None, base: str) -> str | int | None:
    """Return a default: a BIT's is the number in its bytes, or text if there are too many."""
    if default is None:
        return None
    if base == "bit" and 8 * len(default) <= MAX_BITS:
        return int.from_bytes(default, "big")
    return default_text(default) if base in BINARIES else default.decode(errors="replace")


def _read_type(reader: SimpleAvroReader) -> DataType:
    """Return a type with the members of JSON: the digits of a second follow from the length."""
    found = DataType(reader.text(), reader.text(), reader.text(), reader.long() or UNSET)
    digits = reader.optional(SimpleAvroReader.long) or temporal_digits(found.mysqlType, found.length or 0)
    elements = reader.optional(_read_elements)
    unsigned, zerofill = reader.optional(SimpleAvroReader.flag), reader.optional(SimpleAvroReader.flag)
    found.decimal = digits or UNSET
    found.elements = elements or UNSET
    found.unsigned, found.zerofill = unsigned or UNSET, zerofill or UNSET
    return found


def _read_elements(reader: SimpleAvroReader) -> list[str]:
    return list(reader.items(SimpleAvroReader.text))


def _read_index(reader: SimpleAvroReader) -> IndexEntry:
    return IndexEntry(
        reader.text(), reader.flag(), reader.flag(), reader.flag(), list(reader.items(SimpleAvroReader.text))
    )


# ---------------------------------------------------------------- written


def _stamps(message: SimpleMessage) -> bytes:
    return avro_long(message.version) + avro_long(message.commit_ts) + avro_long(message.build_ts)


def _bootstrap(message: SimpleMessage) -> bytes:
    table = b"" if message.table_schema is None else _table(message.table_schema)
    return avro_long(message.version) + avro_long(message.build_ts) + table


def _ddl(message: SimpleMessage) -> bytes:
    return b"".join(
        (
            avro_long(message.version),
            avro_long(_DDL_TYPES.index(message.type)),
            avro_text(message.sql or ""),
            avro_long(message.commit_ts),
            avro_long(message.build_ts),
            *(
                avro_optional(None if entry is None else _table(entry))
                for entry in (message.table_schema, message.pre_table_schema)
            ),
        )
    )


def _table(entry: TableEntry) -> bytes:
    return b"".join(
        (
            avro_text(entry.schema),
            avro_text(entry.table),
            avro_long(entry.tableID),
            avro_long(entry.version),
            avro_block(map(_column, entry.columns)),
            avro_block(map(_index, entry.indexes or ())),
        )
    )


def _column(column: ColumnEntry) -> bytes:
    default = _default(column.default, column.dataType.mysqlType)
    return b"".join(
        (
            avro_text(column.name),
            _type(column.dataType),
            avro_flag(column.nullable),
            avro_optional(None if default is None else avro_bytes(default)),
        )
    )


def _default(default: str | float | None, base: str) -> bytes | None:
    """Return a default as bytes: a number is that of a BIT, written as its bytes."""
    if default is None:
        return None
    if isinstance(default, str):
        return default_bytes(default) if base in BINARIES else default.encode()
    number = int(default)
    return number.to_bytes(max(1, (number.bit_length() + 7) // 8), "big")


def _type(data_type: DataType) -> bytes:
    base, elements = data_type.mysqlType, data_type.elements or None
    has_sign = base in _SIGNED
    return b"".join(
        (
            avro_text(base),
            avro_text(data_type.charset),
            avro_text(data_type.collate),
            avro_long(data_type.length or 0),
            avro_optional(avro_long(data_type.decimal or 0) if base in _SCALED else None),
            avro_optional(None if elements is None else avro_block(map(avro_text, elements))),
            avro_optional(avro_flag(data_type.unsigned is True) if has_sign else None),
            avro_optional(avro_flag(data_type.zerofill is True) if has_sign else None),
        )
    )


def _index(index: IndexEntry) -> bytes:
    return b"".join(
        (
            avro_text(index.name),
            avro_flag(index.unique),
            avro_flag(index.primary),
            avro_flag(index.nullable),
            avro_block(map(avro_text, index.columns)),
        )
    )
