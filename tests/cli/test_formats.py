"""`relay formats`: read from the codecs themselves."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Literal

import pytest
from typer.testing import Result

from relay.cli.arguments import InputFormat
from relay.cli.formats import _type_name
from relay.cli.loss_words import FIELD_WORDS
from relay.codecs.losses import Carries

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
    assert "before              none" in carried
    assert "row key             yes" in carried


def test_json(relay: Run) -> None:
    found = {entry["name"]: entry for entry in json.loads(relay("formats", "--json").stdout)["protocols"]}
    options = {option["name"]: option for option in found["made-up"]["options"]}
    assert options["mode"] == {
        "name": "mode", "type": "plain | terse", "default": "plain", "side": "both", "description": "how much is said",
    }  # fmt: skip
    assert options["strict"]["side"] == "target"
    assert options["strict"]["type"] == "true | false"
    assert options["strict"]["default"] == "false"
    one = json.loads(relay("formats", "--from", "made-up", "--json").stdout)["protocols"]
    assert one[0]["carries"]["before"] == "full"


def test_a_route_that_loses(relay: Run) -> None:
    route = ("formats", "--from", "made-up", "--to", "made-up", "--to-option", "mode=terse")
    text = relay(*route).stdout
    assert "made-up -> made-up cannot carry, where a message has it:" in text
    assert "- the old row of an update" in text
    assert "- the GTID of the transaction" in text
    found = json.loads(relay(*route, "--json").stdout)
    assert [loss["what"] for loss in found["lost"]] == ["before", "gtid"]


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
    assert (
        "of a row above max-message-bytes, the columns other than its handle key" in result.stdout
    ) is lost


def test_a_route_that_loses_nothing(relay: Run) -> None:
    assert "nothing is lost" in relay("formats", "--from", "made-up", "--to", "made-up").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--from", "nope"), "from: there is no protocol 'nope'"),
        (("--to", "made-up", "--to-option", "mood=x"), "to.option.mood: made-up has no option 'mood'"),
        (("--from-option", "a=b"), "--from-option: belongs to no protocol (add --from PROTOCOL)"),
        (
            ("--from", "made-up", "--from-option", "strict=true"),
            "from.option.strict: is an option of the target side",
        ),
        (
            ("--to", "ticdc-canal-json", "--to-option", "output-row-key=true"),
            "to.option.enable-tidb-extension: output-row-key=true writes into `_tidb` (set it to true)",
        ),
        (
            ("--to", "ticdc-open-protocol", "--to-option", "large-message-handle-option=claim-check"),
            "to.option.claim-check-storage-uri: is missing",
        ),
    ],
)
def test_wrong_options(relay: Run, arguments: tuple[str, ...], message: str) -> None:
    result = relay("formats", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_every_field_of_carries_has_words() -> None:
    assert set(FIELD_WORDS) == set(Carries.__struct_fields__)


def test_type_names() -> None:
    assert _type_name(Annotated[int | None, "x"]) == "integer"
    assert _type_name(Literal["a", 1]) == "a | 1"
    assert _type_name(InputFormat) == "auto | records | values"
    assert _type_name(bytes) == "bytes"
