"""Values that no column of TiDB has, as TiCDC Avro has a form for them, or none."""

from __future__ import annotations

import pytest
from support import CANAL, record, row_message

from relay import NotRepresentable, Resolver, Translator


def test_a_vector_is_written_as_tidb_prints_it_or_not_at_all() -> None:
    translator = Translator(CANAL, "ticdc-avro")
    (out,) = Resolver().translate(translator, record(row_message({"v": "vector"}, {"v": "[1, -2.5e3]"})))
    assert b"[1,-2.5e3]" in (out.value or b"")
    with pytest.raises(NotRepresentable, match="ticdc-avro: v: "):
        Resolver().translate(translator, record(row_message({"v": "vector"}, {"v": "[1,x]"})))
