"""Records of TiCDC Simple: what goes in comes out, both encodings say the same, and so do TiCDC's other formats."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import simple_avro_schema as independent
from simple_support import AVRO, SIMPLE, counted
from support import CANAL, OPEN, TICDC, captured, captured_files, reading_options

from relay import ConsumerRecord, ProducerRecord, Resolver, Translator

EXTENSION = {"enable-tidb-extension": "true"}
JSON_FILES = captured_files("ticdc/simple.json")
AVRO_FILES = captured_files("ticdc/simple.avro")
CHECKED = {"integrity-check-level": "correctness"}


def sent(
    source: str, target: str, path: str, reading: Any = None, writing: Any = None
) -> tuple[list[ProducerRecord], Translator]:
    translator = Translator(source, target, reading, writing)
    resolver = Resolver()
    return [out for record in captured(path) for out in resolver.translate(translator, record)], translator


def values(outs: list[ProducerRecord] | list[ConsumerRecord]) -> list[bytes | None]:
    return [out.value for out in outs]


def again(outs: list[ProducerRecord]) -> list[ConsumerRecord]:
    return [
        ConsumerRecord(out.topic, out.partition, at, out.timestamp_ms, out.key, out.value)
        for at, out in enumerate(outs)
    ]


def without_build_ts(value: bytes | None) -> bytes:
    return re.sub(rb'"buildTs":\d+', b"", value or b"")


@pytest.mark.parametrize("path", JSON_FILES + captured_files("ticdc/simple.json.3-partitions"))
def test_json_comes_back_byte_for_byte(path: str) -> None:
    outs, translator = sent(SIMPLE, SIMPLE, path)
    assert values(outs) == values(captured(path))
    assert counted(translator) == {}


@pytest.mark.parametrize("path", AVRO_FILES)
def test_avro_says_what_json_says(path: str) -> None:
    outs, translator = sent(AVRO, SIMPLE, path)
    twin = captured(path.replace("simple.avro", "simple.json"))
    assert [without_build_ts(out.value) for out in outs] == [without_build_ts(one.value) for one in twin]
    assert counted(translator) == {}


@pytest.mark.parametrize("path", JSON_FILES)
def test_json_survives_avro(path: str) -> None:
    outs, _ = sent(SIMPLE, AVRO, path)
    back = Translator(AVRO, SIMPLE)
    assert values([one for record in again(outs) for one in back.translate(record)]) == values(captured(path))


@pytest.mark.parametrize("path", AVRO_FILES)
def test_another_reader_of_avro_finds_what_ticdc_wrote(path: str) -> None:
    """TiCDC writes the entries of maps in any order."""
    outs, _ = sent(AVRO, AVRO, path)
    for out, record in zip(outs, captured(path), strict=True):
        found = independent.read(out.value or b"")
        assert found == independent.read(record.value or b"")
        if found[1]["type"] != "DML":
            assert out.value == record.value


@pytest.mark.parametrize("path", AVRO_FILES)
def test_what_another_writer_of_avro_writes_is_read(path: str) -> None:
    given = captured(path)
    rewritten = [
        ConsumerRecord(
            one.topic, one.partition, one.offset, one.timestamp_ms, None,
            independent.write(independent.read(one.value or b"")),
        )
        for one in given
    ]  # fmt: skip
    first, second = Translator(AVRO, SIMPLE), Translator(AVRO, SIMPLE)
    for one, other in zip(given, rewritten, strict=True):
        assert values(first.translate(one)) == values(second.translate(other))


# ---------------------------------------------------------------- other formats


def files_of(variant: str) -> list[str]:
    """The files that another format was captured for as well."""
    other = {path.rpartition("/")[2] for path in captured_files(f"ticdc/{variant}")}
    return [path for path in JSON_FILES if path.rpartition("/")[2] in other]


def canonical(message: dict[str, Any]) -> dict[str, Any]:
    """A message of Canal-JSON without what only its producer knows."""
    return {name: value for name, value in message.items() if name not in {"id", "ts"}}


@pytest.mark.parametrize("path", files_of("canal-json.tidb-extension"))
def test_canal_json_of_simple_is_ticdcs_own(path: str) -> None:
    outs, _ = sent(SIMPLE, TICDC, path, None, EXTENSION)
    other = captured(path.replace("simple.json", "canal-json.tidb-extension"))
    assert [canonical(json.loads(out.value or b"")) for out in outs] == [
        canonical(json.loads(one.value or b"")) for one in other
    ]


@pytest.mark.parametrize("path", files_of("open-protocol"))
def test_open_protocol_of_simple_is_ticdcs_own(path: str) -> None:
    outs, _ = sent(SIMPLE, OPEN, path)
    other = captured(path.replace("simple.json", "open-protocol"))
    keys = [re.sub(rb',"ptn":\d+', b"", out.key or b"")[16:] for out in outs]
    assert keys == [re.sub(rb',"ptn":\d+', b"", one.key or b"")[16:] for one in other]
    assert values(outs) == values(other)


def comparable(message: dict[str, Any]) -> dict[str, Any]:
    """A message of Simple without what only its producer knows: times, ids, versions."""
    found = {
        name: value for name, value in message.items() if name not in {"buildTs", "tableID", "schemaVersion"}
    }
    for part in {"tableSchema", "preTableSchema"} & found.keys():
        schema = found[part]
        found[part] = {name: value for name, value in schema.items() if name not in {"tableID", "version"}}
    return found


@pytest.mark.parametrize(
    ("source", "path"),
    [
        (source, path)
        for source in ("canal-json.tidb-extension", "open-protocol")
        for path in files_of(source)
    ],
)
def test_simple_of_other_formats_is_ticdcs_own(source: str, path: str) -> None:
    protocol = OPEN if source == "open-protocol" else TICDC
    outs, translator = sent(protocol, SIMPLE, path.replace("simple.json", source))
    messages = [json.loads(one.value or b"") for one in captured(path)]
    assert [comparable(json.loads(out.value or b"")) for out in outs] == [
        comparable(message) for message in messages if message["type"] != "BOOTSTRAP"
    ]
    assert "schema-inferred" not in counted(translator)


@pytest.mark.parametrize("path", files_of("canal-json.tidb-extension"))
def test_every_row_refers_to_a_definition_that_was_written(path: str) -> None:
    outs, _ = sent(TICDC, SIMPLE, path.replace("simple.json", "canal-json.tidb-extension"))
    reader = Translator(SIMPLE, SIMPLE)
    for record in again(outs):
        reader.inspect(record)


# ---------------------------------------------------------------- large messages and checksums


def test_rows_of_a_storage_are_those_of_the_whole_messages() -> None:
    path = "ticdc/simple.json.claim-check/04_strings_binary"
    outs, translator = sent(SIMPLE, CANAL, path, reading_options(path))
    assert "columns-absent" not in counted(translator)
    small, reduced = sent(SIMPLE, CANAL, path.replace("claim-check", "handle-key-only"))
    assert counted(reduced)["columns-absent"] == 3
    lengths = [
        len(one.value or b"") - len(other.value or b"") for one, other in zip(outs, small, strict=True)
    ]
    assert sum(length > 1000 for length in lengths) == 3
    assert sum(length == 0 for length in lengths) == len(lengths) - 3


@pytest.mark.parametrize(("target", "large"), [(SIMPLE, 3), (AVRO, 2)])
def test_large_rows_are_reduced_as_ticdc_does(target: str, large: int) -> None:
    """The bytes of JSON are TiCDC's; its object has a random name."""
    path = "ticdc/simple.json.claim-check/04_strings_binary"
    for handling in ("handle-key-only", "claim-check"):
        writing = {
            "large-message-handle-option": handling,
            "max-message-bytes": "2000",
            "claim-check-storage-uri": "/objects",
        }
        outs, _ = sent(SIMPLE, target, path, reading_options(path), writing)
        assert sum(len(out.blobs) for out in outs) == (large if handling == "claim-check" else 0)
        if target == SIMPLE:
            other = captured(path.replace("claim-check", handling))
            assert [unlocated(out.value) for out in outs] == [unlocated(one.value) for one in other]


def unlocated(value: bytes | None) -> bytes:
    return re.sub(rb'"claimCheckLocation":"[^"]*"', b"", without_build_ts(value))


def test_checksums_are_right_and_written_as_ticdc_does() -> None:
    path = "ticdc/simple.json.checksum/09_dml"
    outs, translator = sent(SIMPLE, SIMPLE, path, CHECKED, CHECKED)
    assert counted(translator) == {}
    assert values(outs) == values(captured(path))
    assert sum(b'"checksum":{"version":2,"corrupted":false,' in (out.value or b"") for out in outs) > 50


def test_a_changed_value_has_another_checksum() -> None:
    found = 0
    for record in captured("ticdc/simple.json.checksum/09_dml"):
        value = (record.value or b"").replace(b'"100.00"', b'"100.01"')
        changed = ConsumerRecord(record.topic, 0, record.offset, record.timestamp_ms, None, value)
        translator = Translator(SIMPLE, SIMPLE, CHECKED)
        for earlier in captured("ticdc/simple.json.checksum/09_dml")[: record.offset]:
            if b'"schemaVersion"' not in (earlier.value or b""):
                translator.inspect(earlier)
        translator.inspect(changed)
        assert counted(translator).get("checksum", 0) == (value != record.value)
        found += value != record.value
    assert found


def test_two_runs_write_the_same() -> None:
    path = "ticdc/canal-json.tidb-extension/09_dml"
    assert values(sent(TICDC, AVRO, path)[0]) == values(sent(TICDC, AVRO, path)[0])


@pytest.mark.parametrize("target", [SIMPLE, AVRO])
def test_rows_are_read_where_statements_are_left_out(target: str) -> None:
    """A BOOTSTRAP takes the place of each definition; readers accept no row without it."""
    outs, translator = sent(
        TICDC, target, "ticdc/canal-json.tidb-extension/10_ddl", {}, {"ddl": "drop", "strict": "true"}
    )
    assert counted(translator)["ddl"] > 40
    back = Translator(target, TICDC, {}, EXTENSION)
    read = [json.loads(out.value or b"") for one in again(outs) for out in back.translate(one)]
    rows = [message for message in read if message["data"] is not None]
    assert len(rows) > 40
    assert not any(message["isDdl"] for message in read)
    given = [json.loads(one.value or b"") for one in captured("ticdc/canal-json.tidb-extension/10_ddl")]
    assert [row["data"] for row in rows] == [one["data"] for one in given if one["data"] is not None]
