"""Run the cases in the folders beside this file: FAMILY/NAME.

`source.jsonl` has a message per line: its value, or an object with members of a record file (`relay.io.record_lines`)
whose `key` and `value` may also be objects. Topic, offset and timestamp have defaults. A blank line starts anew: the next
record is the first one of another run, which knows nothing of those before.

`options.toml` has `title`, `ids` (docs/edge-cases), `from`, `from_options`, and a table `[to.NAME]` of options for each
target. NAME is a protocol, with a suffix after a dot if a protocol occurs twice. `[to.events]` prints the events as
`relay inspect --json` does, with `rows = true` without statements. `[losses.NAME]` are the counted losses of all runs.

`expected.NAME.jsonl` holds the output, to the byte; members that equal those of the source record, and the header
`relay.source`, are left out. `expected.err` holds the refused records by line. `WRITE=1 pytest tests/golden` writes all
that is expected anew.
"""

from __future__ import annotations

import os
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from golden.messages import Line, event_lines, format_line, parse_lines

from relay import CodecError, Translator

FOLDER = Path(__file__).parent
_HINT = "WRITE=1 pytest tests/golden writes it; read the diff"


class Result(NamedTuple):
    """The output of all runs, the errors by line, and the counted losses."""

    output: list[str]
    errors: dict[int, str]
    losses: Counter[str]


def translate(case: dict[str, Any], name: str, lines: Sequence[Line]) -> Result:
    """Translate the lines to one target of a case."""
    result = Result([], {}, Counter())
    source, target, options = case["from"], name.partition(".")[0], case["to"][name]
    reading = case.get("from_options", {})
    is_read = target == "events"
    for at, (number, record, is_first) in enumerate(lines):
        if is_first:
            translator = (
                Translator.reader(source, reading)
                if is_read
                else Translator(source, target, reading, options)
            )
        try:
            result.output.extend(
                event_lines(translator, record, **options)
                if is_read
                else [format_line(each, record) for each in translator.translate(record)]
            )
        except CodecError as error:
            result.errors[number] = f"{error.code}: {error}"
        if at + 1 == len(lines) or lines[at + 1].is_first:
            result.losses.update({str(loss): count for loss, count in translator.losses.items()})
    return result


def check(file: Path, text: str) -> None:
    """Compare a text with that of a file, or write it; a file that does not exist has no text."""
    if os.environ.get("WRITE"):
        file.write_text(text, encoding="utf-8") if text else file.unlink(missing_ok=True)
    assert text == (file.read_text(encoding="utf-8") if file.exists() else ""), _HINT


def cases() -> list[Any]:
    """Return the folder of each case; the name of its test has its ids, for `pytest -k M24`."""
    found = []
    for file in sorted(FOLDER.glob("*/*/options.toml")):
        ids = tomllib.loads(file.read_text(encoding="utf-8"))["ids"]
        name = file.parent.relative_to(FOLDER).as_posix()
        found.append(pytest.param(file.parent, id=" ".join([name, *ids])))
    return found


@pytest.mark.parametrize("folder", cases())
def test_case(folder: Path) -> None:
    settings = (folder / "options.toml").read_text(encoding="utf-8")
    case = tomllib.loads(settings)
    lines = list(parse_lines((folder / "source.jsonl").read_text(encoding="utf-8")))
    refused: dict[tuple[int, str], list[str]] = {}
    counted = ""
    for name in case["to"]:
        output, errors, losses = translate(case, name, lines)
        check(folder / f"expected.{name}.jsonl", "".join(f"{line}\n" for line in output))
        for at in errors.items():
            refused.setdefault(at, []).append(name)
        table = f'"{name}"' if "." in name else name
        counts = "".join(f"{loss} = {count}\n" for loss, count in sorted(losses.items()))
        counted += f"\n[losses.{table}]\n{counts}" if counts else ""
    texts = [
        f"line {number}{'' if len(names) == len(case['to']) else ', to ' + ', '.join(names)}: {text}\n"
        for (number, text), names in sorted(refused.items())
    ]
    check(folder / "expected.err", "".join(texts))
    expected = {
        "source.jsonl",
        "options.toml",
        "expected.err",
        *(f"expected.{name}.jsonl" for name in case["to"]),
    }
    assert {file.name for file in folder.iterdir()} <= expected, "a file of no target"
    check(folder / "options.toml", settings.partition("\n[losses.")[0].rstrip("\n") + "\n" + counted)
