"""Debezium Avro: the messages of a connector with an Avro converter, read and written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from avro_support import avro_bytes
from fake_registry import MemoryRegistry
from support import DATA, captured, captured_files, row_message
from support import record as canal_record
from toy_protocol.registry import schema_by_id

from relay import (
    ConsumerRecord,
    Loss,
    NotRepresentable,
    Op,
    ProducerRecord,
    Resolver,
    RowChange,
    SchemaChange,
    Translator,
)
from relay.codecs.shared.avro import AvroSchema, frame_of, framed
from relay.model.errors import Malformed, UnsupportedMessage
from relay.model.lookups import RegisteredSchema, SchemaById

AVRO, JSON = "debezium-avro", "debezium-json"
FILES = captured_files("mysql/debezium.avro")
READING = {"field.name.adjustment.mode": "avro_unicode"}
#: As the connector that was captured was set.
WRITING = {
    "topic.prefix": "dbzavro",
    "field.name.adjustment.mode": "avro_unicode",
    "skipped.operations": "none",
}


class Wire:
    """A route with a registry whose schemas can be examined."""

    def __init__(
        self,
        source: str = AVRO,
        target: str = AVRO,
        reading: Any = READING,
        writing: Any = WRITING,
        registry: MemoryRegistry | None = None,
    ) -> None:
        self.registry = registry or MemoryRegistry()
        self.translator = Translator(source, target, reading, writing)
        self._resolver = Resolver(registries={"target": self.registry})

    def write(self, record: ConsumerRecord) -> list[ProducerRecord]:
        return self._resolver.translate(self.translator, record)

    def read(self, record: ProducerRecord, part: Any = "value") -> tuple[AvroSchema, Any]:
        """A part of a record that was written, with its schema."""
        as_read = ConsumerRecord(record.topic, 0, 0, 0, record.key, record.value)
        frame = frame_of(AVRO, as_read, part)
        assert frame is not None
        schema = AvroSchema(self.registry.schema(frame.id).text)
        return schema, schema.read(AVRO, part, frame.body)


def given(record: ConsumerRecord, part: Any) -> Any:
    """A part of a captured record."""
    frame = frame_of(AVRO, record, part)
    assert frame is not None
    schema = AvroSchema(schema_by_id(SchemaById("source", frame.id)).text)
    return schema.read(AVRO, part, frame.body)


def registered() -> dict[str, list[Any]]:
    """The captured schemas, by subject."""
    found: dict[str, list[Any]] = {}
    for line in (DATA / "mysql/debezium.avro/schemas.ndjson").read_text().splitlines():
        each = json.loads(line)
        found.setdefault(each["subject"], []).append(json.loads(each["schema"]))
    return found


# ---------------------------------------------------------------- captured messages


def images(protocol: str, records: list[ConsumerRecord], options: dict[str, str]) -> Iterator[Any]:
    """The rows of records, with their operations and tables."""
    translator = Translator(protocol, protocol, options)
    for record in records:
        for event in Resolver().inspect(translator, record):
            if isinstance(event, RowChange):
                yield event.op, event.table, event.before, event.after
            elif isinstance(event, SchemaChange):
                yield event.ddl, event.table, event.kinds


SAME: list[str] = [
    file for file in FILES if file.replace("debezium.avro", "debezium") in captured_files("mysql/debezium")
]


@pytest.mark.parametrize("file", SAME)
def test_captured_messages_say_what_the_same_in_json_says(file: str) -> None:
    avro = list(images(AVRO, captured(file), READING))
    expected = list(images(JSON, captured(file.replace("debezium.avro", "debezium")), {}))
    assert avro[: len(expected)] == expected != []


class NamelessRegistry(MemoryRegistry):
    """The captured schemas as the converter writes them with `connect.meta.data=false`."""

    def schema(self, id: int | str) -> RegisteredSchema:
        text = schema_by_id(SchemaById("source", int(id))).text
        return RegisteredSchema(json.dumps(without_connect(json.loads(text))))


def without_connect(schema: Any) -> Any:
    if isinstance(schema, list):
        return [without_connect(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: without_connect(value) for name, value in schema.items() if not name.startswith("connect.")}
    return kept["type"] if kept.keys() == {"type"} else kept


@pytest.mark.parametrize("file", FILES)
def test_schemas_without_connects_names_are_read_by_the_definition(file: str) -> None:
    whole, nameless = (Translator(AVRO, "canal-json", READING) for _ in range(2))
    resolver, other = Resolver(), Resolver(registries={"source": NamelessRegistry()})
    rows = 0
    for record in captured(file):
        expected, found = resolver.inspect(whole, record), other.inspect(nameless, record)
        for one, two in zip(expected, found, strict=True):
            assert isinstance(one, RowChange) is isinstance(two, RowChange)
            if isinstance(one, RowChange) and isinstance(two, RowChange):
                assert (two, two.schema) == (one, one.schema)
                rows += 1
    assert rows
    assert nameless.losses[Loss.SCHEMA_INFERRED] == 0


@pytest.mark.parametrize("file", FILES)
def test_what_is_written_is_what_the_converter_wrote(file: str) -> None:
    """Except where relay writes right what the connector does not: see `EXCEPT`."""
    wire = Wire()
    compared = 0
    for record in captured(file):
        written = wire.write(record)
        if record.value is None:
            assert written == []  # it stands behind its DELETE
            continue
        for part in ("key", "value"):
            if getattr(record, part) is None:
                assert getattr(written[0], part) is None
                continue
            differing = differences(given(record, part), wire.read(written[0], part)[1], "")
            assert [each for each in differing if not is_known(file, each)] == []
            compared += 1
    assert compared


#: Columns that relay writes otherwise than the connector, by file: YEAR 0, FLOAT(M,D), labels with commas, and
#: the name of one table in each message of a statement about two.
EXCEPT = {
    "02_numeric": {"f52"},
    "03_temporal": {"y"},
    "06_zero_dates": {"y"},
    "10_ddl": {"e", "table"},
    "11_enum_set_json_generated": {"e1"},
}


def is_known(file: str, path: str) -> bool:
    return path.rpartition(".")[2] in EXCEPT.get(file.rpartition("/")[2], set())


def differences(one: Any, other: Any, path: str) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for name in one.keys() | other.keys():
            yield from differences(one.get(name), other.get(name), f"{path}.{name}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for mine, others in zip(one, other, strict=True):
            yield from differences(mine, others, f"{path}.[]")
    elif one != other:
        yield path


#: Tables of which the DDL tells more than relay keeps of it: BOOL, REAL, a default beyond 2^63.
UNLIKE = {
    "dbzavro.all_types_db.all_types-value",
    "dbzavro.all_types_db.all_types_nn-value",
    "dbzavro.numeric_db.floats-value",
}


def test_the_schemas_that_are_registered_are_those_of_the_converter() -> None:
    wires = []
    for file in FILES:
        wire = Wire()
        wires.append(wire)
        for record in captured(file):
            wire.write(record)
    captured_schemas, compared = registered(), 0
    for wire in wires:
        fake = wire.registry.fake
        for subject, ids in fake.subjects.items():
            for id in ids:
                if subject not in UNLIKE:
                    assert json.loads(fake.texts[id]) in captured_schemas[subject], subject
                    compared += 1
    assert compared > 80


def test_members_of_schemas_stand_in_the_converters_order() -> None:
    wire = Wire()
    for record in captured("mysql/debezium.avro/08_names"):
        wire.write(record)
    fake = wire.registry.fake
    texts = {
        json.loads(line)["schema"]
        for line in (DATA / "mysql/debezium.avro/schemas.ndjson").read_text().splitlines()
    }
    written = {fake.texts[id] for ids in fake.subjects.values() for id in ids}
    assert written <= texts


# ---------------------------------------------------------------- routes


CANAL = "mysql/canal-json/01_all_types"


@pytest.mark.parametrize("strategy", ["TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy"])
def test_subjects_are_named_by_the_strategy(strategy: str) -> None:
    writing = {"key.subject.name.strategy": strategy, "value.subject.name.strategy": strategy}
    wire = Wire("canal-json", AVRO, None, writing)
    for record in captured(CANAL):
        wire.write(record)
    name = "relay.all_types_db.all_types"
    subjects = {
        "TopicNameStrategy": {"canal-key", "canal-value"},
        "RecordNameStrategy": {f"{name}.Key", f"{name}.Envelope"},
        "TopicRecordNameStrategy": {f"canal-{name}.Key", f"canal-{name}.Envelope"},
    }
    assert subjects[strategy] <= wire.registry.fake.subjects.keys()


def test_subjects_are_those_of_the_topics_that_are_written() -> None:
    wire = Wire("canal-json", AVRO, None, None)
    wire.translator = Translator("canal-json", AVRO, topic="{database}.{table}")
    for record in captured(CANAL):
        wire.write(record)
    subjects = wire.registry.fake.subjects
    assert {"all_types_db.all_types-key", "all_types_db.all_types-value"} <= subjects.keys()
    assert not any(subject.startswith("canal") for subject in subjects)


def test_a_statement_for_several_topics_has_a_schema_in_each_and_is_counted_once() -> None:
    wire = Wire("canal-json", AVRO, None, None)
    wire.translator = Translator("canal-json", AVRO, topic="{database}.{table}")
    json_writer = Translator("canal-json", JSON, topic="{database}.{table}")
    most_topics = 0
    for record in captured("mysql/canal-json/10_ddl"):
        written = wire.write(record)
        topics = [out.topic for out in written]
        assert topics == [out.topic for out in json_writer.translate(record)]
        assert all(wire.registry.fake.subjects[f"{topic}-value"] for topic in topics)
        most_topics = max(most_topics, len(set(topics)))
    assert wire.translator.losses == json_writer.losses
    assert most_topics > 1


def test_a_table_that_changes_has_one_new_schema() -> None:
    wire = Wire(
        "canal-json", AVRO, None, {"ddl": "drop", "value.subject.name.strategy": "RecordNameStrategy"}
    )
    for record in captured("mysql/canal-json/10_ddl"):
        wire.write(record)
    for ids in wire.registry.fake.subjects.values():
        assert len(set(ids)) == len(ids)


def test_a_restart_writes_the_same_ids() -> None:
    wire = Wire()
    other = Wire(registry=wire.registry)
    records = captured("mysql/debezium.avro/01_all_types")
    first = [out for record in records for out in wire.write(record)]
    known = dict(wire.registry.fake.subjects)
    assert [out for record in records for out in other.write(record)] == first
    assert wire.registry.fake.subjects == known


# ---------------------------------------------------------------- what is refused


def row() -> ConsumerRecord:
    return next(
        record
        for record in captured("mysql/debezium.avro/01_all_types")
        if record.topic.endswith("all_types")
    )


def read(record: ConsumerRecord) -> list[Any]:
    return Resolver().inspect(Translator(AVRO, AVRO, READING), record)


def test_a_tombstone_is_left_out() -> None:
    assert read(msgspec.structs.replace(row(), value=None)) == []


@pytest.mark.parametrize("value", [b"", b"{}", b"\0\0", b"\0\0\0\0\x01"])
def test_a_value_that_is_no_avro_is_refused(value: bytes) -> None:
    with pytest.raises((Malformed, UnsupportedMessage)) as raised:
        read(msgspec.structs.replace(row(), value=value))
    assert raised.value.protocol == AVRO


@pytest.mark.parametrize("key", [b"plain", b'{"id":1}', b"\0\0", b""])
def test_a_key_of_another_converter_says_nothing(key: bytes) -> None:
    (event,) = read(msgspec.structs.replace(row(), key=key))
    assert event.op is Op.INSERT


def test_a_key_that_is_cut_is_refused() -> None:
    record = row()
    with pytest.raises(Malformed, match="key"):
        read(msgspec.structs.replace(record, key=(record.key or b"")[:-1]))


@pytest.mark.parametrize("mode", ["none", "avro"])
def test_names_that_avro_does_not_take_are_refused_or_adjusted(mode: str) -> None:
    modes = {"schema.name.adjustment.mode": mode, "field.name.adjustment.mode": mode}
    wire = Wire("canal-json", AVRO, None, modes)
    refused = 0
    for record in captured("mysql/canal-json/08_names"):
        try:
            wire.write(record)
        except NotRepresentable as error:
            assert error.protocol == AVRO
            assert "adjustment.mode" in error.reason
            refused += 1
    assert (refused > 0) if mode == "none" else refused < 6


def with_decimals(record: ConsumerRecord, change: Callable[[dict[str, Any]], None]) -> list[Any]:
    """The events of a captured record, of which the schemas of Connect's Decimals are changed."""

    def changed(node: Any) -> Any:
        if isinstance(node, dict) and node.get("connect.name") == "org.apache.kafka.connect.data.Decimal":
            change(node)
        for each in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            changed(each)
        return node

    frame = frame_of(AVRO, record, "value")
    assert frame is not None
    document = changed(json.loads(schema_by_id(SchemaById("source", frame.id)).text))
    registry = MemoryRegistry()
    id = registry.id_of("s", RegisteredSchema(json.dumps(document)))
    # Of the value alone: the key would need its own schema of this registry.
    alone = msgspec.structs.replace(record, key=None, value=framed(id, frame.body))
    return Resolver(registries={"source": registry}).inspect(Translator(AVRO, AVRO, READING), alone)


def test_a_decimal_without_connects_scale_has_that_of_avro() -> None:
    def without_parameters(node: dict[str, Any]) -> None:
        del node["connect.parameters"]

    (expected,), (found,) = read(row()), with_decimals(row(), without_parameters)
    decimals = [
        (column.name, value)
        for column, value in zip(expected.schema.columns, expected.after, strict=True)
        if column.type.base == "decimal" and isinstance(value, Decimal)
    ]
    assert decimals
    values = {column.name: value for column, value in zip(found.schema.columns, found.after, strict=True)}
    assert [(name, str(values[name])) for name, _ in decimals] == [
        (name, str(value)) for name, value in decimals
    ]


@pytest.mark.parametrize("scale", ["x", "-5", "999999999", ""])
def test_a_decimal_with_a_scale_that_is_none_is_refused(scale: str) -> None:
    def with_scale(node: dict[str, Any]) -> None:
        node["connect.parameters"]["scale"] = scale

    with pytest.raises(Malformed):
        with_decimals(row(), with_scale)


@pytest.mark.parametrize(("name", "losses"), [("a-b", 2), ("表", 2), ("1a", 2), ("a_b", 0)])
def test_a_column_that_has_another_name_in_avro_is_counted(name: str, losses: int) -> None:
    wire = Wire("canal-json", AVRO, None, None)
    for at in range(2):
        wire.write(canal_record(row_message({"id": "int", name: "int"}, {"id": "1", name: "2"}), offset=at))
    assert wire.translator.losses[Loss.COLUMN_NAMES] == losses


def test_errors_of_the_json_inside_are_errors_of_avro() -> None:
    record = row()
    frame = frame_of(AVRO, record, "value")
    assert frame is not None
    schema = AvroSchema(schema_by_id(SchemaById("source", frame.id)).text)
    value = schema.read(AVRO, "value", frame.body)
    value["source"]["connector"] = "postgresql"
    with pytest.raises(UnsupportedMessage) as raised:
        read(msgspec.structs.replace(record, value=framed(int(frame.id), avro_bytes(schema.text, value))))
    assert raised.value.protocol == AVRO
