"""Readers of `debezium-avro` with a real registry: what Flink and Kafka Connect make of what relay writes with
their profiles, and relay of what Connect's converter writes.
"""

from __future__ import annotations

import base64
import re

import msgspec
import pytest
from readers import connect as connect_reader
from readers import flink as flink_reader
from readers.avro import Registry, name_options, with_avro_names
from readers.connect import Sink, in_avro, unwrapped
from readers.flink import ReaderFailed
from readers.java import Program
from readers.sources import BY_TABLE, SOME_FILES, topics_of_tables, wrongly_read
from readers.test_connect import NOT_FOR_THE_SINK
from readers.truth import MIXED, Step, Table, final_difference, tables
from support import CAPTURED, captured, reading_options

from relay import Translator

_CONNECT = {"profile": "kafka-connect", "zero-dates": "text"}
#: Debezium's own JSON, with schemas.
_DEBEZIUM = [file for file in CAPTURED if re.match(r"mysql/debezium(\.alt-string|\.snapshot)?/", file)]


def read_by_flink(flink: Program, registry: Registry, file: str, **options: str) -> dict[str, str]:
    """The tables of a file that Flink gets wrong, and what is wrong with them. Raises ReaderFailed."""
    topics = topics_of_tables(
        registry.translated(file, BY_TABLE, **name_options(file), **options), registry.owner
    )

    def declared(table: Table) -> Table | None:
        """Without columns that DDL gave a type of another kind: no type reads the messages of both."""
        mixed = {name for name, kind in table.columns.items() if kind is MIXED}
        return with_avro_names(table.without(mixed), file)

    def read(table: Table) -> list[Step]:
        values = [record.value for record in topics[table.database, table.name]]
        return flink_reader.steps(flink, "debezium-avro-confluent", table, values, registry.url)

    return wrongly_read(file, read, declared)


@pytest.mark.parametrize("file", SOME_FILES)
def test_flink_reads_every_row(flink: Program, registry: Registry, file: str) -> None:
    assert read_by_flink(flink, registry, file, profile="flink") == {}


@pytest.mark.parametrize("file", SOME_FILES)
def test_every_image_of_every_row_in_connect(connect: Program, registry: Registry, file: str) -> None:
    records = registry.translated(file, BY_TABLE, **name_options(file), **_CONNECT)
    topics = topics_of_tables(records, registry.owner)

    def declared(table: Table) -> Table | None:
        return with_avro_names(table, file)

    def read(table: Table) -> list[Step]:
        images = unwrapped(connect, topics[table.database, table.name], registry.own_url)
        return connect_reader.steps(table, images)

    assert wrongly_read(file, read, declared) == {}


@pytest.mark.parametrize("file", ["01_all_types", "07_keys", "09_dml", "11_enum_set_json_generated"])
def test_rows_in_postgresql(sink: Sink, registry: Registry, file: str) -> None:
    records = registry.translated(f"ticdc/open-protocol/{file}", BY_TABLE, **_CONNECT)
    topics = topics_of_tables(records, registry.owner)
    wrong = {}
    for table in tables(file).values():
        if table.id not in NOT_FOR_THE_SINK and table.begins_empty:
            messages = topics[table.database, table.name]
            stored = sink.store(messages, registry=registry.own_url)
            if said := final_difference(table, sink.rows(stored, table)):
                wrong[table.id] = said
    assert wrong == {}


@pytest.mark.parametrize(
    ("file", "option", "value"),
    [
        ("02_numeric", "bigint.unsigned.handling.mode", "long"),
        ("02_numeric", "bit", "producer"),
        ("02_numeric", "decimal.handling.mode", "precise"),
        ("03_temporal", "temporal", "producer"),
        ("03_temporal", "ignore.default.for.nullables", "false"),
        ("06_zero_dates", "temporal", "producer"),
    ],
)
def test_why_flink_has_a_profile(
    flink: Program, registry: Registry, file: str, option: str, value: str
) -> None:
    """Each option is there because a table is not read without it, or is read wrongly."""
    options = {"profile": "flink", option: value}
    try:
        wrong = read_by_flink(flink, registry, f"ticdc/open-protocol/{file}", **options)
    except ReaderFailed:
        return
    assert wrong


def test_flink_ends_at_a_statement(flink: Program, registry: Registry) -> None:
    records = registry.translated("ticdc/open-protocol/10_ddl", BY_TABLE, profile="flink", ddl="keep")
    assert any(registry.record_name(record.value) == "SchemaChangeValue" for record in records)
    table = tables("10_ddl")["ddl_db", "parent"]
    values = [record.value for record in records if record.topic.endswith(".ddl_db.parent")]
    with pytest.raises(ReaderFailed):
        flink_reader.steps(flink, "debezium-avro-confluent", table, values, registry.url)


def test_flink_skips_tombstones(flink: Program, registry: Registry) -> None:
    file = "ticdc/open-protocol/09_dml"
    options = {"profile": "flink", "tombstones.on.delete": "true"}
    assert None in [record.value for record in registry.translated(file, BY_TABLE, **options)]
    assert read_by_flink(flink, registry, file, **options) == {}


@pytest.mark.parametrize(
    ("column", "options", "read"),
    [
        ("c_decimal DECIMAL(10, 4)", {"decimal.handling.mode": "precise"}, "1234.5600"),
        ("c_decimal DECIMAL(10, 3)", {"decimal.handling.mode": "precise"}, "12345.600"),
        (
            "c_datetime6 TIMESTAMP(3)",
            {"temporal": "producer", "time.precision.mode": "microseconds"},
            "+58010-08-29T21:42:03.456",
        ),
    ],
    ids=["the same scale", "another scale", "microseconds as milliseconds"],
)
def test_what_flink_reads_without_an_error(
    flink: Program, registry: Registry, column: str, options: dict[str, str], read: str
) -> None:
    """Numbers mean what the table declares; text means the same everywhere."""
    file = "ticdc/open-protocol/01_all_types"
    records = registry.translated(file, BY_TABLE, profile="flink", **options)
    first = next(record.value or b"" for record in records if record.topic.endswith(".all_types"))
    job = {"format": "debezium-avro-confluent", "row": f"ROW<{column}>", "registry": registry.url}
    answer = flink.ask(job | {"values": [base64.b64encode(first).decode()]})
    assert answer["rows"] == [["+I", read]]


@pytest.mark.parametrize("file", _DEBEZIUM)
def test_what_the_converter_writes(connect: Program, registry: Registry, file: str) -> None:
    """Connect's converters make Avro of Debezium's own JSON, and relay reads the same in both."""
    records = list(captured(file))
    written = in_avro(connect, "written", records, registry.own_url)
    avro = [
        msgspec.structs.replace(record, key=key, value=value)
        for record, (key, value) in zip(records, written, strict=True)
    ]
    reader = Translator("debezium-json", "debezium-json", reading_options(file))
    assert registry.events(avro) == [event for record in records for event in reader.inspect(record)]
