"""The Canal family's edge cases that need Python; the others are in tests/golden/canal-family.

Large messages and packets are in separate modules; the last test here asks for all of the list.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest
from edge_cases.canal_family import (
    AB,
    CASES,
    EXTENSION,
    before_and_after,
    cell,
    sent,
    watermark,
)
from support import CANAL, TICDC, events, record, row_message
from typer.testing import CliRunner

from relay import Translator, Watermark
from relay.cli.commands import app
from relay.model.errors import MessageTooLarge

ROW = {"id": "1", "a": "1", "b": "x"}
INSERT = row_message(AB, ROW, pkNames=["id"])
TSO = 470615239864877056
EITHER_WAY = [(TICDC, CANAL), (CANAL, TICDC)]


@CASES.covers("49")
def test_three_partitions_have_a_watermark_each_and_their_least_holds_for_all() -> None:
    marks = [record(watermark(TSO + at), partition=at) for at in (2, 0, 1)]
    found = [event for event in events(TICDC, marks) if isinstance(event, Watermark)]
    assert [event.source.commit_ts for event in found] == [TSO + 2, TSO, TSO + 1]
    translator = Translator(TICDC, TICDC, None, EXTENSION, partitions=2)
    for partition in range(3):
        translator.translate(record(INSERT, partition=partition))
    out = [
        json.loads(produced.value or b"")["_tidb"]
        for mark in marks
        for produced in translator.translate(mark)
    ]
    assert out == [{"watermarkTs": TSO}] * 2


@CASES.covers("85", "86", "88")
def test_what_cannot_be_read_is_a_dead_letter_and_lines_may_end_in_any_way(tmp_path: Path) -> None:
    good, foo = json.dumps(INSERT), json.dumps(INSERT | {"type": "FOO"})
    bad = [foo, good[: len(good) // 2], "{]", "{}"]
    lines = ["", good, *bad, "", good]
    (tmp_path / "CDC000001.json").write_bytes("\r\n".join(lines).encode())
    files = [tmp_path / name for name in ("CDC000001.json", "out", "dead")]
    route = ["translate", "--from", TICDC, "--to", CANAL, "--on-error", "dead-letter"]
    result = CliRunner().invoke(
        app, [*route, str(files[0]), "--output", str(files[1]), "--dead-letters", str(files[2])]
    )
    assert result.exit_code == 0, result.output
    out, dead = ([json.loads(line) for line in file.read_text().splitlines()] for file in files[1:])
    assert [json.loads(one["value"])["data"] for one in out] == [[ROW], [ROW]]
    assert [one["value"] for one in dead] == bad
    codes = [dict(one["headers"])["relay.error.code"] for one in dead]
    assert codes == ["decode.unsupported", "decode.malformed", "decode.malformed", "decode.malformed"]


@CASES.covers("100")
def test_large_texts_and_wide_rows_pass_unless_they_are_above_the_targets_limit() -> None:
    types = {f"c{at}": "int" for at in range(1500)} | {"text": "longtext"}
    data = dict.fromkeys(types, "1") | {"text": "x" * 1_500_000}
    message = row_message(types, data)
    for source, target in EITHER_WAY:
        assert sent(source, target, message)[0]["data"] == [data]
    with pytest.raises(MessageTooLarge):
        sent(CANAL, TICDC, message, writing={"max-message-bytes": "1000000"})


@CASES.covers("45")
def test_rows_without_a_key_have_one_partition() -> None:
    """They are indistinguishable."""
    translator = Translator(TICDC, CANAL, partitions=16)
    messages = [row_message(AB, ROW | {"id": str(number)}, pkNames=[]) for number in range(9)]
    assert len({translator.translate(record(message))[0].partition for message in messages}) == 1


@CASES.covers("18")
@pytest.mark.parametrize(("source", "target"), EITHER_WAY)
@pytest.mark.parametrize("mysql_type", ["blob", "varbinary(256)"])
def test_all_bytes_survive_both_spellings(source: str, target: str, mysql_type: str) -> None:
    every = bytes(range(256))
    (there,) = sent(source, target, cell(mysql_type, every.decode("latin-1")))
    assert before_and_after(target, there)[1] == (every,)
    (back,) = sent(target, source, there)
    assert before_and_after(source, back)[1] == (every,)


def test_every_number_is_a_case_or_a_decision() -> None:
    for part in ("variants", "packets"):
        importlib.import_module(f"edge_cases.test_canal_family_{part}")
    CASES.check()
