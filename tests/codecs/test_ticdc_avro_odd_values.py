"""Values that no column of TiDB has, as TiCDC Avro has a form for them, or none."""

from __future__ import annotations

import pytest
from support import CANAL, record, row_message

from relay import Lossy, NotRepresentable, Resolver, Translator


def test_a_row_that_lost_a_value_has_no_checksum() -> None:
    """Its reader would compute another one and take the row for corrupted."""
    checked = {
        "enable-tidb-extension": "true",
        "avro-decimal-handling-mode": "string",
        "avro-bigint-unsigned-handling-mode": "string",
        "integrity-check-level": "correctness",
    }
    translator = Translator(CANAL, "ticdc-avro", None, checked)
    types = {"id": "int", "e": "enum('a','b')"}
    lost, kept = (
        record(row_message(types, {"id": "1", "e": each}), at) for at, each in enumerate(["3", "2"])
    )
    (out,) = Resolver().translate(translator, lost)
    assert translator.lossy[Lossy.ENUM_INDEX] == 1
    assert (out.value or b"").endswith(b"\0\0\0")
    (out,) = Resolver().translate(translator, kept)
    assert not (out.value or b"").endswith(b"\0\0\0")


def test_a_vector_is_written_as_tidb_prints_it_or_not_at_all() -> None:
    translator = Translator(CANAL, "ticdc-avro")
    (out,) = Resolver().translate(translator, record(row_message({"v": "vector"}, {"v": "[1, -2.5e3]"})))
    assert b"[1,-2.5e3]" in (out.value or b"")
    with pytest.raises(NotRepresentable, match="ticdc-avro: v: "):
        Resolver().translate(translator, record(row_message({"v": "vector"}, {"v": "[1,x]"})))
