"""`relay formats`: read from the codecs themselves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Annotated, Literal

import pytest
from typer.testing import Result

from relay.cli.files import LineFormat
from relay.cli.formats import type_name
from relay.cli.requests.options import sources, targets
from relay.codecs.losses import Capabilities
from relay.core.loss_texts import FIELD_TEXTS

Run = Callable[..., Result]


def test_all_protocols_with_their_options(relay: Run) -> None:
    result = relay("formats")
    assert result.exit_code == 0
    for expected in (
        "made-up  a protocol of the tests",
        "ticdc-canal-json",
        "canal-json",
        "mode",
        "plain | terse",
        "how much is said",
    ):
        assert expected in result.stdout


def test_one_protocol_shows_what_it_carries(relay: Run) -> None:
    assert "ticdc" not in relay("formats", "--from", "made-up").stdout
    carried = relay("formats", "--to", "made-up", "--to-option", "mode=terse").stdout
    assert "before                   none" in carried
    assert "row key                  yes" in carried
    assert "event time milliseconds  yes" in carried


def test_json(relay: Run) -> None:
    found = {entry["name"]: entry for entry in json.loads(relay("formats", "--json").stdout)["protocols"]}
    options = {option["name"]: option for option in found["made-up"]["options"]}
    assert options["mode"] == {
        "name": "mode", "type": "plain | terse", "default": "plain", "side": "both", "description": "how much is said",
    }  # fmt: skip
    assert options["strict"]["side"] == "target"
    assert options["strict"]["type"] == "true, false or kinds"
    assert options["strict"]["default"] == "false"
    assert [name for name, entry in found.items() if not entry["readable"]] == ["flat-json"]
    assert [name for name, entry in found.items() if not entry["writable"]] == ["ogg-json"]
    one = json.loads(relay("formats", "--from", "made-up", "--json").stdout)["protocols"]
    assert one[0]["carries"]["before"] == "full"


def test_a_route_that_loses(relay: Run) -> None:
    route = ("formats", "--from", "made-up", "--to", "made-up", "--to-option", "mode=terse")
    text = relay(*route).stdout
    assert "made-up -> made-up loses, where a message has it:" in text
    assert "- the old row of an update" in text
    assert "- the GTID of the transaction" in text
    found = json.loads(relay(*route, "--json").stdout)
    assert [loss["what"] for loss in found["lost"]] == ["before", "gtid"]
    assert [loss["kinds"] for loss in found["lost"]] == [["before-image"], ["gtid"]]
    assert all(loss["text"] for loss in found["lost"])


@pytest.mark.parametrize(("handling", "lost"), [("none", False), ("handle-key-only", True)])
def test_what_large_rows_lose(relay: Run, handling: str, lost: bool) -> None:
    options = (
        "--to-option",
        "enable-tidb-extension=true",
        "--to-option",
        f"large-message-handle-option={handling}",
    )
    result = relay("formats", "--from", "ticdc-canal-json", "--to", "ticdc-canal-json", *options)
    assert result.exit_code == 0
    assert ("columns other than the handle key, in rows above max-message-bytes" in result.stdout) is lost


def test_a_route_that_loses_nothing(relay: Run) -> None:
    assert "no losses" in relay("formats", "--from", "made-up", "--to", "made-up").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--from", "nope"), "--from: unknown protocol 'nope'"),
        (
            ("--from", "flat-json"),
            "from: flat-json can only be written, not read (protocols that can be read: ",
        ),
        (("--from", "flat-jso"), "--from: unknown protocol 'flat-jso'"),
        (("--to", "made-up", "--to-option", "mood=x"), "--to-option mood: made-up has no option 'mood'"),
        (
            ("--to", "canal-json", "--profile", "fli"),
            "--to-option profile: canal-json has no profile 'fli' (did you mean flink?)",
        ),
        (("--profile", "flink"), "--profile: needs a protocol (add --to PROTOCOL)"),
        (
            ("--to", "canal-json", "--profile", "flink", "--to-option", "profile=flink"),
            "--profile: is also in --to-option (keep one)",
        ),
        (("--from-option", "a=b"), "--from-option: needs a protocol (add --from PROTOCOL)"),
        (
            ("--from", "made-up", "--from-option", "strict=true"),
            "--from-option strict: applies to the target side",
        ),
        (
            ("--to", "ticdc-canal-json", "--to-option", "output-row-key=true"),
            "--to-option enable-tidb-extension: output-row-key=true writes into `_tidb` (set it to true)",
        ),
        (
            ("--to", "ticdc-open-protocol", "--to-option", "large-message-handle-option=claim-check"),
            "--to-option claim-check-storage-uri: is missing",
        ),
    ],
)
def test_wrong_options(relay: Run, arguments: tuple[str, ...], message: str) -> None:
    result = relay("formats", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_names_of_sources_are_completed_to_those_that_can_be_read() -> None:
    assert targets("fl") == ["flat-json"]
    assert sources("fl") == []
    assert sources("canal") == ["canal-json", "canal-protobuf"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("translate --to flat-json --to-option pro", ["profile="]),
        ("translate --from canal-json --from-option timez", ["timezone="]),
        ("translate --from canal-json --to flat-json --to-option op-", ["op-column=", "op-values="]),
        ("diff --a ticdc-canal-json --b canal-json --b-option op-", []),
        ("inspect --from-option op-", []),
    ],
)
def test_the_shell_completes_names_of_options(words: str, expected: list[str]) -> None:
    given = words.split()
    environment = os.environ | {
        "_RELAY_COMPLETE": "complete_bash",
        "COMP_WORDS": f"relay {words}",
        "COMP_CWORD": str(len(given)),
    }
    program = [sys.executable, "-c", "from relay.cli import main; import sys; sys.argv[0] = 'relay'; main()"]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == expected, done.stderr


def test_lines_are_broken_at_100_columns_in_a_pipe(relay: Run) -> None:
    assert max(map(len, relay("formats").stdout.splitlines())) <= 100


@pytest.mark.parametrize(
    ("option", "hint"),
    [("profil=clickhouse", "did you mean profile?"), ("profile=klickhouse", "did you mean clickhouse?")],
)
def test_a_misspelled_profile_is_suggested(relay: Run, option: str, hint: str) -> None:
    result = relay("formats", "--to", "flat-json", "--to-option", option)
    assert (result.exit_code, hint in result.stderr) == (2, True)


def test_what_rows_of_tables_lose(relay: Run) -> None:
    text = relay(
        "formats", "--from", "ticdc-open-protocol", "--to", "flat-json", "--profile", "clickhouse"
    ).stdout
    for lost in ("the old row of an update", "the types of columns", "watermarks", "zero dates"):
        assert lost in text
    for kept in ("the commit ts of TiDB", "deleted rows", "the columns of the primary key"):
        assert kept not in text
    dropped = ("--to-option", "deletes=drop")
    assert "deleted rows" in relay("formats", "--from", "canal-json", "--to", "flat-json", *dropped).stdout


@pytest.mark.parametrize(
    ("source", "target", "options", "lost"),
    [
        ("ogg-json", "canal-json", (), None),
        ("ogg-json", "canal-json", ("ddl=drop",), "truncate"),
        ("ogg-json", "flat-json", (), "truncate"),
        ("canal-json", "flat-json", (), "ddl"),
        ("canal-json", "maxwell-json", ("output_ddl=true",), "truncate"),
        ("canal-json", "debezium-json", (), "truncate"),
        ("canal-json", "debezium-json", ("skipped.operations=none",), None),
        ("canal-json", "debezium-json", ("include.schema.changes=false",), "ddl"),
        ("maxwell-json", "debezium-json", (), None),
    ],
)
def test_truncate_is_a_loss_where_it_has_no_message(
    relay: Run, source: str, target: str, options: tuple[str, ...], lost: str | None
) -> None:
    given = [part for option in options for part in ("--to-option", option)]
    found = json.loads(relay("formats", "--from", source, "--to", target, *given, "--json").stdout)
    kinds = {loss["what"]: loss["kinds"] for loss in found["lost"] if loss["what"] in {"ddl", "truncate"}}
    expected = {"ddl": ["ddl"], "truncate": ["truncate-or-drop"]}
    assert kinds == ({} if lost is None else {lost: expected[lost]})


def test_every_field_of_carries_has_words() -> None:
    assert set(FIELD_TEXTS) == set(Capabilities.__struct_fields__)


FLINK = """canal-json, profile flink:
  ddl=drop               the job fails on a statement other than CREATE
  watermarks=drop        the job fails on watermarks
  max-batch-size=1       with several rows in a message, Flink gives one row the old values of another
  missing-before=insert  the job fails on an UPDATE without its old row
  enum=label             Flink reads the column as STRING, and would show a number instead of the label
  binary=base64          BYTES is read as base64, and the job fails on other text
  zero-dates=text        declare such a column as STRING; with zero-dates=null it can be DATE or TIMESTAMP
  timestamp-format=sql   iso is for tables with canal-json.timestamp-format.standard=ISO-8601
Options that you set explicitly take precedence.
"""
CANAL_ADAPTER = """canal-json, profile canal-adapter:
  ddl=keep               Canal sends statements, and the adapter applies them
  watermarks=drop        Canal has no watermarks, and the adapter treats one as a change without rows
  max-batch-size=1       the adapter would also read several rows per message
  missing-before=insert  the adapter would read an UPDATE without its old row as one that changes nothing
  enum=index             the adapter expects numbers, with sqlType 4 and -7
  binary=producer        the adapter expects a character for each byte, with sqlType 2004
  zero-dates=keep        the adapter reads them and converts them to null itself
  timestamp-format=sql   the adapter reads MySQL's text
Options that you set explicitly take precedence.
"""


@pytest.mark.parametrize(("profile", "expected"), [("flink", FLINK), ("canal-adapter", CANAL_ADAPTER)])
def test_what_a_profile_sets_and_why(relay: Run, profile: str, expected: str) -> None:
    assert relay("formats", "--to", "canal-json", "--profile", profile).stdout == expected


def test_an_option_besides_a_profile_is_shown(relay: Run) -> None:
    arguments = ("formats", "--to", "canal-json", "--profile", "flink", "--to-option", "ddl=keep")
    changed = FLINK.replace("ddl=drop               the job fails on a statement other than CREATE", "")
    expected = changed.replace("  \n", "  ddl=keep               set explicitly\n", 1)
    assert relay(*arguments).stdout == expected
    found = json.loads(relay(*arguments, "--json").stdout)
    assert (found["protocol"], found["profile"]) == ("canal-json", "flink")
    assert found["options"][0] == {
        "name": "ddl", "value": "keep", "reason": "the job fails on a statement other than CREATE", "is_given": True,
    }  # fmt: skip
    assert found["options"][1]["is_given"] is False


def test_a_route_with_a_profile(relay: Run) -> None:
    route = ("formats", "--from", "ticdc-open-protocol", "--to", "canal-json", "--profile", "flink")
    assert "- DDL: schema changes are not written" in relay(*route).stdout


def test_the_profiles_of_a_protocol(relay: Run) -> None:
    text = relay("formats", "--to", "canal-json").stdout
    assert "flink | canal-adapter" in text
    assert "flink" not in relay("formats", "--to", "ticdc-open-protocol").stdout


def test_type_names() -> None:
    assert type_name(Annotated[int | None, "x"]) == "integer"
    assert type_name(Literal["a", 1]) == "a | 1"
    assert type_name(LineFormat) == "auto | records | values | kcat"
    assert type_name(bytes) == "bytes"
