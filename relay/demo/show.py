"""Print the demo's output: messages of both sides, the route's losses, and a summary."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from relay.codecs.given_options import parse_options
from relay.codecs.losses import Capabilities
from relay.core.translator import Translator
from relay.model.records import ConsumerRecord

#: Without a terminal (CI logs) the width is not known.
WIDTH_WITHOUT_TERMINAL = 150
SOURCE_TITLE, TARGET_TITLE = "TiCDC Canal-JSON (read)", "Alibaba Canal JSON (written)"


class Pair(NamedTuple):
    """A source record and its translation."""

    source: ConsumerRecord
    target: ConsumerRecord


def console() -> Console:
    """Return a console for a terminal or for a log."""
    found = Console()
    return found if found.is_terminal else Console(width=WIDTH_WITHOUT_TERMINAL)


def samples(pairs: list[Pair]) -> list[tuple[str, Pair]]:
    """Choose a few pairs that show something, each with a title."""
    wanted = {
        "INSERT": "INSERT: mysqlType comes in full, from the catalog that relay keeps",
        "UPDATE": "UPDATE: `old` holds the columns that changed, and no others",
        "ALTER": "DDL: the statement as executed",
    }
    found = {}
    for pair in pairs:
        message = _message(pair.source)
        # A narrow table fits on a screen; the other workload has a column of every type.
        if (
            message["type"] in wanted
            and message["type"] not in found
            and message["table"] in {"accounts", "users"}
        ):
            found[message["type"]] = pair
    return [(wanted[kind], found[kind]) for kind in wanted if kind in found]


def show_pair(out: Console, title: str, pair: Pair) -> None:
    """Print one message before and after, one line per member; differences are marked."""
    source, target = _message(pair.source), _message(pair.target)
    position = f"{pair.source.topic}/{pair.source.partition} offset {pair.source.offset}"
    table = Table(
        title=f"{escape(title)}  [dim]({position})[/dim]", title_justify="left", expand=True, show_lines=False
    )
    table.add_column("member", no_wrap=True)
    table.add_column(SOURCE_TITLE, ratio=1, overflow="fold")
    table.add_column(TARGET_TITLE, ratio=1, overflow="fold")
    for member in dict.fromkeys([*source, *target]):
        before, after = (_text(message, member) for message in (source, target))
        changed = source.get(member) != target.get(member) or (member in source) != (member in target)
        style = "yellow" if changed else "dim"
        table.add_row(f"{'≠' if changed else ' '} {member}", escape(before), escape(after), style=style)
    out.print(table)
    out.print()


def show_summary(out: Console, translator: Translator, read: int, written: int) -> None:
    """Print how many records and events were translated."""
    table = Table(title="Summary", title_justify="left")
    table.add_column("what")
    table.add_column("count", justify="right")
    table.add_row("records read", str(read))
    table.add_row("records written", str(written))
    for name, count in sorted(translator.events.items()):
        table.add_row(f"  {name}", str(count))
    out.print(table)


def show_limits(
    out: Console, translator: Translator, from_options: Mapping[str, str], to_options: Mapping[str, str]
) -> None:
    """Print the facts that the target format cannot hold, and those of them in these records."""
    source = translator.route.source.encodes(
        parse_options(translator.route.source, from_options, "from.option")
    )
    target = translator.route.target.output(parse_options(translator.route.target, to_options, "to.option"))
    names = [
        name
        for name in Capabilities.__struct_fields__
        if getattr(source, name) is True and getattr(target, name) is False
    ]
    out.print(
        "The target format cannot represent:",
        ", ".join(name.replace("_", " ") for name in names) or "nothing is lost",
    )
    if translator.losses:
        out.print("Lost from these records:")
    for what, count in sorted(translator.losses.items()):
        out.print(f"  [yellow]{escape(str(what))}[/yellow]  {count} times")


def _message(record: ConsumerRecord) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(record.value or b"{}")
    return message


def _text(message: dict[str, Any], member: str) -> str:
    return json.dumps(message[member], ensure_ascii=False) if member in message else "(absent)"
