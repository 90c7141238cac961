"""TiCDC's dialect of Debezium in Avro (protocol=debezium-avro), with a schema registry.

    key, value      00, id of a schema in 4 bytes, Avro

Messages are those of `ticdc-debezium` with schemas, and so are names, operations and values; here decimals
and binary values are exact. Every column may be NULL, and has its own name in `connect.field`. Statements and
watermarks exist with avro-enable-watermark; their schemas are registered under the names of their records,
those of rows under the topic. Since v26.3.3. Verified with records of pingcap/ticdc master b813e76f9
(2026-08-18).
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from relay.catalog import Catalog
from relay.codecs.codec import Codec, EncodedRecord, KeySupport, Options, RegistrySupport, TemplateSupport
from relay.codecs.debezium import detection
from relay.codecs.debezium.shared import semantic_names
from relay.codecs.debezium.shared.avro_bridge import error_of, unwrapped
from relay.codecs.debezium.shared.schemas import AvroForms
from relay.codecs.debezium.ticdc import decoder, encoder
from relay.codecs.debezium.ticdc import options as json_options
from relay.codecs.debezium.ticdc.options import ClusterId, TicdcDebeziumOptions
from relay.codecs.losses import Capabilities, Keys, Loss, loss_of
from relay.codecs.shared.avro import (
    ID_HEADERS,
    AvroSchema,
    Part,
    RegisteredSchemas,
    SchemaIds,
    compact,
    named_schemas,
    subject_of,
)
from relay.codecs.shared.avro_decimals import decimal_bytes, read_decimal
from relay.codecs.shared.avro_writing import (
    FIRST,
    SECOND,
    WRITES,
    Maker,
    Write,
    array,
    binary,
    converted,
    record,
    written,
)
from relay.codecs.shared.base64_text import base64_text
from relay.codecs.shared.by_topic import ByTopic
from relay.codecs.shared.caches import ByteCache, CachePool
from relay.codecs.shared.id_headers import SchemaIdPlace, placing
from relay.codecs.shared.shaping import KeepUnknownBefore
from relay.codecs.shared.ticdc import DecimalMode, RawChangeEvent
from relay.model.avro_types import AvroField, AvroType, parse_types
from relay.model.errors import (
    DecodeError,
    EncodeError,
    Malformed,
    NotRepresentable,
    Problem,
    UnsupportedMessage,
)
from relay.model.events import Event, RowChange
from relay.model.lookups import LookupCache
from relay.model.records import ConsumerRecord
from relay.mysql.numbers import decimal_text, shortest_float32
from relay.mysql.numbers import read_decimal as decimal_of

NAME: Final = "ticdc-debezium-avro"
Json = dict[str, Any]
#: Converts a value of Avro to its JSON form.
Convert = Callable[[Any], Any]
#: Memory of a schema besides its text, per byte of the text.
_FACTOR: Final = 30
_PLAN_BYTES: Final = 2_000
_to_json: Final = msgspec.json.Encoder().encode

# ---------------------------------------------------------------- options


class TicdcDebeziumAvroOptions(Options, frozen=True):
    """TiCDC's sink-URI options. Those that change content are for targets; the decoder detects them."""

    enable_tidb_extension: Annotated[bool, Meta(description="columns have `tidb_type`")] = False
    avro_enable_watermark: Annotated[bool, Meta(description="statements and watermarks are written")] = False
    avro_decimal_handling_mode: DecimalMode = "precise"
    avro_bigint_unsigned_handling_mode: Annotated[
        Literal["long", "string"],
        Meta(description="BIGINT UNSIGNED as long, which refuses numbers from 2^63 on, or as text"),
    ] = "long"
    output_old_value: Annotated[bool, Meta(description="write `before` of an UPDATE")] = True
    missing_before: KeepUnknownBefore = "update"
    output_raw_change_event: RawChangeEvent = False
    cluster_id: ClusterId = "default"
    replace_null_with_default: Annotated[
        bool,
        Meta(
            description="write NULL as the column's default if it has one, as TiCDC does; false: write null",
            extra={"side": "target"},
        ),
    ] = msgspec.field(name="replace.null.with.default", default=True)
    schema_id: SchemaIdPlace = "prefix"

    def as_json(self) -> TicdcDebeziumOptions:
        """Return the options of the messages in JSON."""
        return TicdcDebeziumOptions(
            strict=self.strict,
            ddl=self.ddl,
            watermarks=self.watermarks,
            enable_tidb_extension=self.enable_tidb_extension,
            output_old_value=self.output_old_value,
            missing_before=self.missing_before,
            output_raw_change_event=self.output_raw_change_event,
            cluster_id=self.cluster_id,
            replace_null_with_default=self.replace_null_with_default,
        )

    @property
    def forms(self) -> AvroForms:
        """Return the form of numbers."""
        return AvroForms(
            self.avro_decimal_handling_mode == "string", self.avro_bigint_unsigned_handling_mode == "string"
        )

    def writing_problems(self) -> list[Problem]:
        """Report combinations of options that TiCDC refuses."""
        problems = super().writing_problems()
        if self.avro_enable_watermark and not self.enable_tidb_extension:
            problems.append(Problem("avro-enable-watermark", "needs enable-tidb-extension=true"))
        return problems

    def without_effect(self) -> dict[str, str]:
        """Report options of old rows if none is written."""
        found = super().without_effect()
        if not self.output_old_value:
            found["missing-before"] = "output-old-value=false leaves old rows out"
        return found


def carries(options: TicdcDebeziumAvroOptions) -> Capabilities:
    """Return the capabilities of messages with these options."""
    return msgspec.structs.replace(
        json_options.carries(options.as_json()),
        ddl=options.avro_enable_watermark,
        truncate=options.avro_enable_watermark,
        watermark=options.avro_enable_watermark,
        exact_decimals=True,
    )


# ---------------------------------------------------------------- decoder

_TYPES: Final = {
    "boolean": "boolean",
    "int": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "bytes",
}


class _Reader:
    """Reads values of one schema as TiCDC's JSON with its schema block. Raises ValueError for others."""

    def __init__(self, type_: AvroType) -> None:
        node, self._convert = _read(type_)
        self._head = b'{"schema":%b,"payload":' % _to_json(node)

    def json(self, value: Any) -> bytes:  # noqa: ANN401 - a value of the schema
        """Return the message that TiCDC would have written as JSON. Raises ValueError."""
        return self._head + _to_json(self._convert(value)) + b"}"


def _read(type_: AvroType) -> tuple[Json, Convert]:
    """Return the Connect schema of a type, and the function from its values to JSON."""
    present = type_.present
    if present.kind == "record":
        nodes, converts = [], []
        for field in present.fields:
            node, convert = _read_field(field)
            nodes.append(node)
            converts.append((field.name, node["field"], convert))
        found: tuple[Json, Convert] = (
            {"type": "struct", "fields": nodes},
            functools.partial(_object, converts),
        )
    elif present.kind == "array" and present.items is not None:
        items, of_item = _read(present.items)
        found = {"type": "array", "items": items}, functools.partial(_list, of_item)
    elif present.kind in _TYPES:
        found = {"type": _TYPES[present.kind]}, _CONVERTS.get(present.kind, _same)
    else:
        raise ValueError(f"has the type {present.kind}")
    node, convert = found
    attributes = present.attributes
    for name in ("name", "version", "parameters"):
        if f"connect.{name}" in attributes:
            node[name] = attributes[f"connect.{name}"]
    if present.kind == "int" and attributes.get("connect.type") in {"int8", "int16"}:
        node["type"] = attributes["connect.type"]
    node["optional"] = type_.is_optional
    return node, convert if present is type_ else functools.partial(_or_null, convert)


def _read_field(field: AvroField) -> tuple[Json, Convert]:
    """Return the same as `_read` for a field: columns have their types of JSON."""
    node, convert = _read(field.type)
    present, attributes = field.type.present, field.attributes
    name, word = attributes.get("connect.field"), attributes.get("tidb_type")
    node["field"] = name if isinstance(name, str) else field.name
    if isinstance(word, str):
        node["tidb_type"] = word
    kind = present.kind
    if node.get("name") == semantic_names.DECIMAL and kind == "bytes":
        scale, precision = present.attributes.get("scale", 0), present.attributes.get("precision")
        if (
            type(scale) is not int
            or type(precision) is not int
            or not 0 <= scale <= precision <= _MOST_DIGITS
        ):
            raise ValueError("has a DECIMAL without its digits")
        convert = functools.partial(_or_null, functools.partial(_decimal, scale))
        node["type"], node["parameters"] = "double", {"precision": str(precision), "scale": str(scale)}
    elif kind == "string" and word == "decimal":
        node["type"] = "double"
    elif kind == "string" and word == "bigint unsigned":
        node["type"], convert = "int64", functools.partial(_or_null, _whole)
    elif kind == "bytes" and "name" not in node:
        node |= {"type": "string", "tidb_type": node.get("tidb_type", "blob")}
    return node, convert


#: Maximum digits of a DECIMAL and of a 64-bit number.
_MOST_DIGITS, _MOST_LONG = 65, 20


def _same(value: Any) -> Any:  # noqa: ANN401 - any value
    return value


def _or_null(convert: Convert, value: Any) -> Any:  # noqa: ANN401 - any value
    return None if value is None else convert(value)


def _object(converts: Sequence[tuple[str, str, Convert]], row: Json) -> Json:
    return {name: convert(row[field]) for field, name, convert in converts}


def _list(convert: Convert, values: list[Any]) -> list[Any]:
    return [convert(value) for value in values]


def _decimal(scale: int, data: bytes) -> str:
    return decimal_text(read_decimal(scale, data))


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_LONG):
        raise ValueError("not an unsigned number")
    return int(text)


def _finite(number: float) -> float:
    if number - number != 0:
        raise ValueError("not a finite number")
    return number


def _short(number: float) -> float:
    """Return the shortest digits of a 32-bit number."""
    return shortest_float32(_finite(number))


_CONVERTS: Final[dict[str, Convert]] = {"bytes": base64_text, "float": _short, "double": _finite}


class TicdcDebeziumAvroDecoder:
    """Decodes TiCDC's debezium-avro."""

    def __init__(self, options: TicdcDebeziumAvroOptions, answers: LookupCache) -> None:
        self._json = decoder.TicdcDebeziumDecoder(options.as_json(), answers, NAME)
        self._schemas = RegisteredSchemas(NAME, answers)
        self._readers: ByteCache[AvroSchema, _Reader] = CachePool(answers.limits.cache_bytes).cache()

    def decode(
        self, record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
    ) -> tuple[list[Event], Catalog]:
        """Return the record's event; see `relay.codecs.codec.Decoder`."""
        if record.value is None:
            losses.append(Loss.TOMBSTONE)
            return [], catalog
        value = self._read(record, "value")
        try:
            key = self._read(record, "key")
        except (Malformed, UnsupportedMessage):
            key = None  # from another converter
        try:
            return self._json.decode(msgspec.structs.replace(record, key=key, value=value), catalog, losses)
        except DecodeError as error:
            raise error_of(NAME, error) from error

    def _read(self, record: ConsumerRecord, part: Part) -> bytes | None:
        """Return a part of the message as JSON."""
        found = self._schemas.part(record, part)
        if found is None:
            return None
        id, schema, body = found
        if schema.type.kind != "record":
            raise UnsupportedMessage(NAME, part, "not a record, so this is not a message of this protocol")
        reader = self._readers.get(schema)
        if reader is None:
            try:
                reader = _Reader(schema.type)
            except ValueError as error:
                raise UnsupportedMessage(NAME, part, f"schema {id} {error}") from None
            self._readers.keep(schema, reader, _FACTOR * len(schema.text) + _PLAN_BYTES)
        value = schema.read(NAME, part, body)
        try:
            return reader.json(value)
        except (ValueError, msgspec.MsgspecError) as error:
            raise Malformed(NAME, part, str(error)) from None


# ---------------------------------------------------------------- encoder

_SOURCE_COLUMNS: Final = (
    ("version", "string"), ("connector", "string"), ("name", "string"), ("ts_ms", "long"),
    ("snapshot", "string?"), ("db", "string"), ("table", "string"), ("server_id", "long"),
    ("gtid", "string?"), ("file", "string"), ("pos", "long"), ("row", "int"), ("thread", "long?"),
    ("query", "string?"),
    ("commit_ts", "long"), ("cluster_id", "string"),
)  # fmt: skip
_CHANGE: Final = "io.debezium.connector.mysql.SchemaChange"
_AVRO: Final = {
    "boolean": "boolean", "int8": "int", "int16": "int", "int32": "int", "int64": "long", "float": "float",
    "double": "double", "string": "string", "bytes": "bytes",
}  # fmt: skip
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_]", re.ASCII)


def _sanitized(name: str) -> str:
    found = _NO_NAME.sub("_", name)
    return f"_{found}" if found[:1].isdigit() else found


def _full(prefix: str) -> str:
    """Return the first part of a table's names, `cluster.database.table`, adjusted to Avro."""
    parts = prefix.split(".", 2)
    return ".".join(map(_sanitized, parts))


class _WrittenType:
    """A type of the written schema: its document, the maker of a writer of its values from JSON, and its name
    for references.
    """

    def __init__(self, document: Any, make: Maker, name: str, *, is_optional: bool = False) -> None:  # noqa: ANN401 - any JSON
        self.document, self._make, self.name, self.is_optional = document, make, name, is_optional

    def optional(self) -> _WrittenType:
        """Return the union of null and this type."""
        return _WrittenType(["null", self.document], self._make, self.name, is_optional=True)

    def reference(self) -> _WrittenType:
        """Return the type by its name."""
        return _WrittenType(self.name, self._make, self.name)

    def write(self) -> Write:
        """Return the writing function of its values."""
        return self._make(SECOND, FIRST) if self.is_optional else self._make(b"", None)


#: A field's document, the name of its member in JSON, and the writing function of the member.
_Field = tuple[Json, tuple[str, Write]]


def _field(name: str, made: _WrittenType, word: str | None = None) -> _Field:
    """Return a field, its members in alphabetical order; `word`: its `tidb_type`."""
    document: Json = {"connect.field": name}
    if made.is_optional:
        document["default"] = None
    document["name"] = _sanitized(name)
    if word is not None:
        document["tidb_type"] = word
    return {**document, "type": made.document}, (name, made.write())


def _record(full: str, fields: Sequence[_Field], version: int | None) -> _WrittenType:
    names = [document["name"] for document, _ in fields]
    if len(set(names)) < len(names):
        raise ValueError("has two columns of one name in Avro")
    namespace, _, name = full.rpartition(".")
    document: Json = {"connect.name": full}
    if version is not None:
        document["connect.version"] = version
    document["fields"] = [field for field, _ in fields]
    document |= {"name": name, "namespace": namespace, "type": "record"}
    return _WrittenType(document, record([member for _, member in fields]), full)


def _plain(word: str) -> _WrittenType:
    kind = word.removesuffix("?")
    made = _WrittenType(kind, WRITES[kind], kind)
    return made.optional() if word.endswith("?") else made


def _typed(node: Json) -> _WrittenType:
    """Return the type of a Connect schema that is no row."""
    kind = node["type"]
    if kind == "struct":
        fields = [
            _field(member["field"], _typed(member).optional() if member.get("optional") else _typed(member))
            for member in node["fields"]
        ]
        return _record(node["name"], fields, node.get("version"))
    if kind == "array":
        items = _typed(node["items"])
        return _WrittenType({"items": items.document, "type": "array"}, array(items.write()), "array")
    avro, attributes = _AVRO[kind], {}
    make = WRITES[avro]
    parameters = node.get("parameters")
    if node.get("name") is not None:
        attributes["connect.name"] = node["name"]
    if parameters:
        attributes["connect.parameters"] = parameters
    if kind in {"int8", "int16"}:
        attributes["connect.type"] = kind
    if node.get("version") is not None:
        attributes["connect.version"] = node["version"]
    if node.get("name") == semantic_names.DECIMAL and parameters:
        precision, scale = int(parameters["precision"]), int(parameters["scale"])
        attributes |= {"logicalType": "decimal", "precision": precision, "scale": scale}
        make = converted(functools.partial(_of_decimal, precision, scale), binary)
    return _WrittenType({**attributes, "type": avro} if attributes else avro, make, avro)


def _of_decimal(precision: int, scale: int, text: str) -> bytes:
    return decimal_bytes(precision, scale, decimal_of(text))


def _source(prefix: str) -> _WrittenType:
    fields = [_field(name, _plain(word)) for name, word in _SOURCE_COLUMNS]
    return _record(f"{prefix}.Source", fields, None)


class _Writer:
    """Writes messages with one schema block as Avro. Raises ValueError for impossible names.

    `subject`: for statements and watermarks, that of their schema.
    """

    def __init__(self, block: Json, database: str, cluster: str) -> None:
        name: str = block["name"]
        self.subject: str | None = None
        self._is_row = False
        if name.startswith(_CHANGE):
            made, self.subject = self._change(block, f"{_sanitized(cluster)}.{_sanitized(database)}"), name
        elif (
            name.rpartition(".")[0] == f"{_sanitized(cluster)}.watermark" and len(name.split(".")) == _CONTROL
        ):
            made, self.subject = self._mark(block), name
        else:
            made = self._row(block)
        self.text, self._write = compact(made.document), made.write()
        parse_types(self.text)

    def body(self, payload: Json) -> bytes:
        """Return the Avro of a payload. Raises ValueError, TypeError, KeyError and ArithmeticError."""
        if self._is_row:
            payload["source"] |= {"snapshot": None, "thread": None}
        return written(self._write, payload)

    def _row(self, block: Json) -> _WrittenType:
        prefix, _, kind = block["name"].rpartition(".")
        full = _full(prefix)
        if kind == "Key":
            return _record(f"{full}Key", _columns(block["fields"]), None)
        self._is_row = True
        row = _record(full, _columns(block["fields"][0]["fields"]), None)
        source = _source(".".join(full.split(".")[:2]))
        if source.name == full:
            raise ValueError("would have the name of its source's")
        fields = [
            _field("before", row.optional()),
            _field("after", row.reference().optional()),
            _field("source", source),
            _field("op", _plain("string")),
            _field("ts_ms", _plain("long")),
        ]
        return _record(f"{full}Envelope", fields, 1)

    def _mark(self, block: Json) -> _WrittenType:
        name = block["name"]
        if name.endswith(".Key"):
            return _record(name, [], None)
        fields = [
            _field("source", _source(name.rpartition(".")[0])),
            _field("op", _plain("string")),
            _field("ts_ms", _plain("long?")),
            _field("transaction", _typed(block["fields"][-1]).optional()),
        ]
        return _record(name, fields, 1)

    def _change(self, block: Json, prefix: str) -> _WrittenType:
        if block["name"].endswith("Key"):
            return _typed(block)
        fields = [
            _field(
                member["field"],
                _source(prefix)
                if member["field"] == "source"
                else _typed(member).optional()
                if member.get("optional")
                else _typed(member),
            )
            for member in block["fields"]
        ]
        return _record(block["name"], fields, block.get("version"))


_CONTROL: Final = 3


def _columns(nodes: Sequence[Json]) -> list[_Field]:
    return [_field(node["field"], _typed(node).optional(), node.get("tidb_type")) for node in nodes]


class TicdcDebeziumAvroEncoder(ByTopic):
    """Encodes debezium-avro as TiCDC does."""

    def __init__(self, options: TicdcDebeziumAvroOptions, answers: LookupCache) -> None:
        super().__init__()
        self._json = encoder.TicdcDebeziumEncoder(options.as_json(), answers, options.forms)
        self.prepare = self._json.prepare
        self._cluster, self._has_control = options.cluster_id, options.avro_enable_watermark
        pool = CachePool(answers.limits.cache_bytes)
        self._writers: ByteCache[tuple[bytes, str], _Writer] = pool.cache()
        self._ids = SchemaIds(answers, pool)

    def _encode(
        self, topic: str, events: Sequence[Event], source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterator[EncodedRecord]:
        try:
            for event in events:
                if not isinstance(event, RowChange) and not self._has_control:
                    losses.append(loss_of(event))
                    continue
                for payload in self._json.encode([event], source_record, losses):
                    yield self._avro(topic, payload)
        except EncodeError as error:
            raise error_of(NAME, error) from error

    def _avro(self, topic: str, payload: EncodedRecord) -> EncodedRecord:
        value = unwrapped(payload.value or b"")
        document = _document(value.payload)
        database = document["source"]["db"]
        key = None
        if payload.key is not None:
            found = unwrapped(payload.key)
            key = self._part(topic, "key", bytes(found.schema), _document(found.payload), database)
        return EncodedRecord(key, self._part(topic, "value", bytes(value.schema), document, database))

    def _part(self, topic: str, part: Part, block: bytes, payload: Json, database: str) -> bytes:
        writer = self._writers.get((block, database))
        if writer is None:
            try:
                writer = _Writer(msgspec.json.decode(block), database, self._cluster)
            except ValueError as error:
                raise NotRepresentable(NAME, part, f"its schema {error}") from None
            size = _FACTOR * len(block) + _PLAN_BYTES
            self._writers.keep((block, database), writer, size)
        try:
            body = writer.body(payload)
        except (ValueError, TypeError, KeyError, ArithmeticError):
            raise NotRepresentable(NAME, part, "a value that its Avro schema cannot represent") from None
        subject = writer.subject or subject_of("TopicNameStrategy", topic, part, "")
        return self._ids.framed(subject, writer.text, body)


def _integer(digits: str) -> float:
    if digits == "-0":
        return -0.0
    return int(digits)


_NEGATIVE_ZERO: Final = re.compile(rb":-0[,}]")


def _document(text: bytes | msgspec.Raw) -> Json:
    """Return a payload. Go prints the float -0.0 as `-0`, which is an integer to readers of any JSON."""
    found: Json
    if _NEGATIVE_ZERO.search(text):
        found = json.loads(bytes(text), parse_int=_integer)
    else:
        found = msgspec.json.decode(text)
    return found


CODEC: Final = Codec(
    name=NAME,
    title="TiCDC's Debezium dialect in Avro (protocol=debezium-avro), with a schema registry",
    options=TicdcDebeziumAvroOptions,
    decodes=carries(TicdcDebeziumAvroOptions(enable_tidb_extension=True, avro_enable_watermark=True)),
    encodes=carries,
    decoder=TicdcDebeziumAvroDecoder,
    encoder=partial(placing, TicdcDebeziumAvroEncoder),
    ddl_everywhere=True,
    own_headers=frozenset(ID_HEADERS.values()),
    detection_rule=detection.ticdc_avro,
    keys=KeySupport(meaning=Keys.ROW),
    registry=RegistrySupport(named_schemas),
    templates=TemplateSupport(writes_rows_alone=lambda _: True, writes_events_alone=lambda _: True),
)
