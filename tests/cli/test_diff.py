"""`relay diff`: what relay writes is what it has read, whatever the protocols; and what is not is found."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support import DATA, captured, protocol_of, reading_options
from typer.testing import Result

from relay import Translator
from relay.cli.exits import DIFFERENT
from relay.codecs import PROTOCOLS
from relay.io.record_lines import format_record
from relay.model.records import ProducerRecord

Run = Callable[..., Result]

DML = "ticdc/canal-json.tidb-extension/09_dml"
FILE = DATA / f"{DML}.jsonl"
TARGETS = [
    name
    for name, codec in PROTOCOLS.items()
    if codec.is_readable
    and codec.is_writable
    and not codec.uses_registry
    and name not in {"toy-lines", "made-up"}
]


def written(tmp_path: Path, source: str, target: str) -> list[ProducerRecord]:
    translator = Translator(protocol_of(source), target, reading_options(source))
    return [out for each in captured(source) for out in translator.translate(each)]


def save(file: Path, records: Sequence[ProducerRecord]) -> Path:
    counted: Counter[tuple[str, int]] = Counter()
    lines = []
    for each in records:
        lines.append(format_record(each, counted[each.topic, each.partition]))
        counted[each.topic, each.partition] += 1
    file.write_bytes(b"".join(lines))
    return file


def compared(relay: Run, a: str, b: Path, target: str, *arguments: str) -> tuple[int, dict[str, Any]]:
    options = [
        part for name, value in reading_options(a).items() for part in ("--a-option", f"{name}={value}")
    ]
    protocols = ("--a", protocol_of(a), *options, "--b", target)
    result = relay("diff", DATA / f"{a}.jsonl", b, *protocols, "--json", *arguments)
    assert result.exit_code in {0, DIFFERENT}, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return result.exit_code, found


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "source",
    ["ticdc/canal-json.tidb-extension/01_all_types", "ticdc/canal-json.tidb-extension/06_zero_dates"],
)
def test_what_relay_has_written_does_not_differ(relay: Run, tmp_path: Path, source: str, target: str) -> None:
    file = save(tmp_path / "b.jsonl", written(tmp_path, source, target))
    status, found = compared(relay, source, file, target)
    assert status == 0, found
    first, second = found["sides"]
    assert first["rows"] == second["rows"] > 0
    assert found["equal"] + found["explained"] >= first["rows"]


def test_what_a_protocol_loses_is_counted_apart_or_with_strict_as_a_difference(
    relay: Run, tmp_path: Path
) -> None:
    source = "ticdc/canal-json.tidb-extension/06_zero_dates"
    file = save(tmp_path / "b.jsonl", written(tmp_path, source, "debezium-json"))
    status, found = compared(relay, source, file, "debezium-json")
    assert (status, found["explained"], found["losses"]["zero-date"] > 0) == (0, 10, True)
    status, found = compared(relay, source, file, "debezium-json", "--strict")
    assert (status, found["explained"], sum(found["different"].values())) == (DIFFERENT, 0, 10)


def test_protocols_with_a_registry_are_explained_without_registering(relay: Run, tmp_path: Path) -> None:
    source = "ticdc/canal-json.tidb-extension/06_zero_dates"
    file, schemas = tmp_path / "b.jsonl", tmp_path / "schemas.ndjson"
    arguments = [
        *("--from", "ticdc-canal-json", "--from-option", "enable-tidb-extension=true"),
        *("--to", "ticdc-avro", "--to-registry", str(schemas), "--topic", "{topic}.{table}"),
    ]
    assert relay("translate", *arguments, DATA / f"{source}.jsonl", "--output", file).exit_code == 0
    before = schemas.read_bytes()
    status, found = compared(relay, source, file, "ticdc-avro", "--b-registry", str(schemas))
    assert (status, found["equal"], found["explained"]) == (0, 5, 11)
    assert found["losses"]["before-image"] == 5
    assert schemas.read_bytes() == before


def test_a_value_that_relay_would_not_have_written_is_no_loss(relay: Run, tmp_path: Path) -> None:
    """Beside a column of which much is lost another one differs: that is found."""
    source = "ticdc/canal-json.tidb-extension/06_zero_dates"
    file = save(tmp_path / "b.jsonl", written(tmp_path, source, "debezium-json"))
    changed = file.read_text().replace("abc", "abd")
    assert changed != file.read_text()
    file.write_text(changed)
    status, found = compared(relay, source, file, "debezium-json")
    assert status == DIFFERENT
    assert all("v" in example["what"] for example in found["examples"])


@pytest.mark.parametrize("other", ["mysql/canal-json/09_dml", "mysql/debezium/09_dml"])
def test_other_producers_tell_the_same_of_the_same_statements(relay: Run, other: str) -> None:
    """Those for `ledger` have moved numbers and times of their own in each run."""
    arguments = ("--exclude-table", "dml_db.ledger")
    status, found = compared(relay, DML, DATA / f"{other}.jsonl", protocol_of(other), *arguments)
    assert (status, found["explained"]) == (0, 0), found


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        (lambda lines: lines, (0, 0, 0)),
        (lambda lines: lines[::-1], None),
        (lambda lines: [*lines[:20], *lines[21:]], (0, 1, 0)),
        (lambda lines: [*lines[:20], lines[20], *lines[20:]], (0, 0, 1)),
        (lambda lines: [line.replace("251.50", "251.51") for line in lines], (4, 0, 0)),
    ],
    ids=["same", "backwards", "lost", "twice", "changed"],
)
def test_what_differs_is_found(
    relay: Run, tmp_path: Path, change: Callable[[list[str]], list[str]], counts: tuple[int, int, int] | None
) -> None:
    file = save(tmp_path / "b.jsonl", written(tmp_path, DML, "canal-json"))
    file.write_text("".join(change(file.read_text().splitlines(keepends=True))))
    status, found = compared(relay, DML, file, "canal-json")
    totals = tuple(sum(found[name].values()) for name in ("different", "only_in_a", "only_in_b"))
    assert status == (0 if totals == (0, 0, 0) else DIFFERENT)
    if counts is None:
        assert sum(totals) > 0
    else:
        assert totals == counts


def test_values_are_shown_on_request(relay: Run, tmp_path: Path) -> None:
    file = save(tmp_path / "b.jsonl", written(tmp_path, DML, "canal-json"))
    file.write_text(file.read_text().replace("251.50", "251.51"))
    arguments = [
        *("diff", DATA / f"{DML}.jsonl", file, "--a", "ticdc-canal-json", "--b", "canal-json"),
        *("--a-option", "enable-tidb-extension=true", "--examples", "1"),
    ]
    hidden = relay(*arguments)
    assert hidden.exit_code == DIFFERENT
    lines = [" ".join(line.split()) for line in hidden.stdout.splitlines()]
    assert lines[2:] == [
        "equal 56", "explained 0", "different 4 dml_db.accounts 4", "only in A 0", "only in B 0",
        "different update dml_db.accounts A ticdc-09_dml/0/18 B ticdc-09_dml/0/15 balance",
    ]  # fmt: skip
    shown = relay(*arguments, "--values").stdout
    assert [line.split() for line in shown.splitlines()[-3:]] == [
        ["key", "id", "2"],
        ["column", "A", "B"],
        ["after", "balance", "251.50", "251.51"],
    ]


def test_the_protocol_of_b_is_that_of_a_with_its_options(relay: Run) -> None:
    file = DATA / f"{DML}.jsonl"
    result = relay("diff", file, file, "--a", "ticdc-canal-json", "--a-option", "enable-tidb-extension=true")
    assert result.exit_code == 0, result.stderr
    assert "others 8" in result.stdout


@pytest.mark.parametrize("target", TARGETS)
def test_rows_that_the_other_side_lacks_are_no_loss_of_its_protocol(
    relay: Run, tmp_path: Path, target: str
) -> None:
    rows = [each for each in captured("mysql/canal-json/09_dml") if b'"type":"INSERT"' in (each.value or b"")]
    given, empty = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    given.write_bytes(b"".join(format_record(each, at) for at, each in enumerate(rows[:3])))
    empty.write_bytes(b"")
    code, found = compared_files(relay, given, empty, "--a", "canal-json", "--b", target)
    assert code == DIFFERENT
    assert sum(found["only_in_a"].values()) == found["sides"][0]["rows"] > 2


def compared_files(relay: Run, *arguments: object) -> tuple[int, dict[str, Any]]:
    result = relay("diff", *arguments, "--json")
    return result.exit_code, json.loads(result.stdout)


def test_compressed_files_and_folders_are_compared(relay: Run, tmp_path: Path) -> None:
    lines = (DATA / f"{DML}.jsonl").read_bytes().splitlines(keepends=True)
    folder = tmp_path / "b"
    folder.mkdir()
    (folder / "1.jsonl.gz").write_bytes(gzip.compress(b"".join(lines[:30])))
    (folder / "2.jsonl").write_bytes(b"".join(lines[30:]))
    assert relay("diff", DATA / f"{DML}.jsonl", folder, "--a", "ticdc-canal-json").exit_code == 0
    (folder / "2.jsonl").unlink()
    assert relay("diff", DATA / f"{DML}.jsonl", folder, "--a", "ticdc-canal-json").exit_code == DIFFERENT


def test_an_unreadable_record_is_reported(relay: Run, tmp_path: Path) -> None:
    file = tmp_path / "b.jsonl"
    file.write_text('{"partition":0,"value":"no message"}\n')
    result = relay("diff", DATA / f"{DML}.jsonl", file, "--a", "ticdc-canal-json")
    assert result.exit_code == 2
    assert f"B: {file} line 1" in result.stderr
    assert "unreadable 1" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-", "-", "--a", "canal-json"), "B: is stdin, which A already reads"),
        (("a", "b", "--a", "no-such"), "unknown protocol"),
        (("a", "b", "--a", "canal-json", "--key", "orders=id"), "--key: orders is not of the form"),
        (("a", "b", "--a", "canal-json", "--a-option", "x"), "--a-option: 'x' is not of the form"),
        (("gone", "b", "--a", "canal-json"), "cannot read gone"),
    ],
)
def test_what_cannot_be_compared_is_refused(relay: Run, arguments: tuple[str, ...], said: str) -> None:
    result = relay("diff", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_the_protocols_may_be_found_out(relay: Run, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    relay("translate", "--from", "ticdc-canal-json", "--to", "canal-json", FILE, "--output", out)
    result = relay("diff", "--a", "auto", FILE, out)
    assert result.exit_code == 0, result.stderr
    assert "--a ticdc-canal-json: TiCDC Canal-JSON (member _tidb)" in result.stderr
    assert "--b canal-json: " in result.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--a", "x"), ["--a: unknown protocol 'x'"]),
        (("--a", "canal-json", "--a-option", "zone=x"), ["--a-option zone: canal-json has no option 'zone'"]),
        (("--a", "canal-json", "--b", "y", "--a-option", "zone"), ["--a-option: 'zone' is not of", "--b: unknown protocol"]),
        (("--a", "canal-json", "--b", "auto"), ["--b auto: unknown format of the records"]),
        (("--a", "canal-json", "--include-table", "x"), ["--include-table: 'x' is not of the form"]),
        (("--a", "debezium-avro"), ["--a-registry: is missing"]),
        (("--a", "canal-json", "--b", "debezium-avro"), ["--b-registry: is missing"]),
        (("--a", "canal-json", "--schema-dump", "dump.sql"), ["warning: dump.sql line 1: table t has no database: name its database, by USE or with --dump-database"]),
    ],
)  # fmt: skip
def test_errors_name_the_options_of_the_side(
    arguments: tuple[str, ...],
    expected: list[str],
    relay: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("dump.sql").write_text("CREATE TABLE t (id int);")
    Path("in.jsonl").write_text('{"x":1}\n')
    result = relay("diff", *arguments, "in.jsonl", "in.jsonl")
    said = [line.removeprefix("error: ") for line in result.stderr.splitlines()]
    for found, wanted in zip(said, expected, strict=False):
        assert found.startswith(wanted)
    assert len(said) >= len(expected)


def test_a_side_that_cannot_be_read_is_named(relay: Run) -> None:
    result = relay("diff", "--a", "canal-json", FILE, "nowhere.jsonl")
    assert result.stderr.startswith("error: B: cannot read nowhere.jsonl")


@pytest.mark.parametrize(
    ("target", "profile"),
    [
        (codec.name, profile)
        for codec in PROTOCOLS.values()
        for profile in codec.profiles
        if codec.is_readable
    ],
)
def test_what_was_written_with_a_profile_does_not_differ(
    relay: Run, tmp_path: Path, target: str, profile: str
) -> None:
    """Options of the target are given as they were: statements that they leave out are missed by nobody."""
    if PROTOCOLS[target].uses_registry:
        pytest.skip("needs a registry")
    translator = Translator(protocol_of(DML), target, reading_options(DML), {"profile": profile})
    made = [out for each in captured(DML) for out in translator.translate(each)]
    output = save(tmp_path / "out.jsonl", made)
    status, found = compared(relay, DML, output, target, "--b-option", f"profile={profile}")
    assert (status, found["different"], found["only_in_a"], found["only_in_b"]) == (0, {}, {}, {})
    assert found["equal"] + found["explained"] > 50


FLAT = ("--a-option", "enable-tidb-extension=true")


def flat_rows(tmp_path: Path, options: dict[str, str]) -> tuple[Path, list[ProducerRecord]]:
    translator = Translator(protocol_of(DML), "flat-json", reading_options(DML), options)
    made = [out for each in captured(DML) for out in translator.translate(each)]
    return save(tmp_path / "flat.jsonl", made), made


@pytest.mark.parametrize("profile", [None, *PROTOCOLS["flat-json"].profiles])
@pytest.mark.parametrize("is_first", [False, True])
def test_rows_that_nobody_reads_back_are_compared(
    relay: Run, tmp_path: Path, profile: str | None, is_first: bool
) -> None:
    options = {} if profile is None else {"profile": profile}
    flat, made = flat_rows(tmp_path, options)
    given = [f"profile={profile}"] if profile else []
    sides = [("ticdc-canal-json", FILE, ["enable-tidb-extension=true"]), ("flat-json", flat, given)]
    (a, left, a_options), (b, right, b_options) = reversed(sides) if is_first else sides
    options_of_a = [part for each in a_options for part in ("--a-option", each)]
    options_of_b = [part for each in b_options for part in ("--b-option", each)]
    result = relay("diff", left, right, "--a", a, "--b", b, *options_of_a, *options_of_b, "--json")
    assert result.exit_code == 0, result.stdout + result.stderr
    found = json.loads(result.stdout)
    assert (found["equal"], found["explained"]) == (len(made), 0)
    assert [side["protocol"] for side in found["sides"]] == [a, b]


def test_a_row_that_differs_from_what_relay_writes_is_found(relay: Run, tmp_path: Path) -> None:
    _, made = flat_rows(tmp_path, {})
    changed = made[:]
    row = json.loads(made[5].value or b"")
    name = next(each for each, value in row.items() if isinstance(value, str) and each != "__op")
    row[name] += "x"
    changed[5] = msgspec.structs.replace(made[5], value=json.dumps(row).encode())
    flat = save(tmp_path / "changed.jsonl", changed[:-1])
    arguments = ("--a", "ticdc-canal-json", *FLAT, "--b", "flat-json")
    result = relay("diff", FILE, flat, *arguments, "--json")
    assert result.exit_code == DIFFERENT
    found = json.loads(result.stdout)
    assert sum(found["different"].values()) == 1
    assert [each["what"] for each in found["examples"] if each["what"]] == [[name]]
    assert sum(found["only_in_a"].values()) == 1
    assert found["only_in_b"] == {}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--b-option", "profil=doris"), "--b-option profil: flat-json has no option 'profil'"),
        (("--include-table", "a.b"), "--include-table: cannot be used: messages of flat-json do not name"),
        (("--exclude-table", "a.b"), "--exclude-table: cannot be used: messages of flat-json do not name"),
    ],
)
def test_what_rows_that_nobody_reads_cannot_be_compared_by_is_refused(
    relay: Run, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    flat, _ = flat_rows(tmp_path, {})
    result = relay("diff", FILE, flat, "--a", "ticdc-canal-json", "--b", "flat-json", *arguments)
    assert (result.exit_code, said in result.stderr) == (2, True), result.stderr
    result = relay("diff", flat, flat, "--a", "flat-json")
    assert (result.exit_code, "can only be written" in result.stderr) == (2, True)


def test_a_message_that_is_not_json_is_refused_by_name(relay: Run, tmp_path: Path) -> None:
    other = tmp_path / "lines.txt"
    other.write_text("no JSON\n[1]\n")
    result = relay(
        "diff", FILE, other, "--a", "ticdc-canal-json", "--b", "flat-json", "--input-format", "auto"
    )
    assert result.exit_code == 2
    assert "flat-json: message: is not a JSON object" in result.stderr
