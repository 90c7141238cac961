"""Rows and statements are counted by table: the first tables by themselves, all others together."""

from __future__ import annotations

from typing import Any

import pytest
from engine_support import ENGINES
from support import CANAL, TICDC, record, row_message

from relay import Translator
from relay.core.counts import OTHER_TABLES
from relay.core.verification import ShadowTranslator
from relay.model.events import TableId


@pytest.mark.parametrize("engine", [None, *ENGINES])
@pytest.mark.parametrize("kind", [Translator, ShadowTranslator])
def test_tables_beyond_the_number_are_one(engine: Any, kind: type[Translator]) -> None:
    translator = kind(TICDC, CANAL, engine=engine)
    translator.count_tables(2)
    for offset in range(120):
        message = row_message({"id": "int"}, {"id": str(offset)}, table=f"t{offset % 4}")
        translator.translate(record(message, offset=offset))
    ddl = row_message({}, table="t3", type="QUERY", isDdl=True, sql="DROP TABLE t3")
    translator.translate(record(ddl, offset=120))
    assert translator.counts_by_table == {
        TableId("d", "t0"): {"insert": 30},
        TableId("d", "t1"): {"insert": 30},
        OTHER_TABLES: {"insert": 60, "schema-change": 1},
    }


def test_a_number_of_none_counts_all_together() -> None:
    translator = Translator(TICDC, CANAL)
    translator.count_tables(0)
    translator.translate(record(row_message({"id": "int"}, {"id": "1"}, {"id": "2"})))
    assert translator.counts_by_table == {OTHER_TABLES: {"insert": 2}}


def test_nothing_is_counted_that_nobody_asks_for() -> None:
    translator = Translator(TICDC, CANAL)
    translator.translate(record(row_message({"id": "int"}, {"id": "1"})))
    assert (translator.tables, translator.counts_by_table) == (None, {})
