"""A TIMESTAMP at the calendar's ends has no time in another zone: it stays as it is, and is counted."""

from __future__ import annotations

import pytest
from support import CANAL, OPEN, TICDC, record, row_message

from relay import Loss, NotRepresentable, Translator

SHANGHAI = {"timezone": "Asia/Shanghai"}
LAST, USUAL = "9999-12-31 23:59:59", "2026-01-15 02:20:30"


@pytest.mark.parametrize("source", [CANAL, TICDC, OPEN, "ckafka-json", "ticdc-debezium"])
@pytest.mark.parametrize("target", [CANAL, TICDC, OPEN, "ckafka-json"])
def test_what_cannot_be_moved_is_counted_for_every_value(source: str, target: str) -> None:
    create = row_message(
        {}, isDdl=True, type="CREATE", sql="CREATE TABLE d.t (a TIMESTAMP, b TIMESTAMP)", data=None
    )
    texts = [(LAST, USUAL), (USUAL, USUAL), (LAST, LAST), ("0000-00-00 00:00:00", None), (USUAL, LAST)]
    types = {"a": "timestamp", "b": "timestamp"}
    given = [
        record(create),
        *(record(row_message(types, {"a": a, "b": b}), at) for at, (a, b) in enumerate(texts, 1)),
    ]
    if source != CANAL:
        before = Translator(CANAL, source)
        outs = [out for one in given for out in before.translate(one)]
        given = [record(out.value or b"", at) for at, out in enumerate(outs)]
        given = [
            type(one)("topic", 0, one.offset, 0, out.key, out.value)
            for one, out in zip(given, outs, strict=True)
        ]
    translator = Translator(source, target, None, SHANGHAI)
    counts = []
    for one in given:
        lost = translator.losses[Loss.ZERO_DATE]
        assert translator.translate(one)
        counts.append(translator.losses[Loss.ZERO_DATE] - lost)
    assert counts == [0, 1, 0, 2, 0, 1]


def test_strict_refuses_it() -> None:
    translator = Translator(CANAL, TICDC, None, {**SHANGHAI, "strict": "true", "content-compatible": "true"})
    create = row_message({}, isDdl=True, type="CREATE", sql="CREATE TABLE d.t (a TIMESTAMP)", data=None)
    translator.translate(record(create))
    translator.translate(record(row_message({"a": "timestamp"}, {"a": USUAL}), 1))
    with pytest.raises(NotRepresentable, match="zero-date"):
        translator.translate(record(row_message({"a": "timestamp"}, {"a": LAST}), 2))
