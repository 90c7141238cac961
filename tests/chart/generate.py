"""The table of values in helm/README.md, read from values.yaml, what the chart knows of protocols, read from
relay, and its dashboards. `python -m chart.generate` in `tests` writes them anew.

A text begins with `# --` above its key and may go on in more lines of comment. A key with a text is a row,
whatever lies below it.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import yaml
from chart.dashboards import DASHBOARDS, dashboard
from chart.rendering import CHART
from docs.generate import added_by_options, table

from relay.codecs import BUILT_IN
from relay.codecs.given_options import parse_options

README = CHART / "README.md"
PROTOCOLS = CHART / "files" / "protocols.yaml"
BOARDS = CHART / "files" / "dashboards"
_BEGIN, _END = "<!-- values -->\n", "<!-- end -->\n"
_KEY = re.compile(r"( *)([A-Za-z]+):")
_COMMENT = re.compile(r" *# ?(-- )?(.*)")


class Value(NamedTuple):
    """A documented value: its path, its default and its text."""

    path: tuple[str, ...]
    default: Any
    text: str


def documented() -> list[Value]:
    """The values with a text, in the order of the file."""
    content = (CHART / "values.yaml").read_text(encoding="utf-8")
    defaults = yaml.safe_load(content)
    found: list[Value] = []
    path: tuple[str, ...] = ()
    text = ""
    for line in content.splitlines():
        comment, key = _COMMENT.fullmatch(line), _KEY.match(line)
        if comment:
            text = comment[2] if comment[1] else f"{text} {comment[2]}" if text else ""
        elif key:
            path = (*path[: len(key[1]) // 2], key[2])
            if text:
                found.append(Value(path, _at(defaults, path), text))
            text = ""
    return found


def _at(values: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        values = values[name]
    return values


def _default(value: Any) -> str:
    if isinstance(value, str) and "\n" in value:
        return "an example"
    return f"`{json.dumps(value)}`"


def with_table(page: str) -> str:
    """The page with the table made anew."""
    rows = [(f"`{'.'.join(value.path)}`", _default(value.default), value.text) for value in documented()]
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}{table(('value', 'default', 'meaning'), rows)}{_END}{after}"


def protocols() -> str:
    """What the chart knows of protocols: which have watermarks (those that it does not know may have them),
    and which sources have DDL in partition 0 alone.
    """
    without, options = [], {}
    for codec in (each for each in BUILT_IN.values() if each.is_writable):
        if codec.encodes(parse_options(codec, {}, "options")).watermark:
            continue
        adding = [(name, value) for name, value, added in added_by_options(codec) if "watermark" in added]
        if adding:
            name, value = adding[0]
            options[codec.name] = {"name": name, "value": value}
        else:
            without.append(codec.name)
    sources = [codec for codec in BUILT_IN.values() if codec.is_readable]
    lists = {
        "sources": [each.name for each in sources],
        "targets": [each.name for each in BUILT_IN.values() if each.is_writable],
        "sourcesWithoutWatermarks": [each.name for each in sources if not each.decodes.watermark],
        "sourcesWithDdlInPartition0": [
            each.name for each in sources if each.decodes.ddl and not each.ddl_everywhere
        ],
        "targetsWithoutWatermarks": without,
        "targetsThatNeedAnOption": options,
    }
    return f"# Written by `python -m chart.generate` in tests.\n{yaml.safe_dump(lists, sort_keys=False)}"


def main() -> None:
    """Write all of it."""
    BOARDS.mkdir(exist_ok=True)
    for name in DASHBOARDS:
        (BOARDS / f"{name}.json").write_text(dashboard(name), encoding="utf-8")
    PROTOCOLS.write_text(protocols(), encoding="utf-8")
    README.write_text(with_table(README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
