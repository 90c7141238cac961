"""Which protocol and dialect messages have: of all captured records, of what relay writes, of other formats."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest
from avro_support import avro_bytes
from support import CAPTURED, captured, protocol_of, reading_options, record
from toy_protocol.registry import FETCHES, remember, schema_by_id

from relay import ConsumerRecord, DecodeError, Translator
from relay.codecs import BUILT_IN, message_of, sightings
from relay.codecs.signs import Strength
from relay.codecs.wire.avro import framed, named_schemas
from relay.detection import Detection, detect
from relay.errors import NeedUnanswered
from relay.needs import Need, RegisteredSchema, SchemaById

READABLE = [name for name, codec in BUILT_IN.items() if codec.is_readable]
#: A file of each producer with its settings.
FOLDERS = sorted(
    {path.rpartition("/")[0]: path for path in CAPTURED if path.rpartition("/")[2] != "schemas"}.values()
)
#: Protocols that read each other's messages.
CANAL_FAMILY = {"canal-json", "ticdc-canal-json", "ckafka-json"}


def error_of(translator: Translator, each: ConsumerRecord) -> Exception | None:
    for _ in range(4):
        try:
            translator.inspect(each)
        except Need as need:
            try:
                translator.provide(need, FETCHES[type(need)](need))
            except NeedUnanswered as error:
                return error
        except DecodeError as error:
            return error
        else:
            return None
    return None


@pytest.mark.parametrize("path", FOLDERS)
def test_captured_records_have_the_protocol_that_wrote_them(path: str) -> None:
    found = detect(captured(path)[:60])
    assert found.protocol == protocol_of(path)
    assert len(found.dialects) == 1
    assert found.unknown == 0


@pytest.mark.parametrize("path", FOLDERS)
def test_a_wrong_protocol_names_the_right_one(path: str) -> None:
    """All captures by all protocols: each record that is refused says whose it is."""
    right = protocol_of(path)
    rows = [each for each in captured(path) if each.value is not None]
    sample = [*rows[:3], *rows[-2:]]
    for wrong in READABLE:
        if wrong == right:
            continue
        translator = Translator(wrong, wrong)
        for each in sample:
            error = error_of(translator, each)
            if error is None:
                assert {wrong, right} <= CANAL_FAMILY, wrong
            else:
                assert right in str(error), (wrong, str(error))


def seen(*messages: dict[str, Any] | bytes) -> Detection:
    return detect([record(each, offset) for offset, each in enumerate(messages)])


@pytest.mark.parametrize(
    ("path", "settings"),
    [
        ("ticdc/canal-json/09_dml", {"enable-tidb-extension": "false"}),
        ("ticdc/canal-json.tidb-extension/09_dml", {"enable-tidb-extension": "true"}),
        ("ticdc/canal-json.content-compatible/09_dml", {"content-compatible": "true"}),
        ("ticdc/canal-json.row-key/07_keys", {"output-row-key": "true"}),
        ("ticdc/canal-json.claim-check/04_strings_binary", {"large-message-handle-option": "claim-check"}),
        ("ticdc/canal-json.handle-key-only/04_strings_binary", {"large-message-handle-option": "handle-key-only"}),
        ("ticdc/canal-json.lz4/09_dml", {"large-message-handle-compression": "lz4"}),
        ("ticdc/canal-json.snappy/09_dml", {"large-message-handle-compression": "snappy"}),
        ("ticdc/open-protocol.lz4/09_dml", {"large-message-handle-compression": "lz4"}),
        ("ticdc/debezium.no-schema/09_dml", {"debezium-disable-schema": "true"}),
        ("ticdc/debezium.no-schema.start-ts/09_dml", {"debezium-include-start-ts": "true"}),
        ("ticdc/debezium.tidb-extension/01_all_types", {"debezium-disable-schema": "false", "enable-tidb-extension": "true"}),
        ("ticdc/simple.json.checksum/09_dml", {"integrity-check-level": "correctness"}),
        ("ticdc/avro.tidb-extension/09_dml", {"avro-enable-watermark": "true"}),
        ("mysql/debezium/09_dml", {"schemas.enable": "true"}),
        ("mysql/debezium.no-schema/09_dml", {"schemas.enable": "false"}),
    ],
)  # fmt: skip
def test_settings_are_named(path: str, settings: dict[str, str]) -> None:
    dialect = detect(captured(path)).dialects[0]
    assert dialect.settings.items() >= {name: (value,) for name, value in settings.items()}.items()


@pytest.mark.parametrize("path", FOLDERS)
def test_settings_are_options_of_their_protocol(path: str) -> None:
    dialect = detect(captured(path)[:60]).dialects[0]
    Translator(dialect.protocol, dialect.protocol, dialect.options | reading_options(path))


def test_a_version_is_named() -> None:
    titles = detect(captured("mysql/debezium.v1.9/03_temporal")).dialects[0].titles
    assert "Debezium 1.9.7.Final (JSON)" in titles


def test_a_schema_tells_what_bytes_do_not() -> None:
    row = record(b"\0\0\0\0\x07\x02\x06abc")
    assert detect([row]).dialects[0].strength is Strength.POSSIBLE
    schema = json.dumps({"fields": [{"type": {"connect.parameters": {"tidb_type": "INT"}}}]})
    certain = detect([row], lambda _: schema).dialects[0]
    assert (certain.protocol, certain.strength) == ("ticdc-avro", Strength.CERTAIN)
    assert certain.options == {"enable-tidb-extension": "false"}
    assert detect([row], lambda _: '{"fields": []}').dialects == ()


@pytest.mark.parametrize(
    ("message", "title"),
    [
        ({"before": None, "after": {}, "op": "c", "source": {"connector": "postgresql", "version": "3.0"}},
         "Debezium 3.0 of another database (postgresql)"),
        ({"table": "A.B", "op_type": "I", "op_ts": "x", "current_ts": "y", "pos": "1", "after": {}}, "Oracle GoldenGate"),
        ({"data": {}, "metadata": {"operation": "insert"}}, "AWS DMS"),
        ({"action": "I", "schema": "public", "table": "t", "columns": []}, "PostgreSQL's wal2json"),
        ({"id": 1, "__op": "c"}, "rows that Debezium's ExtractNewRecordState has flattened"),
        (b'\0\0\0\0\x01{"id":1}', "JSON Schema with the number of a schema registry"),
        (b"Obj\x01\x04", "an Avro file"),
        (b'"I","t","db",1,1', "TiCDC's CSV"),
    ],
)  # fmt: skip
def test_formats_that_relay_does_not_read_are_named(message: Any, title: str) -> None:
    (dialect,) = seen(message).dialects
    assert (dialect.titles, dialect.protocols) == ((title,), ())


def test_what_nobody_knows_is_counted() -> None:
    found = detect(
        [record({"id": 1}), record(b"\xff\xfe"), record(b""), ConsumerRecord("t", 0, 3, 0, b"k", None)]
    )
    assert (found.dialects, found.records, found.unknown, found.empty) == ((), 4, 3, 1)
    assert found.protocol == ""


def test_ambiguous_messages_join_the_dialect_of_the_others() -> None:
    common = {"isDdl": True, "type": "QUERY", "database": "d", "sql": "x"}
    canal = common | {"gtid": "", "id": 7}
    assert set(seen(common).dialects[0].protocols) == CANAL_FAMILY
    found = seen(common, canal, common)
    assert [(each.protocol, each.records) for each in found.dialects] == [("canal-json", 3)]


def test_a_topic_that_changes_has_two_dialects() -> None:
    first = captured("mysql/canal-json/09_dml")[:5]
    then = captured("ticdc/canal-json.tidb-extension/09_dml")[:9]
    found = detect([*first, *then])
    assert [(each.protocol, each.records) for each in found.dialects] == [
        ("ticdc-canal-json", 9),
        ("canal-json", 5),
    ]
    assert found.dialects[0].first == then[0].place


@pytest.mark.parametrize("key", [None, b"", b"\0", bytes(8), (1).to_bytes(8), b"\x01{", b"{" * 500])
@pytest.mark.parametrize(
    "value",
    [b"", b"\0", bytes(6), b"\x01" * 20, b"[" * 5_000, b'{"a":' * 5_000, b'{"isDdl":1,"type":[]}', b'{"source":7}',
     b'{"payload":{"source":{"connector":"\\ud800"}}}', b'{"id":"\\ud800"}', b"\x16\x02", b"\x04\x22\x4d\x18", b"{" + b" " * (2 << 20),
     b'{"_tidb":5,"isDdl":false,"type":"x","data":null}', b"\x18\x07*\x80"],
)  # fmt: skip
def test_any_bytes_are_looked_at(key: bytes | None, value: bytes) -> None:
    for each in sightings(message_of(key, value)):
        assert each.sign.title
        assert each.sign.evidence


def test_an_error_of_the_right_protocol_is_kept() -> None:
    broken = captured("ticdc/canal-json.tidb-extension/09_dml")[5]
    cut = ConsumerRecord("t", 0, 0, 0, None, (broken.value or b"").replace(b'"isDdl":false', b'"isDdl":5'))
    assert "looks like" not in str(error_of(Translator("ticdc-canal-json", "canal-json"), cut))


def test_a_dialect_of_the_family_says_what_is_wrong_and_whose_it_is() -> None:
    watermark = captured("ticdc/canal-json.tidb-extension/09_dml")
    each = next(each for each in watermark if b"TIDB_WATERMARK" in (each.value or b""))
    said = str(error_of(Translator("canal-json", "canal-json"), each))
    assert "TiCDC's watermark" in said
    assert said.endswith("is the source protocol ticdc-canal-json?")


# ---------------------------------------------------------------- records that name a registry's schema

IN_AVRO = ["debezium-avro", "ticdc-debezium-avro", "ticdc-avro"]


def said_of(protocol: str, value: bytes) -> str:
    return str(error_of(Translator(protocol, protocol), record(value)))


@pytest.mark.parametrize("protocol", IN_AVRO)
@pytest.mark.parametrize(
    ("id", "schema", "body"),
    [
        (90_001, RegisteredSchema('syntax = "proto3"; message A {}', "PROTOBUF"), b"\0\x08\x01"),
        (90_002, RegisteredSchema('{"type":"object"}', "JSON"), b'{"id":1}'),
    ],
)
def test_a_schema_that_is_not_avro_is_said_to_be_none(
    protocol: str, id: int, schema: RegisteredSchema, body: bytes
) -> None:
    remember(id, schema)
    expected = f"{protocol}: value: schema {id} is {schema.kind}, not Avro"
    assert said_of(protocol, framed(id, body)) == expected


@pytest.mark.parametrize("protocol", IN_AVRO)
@pytest.mark.parametrize(
    ("id", "added", "evidence"),
    [
        (90_003, {}, "a schema whose connect.name ends with .Value"),
        (90_004, {"__deleted": "false"}, "field __deleted"),
        (90_005, {"__deleted": "false", "__op": "c"}, "field __op"),
    ],
)
def test_flat_rows_in_avro_are_named(protocol: str, id: int, added: dict[str, str], evidence: str) -> None:
    row = {"id": "1"} | added
    fields = [{"name": name, "type": "string"} for name in row]
    schema = {"type": "record", "name": "Value", "connect.name": "p.shop.orders.Value", "fields": fields}
    remember(id, RegisteredSchema(json.dumps(schema)))
    said = said_of(protocol, framed(id, avro_bytes(json.dumps(schema), row)))
    expected = (
        f"rows that Debezium's ExtractNewRecordState has flattened ({evidence}), which relay does not read"
    )
    assert said.endswith(f"this looks like {expected}")


def test_the_schema_of_ticdcs_debezium_is_not_that_of_its_avro() -> None:
    (dialect,) = detect(captured("ticdc/debezium-avro.tidb-extension/09_dml"), schema_of_value).dialects
    assert (dialect.protocol, dialect.titles) == ("ticdc-debezium-avro", ("TiCDC's Debezium in Avro",))


def schema_of_value(each: ConsumerRecord) -> str:
    ids = named_schemas(ConsumerRecord("t", 0, 0, 0, None, each.value))
    return schema_by_id(SchemaById("source", ids[0])).text if ids else ""


def test_an_avro_schema_without_a_sign_leaves_what_was_wrong() -> None:
    schema = json.dumps({"type": "record", "name": "A", "fields": [{"name": "a", "type": "int"}]})
    remember(90_006, RegisteredSchema(schema))
    said = said_of("debezium-avro", framed(90_006, b"\x02"))
    assert said.endswith("neither mysql nor mariadb, so this is no message of this protocol")


@pytest.mark.parametrize("version", ["3.0.8.Final-redhat-00004", "2.4.3-cc", "3.0", "1.9.7.Final"])
@pytest.mark.parametrize(
    ("path", "right"),
    [
        ("mysql/debezium.avro/01_all_types", "debezium-avro"),
        ("ticdc/debezium-avro/09_dml", "ticdc-debezium-avro"),
    ],
)
def test_debezium_is_known_in_avro_by_any_version(path: str, right: str, version: str) -> None:
    value = next(each.value for each in captured(path) if each.value is not None)
    found = re.search(rb".\d\.\d\.\d\.Final", value, re.DOTALL)
    assert found
    value = value.replace(found[0], bytes([2 * len(version)]) + version.encode())
    assert seen(value).protocol == right
    # Whatever is wrong with it.
    assert "looks like" not in said_of(right, value[:-1])
    assert f"is the source protocol {right}?" in said_of("ticdc-avro", value[:-1])


def test_a_version_in_a_text_is_not_that_of_a_source() -> None:
    row = framed(7, b"\x34version 8.0\x0amysql, not ours")
    assert seen(row).dialects[0].protocol == "ticdc-avro"


@pytest.mark.parametrize("protocol", [*IN_AVRO, "ticdc-simple-avro", "ticdc-simple-json", "canal-json"])
@pytest.mark.parametrize("id", [7, 0x7B, 300, 0x27B, (1 << 32) - 1])
def test_ids_of_eight_bytes_are_named(protocol: str, id: int) -> None:
    said = said_of(protocol, b"\0" + id.to_bytes(8) + b"\x02\x06abc")
    assert "looks like Avro with a schema id of 8 bytes, as Apicurio's serializers write it" in said
    assert "apicurio.registry.as-confluent=true" in said
    assert "is the source protocol" not in said


@pytest.mark.parametrize("protocol", IN_AVRO)
@pytest.mark.parametrize("value", [b"\x02\x02", framed(7, b"\x02")])
def test_a_header_that_is_no_id_is_what_is_wrong(protocol: str, value: bytes) -> None:
    each = ConsumerRecord("t", 0, 0, 0, None, value, (("__value_schema_id", b"\x02"),))
    said = str(error_of(Translator(protocol, protocol), each))
    assert said == f"{protocol}: header __value_schema_id: begins with byte 0x02, not with a schema id"


@pytest.mark.parametrize("path", ["mysql/debezium.avro/01_all_types", "ticdc/debezium-avro/09_dml"])
def test_avro_behind_an_id_in_a_header_is_known(path: str) -> None:
    each = next(each for each in captured(path) if each.value is not None)
    value = each.value or b""
    moved = msgspec.structs.replace(each, value=value[5:], headers=(("__value_schema_id", value[:5]),))
    assert detect([moved]).protocol == detect([each]).protocol == protocol_of(path)


@pytest.mark.parametrize("protocol", IN_AVRO)
def test_a_schema_that_is_nested_too_deep_has_no_signs(protocol: str) -> None:
    text = '{"type":"record","name":"R","x":' + "[" * 2000 + "]" * 2000 + ',"fields":[]}'
    each = ConsumerRecord("t", 0, 0, 0, None, framed(90_100, b"\x02\x02"))
    translator = Translator(protocol, protocol)
    translator.provide(SchemaById("source", 90_100), RegisteredSchema(text))
    with pytest.raises(DecodeError):
        translator.inspect(each)


def test_a_value_of_open_protocol_is_known_without_its_key() -> None:
    value = next(each.value for each in captured("ticdc/open-protocol.lz4/09_dml") if each.value is not None)
    text = b'{"u":{"a":{"t":3,"v":1}}}'
    for each in (value, len(text).to_bytes(8) + text, bytes(8)):
        assert seen(each).protocol == "ticdc-open-protocol"
