"""Which protocol and dialect messages have: of all captured records, of what relay writes, of other formats."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest
from avro_support import avro_bytes
from foreign_messages import DEBEZIUM, FOREIGN, Foreign
from support import CAPTURED, captured, protocol_of, reading_options, record
from toy_protocol import facts
from toy_protocol.registry import FETCHES, remember, schema_by_id

from relay import ConsumerRecord, DecodeError, Malformed, RowChange, Translator, UnsupportedMessage
from relay.codecs import BUILT_IN, PROTOCOLS, protocols
from relay.codecs.detected_messages import message_of
from relay.codecs.detection import Strength
from relay.codecs.foreign_formats import UNREADABLE
from relay.codecs.shared.avro import framed
from relay.core.detection import Detection, Detector, FormatHints, detect
from relay.model.errors import NeedUnanswered
from relay.model.lookups import Need, RegisteredSchema, SchemaById

READABLE = [name for name, codec in BUILT_IN.items() if codec.is_readable]
#: A file of each producer with its settings.
FOLDERS = sorted(
    {path.rpartition("/")[0]: path for path in CAPTURED if path.rpartition("/")[2] != "schemas"}.values()
)
#: Protocols that read each other's messages.
CANAL_FAMILY = {"canal-json", "ticdc-canal-json", "ckafka-json"}


def error_of(translator: Translator, each: ConsumerRecord) -> Exception | None:
    """What stops a command at this record, as it names it."""
    for _ in range(4):
        try:
            translator.inspect(each)
        except Need as need:
            try:
                translator.provide(need, FETCHES[type(need)](need))
            except NeedUnanswered as error:
                return error
        except DecodeError as error:
            return FormatHints(translator.known_schema).named(error, each)
        else:
            return None
    return None


def reads(protocol: str, each: ConsumerRecord, options: dict[str, str] | None = None) -> bool | None:
    """Whether a codec finds events in a record; None if that needs something from outside or from before."""
    translator = Translator.reader(protocol, options)
    try:
        events = translator.inspect(each)
        for event in events:
            if isinstance(event, RowChange):
                _ = event.before, event.after
    except (Malformed, UnsupportedMessage):
        return False
    except (Need, DecodeError):
        return None
    return True if events else None


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
        translator = Translator.reader(wrong)
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


@pytest.mark.parametrize("path", [path for path in FOLDERS if protocol_of(path) in READABLE])
def test_a_byte_order_mark_hides_no_format(path: str) -> None:
    protocol, options = protocol_of(path), reading_options(path)
    rows = [each for each in captured(path) if (each.value or b"").startswith(b"{")]
    marked = [msgspec.structs.replace(each, value=b"\xef\xbb\xbf" + (each.value or b"")) for each in rows]
    read = [at for at, each in enumerate(marked) if reads(protocol, each, options)]
    for at in read[:3]:
        found = Detector().best(marked[at])
        assert [(each.readable, each.match) for each in found] == [
            (each.readable, each.match) for each in Detector().best(rows[at])
        ]


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
    column = {"name": "a", "type": {"type": "int", "connect.parameters": {"tidb_type": "INT"}}}
    schema = {"type": "record", "name": "t", "fields": [column, {"name": "b", "type": "string"}]}
    certain = detect([row], lambda _: RegisteredSchema(json.dumps(schema))).dialects[0]
    assert (certain.protocol, certain.strength) == ("ticdc-avro", Strength.CERTAIN)
    assert certain.options == {"enable-tidb-extension": "false"}
    bare = RegisteredSchema('{"type": "record", "name": "t", "fields": []}')
    assert detect([row], lambda _: bare).dialects == ()


# ---------------------------------------------------------------- a name is a promise


def check_promise(each: ConsumerRecord, readable: dict[str, bool | None]) -> Detection:
    """Detection names no protocol whose codec refuses the record, and denies none whose codec reads it."""
    found = detect([each])
    named = [name for dialect in found.dialects for name in dialect.protocols]
    assert [name for name in named if readable[name] is False] == []
    if not named:
        assert [name for name, is_read in readable.items() if is_read] == []
    return found


@pytest.mark.parametrize("foreign", FOREIGN, ids=lambda each: each.name)
def test_foreign_formats_are_named_as_what_they_are(foreign: Foreign) -> None:
    readable = {name: reads(name, foreign.record) for name in READABLE}
    found = check_promise(foreign.record, readable)
    assert all(foreign.title in title for dialect in found.dialects for title in dialect.titles)
    assert (found.dialects != ()) is bool(foreign.title)
    if foreign.protocol:
        assert found.protocol == foreign.protocol
        assert readable[foreign.protocol] is not False
    else:
        assert [name for dialect in found.dialects for name in dialect.protocols] == []


@pytest.mark.parametrize("foreign", FOREIGN, ids=lambda each: each.name)
def test_errors_of_foreign_formats_name_no_protocol_that_refuses_them(foreign: Foreign) -> None:
    for name in READABLE:
        error = error_of(Translator.reader(name), foreign.record)
        for advised in re.findall(r"is the source protocol (.*)\?$", str(error)):
            assert all(reads(each, foreign.record) is not False for each in advised.split(" or "))


@pytest.mark.parametrize("path", CAPTURED)
def test_captures_are_named_as_what_they_are(path: str) -> None:
    records = [each for each in captured(path) if each.value][:40:7]
    right, options = protocol_of(path), reading_options(path)
    others = [name for name in READABLE if name != right]
    for each in records:
        readable = {name: reads(name, each) for name in others} | {right: reads(right, each, options)}
        assert right in check_promise(each, readable).dialects[0].protocols


@pytest.mark.parametrize(
    "at", range(len(UNREADABLE)), ids=lambda at: UNREADABLE[at].__qualname__.split(".")[0]
)
def test_no_codec_reads_what_a_rule_calls_unreadable(at: int) -> None:
    """Every rule is for some message, which no codec reads, those of other packages included."""
    rule = UNREADABLE[at]
    matching = [each for each in FOREIGN if rule(message_of(each.key, each.value, each.headers)) is not None]
    assert matching, "a message in tests/foreign_messages.py for this rule"
    for each in matching:
        readers = [
            name for name, codec in PROTOCOLS.items() if codec.is_readable and reads(name, each.record)
        ]
        assert readers == [] or each.protocol in readers, each.name


def test_a_codec_that_reads_a_format_wins_over_the_rule_that_calls_it_unreadable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wal2json = next(each for each in FOREIGN if each.name == "wal2json v2")

    class Reader(facts.Decoder):
        def decode(self, record: ConsumerRecord, catalog: Any, losses: Any) -> Any:
            value = b'{"toy_facts": "public.t", "row": {"id": 1}}'
            return super().decode(msgspec.structs.replace(record, value=value), catalog, losses)

    codec = msgspec.structs.replace(facts.CODEC, name="wal2json", decoder=Reader)
    monkeypatch.setattr(protocols, "plugin_codecs", lambda: {"wal2json": codec})
    assert detect([wal2json.record]).protocol == "wal2json"


def test_a_message_that_its_codec_refuses_is_named_with_the_reason() -> None:
    broken = captured("ticdc/canal-json.tidb-extension/09_dml")[5]
    value = (broken.value or b"").replace(b'"isDdl":false', b'"isDdl":5')
    (dialect,) = detect([msgspec.structs.replace(broken, value=value)]).dialects
    assert (dialect.titles, dialect.protocols) == (("TiCDC Canal-JSON",), ())
    assert dialect.refusal.startswith("ticdc-canal-json: isDdl: ")


# ---------------------------------------------------------------- many errors


def test_of_many_errors_few_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[ConsumerRecord] = []
    matches = Detector.matches

    def counted(detector: Detector, each: ConsumerRecord) -> Any:
        looked.append(each)
        return matches(detector, each)

    monkeypatch.setattr(Detector, "matches", counted)
    translator, hints = Translator.reader("canal-json"), FormatHints()
    foreign = [record(DEBEZIUM, offset) for offset in range(100)]
    said = []
    for each in foreign:
        with pytest.raises(DecodeError) as raised:
            translator.inspect(each)
        assert looked == [], "decoding looks for no other format"
        said.append(str(hints.sampled(raised.value, each)))
        named, looked[:] = list(looked), []
        assert len(named) <= 1
    assert [at for at, text in enumerate(said) if "debezium-json?" in text] == [0, 1, 3, 7, 15, 31, 63]


def test_what_nobody_knows_is_counted() -> None:
    found = detect(
        [record({"id": 1}), record(b"\xff\xfe"), record(b""), ConsumerRecord("t", 0, 3, 0, b"k", None)]
    )
    assert (found.dialects, found.records, found.unknown, found.empty) == ((), 4, 2, 2)
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
    assert found.dialects[0].first == then[0].position


@pytest.mark.parametrize("key", [None, b"", b"\0", bytes(8), (1).to_bytes(8), b"\x01{", b"{" * 500])
@pytest.mark.parametrize(
    "value",
    [b"", b"\0", bytes(6), b"\x01" * 20, b"[" * 5_000, b'{"a":' * 5_000, b'{"isDdl":1,"type":[]}', b'{"source":7}',
     b'{"payload":{"source":{"connector":"\\ud800"}}}', b'{"id":"\\ud800"}', b"\x16\x02", b"\x04\x22\x4d\x18", b"{" + b" " * (2 << 20),
     b'{"_tidb":5,"isDdl":false,"type":"x","data":null}', b"\x18\x07*\x80"],
)  # fmt: skip
def test_any_bytes_are_looked_at(key: bytes | None, value: bytes) -> None:
    for each in Detector().matches(ConsumerRecord("t", 0, 0, 0, key, value)):
        assert each.match.title
        assert each.match.evidence


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
        (91_771, RegisteredSchema('syntax = "proto3"; message A {}', "PROTOBUF"), b"\0\x08\x01"),
        (91_772, RegisteredSchema('{"type":"object"}', "JSON"), b'{"id":1}'),
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
        (91_773, {}, "a schema whose connect.name ends with .Value"),
        (91_774, {"__deleted": "false"}, "field __deleted"),
        (91_775, {"__deleted": "false", "__op": "c"}, "field __op"),
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
    (dialect,) = detect(captured("ticdc/debezium-avro.tidb-extension/09_dml"), find_schema).dialects
    assert (dialect.protocol, dialect.titles) == ("ticdc-debezium-avro", ("TiCDC's Debezium in Avro",))


def find_schema(id: int | str) -> RegisteredSchema:
    return schema_by_id(SchemaById("source", id))


def test_an_avro_schema_without_a_sign_leaves_what_was_wrong() -> None:
    schema = json.dumps({"type": "record", "name": "A", "fields": [{"name": "a", "type": "int"}]})
    remember(91_776, RegisteredSchema(schema))
    said = said_of("debezium-avro", framed(91_776, b"\x02"))
    assert said.endswith("neither mysql nor mariadb, so this is not a message of this protocol")


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
    assert f"{right} cannot read it either" in said_of("ticdc-avro", value[:-1])


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
def test_a_schema_that_is_nested_too_deep_has_no_match(protocol: str) -> None:
    text = '{"type":"record","name":"R","x":' + "[" * 2000 + "]" * 2000 + ',"fields":[]}'
    each = ConsumerRecord("t", 0, 0, 0, None, framed(90_100, b"\x02\x02"))
    translator = Translator(protocol, protocol)
    translator.provide(SchemaById("source", 90_100), RegisteredSchema(text))
    with pytest.raises(DecodeError):
        translator.inspect(each)


def test_a_value_of_open_protocol_is_known_without_its_key() -> None:
    value = next(each.value for each in captured("ticdc/open-protocol.lz4/09_dml") if each.value is not None)
    text = b'{"u":{"a":{"t":3,"v":1}}}'
    for each in (value, len(text).to_bytes(8) + text):
        (dialect,) = seen(each).dialects
        assert (dialect.titles, dialect.protocols) == (("TiCDC Open Protocol",), ())
        assert dialect.refusal.startswith("ticdc-open-protocol: key: ")


def test_a_heartbeat_of_debezium_is_known_by_its_key() -> None:
    value, key = b'{"ts_ms":1700000000000}', b'{"serverName":"shop"}'
    beat = msgspec.structs.replace(record(value), key=key)
    assert [dialect.protocol for dialect in detect([beat]).dialects] == ["debezium-json"]
    for other in (None, b'{"id":1}'):
        assert detect([msgspec.structs.replace(beat, key=other)]).dialects == ()
