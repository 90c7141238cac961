"""What Canal's client and client adapter get of flat messages and packets, as rows."""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from readers.java import Program
from readers.truth import Row, SqlType, Step, Table, value

#: java.sql.Types that Canal gives to ENUM and SET; the values are then numbers.
_NUMBERED: Final = {"enum": 4, "set": -7}
#: What the adapter makes of a column whose value it takes for none.
_TAKEN_FOR_NULL: Final = "null"


class ClientFailed(Exception):
    """The client would throw this at a message, again and again."""


def dmls(
    canal: Program, values: Sequence[bytes], *, are_packets: bool = False
) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """What the adapter is given of each table. Raises ClientFailed."""
    texts = [base64.b64encode(each).decode() for each in values]
    answer = canal.ask({"values": texts, "packets": are_packets})
    if "error" in answer:
        raise ClientFailed(f"{answer['error']} at {values[answer['at']].decode(errors='replace')}")
    found = defaultdict(list)
    for dml in answer["dmls"]:
        found[dml["database"], dml["table"]].append(dml)
    return found


def steps(table: Table, given: list[dict[str, Any]]) -> list[Step]:
    """The rows of what the adapter is given of one table."""
    found: list[Step] = []
    for dml in given:
        if dml["type"] not in {"INSERT", "UPDATE", "DELETE"}:
            continue
        for at, data in enumerate(dml["data"]):
            row = _row(table, data, dml["types"])
            if dml["type"] == "UPDATE":
                found += [("-", _row(table, data | dml["old"][at], dml["types"])), ("+", row)]
            else:
                found.append(("+" if dml["type"] == "INSERT" else "-", row))
    return found


def _row(table: Table, texts: dict[str, str | None], types: dict[str, int]) -> Row:
    given = {name: None if text is None else (text, types[name]) for name, text in texts.items()}
    return table.row(given, _value)


def _value(kind: SqlType, given: tuple[str, int]) -> Any:
    text, number = given
    if kind.is_binary:  # a character for each byte; Canal cuts the zeros at the end of BINARY(n)
        width = kind.numbers[0] if kind.name == "binary" else 0
        return text.encode("latin-1").ljust(width, b"\0")
    # Where an update leaves NULL, Canal says that the type is text, and writes the old value as a number still.
    if kind.members and text.isdecimal() and (_NUMBERED[kind.name] == number or text not in kind.members):
        return _label(kind, int(text))
    return value(kind, text)


def _label(kind: SqlType, number: int) -> str:
    if kind.name == "enum":
        return kind.members[number - 1] if number else ""
    return ",".join(member for at, member in enumerate(kind.members) if number >> at & 1)


def refused(given: list[dict[str, Any]]) -> list[str]:
    """What the adapter cannot store, converted by `sqlType`."""
    return [
        f"{column}: {row[column]['refused']}"
        for dml in given
        for row in dml["stored"] or ()
        for column in row
        if isinstance(row[column], dict) and "refused" in row[column]
    ]


def unchanged_in_old(given: list[dict[str, Any]]) -> list[str]:
    """Columns that `old` names although the update left them as they were."""
    return [
        column
        for dml in given
        if dml["type"] == "UPDATE"
        for data, old in zip(dml["data"], dml["old"], strict=True)
        for column in old
        if old[column] == data[column]
    ]
