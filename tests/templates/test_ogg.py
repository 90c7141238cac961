"""Templates of GoldenGate's rows: the same bytes and losses as the slow path, on most rows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from engine_support import ENGINES
from support import CANAL, OPEN, TICDC

from relay import ConsumerRecord, Translator
from relay.catalog import DdlMessage, apply_ddl
from relay.model.events import Position, Source, TableId
from relay.templates.engine import Engine

CREATE = "CREATE TABLE t (id INT PRIMARY KEY, n DECIMAL(9, 4), s VARCHAR(30), at DATETIME(1))"
ROWS = 80
TARGETS = [CANAL, TICDC, OPEN, "debezium-json", "ticdc-debezium", "maxwell-json", "flat-json"]


def record(offset: int, op: str, **row: Any) -> ConsumerRecord:
    message: dict[str, Any] = {
        "table": "d.t",
        "op_type": op,
        "op_ts": f"2020-05-13 15:40:{offset % 60:02}.{offset:06}",
        "current_ts": f"2020-05-13T15:41:{offset % 60:02}.{offset:06}",
        "pos": f"{offset:020}",
        "primary_keys": ["id"],
    }
    if op != "I":
        message["before"] = row | {"n": 0.5}
    if op != "D":
        message["after"] = row
    return ConsumerRecord("t", 0, offset, 1, None, json.dumps(message, separators=(",", ":")).encode())


def rows() -> list[ConsumerRecord]:
    texts = ["x", "é\n", "", None, "2020-05-13 15:40:00"]
    return [
        record(at, "IUD"[at % 3], id=at % 7, n=at + 0.25, s=texts[at % 5], at="2020-05-13 15:40:00.5")
        for at in range(1, ROWS)
    ]


@pytest.mark.parametrize("is_known", [False, True], ids=["inferred", "known"])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("target", TARGETS)
def test_rows_take_the_fast_path(target: str, engine: type[Engine], is_known: bool) -> None:
    options = {"timezone": "+08:00"}
    slow, fast = (
        Translator("ogg-json", target, options),
        Translator("ogg-json", target, options, engine=engine),
    )
    for translator in (slow, fast):
        if is_known:
            at = Position(None, 1, "ddl", 0, 0)
            ddl = DdlMessage(CREATE, TableId("d", "t"), "CREATE", Source("mysql", 1), at, 1)
            translator.catalog, _ = apply_ddl(translator.catalog, ddl)
    for each in rows() * 3:
        assert fast.translate(each) == slow.translate(each)
    assert fast.losses == slow.losses
    assert fast.paths["fast"] > ROWS
