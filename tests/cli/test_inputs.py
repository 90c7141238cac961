"""Inputs of every kind: compressed, several, folders, what kcat prints, what people paste, `--from auto`."""

from __future__ import annotations

import gzip
import io
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import cramjam
import pytest
from support import DATA
from typer.testing import Result

from relay.cli.files import Origins
from relay.cli.inputs import bounded_lines, documents_of, open_inputs
from relay.cli.record_files import RecordReader
from relay.model.errors import ConfigError, Malformed, ServiceError
from relay.model.records import ConsumerRecord

DML = DATA / "ticdc/canal-json.tidb-extension/09_dml.jsonl"
Relay = Callable[..., Result]


def read(*names: Path | str) -> list[ConsumerRecord]:
    with open_inputs([str(name) for name in names]) as opened:
        return list(RecordReader(opened.stream, opened.name))


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """The first ten records in a file of their own."""
    path = tmp_path / "first.jsonl"
    path.write_bytes(b"".join(DML.read_bytes().splitlines(keepends=True)[:10]))
    return path


def test_compressed_files(first: Path, tmp_path: Path) -> None:
    data, plain = first.read_bytes(), read(first)
    (tmp_path / "a.gz").write_bytes(gzip.compress(data))
    (tmp_path / "b.zst").write_bytes(bytes(cramjam.zstd.compress(data)))
    assert len(plain) == 10
    assert read(tmp_path / "a.gz") == plain
    assert read(tmp_path / "b.zst") == plain


def damaged_inside() -> bytes:
    """A compressed file whose begin and end are whole."""
    data = bytearray(gzip.compress(DML.read_bytes(), mtime=0))
    data[40:60] = bytes(each ^ 0xFF for each in data[40:60])
    return bytes(data)


@pytest.mark.parametrize(
    "broken",
    [
        gzip.compress(b"x" * 1_000)[:-20],
        b"\x1f\x8bno",
        damaged_inside(),
        b"\x28\xb5\x2f\xfdno",
        bytes(cramjam.zstd.compress(b"x" * 1_000))[:-5],
    ],
    ids=["cut", "gzip", "gzip inside", "zstd", "zstd cut"],
)
def test_a_damaged_file_is_an_error_of_the_input(broken: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(broken)
    with pytest.raises(ConfigError, match=r"INPUT: cannot read .*a\.gz"):
        read(tmp_path / "a.gz")


def test_a_line_that_no_record_can_have_is_refused_before_memory_is_taken() -> None:
    for line, is_read in ((b" " * 1_000, True), (b" " * 1_001, False)):
        text = b'{"x":1}\n' + line + b'\n{"x":2}\n'
        lines = bounded_lines(io.BytesIO(text), "bomb.gz", "INPUT", max_bytes=1_000)
        if is_read:
            assert list(lines) == text.splitlines(keepends=True)
        else:
            with pytest.raises(ConfigError, match=r"cannot read bomb\.gz: line 2 has more than 1000 bytes"):
                list(lines)


def test_zstandard_is_unpacked_in_a_file_and_not_in_memory(tmp_path: Path) -> None:
    path, line = tmp_path / "bomb.zst", b'{"x":1}' + b" " * (1 << 20) + b"\n"
    path.write_bytes(bytes(cramjam.zstd.compress(line * 16)) * 16)
    tracemalloc.start()
    with open_inputs([str(path)]) as opened:
        assert opened.size == 256 * len(line)
    assert tracemalloc.get_traced_memory()[1] < 16 * len(line)
    tracemalloc.stop()


def test_a_full_disk_is_no_mistake_of_the_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.zst").write_bytes(bytes(cramjam.zstd.compress(b"{}\n" * 100_000)))

    def full(*_: object) -> None:
        raise cramjam.DecompressionError("No space left on device (os error 28)")

    monkeypatch.setattr(cramjam.zstd, "decompress_into", full)
    with pytest.raises(
        ServiceError, match=r"cannot read .*a\.zst: No space left on device; it is unpacked to"
    ):
        read(tmp_path / "a.zst")


def test_several_files_and_a_folder(first: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "b.jsonl").write_bytes(first.read_bytes())
    (folder / "a.json.gz").write_bytes(gzip.compress(b'{"x":1}\n{"x":2}\n'))
    (folder / "notes.txt").write_text("not a record")
    found = read(folder, first)
    assert [each.value for each in found[:2]] == [b'{"x":1}', b'{"x":2}']
    assert found[2:] == read(first) * 2
    assert [each.offset for each in found[:2]] == [0, 1]
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ConfigError, match="it is a folder without record files"):
        read(empty)


def test_values_of_several_files_are_counted_over_all(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text('{"x":1}\n')
    assert [each.offset for each in read(tmp_path / "a", tmp_path / "b")] == [0, 1]


def test_lines_of_kcat(tmp_path: Path) -> None:
    line = {
        "topic": "orders", "partition": 3, "offset": 7, "tstype": "create", "ts": 1_700_000_000_000, "broker": 1,
        "headers": ["h", "v", "h", None], "key": None, "payload": '{"a":"\u00e9"}',
    }  # fmt: skip
    path = tmp_path / "kcat.jsonl"
    path.write_text(
        "".join(
            json.dumps(line | more) + "\n"
            for more in ({}, {"key": "k", "payload": None}, {"payload": {"a": 1}})
        )
    )
    headers = (("h", b"v"), ("h", None))
    assert read(path) == [
        ConsumerRecord("orders", 3, 7, 1_700_000_000_000, None, '{"a":"é"}'.encode(), headers),
        ConsumerRecord("orders", 3, 7, 1_700_000_000_000, b"k", None, headers),
        ConsumerRecord("orders", 3, 7, 1_700_000_000_000, None, b'{"a": 1}', headers),
    ]


@pytest.mark.parametrize("indent", [1, 4, "\t"])
@pytest.mark.parametrize("end", ["", "\n", "\r\n\r\n"])
def test_a_pretty_printed_message(indent: int | str, end: str, tmp_path: Path) -> None:
    message = {"a": [1.10, "x\ny", {"b": "}\u2028{"}], "c": {}}
    text = json.dumps(message, indent=indent, ensure_ascii=False)
    (tmp_path / "one.json").write_text(text + end, encoding="utf-8")
    (tmp_path / "two.json").write_text(f"\ufeff{text}{end}{text}{end}", encoding="utf-8")
    assert [json.loads(each.value or b"") for each in read(tmp_path / "one.json")] == [message]
    assert [json.loads(each.value or b"") for each in read(tmp_path / "two.json")] == [message] * 2


def test_a_pretty_printed_record(first: Path, tmp_path: Path) -> None:
    lines = first.read_text(encoding="utf-8").splitlines()
    (tmp_path / "pretty.json").write_text("\n".join(json.dumps(json.loads(line), indent=2) for line in lines))
    assert read(tmp_path / "pretty.json") == read(first)


def test_a_broken_first_line_stays_an_error_of_its_line(first: Path, relay: Relay) -> None:
    first.write_bytes(b'{"partition":0,"value":"a\n' + first.read_bytes())
    result = relay("translate", "--from", "ticdc-canal-json", "--to", "canal-json", first)
    assert result.exit_code == 2
    assert "first.jsonl line 1" in result.stderr


# ---------------------------------------------------------------- the commands


@pytest.mark.parametrize("protocol", ["auto", "ticdc-canal-json"])
def test_stdin_may_be_pretty_printed(protocol: str, relay: Relay) -> None:
    value = json.loads(json.loads(DML.read_text(encoding="utf-8").splitlines()[1])["value"])
    result = relay("inspect", "--from", protocol, input=json.dumps(value, indent=2).encode())
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("schema-change")


def test_from_auto_gives_what_the_protocol_gives(relay: Relay) -> None:
    named = relay("translate", "--from", "ticdc-canal-json", "--to", "canal-json", DML)
    auto = relay("translate", "--from", "auto", "--to", "canal-json", DML)
    assert (auto.exit_code, auto.stdout) == (0, named.stdout)
    assert "--from ticdc-canal-json: TiCDC Canal-JSON (member _tidb)" in auto.stderr
    default = relay("translate", "--to", "canal-json", DML)
    assert (default.stdout, default.stderr[:40]) == (auto.stdout, auto.stderr[:40])
    assert relay("inspect", DML).stdout == relay("inspect", "--from", "ticdc-canal-json", DML).stdout
    piped = relay("translate", "--from", "auto", "--to", "canal-json", "--quiet", input=DML.read_bytes())
    assert piped.stdout == named.stdout


def test_from_auto_finds_the_protocol_of_avro_with_a_registry(relay: Relay) -> None:
    folder = DATA / "mysql/debezium.avro"
    rows, schemas = folder / "03_temporal.jsonl", folder / "schemas.ndjson"
    found = relay("inspect", rows, "--from-registry", schemas)
    assert (found.exit_code, "--from debezium-avro: " in found.stderr) == (0, True)


def test_from_auto_says_why_it_cannot(relay: Relay, tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    for text, said in (
        ('{"id":1}\n', "unknown format of the records"),
        (
            '{"id":1,"__op":"c"}\n',
            "ExtractNewRecordState has flattened (member __op), which relay does not read",
        ),
        ('{"isDdl":true,"type":"QUERY"}\n', "the records can be"),
        ("", "no record to detect the protocol from (name the protocol)"),
    ):
        path.write_text(text)
        result = relay("translate", "--from", "auto", "--to", "canal-json", path)
        assert result.exit_code == 2
        assert said in result.stderr


def test_detect_prints_what_it_sees(relay: Relay) -> None:
    result = relay("detect", DML)
    assert result.exit_code == 0
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert {
        "TiCDC Canal-JSON",
        "protocol  ticdc-canal-json",
        "sure      certain",
        "evidence  member _tidb",
        "settings  enable-tidb-extension=true",
        f"next      relay inspect --from ticdc-canal-json {DML}",
    } <= set(lines)
    found = json.loads(relay("detect", "--json", DML).stdout)
    assert [each["protocols"] for each in found["dialects"]] == [["ticdc-canal-json"]]


def test_detect_uses_a_registry(relay: Relay) -> None:
    folder = DATA / "ticdc/avro"
    path = next(folder.glob("*.jsonl"))
    assert "sure      possible" in relay("detect", path).stdout
    result = relay("detect", path, "--from-registry", folder / "schemas.ndjson")
    assert "sure      certain" in result.stdout, result.stderr


def test_detect_exits_with_2_for_what_relay_does_not_read(relay: Relay) -> None:
    result = relay("detect", input=b'{"id":1,"__op":"c"}\n{"x":1}\n')
    assert result.exit_code == 2
    assert "none: relay does not read this format" in result.stdout
    assert "1 in an unknown format" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("detect", "--topic", "t"), "--brokers: is missing"),
        (("capture", "--brokers", "h:9092"), "--from-topic: is missing"),
        (("capture", "--brokers", "h:x", "--topic", "t"), "--brokers: 'h:x' has no port"),
        (("capture", "-b", "h", "--topic", "t", "--last", "5", "--since", "2h"), "--last: cannot be combined with --since"),
        (("capture", "-b", "h", "--topic", "t", "--since", "soon"), "--since: 'soon' is neither a time nor a duration"),
        (("capture", "-b", "h", "--topic", "t", "--offsets", "5-9"), "--offsets: '5-9' is not a range of offsets"),
        (("inspect", "--from", "auto", "--last", "5"), "--last: needs a topic"),
        (("inspect", "--from", "auto", "--from-topic", "t", "-b", "h", "file"), "INPUT: cannot be combined with --from-topic"),
        (("translate", "--from", "auto", "--to", "canal-json", "--from-topic", "t", "-b", "h", "file"), "cannot be combined with"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_topic_is_said_before_anybody_is_asked(
    arguments: tuple[str, ...], said: str, relay: Relay
) -> None:
    result = relay(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_inspect_counts_errors_beyond_twenty(relay: Relay, tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"x":1}\n' * 30)
    result = relay("inspect", "--from", "canal-json", path)
    assert result.exit_code == 2
    assert result.stderr.count("error: ") == 21
    assert "30 of 30 records in" in result.stderr


# ---------------------------------------------------------------- where an error is


WRONG = b'{"x":1}'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files of every kind, with a wrong message as the third of each: plain, packed, over several lines."""
    monkeypatch.chdir(tmp_path)
    right = json.dumps({"id": 0, "database": "a", "table": "t", "pkNames": None, "isDdl": True, "type": "CREATE",
                        "es": 1, "ts": 1, "sql": "create table t(a int)", "data": None, "old": None})  # fmt: skip
    values = f"{right}\n\n{right}\n".encode() + WRONG + b"\n"
    printed = json.dumps(json.loads(right), indent=1)
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(values)
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(values))
    (folder / "c.json").write_text(f"\n{printed}\n\n{printed}{WRONG.decode()}\n")
    (folder / "d.json").write_text(f"[{right},\n{right} ,\n\n {WRONG.decode()}]")
    records = [{"topic": "t", "partition": 3, "value": value} for value in (right, right, WRONG.decode())]
    (folder / "e.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


AT = {"a.jsonl": 4, "b.jsonl.gz": 4, "c.json": 2 + 2 * json.dumps(dict.fromkeys("abcdefghijk"), indent=1).count("\n") + 2,
      "d.json": 4, "e.jsonl": 3}  # fmt: skip


@pytest.mark.parametrize("names", [["in"], [f"in/{name}" for name in AT]], ids=["folder", "files"])
@pytest.mark.parametrize(
    "command",
    [
        ("inspect", "--from", "canal-json"),
        ("translate", "--from", "canal-json", "--to", "maxwell-json", "--on-error", "skip", "--quiet"),
    ],
    ids=["inspect", "translate"],
)
def test_an_error_names_its_file_and_line(
    names: list[str], command: tuple[str, ...], folder: Path, relay: Relay
) -> None:
    assert folder.exists()
    result = relay(*command, *names)
    said = [line.removeprefix("error: ") for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert [line.partition(": ")[0] for line in said] == [
        f"in/{name} line {line}" + (" (t/3/2)" if name == "e.jsonl" else "") for name, line in AT.items()
    ]


@pytest.mark.parametrize("name", ["a.jsonl", "b.jsonl.gz", "c.json", "d.json"])
def test_an_error_of_one_file_or_of_stdin_names_the_line(name: str, folder: Path, relay: Relay) -> None:
    result = relay("inspect", "--from", "canal-json", folder / name)
    assert f"error: {folder / name} line {AT[name]}: canal-json" in result.stderr
    if not name.endswith(".gz"):
        result = relay("inspect", "--from", "canal-json", input=(folder / name).read_bytes())
        assert f"error: stdin line {AT[name]}: canal-json" in result.stderr


def test_a_line_that_is_no_record_is_named_too(folder: Path, relay: Relay) -> None:
    with (folder / "e.jsonl").open("a") as file:
        file.write('{"partition":"x"}\n')
    result = relay("inspect", "--from", "canal-json", folder / "a.jsonl", folder / "e.jsonl")
    assert "error: record file: in/e.jsonl line 4" in result.stderr.replace(str(folder.parent) + "/", "")


@pytest.mark.parametrize("input_format", ["values", "kcat"])
def test_a_named_format_holds_for_several_files(input_format: str, tmp_path: Path, relay: Relay) -> None:
    line = '{"topic":"t","partition":0,"offset":1,"payload":"bad"}\n' if input_format == "kcat" else "bad\n"
    for name in "ab":
        (tmp_path / name).write_text(line)
    result = relay(
        "inspect", "--from", "made-up", "--input-format", input_format, tmp_path / "a", tmp_path / "b"
    )
    assert result.stderr.count("made-up: word[0]: is bad") == 2


def test_a_list_is_read_as_its_records(first: Path, tmp_path: Path) -> None:
    lines = first.read_text(encoding="utf-8").splitlines()
    for name, between in (("one.json", ","), ("many.json", " ,\n\t")):
        (tmp_path / name).write_text(f" [ {between.join(lines)} ]\n", encoding="utf-8")
        assert read(tmp_path / name) == read(first)
    (tmp_path / "numbers.json").write_text("[1, 2]\n")
    assert [each.value for each in read(tmp_path / "numbers.json")] == [b"[1, 2]"]


def test_a_list_that_is_too_long_is_explained() -> None:
    lines = [b"\n", b'[{"x":1},\n', b'{"x":2},\n', b'{"x":3}]\n']
    with pytest.raises(Malformed, match=r"record file: a\.json line 2: a JSON list begins here"):
        list(documents_of(lines, Origins("a.json"), max_bytes=12))


def test_detect_looks_at_every_file_and_names_it(folder: Path, relay: Relay, tmp_path: Path) -> None:
    other = tmp_path / "a b.jsonl"
    other.write_bytes(DML.read_bytes())
    result = relay("detect", other, "in/d.json")
    assert result.exit_code == 0
    assert folder.exists()
    assert f"{other}: 68 records examined" in result.stdout
    assert f"next      relay inspect --from ticdc-canal-json '{other}'" in result.stdout
    assert "in/d.json: 3 records examined" in result.stdout
    assert "the first at in/d.json line 1" in result.stdout
    found = [json.loads(line) for line in relay("detect", "--json", other, "in/d.json").stdout.splitlines()]
    assert [each["input"] for each in found] == [str(other), "in/d.json"]
    piped = relay("detect", "-", input=DML.read_bytes()).stdout
    assert piped.startswith("stdin: 68 records examined")
    assert "next      relay inspect --from ticdc-canal-json\n" in piped
