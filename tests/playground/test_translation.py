"""The playground's answers: events, records, losses, and errors with their position."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support import CANAL, CAPTURED, OPEN, TICDC, WRITABLE, captured
from typer.testing import CliRunner

from relay.cli.commands import app
from relay.cli.playground.catalog import Example, catalog, examples
from relay.cli.playground.pasted import records_in
from relay.cli.playground.translation import (
    MAX_RECORDS,
    MAX_SHOWN_BYTES,
    TranslationRequest,
    answer,
    encoded,
    part,
)
from relay.codecs import BUILT_IN
from relay.io.record_lines import format_record

READABLE = [codec.name for codec in BUILT_IN.values() if codec.is_readable]
FLAGSHIP = "ticdc/canal-json.tidb-extension/09_dml"
CREATE = "CREATE TABLE accounts (id INT PRIMARY KEY, name VARCHAR(77), balance DECIMAL(12,2), note TEXT, email VARCHAR(50))"


def example(protocol: str, title: str) -> Example:
    return next(each for each in examples(protocol) if each.title == title)


def schemas(protocol: str) -> str:
    found = next(each for each in catalog()["protocols"] if each["name"] == protocol)
    return str(found["schemas"])


def asked(
    source: str, target: str, message: str, max_shown_bytes: int = MAX_SHOWN_BYTES, **more: Any
) -> dict[str, Any]:
    """The answer as the page gets it."""
    request = msgspec.convert({"from": source, "to": target, "message": message, **more}, TranslationRequest)
    found: dict[str, Any] = json.loads(encoded(answer(request, max_shown_bytes)))
    return found


def asked_example(source: str, target: str, title: str, **more: Any) -> dict[str, Any]:
    one = example(source, title)
    return asked(source, target, one.message, before=one.before, schemas=schemas(source), **more)


def text_of(event: dict[str, Any]) -> list[str]:
    return ["".join(text for text, _ in line).rstrip() for line in event["lines"]]


def refused(found: dict[str, Any]) -> list[str]:
    assert found.keys() == {"problems"}
    return [each["path"] for each in found["problems"]]


# ---------------------------------------------------------------- examples


def test_every_protocol_that_can_be_read_has_examples_of_rows_and_ddl() -> None:
    offered = {each["name"]: {one["title"] for one in each["examples"]} for each in catalog()["protocols"]}
    for name in READABLE:
        if name in BUILT_IN:
            assert any(title.startswith("insert") for title in offered[name]), name
            assert any(title.startswith("update") for title in offered[name]), name
            has_ddl = any(title.startswith("CREATE TABLE") for title in offered[name])
            assert has_ddl is BUILT_IN[name].decodes.ddl, name
            assert "delete" in offered[name], name
    for name in (TICDC, OPEN, "ticdc-debezium", "ticdc-simple-json", "ticdc-simple-avro", "ticdc-avro"):
        assert "watermark" in offered[name]


def test_examples_are_captured_records() -> None:
    """As the README of the examples says, and all but those of CKafka and GoldenGate."""
    known = {
        record for file in CAPTURED if ".claim-check" not in file for record in map(_identity, captured(file))
    }
    for name in READABLE:
        if name not in {"ckafka-json", "ogg-json"}:
            for one in examples(name):
                (pasted,) = records_in(one.message, "message")
                assert _identity(pasted.record) in known, (name, one.title)


def _identity(record: Any) -> bytes:
    return format_record(record, record.offset)


@pytest.mark.parametrize("source", READABLE)
def test_examples_are_translated(source: str) -> None:
    """To the other protocols in turn, so that every pair is seen once and each example a few times."""
    targets = sorted(WRITABLE)
    for at, one in enumerate(examples(source)):
        for target in targets[at % 3 :: 3]:
            found = asked(source, target, one.message, before=one.before, schemas=schemas(source))
            (record,) = found["records"]
            assert (found["problems"], record["error"]) == ([], None), (target, one.title)
            assert record["events"] or one.title == "tombstone"
            assert all(event["lines"] and json.loads(event["json"]) for event in record["events"])


def test_an_example_is_shown_as_inspect_and_translate_show_it(tmp_path: Path) -> None:
    one = example(TICDC, "update")
    file = tmp_path / "in.jsonl"
    file.write_text(f"{one.before}\n{one.message}\n")
    runner = CliRunner()
    inspected = runner.invoke(app, ["inspect", "--from", TICDC, str(file)]).stdout.splitlines()
    written = runner.invoke(app, ["translate", "--from", TICDC, "--to", CANAL, "-q", str(file)]).stdout
    (record,) = asked_example(TICDC, CANAL, "update")["records"]
    (event,) = record["events"]
    start = inspected.index(text_of(event)[0])
    assert text_of(event) == inspected[start:-1]
    (out,) = record["output"]
    theirs = json.loads(written.splitlines()[-1])
    assert json.loads(out["line"]) | {"offset": 0} == theirs | {"offset": 0}
    assert json.loads(out["value"]["text"]) == json.loads(theirs["value"])
    assert out["headers"][0]["text"] == "ticdc-09_dml/0/12/0"


# ---------------------------------------------------------------- the answer


def test_losses_and_assumptions_have_words() -> None:
    one = example(TICDC, "update")
    (record,) = asked(TICDC, CANAL, one.message)["records"]
    assert [(loss["what"], loss["is_note"]) for loss in record["lost"]] == [
        ("commit-ts", False),
        ("type-parameters", False),
        ("schema-inferred", True),
    ]
    assert all(loss["text"] and loss["count"] == 1 for loss in record["lost"])
    assert "watermarks" in asked(TICDC, CANAL, one.message)["route_losses"]


def test_each_record_has_its_own_losses() -> None:
    records = captured(FLAGSHIP)[:8]
    lines = b"".join(format_record(record, record.offset) for record in records).decode()
    found = asked(TICDC, CANAL, lines)
    assert [len(record["events"]) for record in found["records"]] == [1] * 8
    assert [[loss["what"] for loss in record["lost"]] for record in found["records"]] == [
        ["watermark"] if b"WATERMARK" in (record.value or b"") else ["commit-ts"] for record in records
    ]
    assert [record["line"] for record in found["records"]] == list(range(1, 9))


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (CREATE, "varchar(77)"),
        (f"USE dml_db;\n{CREATE};", "varchar(77)"),
        (f"USE other; {CREATE}", "varchar"),
        (f"{CREATE}; ALTER TABLE dml_db.accounts MODIFY name VARCHAR(99);", "varchar(99)"),
        (f"/*!40101 SET NAMES utf8mb4 */;\n{CREATE}", "varchar(77)"),
    ],
)
@pytest.mark.parametrize("source", [TICDC, OPEN])
def test_statements_before_tell_the_definition(source: str, before: str, expected: str) -> None:
    one = example(source, "update")
    (record,) = asked(source, CANAL, one.message, before=before)["records"]
    assert json.loads(record["output"][0]["value"]["text"])["mysqlType"]["name"] == expected
    assert any(expected in line for line in text_of(record["events"][0]))


def test_statements_are_about_the_database_of_the_rows_whatever_orders_them() -> None:
    """Sources with commit ts, with positions in the log, and with neither."""
    for source in (TICDC, "canal-json", "maxwell-json", "ckafka-json", "debezium-json"):
        more = "ALTER TABLE accounts ADD extra INT"
        found = asked(
            source, "ticdc-simple-json", example(source, "update").message, before=f"{CREATE}; {more}"
        )
        assert found["problems"] == [], source
        assert found["records"][0]["error"] is None


def test_records_before_are_read_and_not_shown() -> None:
    one = example("ticdc-simple-json", "update")
    assert (
        asked("ticdc-simple-json", CANAL, one.message)["records"][0]["error"]["code"]
        == "decode.definition-missing"
    )
    found = asked("ticdc-simple-json", CANAL, one.message, before=one.before)
    assert [record["error"] for record in found["records"]] == [None]


def test_what_comes_before_and_cannot_be_read_is_named_by_its_line() -> None:
    one = example(TICDC, "update")
    before = f"{one.before}\n{one.before.replace('isDdl', 'is')[:-4]}}}"
    assert refused(asked(TICDC, CANAL, one.message, before="USE d;\nCREATE TABLE t (;\nDROP INDEX;")) == [
        "before, line 2",
        "before, line 3",
    ]
    assert refused(asked(TICDC, CANAL, one.message, before=before)) == ["before, line 2"]
    assert refused(asked(TICDC, CANAL, "{}", before=CREATE)) == ["before, line 1"]


def test_errors_have_code_path_and_reason() -> None:
    (record,) = asked(TICDC, CANAL, '{"type":"INSERT","data":1}')["records"]
    assert (record["error"]["code"], record["error"]["protocol"]) == ("decode.malformed", TICDC)
    assert record["error"]["reason"]
    assert (record["events"], record["output"], record["lost"]) == ([], [], [])


def test_a_record_that_cannot_be_written_shows_its_events() -> None:
    (record,) = asked_example(TICDC, CANAL, "update", to_options={"strict": "true"})["records"]
    assert record["error"]["code"] == "encode.not-representable"
    assert len(record["events"]) == 1
    assert record["output"] == []


def test_what_cannot_be_written_defines_tables_all_the_same() -> None:
    ddl, row = captured(FLAGSHIP)[1], captured(FLAGSHIP)[12]
    lines = b"".join(format_record(record, record.offset) for record in (ddl, row)).decode()
    options = {"strict": "true", "max-batch-size": "1"}
    first, second = asked(TICDC, CANAL, lines, to_options=options)["records"]
    assert first["error"]
    assert second["error"]
    assert any("varchar(30)" in line for line in text_of(second["events"][0]))


@pytest.mark.parametrize(
    ("given", "paths"),
    [
        ({"from": "canal"}, ["from"]),
        ({"from": "flat-json"}, ["from"]),
        ({"from": "x", "to": "y"}, ["from", "to"]),
        ({"to_options": {"timezone": "Mars"}}, ["to.option.timezone"]),
        ({"to_options": {"profile": "x"}, "from_options": {"strict": "true"}}, ["from.option.strict", "to.option.profile"]),
        ({"message": " "}, ["message"]),
        ({"message": '{"partition":"x","value":""}'}, ["message, line 1"]),
        ({"schemas": "x"}, ["schemas"]),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_request_has_the_path_of_its_field(
    given: dict[str, Any], paths: list[str]
) -> None:
    assert refused(asked(**({"source": TICDC, "target": CANAL, "message": "{}"} | _named(given)))) == paths


def _named(given: dict[str, Any]) -> dict[str, Any]:
    names = {"from": "source", "to": "target"}
    return {names.get(name, name): value for name, value in given.items()}


def test_options_without_effect_and_batches_are_reported() -> None:
    found = asked_example(OPEN, "ticdc-open-protocol", "insert", to_options={"max-batch-size": "9"})
    assert [each["path"] for each in found["advice"]] == ["to.option.max-batch-size"]
    found = asked_example(TICDC, CANAL, "insert", to_options={"watermarks": "keep"})
    assert [each["path"] for each in found["advice"]] == ["to.option.watermarks"]


def test_a_profile_and_an_option_beside_it() -> None:
    (record,) = asked_example(
        TICDC, CANAL, "delete", to_options={"profile": "flink", "key": "primary-key", "tombstones": "true"}
    )["records"]
    assert [out["value"]["form"] for out in record["output"]] == ["json", "null"]
    assert record["output"][0]["key"]["form"] == "json"


@pytest.mark.parametrize("protocol", READABLE)
def test_a_message_of_another_protocol_is_recognized(protocol: str) -> None:
    """It is not said of the protocol that is chosen."""
    one = next(each for each in examples(protocol) if each.title.startswith("update"))
    other = CANAL if protocol != CANAL else TICDC
    known = schemas(protocol)
    assert asked(protocol, "flat-json", one.message, before=one.before, schemas=known)["looks_like"] is None
    found = asked(other, "flat-json", one.message, schemas=known)["looks_like"]
    assert protocol in found["protocols"]
    assert found["evidence"]


# ---------------------------------------------------------------- nothing but the request


def test_no_file_is_read_or_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim check of the source is refused; what the target would store is only named."""
    uri = {"claim-check-storage-uri": str(tmp_path)}
    large = uri | {
        "large-message-handle-option": "claim-check",
        "max-message-bytes": "500",
        "enable-tidb-extension": "true",
    }
    (record,) = asked_example(TICDC, TICDC, "update", to_options=large)["records"]
    (out,) = record["output"]
    (line,) = out["objects"]
    (tmp_path / line.partition(",")[0]).write_text("{}")
    before = list(tmp_path.iterdir())
    (record,) = asked(TICDC, TICDC, out["line"], from_options=uri)["records"]
    assert record["error"]["code"] == "service.need-unanswered"
    assert str(tmp_path) not in json.dumps(record["error"])
    assert list(tmp_path.iterdir()) == before


def test_schemas_come_from_the_request_alone() -> None:
    one = example("ticdc-avro", "update")
    (record,) = asked("ticdc-avro", CANAL, one.message)["records"]
    assert (record["error"]["code"], record["events"]) == ("service.schema-missing", [])
    (record,) = asked("ticdc-avro", "debezium-avro", one.message, schemas=schemas("ticdc-avro"))["records"]
    assert [schema["id"] for schema in record["schemas"]] == [1, 2]
    assert all(json.loads(schema["text"])["type"] == "record" for schema in record["schemas"])


def test_what_other_packages_answer_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def installed(*_: Any) -> Iterator[Any]:
        raise AssertionError

    monkeypatch.setattr("relay.io.resolver.installed", installed)
    found = asked(
        "toy-lines",
        CANAL,
        '{"type":"row","schema":1,"op":"insert","at":{"time_ms":1,"emitted_ms":2},"after":{"id":7}}',
    )
    assert found["records"][0]["error"]["code"] == "service.need-unanswered"


def test_records_and_bytes_are_bounded() -> None:
    line = example(TICDC, "insert").message
    found = asked(TICDC, CANAL, "\n".join([line] * (MAX_RECORDS + 5)))
    assert (len(found["records"]), found["left_out"]) == (MAX_RECORDS, 5)
    found = asked(TICDC, CANAL, "\n".join([line] * 10), max_shown_bytes=1000)
    assert (len(found["records"]), found["left_out"]) == (2, 8)


def test_the_same_request_has_the_same_answer() -> None:
    assert asked_example("debezium-avro", "ticdc-avro", "update") == asked_example(
        "debezium-avro", "ticdc-avro", "update"
    )


# ---------------------------------------------------------------- bytes for people


@pytest.mark.parametrize(
    ("data", "form", "text"),
    [
        (None, "null", "null"),
        (b"", "text", ""),
        (b'{"a":1.10,"b":[12345678901234567890123]}', "json", '{\n  "a": 1.10,\n  "b": [\n    12345678901234567890123\n  ]\n}'),
        (b"[1]", "json", "[\n  1\n]"),
        (b'{"a":', "text", '{"a":'),
        ("é\u202e\n".encode(), "text", "é\\u202e\n"),
        (b"\x00\xffAb", "hex", "0000  00 ff 41 62              ··Ab"),
        (b"\x00\x01", "hex", "0000  00 01                    ··"),
        (b"\x00" * 8 + b'{"a":1}', "framed", '0000  00 00 00 00 00 00 00 00  ········\n{\n  "a": 1\n}'),
        (b'x {"a":1}', "text", 'x {"a":1}'),
        (b"[" * 100_000, "text", "[" * 100_000),
    ],
)  # fmt: skip
def test_keys_and_values_as_they_can_be_read(data: bytes | None, form: str, text: str) -> None:
    assert part(data) == {"form": form, "text": text, "bytes": len(data or b"")}


def test_bytes_in_base64_are_what_the_record_holds() -> None:
    (pasted,) = records_in(example("ticdc-simple-avro", "insert").message, "message")
    text = base64.b64encode(pasted.record.value or b"").decode()
    one = example("ticdc-simple-avro", "insert")
    (record,) = asked("ticdc-simple-avro", CANAL, text, before=one.before)["records"]
    assert (record["position"], record["error"]) == ("stdin/0/0", None)
    assert record["value"]["form"] == "hex"
