"""What becomes of a file that is there already when a command writes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from relay.cli.files import open_output

Run = Callable[..., Result]
Lines = Callable[..., bytes]
ROUTE = ("translate", "--from", "made-up", "--to", "made-up")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "out.jsonl"
    path.write_text("old")
    return path


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (("--to-option", "x=y"), "insert"),
        (("--limit", "x=1"), "insert"),
        (("--schema-dump", "nowhere.sql"), "insert"),
        (("nowhere.jsonl",), "insert"),
        ((), "bad"),
        ((), "crash"),
        (("--input-format", "records"), '"'),
    ],
)
def test_a_mistake_leaves_it_as_it_was(
    arguments: tuple[str, ...], value: str, old: Path, relay: Run, lines: Lines, tmp_path: Path
) -> None:
    dead = tmp_path / "dead.jsonl"
    written = ("--output", old, "--on-error", "dead-letter", "--dead-letters", dead)
    data = b"{" if value == '"' else lines(value, "insert")
    is_stopped = value == "bad"
    result = relay(*ROUTE, *arguments, *(written[:2] if is_stopped else written), input=data)
    assert result.exit_code != 0
    assert old.read_text() == "old"
    assert not dead.exists()


def test_it_stays_if_no_record_could_be_translated(old: Path, relay: Run, lines: Lines) -> None:
    assert relay(*ROUTE, "--on-error", "skip", "--output", old, input=lines("bad", "bad")).exit_code == 2
    assert old.read_text() == "old"
    assert relay(*ROUTE, "--on-error", "skip", "--output", old, input=lines("bad", "insert")).exit_code == 0
    assert old.read_bytes().count(b"\n") == 1


def test_it_is_replaced_by_the_first_record(old: Path, relay: Run, lines: Lines) -> None:
    assert relay(*ROUTE, "--output", old, input=lines("insert")).exit_code == 0
    assert old.read_bytes().count(b"\n") == 1
    assert relay(*ROUTE, "--output", old, input=lines("insert", "insert", "bad")).exit_code == 2
    assert old.read_bytes().count(b"\n") == 2


def test_it_is_empty_if_all_is_well_and_there_is_nothing_to_write(
    old: Path, relay: Run, lines: Lines
) -> None:
    assert relay(*ROUTE, "--output", old, input=lines("nothing")).exit_code == 0
    assert old.read_bytes() == b""


def test_an_interruption_before_the_first_record_leaves_no_new_file(old: Path, tmp_path: Path) -> None:
    for path in (old, tmp_path / "new"):
        with pytest.raises(KeyboardInterrupt), open_output(str(path), "--output"):
            raise KeyboardInterrupt
    assert old.read_text() == "old"
    assert not (tmp_path / "new").exists()


def test_nor_what_a_link_names_that_is_not_there(tmp_path: Path) -> None:
    link, target = tmp_path / "link", tmp_path / "target"
    link.symlink_to(target)
    with pytest.raises(KeyboardInterrupt), open_output(str(link), "--output"):
        raise KeyboardInterrupt
    assert link.is_symlink()
    assert not target.exists()
