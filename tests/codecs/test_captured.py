"""Records of real producers: what goes in comes out, and the same rows through different settings are the
same.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import pytest
from support import CANAL, TICDC, captured, captured_files, translate, translated_records

from relay import Loss, RowChange, Translator

#: What each captured variant of TiCDC was configured with.
VARIANTS: dict[str, dict[str, str]] = {
    "canal-json": {},
    "canal-json.tidb-extension": {"enable-tidb-extension": "true"},
    "canal-json.content-compatible": {"enable-tidb-extension": "true", "content-compatible": "true"},
    "canal-json.updated-columns": {"enable-tidb-extension": "true", "only-output-updated-columns": "true"},
    "canal-json.delete-handle-key": {
        "enable-tidb-extension": "true",
        "delete-only-output-handle-key-columns": "true",
    },
    "canal-json.raw-change-event": {"enable-tidb-extension": "true", "output-raw-change-event": "true"},
    "canal-json.row-key": {"enable-tidb-extension": "true", "output-row-key": "true"},
    "canal-json.3-partitions": {"enable-tidb-extension": "true"},
    "canal-json.shanghai": {"enable-tidb-extension": "true", "timezone": "Asia/Shanghai"},
}
FILES = [path for variant in VARIANTS for path in captured_files(f"ticdc/{variant}")]


def options_of(path: str) -> dict[str, str]:
    return VARIANTS[path.split("/")[1]]


def reading(path: str) -> dict[str, str]:
    return {name: value for name, value in options_of(path).items() if name == "timezone"}


def parsed(path: str) -> list[dict[str, Any]]:
    return [json.loads(record.value or b"null") for record in captured(path)]


def ordered(message: Any) -> str:
    """The message with its members in wire order, but for `mysqlType`, which TiCDC shuffles."""
    message = dict(message)
    if message.get("mysqlType"):
        message["mysqlType"] = dict(sorted(message["mysqlType"].items()))
    return json.dumps(message)


@pytest.mark.parametrize("path", FILES)
def test_ticdc_comes_back_as_it_was(path: str) -> None:
    out = translate(TICDC, TICDC, captured(path), reading(path), options_of(path))
    assert [ordered(message) for message in out] == [ordered(message) for message in parsed(path)]


def plain(cells: dict[str, Any], codes: dict[str, int]) -> dict[str, Any]:
    """Cells by value: decimals as numbers (Canal drops zero fractions), everything else as it is."""
    return {
        name: Decimal(text) if text is not None and codes[name] == 3 and "." in text else text
        for name, text in cells.items()
    }


def canal_rows(messages: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Every row with what stands beside it, but for the numbers and words that belong to the whole message in
    Canal.
    """
    found = []
    for m in messages:
        for index, cells in enumerate(m["data"] or []):
            old = m["old"][index] if m["old"] else {}
            # Names that changed in an earlier row of the message stay in `old` for the later ones.
            changed = {name: text for name, text in old.items() if text != cells.get(name)}
            codes, types = m["sqlType"], m["mysqlType"]
            row = plain(cells, codes), plain(changed, codes)
            found.append(
                (m["type"], m["database"], m["table"], m["es"], m["gtid"], *row, m["pkNames"], list(types))
            )
    return found


@pytest.mark.parametrize("path", captured_files("mysql/canal-json.gtid") + captured_files("mysql/canal-json"))
def test_canal_comes_back_row_by_row(path: str) -> None:
    given = [message if message["isDdl"] else understood(message) for message in parsed(path)]
    assert canal_rows(translate(CANAL, CANAL, captured(path))) == canal_rows(given)


#: Columns of `mixed_charset` with CHARACTER SET binary.
_BINARY = ("vbin", "tbin", "cb")


def understood(message: dict[str, Any]) -> dict[str, Any]:
    """A row message as Canal writes rows whose definition it has understood: it doubles back-ticks in names, and
    takes the bytes of CHARACTER SET binary for text.
    """
    found: dict[str, Any] = json.loads(json.dumps(message).replace("``", "`"))
    if found["table"] == "mixed_charset":
        for row in [*found["data"], *(found["old"] or [])]:
            row |= {name: text.encode().decode("latin-1") for name in _BINARY if (text := row.get(name))}
    return found


@pytest.mark.parametrize("path", captured_files("mysql/canal-json.gtid") + captured_files("mysql/canal-json"))
def test_canals_ddl_comes_back(path: str) -> None:
    """Canal doubles back-ticks in a DDL's table and database, and names the old table of an ALTER that also
    renames.
    """
    better = (
        {"back``tick": "back`tick", "src": "src2"} if path.endswith(("08_names", "14_mysql_only")) else {}
    )
    given = [
        (
            m["type"],
            m["database"].strip("`"),
            better.get(m["table"], m["table"]) if "RENAME" in m["sql"] or "``" in m["sql"] else m["table"],
        )
        for m in parsed(path)
        if m["isDdl"]
    ]
    made = [m for m in translate(CANAL, CANAL, captured(path)) if m["isDdl"]]
    assert [(m["type"], m["database"], m["table"]) for m in made] == given
    assert [m["sql"] for m in made] == [m["sql"] for m in parsed(path) if m["isDdl"]]


def types_without_widths(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages, with display widths (which only content-compatible messages have) taken off integers."""
    for message in messages:
        for name, text in (message["mysqlType"] or {}).items():
            message["mysqlType"][name] = re.sub(r"^(\w*int|year)\(\d+\)", r"\1", text)
    return messages


@pytest.mark.parametrize("name", ["01_all_types", "09_dml", "10_ddl"])
def test_the_flagship_gives_the_same_from_every_setting(name: str) -> None:
    """Full or changed columns in `old`, bare or full types, with or without the extension: Canal's message is
    one.
    """

    def canal(variant: str) -> list[dict[str, Any]]:
        out = translate(TICDC, CANAL, captured(f"ticdc/{variant}/{name}"))
        return [{k: v for k, v in message.items() if k not in {"id", "ts"}} for message in out]

    plain = canal("canal-json")
    assert any(message["type"] == "UPDATE" for message in plain)
    assert canal("canal-json.tidb-extension") == plain
    assert canal("canal-json.updated-columns") == plain
    if name != "10_ddl":
        assert types_without_widths(canal("canal-json.content-compatible")) == types_without_widths(plain)


def test_every_update_of_the_flagship_has_only_changed_columns_in_old() -> None:
    updates = [
        m
        for m in translate(TICDC, CANAL, captured("ticdc/canal-json.tidb-extension/09_dml"))
        if m["type"] == "UPDATE"
    ]
    assert len(updates) > 10
    for message in updates:
        (data,), (old,) = message["data"], message["old"]
        assert all(data[name] != text for name, text in old.items())
        assert len(old) < len(data)


def test_every_mysql_type_of_the_flagship_is_full() -> None:
    rows = [
        m
        for m in translate(TICDC, CANAL, captured("ticdc/canal-json.tidb-extension/01_all_types"))
        if m["data"]
    ]
    types = rows[0]["mysqlType"]
    assert types["c_decimal"] == "decimal(20,4)"
    assert types["c_datetime3"] == "datetime(3)"
    assert types["c_enum"] == "enum('red','green','blue')"
    assert types["c_bool"] == "tinyint(1)"
    assert types["c_decimal_u"] == "decimal(10,2) unsigned"
    assert not any(
        word in {"varchar", "char", "decimal", "binary", "enum", "set", "bit"}
        for m in rows
        for word in m["mysqlType"].values()
    )


@pytest.mark.parametrize("path", captured_files("ticdc/canal-json.tidb-extension"))
def test_two_runs_give_the_same_bytes(path: str) -> None:
    first, second = (translated_records(Translator(TICDC, CANAL), captured(path)) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("path", captured_files("ticdc/canal-json.tidb-extension"))
def test_rows_through_canal_and_back_have_the_same_values(path: str) -> None:
    direct, there = Translator(TICDC, TICDC), Translator(TICDC, CANAL)
    back = Translator(CANAL, CANAL)
    for at, source in enumerate(captured(path)):
        straight = [(e.op, e.before, e.after) for e in direct.inspect(source) if isinstance(e, RowChange)]
        detour = [
            (event.op, event.before, event.after)
            for out in there.translate(source)
            for event in back.inspect(
                type(source)(out.topic, out.partition, at, out.timestamp_ms, out.key, out.value)
            )
            if isinstance(event, RowChange)
        ]
        assert [op for op, *_ in detour] == [op for op, *_ in straight]
        for (_, before, after), (_, old_before, old_after) in zip(detour, straight, strict=True):
            assert before == old_before
            assert after == old_after


@pytest.mark.parametrize("path", captured_files("ticdc/canal-json.handle-key-only"))
def test_handle_key_only_records_are_translated_and_counted(path: str) -> None:
    translator = Translator(TICDC, CANAL)
    records = captured(path)
    assert translated_records(translator, records)
    assert (
        translator.losses[Loss.COLUMNS_ABSENT]
        == sum(b'"onlyHandleKey":true' in (r.value or b"") for r in records)
        > 0
    )
