"""Options of `debezium-json` and `debezium-avro`: those of Debezium's MySQL connector and of Kafka Connect's
converters, by their names, and relay's own, which change the output for readers.

Sources: Debezium 3.6 "MySQL connector", connector properties; apache/kafka connect/json JsonConverterConfig;
confluentinc schema-registry AvroConverterConfig, AvroDataConfig (8.x).
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from relay.codecs.codec import ZonedOptions
from relay.codecs.shared.avro import SubjectNames
from relay.codecs.shared.id_headers import SchemaIdPlace
from relay.codecs.shared.shaping import InsertUnknownBefore
from relay.model.errors import Problem

NAME: Final = "debezium-json"
_TARGET: Final = {"side": "target"}


class ConnectorOptions(ZonedOptions, frozen=True):
    """Options of the connector (source), or of the output (target)."""

    timezone: Annotated[
        str,
        Meta(
            description="time zone of TIMESTAMP text without a zone: a name (Asia/Shanghai) or an "
            "offset "
            "(+08:00)",
            extra={"side": "source"},
        ),
    ] = "UTC"

    topic_prefix: Annotated[
        str,
        Meta(
            description="the connector's name: `source.name`, and the first part of schema names; "
            "in a source, also the name of its schema change topic"
        ),
    ] = msgspec.field(name="topic.prefix", default="relay")
    decimal_handling_mode: Annotated[
        Literal["precise", "double", "string"],
        Meta(description="encoding of DECIMAL: exact bytes, number, text"),
    ] = msgspec.field(name="decimal.handling.mode", default="precise")
    time_precision_mode: Annotated[
        Literal["adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds"],
        Meta(description="encoding of DATE, TIME and DATETIME"),
    ] = msgspec.field(name="time.precision.mode", default="adaptive_time_microseconds")
    bigint_unsigned_handling_mode: Annotated[
        Literal["long", "precise", "string"],
        Meta(
            description="encoding of BIGINT UNSIGNED: a signed 64-bit integer, an exact decimal, or (relay "
            "only) text"
        ),
    ] = msgspec.field(name="bigint.unsigned.handling.mode", default="long")
    binary_handling_mode: Annotated[
        Literal["bytes", "base64", "base64-url-safe", "hex"], Meta(description="encoding of binary values")
    ] = msgspec.field(name="binary.handling.mode", default="bytes")
    tombstones_on_delete: Annotated[
        bool, Meta(description="write a tombstone after each DELETE", extra=_TARGET)
    ] = msgspec.field(name="tombstones.on.delete", default=True)
    skipped_operations: Annotated[
        Literal["t", "none"],
        Meta(
            description="t: no event for TRUNCATE; none: an event `t`",
            extra=_TARGET,
        ),
    ] = msgspec.field(name="skipped.operations", default="t")
    include_schema_changes: Annotated[bool, Meta(description="write DDL", extra=_TARGET)] = msgspec.field(
        name="include.schema.changes", default=True
    )
    include_schema_comments: Annotated[
        bool,
        Meta(description="write comments of tables and columns in `tableChanges` and schemas", extra=_TARGET),
    ] = msgspec.field(name="include.schema.comments", default=False)
    schema_name_adjustment_mode: Annotated[
        Literal["none", "avro", "avro_unicode"], Meta(description="characters of schema names", extra=_TARGET)
    ] = msgspec.field(name="schema.name.adjustment.mode", default="none")
    field_name_adjustment_mode: Annotated[
        Literal["none", "avro", "avro_unicode"], Meta(description="characters of column names")
    ] = msgspec.field(name="field.name.adjustment.mode", default="none")
    unavailable_value_placeholder: Annotated[
        str,
        Meta(
            description="placeholder for a column that the row lacks: text, or hex: with its bytes in "
            "hexadecimal; empty: a target omits the column from row and schema"
        ),
    ] = msgspec.field(name="unavailable.value.placeholder", default="__debezium_unavailable_value")
    provide_transaction_metadata: Annotated[
        bool, Meta(description="write `transaction`, and BEGIN and END as messages", extra=_TARGET)
    ] = msgspec.field(name="provide.transaction.metadata", default=False)
    missing_before: InsertUnknownBefore = "insert"
    bit: Annotated[
        Literal["producer", "number"],
        Meta(
            description="BIT: a boolean or bytes as the connector writes it, or a number encoded like "
            "BIGINT UNSIGNED",
            extra=_TARGET,
        ),
    ] = "producer"
    temporal: Annotated[
        Literal["producer", "text"],
        Meta(
            description="DATE, TIME, DATETIME and TIMESTAMP as set by time.precision.mode, or as MySQL's "
            "own text",
            extra=_TARGET,
        ),
    ] = "producer"
    time: Annotated[
        Literal["producer", "text"], Meta(description="the same for TIME alone", extra=_TARGET)
    ] = "producer"
    zero_dates: Annotated[
        Literal["keep", "null", "text"],
        Meta(
            description="dates that are not in the calendar: as the connector writes them (NULL, or 1970 in "
            "a column that cannot be NULL), NULL (a row with one in its key is refused), or MySQL's own "
            "text, which then applies to all values of DATE, DATETIME and TIMESTAMP",
            extra=_TARGET,
        ),
    ] = "keep"
    wide_decimals: Annotated[
        Literal["producer", "text"],
        Meta(
            description="DECIMAL of more than 38 digits: as set by decimal.handling.mode, or text",
            extra=_TARGET,
        ),
    ] = "producer"
    vector: Annotated[
        Literal["producer", "text"], Meta(description="VECTOR: a list of numbers, or its text", extra=_TARGET)
    ] = "producer"
    enum_schema: Annotated[
        Literal["producer", "string"],
        Meta(description="ENUM and SET in schemas: with their members, or as plain strings", extra=_TARGET),
    ] = "producer"
    schema_columns: Annotated[
        Literal["producer", "optional"],
        Meta(
            description="columns in schemas: as in the table, or all but the key optional and without a "
            "default",
            extra=_TARGET,
        ),
    ] = "producer"
    heartbeats: Annotated[
        Literal["keep", "drop"],
        Meta(description="write heartbeats of the source, or leave them out", extra=_TARGET),
    ] = "keep"
    key_change_headers: Annotated[
        bool,
        Meta(
            description="write headers __debezium.newkey and __debezium.oldkey for an UPDATE of a "
            "key, which becomes DELETE and INSERT",
            extra=_TARGET,
        ),
    ] = True

    def problems(self) -> list[Problem]:
        """Report a placeholder that is not hexadecimal, and a wrong zone."""
        try:
            self.placeholder()
        except ValueError:
            name, hint = "unavailable.value.placeholder", "write pairs of hexadecimal digits after hex:"
            return [*super().problems(), Problem(name, "not hexadecimal digits", hint)]
        return super().problems()

    def placeholder(self) -> bytes:
        """Return the bytes of the placeholder. Raises ValueError."""
        text = self.unavailable_value_placeholder
        return bytes.fromhex(text[4:]) if text.startswith("hex:") else text.encode()

    def without_effect(self) -> dict[str, str]:
        """Report options of forms and statements that are not written."""
        return {**super().without_effect(), **self._idle_forms(), **self._idle_statements()}

    def _idle_forms(self) -> dict[str, str]:
        found, mode = {}, self.decimal_handling_mode
        if mode != "precise":
            found["wide-decimals"] = f"decimal.handling.mode={mode} has no exact decimals"
        if self.temporal == "text":
            found |= dict.fromkeys(("time", "time.precision.mode"), "temporal=text writes MySQL's text")
            if self.zero_dates == "text":
                found["zero-dates"] = "temporal=text writes all dates as text"
        elif self.zero_dates == "text" and self.time == "text":
            found["time.precision.mode"] = "zero-dates=text and time=text write MySQL's text"
        return found

    def _idle_statements(self) -> dict[str, str]:
        found = {}
        if self.ddl == "drop" and self.include_schema_changes:
            found["include.schema.changes"] = "ddl=drop leaves DDL out"
        if not self._writes_statements:
            found["skipped.operations"] = "TRUNCATE is DDL, which is left out"
        return found

    @property
    def _writes_statements(self) -> bool:
        return self.ddl == "keep" and self.include_schema_changes


class DebeziumOptions(ConnectorOptions, frozen=True):
    """Options of connector and JsonConverter (source), or of the output (target)."""

    schemas_enable: Annotated[
        bool, Meta(description="keys and values are {schema, payload}; false: the payload alone")
    ] = msgspec.field(name="schemas.enable", default=True)
    key_schemas_enable: Annotated[bool | None, Meta(description="the same for keys only")] = msgspec.field(
        name="key.converter.schemas.enable", default=None
    )
    value_schemas_enable: Annotated[bool | None, Meta(description="the same for values only")] = (
        msgspec.field(name="value.converter.schemas.enable", default=None)
    )
    decimal_format: Annotated[
        Literal["BASE64", "NUMERIC"],
        Meta(description="encoding of exact decimals in JSON: bytes, or a number"),
    ] = msgspec.field(name="decimal.format", default="BASE64")
    replace_null_with_default: Annotated[
        bool,
        Meta(
            description="write NULL as the column's default, as JsonConverter does",
            extra=_TARGET,
        ),
    ] = msgspec.field(name="replace.null.with.default", default=True)

    def without_effect(self) -> dict[str, str]:
        """Report options of forms, schemas and statements that are not written."""
        return {**super().without_effect(), **self._idle_schemas()}

    def _idle_forms(self) -> dict[str, str]:
        found = super()._idle_forms()
        if self.decimal_handling_mode != "precise" and self.bigint_unsigned_handling_mode != "precise":
            found["decimal.format"] = found["wide-decimals"]
        return found

    def _idle_schemas(self) -> dict[str, str]:
        found, parts = {}, {self.key_schemas_enable, self.value_schemas_enable}
        if None not in parts:
            each = "key.converter.schemas.enable and value.converter.schemas.enable"
            found["schemas.enable"] = f"{each} are given"
        if not (self.has_key_schema or self.has_value_schema):
            found |= dict.fromkeys(("enum-schema", "schema.name.adjustment.mode"), "no schemas are written")
            if not self._writes_statements:
                found["include.schema.comments"] = "neither schemas nor DDL are written"
        return found

    @property
    def has_key_schema(self) -> bool:
        """Return whether keys have a schema."""
        return self.schemas_enable if self.key_schemas_enable is None else self.key_schemas_enable

    @property
    def has_value_schema(self) -> bool:
        """Return whether values have a schema."""
        return self.schemas_enable if self.value_schemas_enable is None else self.value_schemas_enable


AVRO_NAME: Final = "debezium-avro"


class DebeziumAvroOptions(ConnectorOptions, frozen=True):
    """Options of connector and AvroConverter (source), or of the output (target)."""

    # The connector's default is `none`, with which the converter fails for a name with a dash.
    schema_name_adjustment_mode: Annotated[
        Literal["none", "avro", "avro_unicode"], Meta(description="characters of schema names", extra=_TARGET)
    ] = msgspec.field(name="schema.name.adjustment.mode", default="avro")
    field_name_adjustment_mode: Annotated[
        Literal["none", "avro", "avro_unicode"], Meta(description="characters of column names")
    ] = msgspec.field(name="field.name.adjustment.mode", default="avro")
    ignore_default_for_nullables: Annotated[
        bool, Meta(description="NULL stays NULL where a column has a default", extra=_TARGET)
    ] = msgspec.field(name="ignore.default.for.nullables", default=False)
    key_subject_name_strategy: Annotated[
        SubjectNames, Meta(description="subject name strategy for key schemas", extra=_TARGET)
    ] = msgspec.field(name="key.subject.name.strategy", default="TopicNameStrategy")
    value_subject_name_strategy: Annotated[
        SubjectNames,
        Meta(
            description="the same for value schemas; TopicRecordNameStrategy for topics of several tables",
            extra=_TARGET,
        ),
    ] = msgspec.field(name="value.subject.name.strategy", default="TopicNameStrategy")

    schema_id: SchemaIdPlace = msgspec.field(name="schema-id", default="prefix")

    def as_json(self) -> DebeziumOptions:
        """Return the options of the equivalent JSON, with schemas."""
        shared = {name: getattr(self, name) for name in ConnectorOptions.__struct_fields__}
        return DebeziumOptions(**shared, replace_null_with_default=not self.ignore_default_for_nullables)
