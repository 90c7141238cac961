"""`relay diff --column`: what relay writes by column rules is the source under these rules."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from column_rules_support import KEY, canaries_in, story
from support import TICDC
from typer.testing import Result

from relay import ConsumerRecord, ProducerRecord, Translator
from relay.cli.exits import DIFFERENT
from relay.io.record_lines import format_record
from relay.rules.columns import parse_rule

Run = Callable[..., Result]

RULES = (
    "hash shop.* email,phone length=40",
    "mask shop.* note last=2",
    "drop shop.* photo",
    "rename shop.* city name=town",
)


def save(file: Path, records: Sequence[ConsumerRecord | ProducerRecord]) -> Path:
    file.write_bytes(b"".join([format_record(each, at) for at, each in enumerate(records)]))
    return file


@pytest.fixture
def key(tmp_path: Path) -> Path:
    file = tmp_path / "hash-key"
    file.write_bytes(KEY)
    return file


def written(target: str, rules: Sequence[str], records: Sequence[ConsumerRecord]) -> list[ProducerRecord]:
    translator = Translator(TICDC, target, columns=[parse_rule(each) for each in rules], hash_key=KEY)
    return [out for each in records for out in translator.translate(each)]


def compared(
    relay: Run, folder: Path, key: Path, target: str, wrote: Sequence[str], rules: Sequence[str]
) -> tuple[int, dict[str, Any]]:
    records = story()
    one, other = save(folder / "a.jsonl", records), save(folder / "b.jsonl", written(target, wrote, records))
    given = [part for each in rules for part in ("--column", each)]
    result = relay("diff", one, other, "--a", TICDC, "--b", target, *given, "--hash-key-file", key, "--json")
    assert result.exit_code in {0, DIFFERENT}, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return result.exit_code, found


@pytest.mark.parametrize(
    "target", ["canal-json", TICDC, "debezium-json", "ticdc-simple-json", "maxwell-json", "flat-json"]
)
def test_what_was_written_by_the_rules_does_not_differ(
    relay: Run, tmp_path: Path, key: Path, target: str
) -> None:
    status, found = compared(relay, tmp_path, key, target, RULES, RULES)
    assert (status, found["different"]) == (0, {}), found
    assert canaries_in(json.dumps(found).encode()) == []


def test_other_rules_make_a_difference(relay: Run, tmp_path: Path, key: Path) -> None:
    others = ("hash shop.* email,phone length=41", *RULES[1:])
    status, found = compared(relay, tmp_path, key, "canal-json", RULES, others)
    assert status == DIFFERENT
    assert found["different"]
    status, _ = compared(relay, tmp_path, key, "canal-json", RULES, ())
    assert status == DIFFERENT


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--column", "drop shop.*"), "--column: "),
        (("--column", "hash shop.* email"), "--column, rule 1, action: hash needs a secret key"),
        (("--column", "drop shop.* x", "--hash-key-file", "nowhere"), "--hash-key-file: cannot be read"),
        (("--column", "drop shop.* x", "--a", "flat-json"), "--column: applies to A"),
    ],
)
def test_rules_that_cannot_be_used_are_refused(
    relay: Run, tmp_path: Path, arguments: Sequence[str], problem: str
) -> None:
    one, other = save(tmp_path / "a.jsonl", story()), save(tmp_path / "b.jsonl", story())
    sides = ("--b", TICDC) if "--a" in arguments else ("--a", TICDC)
    result = relay("diff", one, other, *sides, *arguments)
    assert result.exit_code == 2
    assert problem in result.stderr
