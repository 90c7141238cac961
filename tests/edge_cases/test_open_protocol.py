"""Open Protocol's edge cases of values and frames that need Python; most others are in tests/golden/open-protocol.

Those of large messages and of the order of events are in a separate module; the last test here asks for all of the list.
"""

from __future__ import annotations

import importlib

import pytest
from edge_cases.open_protocol import CASES
from open_support import cell, change, framed, records, row, written
from support import OPEN

from relay import RowChange, Translator
from relay.codecs.open_protocol.values import quoted, read_quoted
from relay.codecs.shared.lenient_json import go_number

BYTES = 65


@CASES.covers("F26")
def test_messages_of_old_releases_hold_thousands_of_events() -> None:
    message = framed(*[row({"u": {"a": cell(3, at)}}) for at in range(4096)])
    found = Translator(OPEN, OPEN).inspect(message)
    assert [event.after for event in found if isinstance(event, RowChange)] == [(at,) for at in range(4096)]


@CASES.covers("V12")
@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_json_has_no_word_for_what_is_no_number(number: float) -> None:
    with pytest.raises(ValueError, match="not a finite number"):
        go_number(number)


@CASES.covers("V22", "V23")
def test_bytes_are_written_as_go_quotes_them() -> None:
    named = {7: r"\a", 8: r"\b", 9: r"\t", 10: r"\n", 11: r"\v", 12: r"\f", 13: r"\r", 34: r"\"", 92: r"\\"}
    for code in range(256):
        text = named.get(code) or (chr(code) if 0x20 <= code < 0x7F else f"\\x{code:02x}")
        assert quoted(bytes((code,))) == text
        assert read_quoted(text) == bytes((code,))
    assert quoted(b"\xe6\xb5\x8b\xff\xe6\xb5") == r"测\xff\xe6\xb5"
    assert (
        quoted("\u00a0é\ufeff\U0001f600\U000e0001".encode())
        == r"\u00a0é\ufeff" + "\U0001f600" + r"\U000e0001"
    )
    message = row({"u": {"c": cell(15, r"\x89PNG\r\n", BYTES)}})
    assert rb'"v":"\\x89PNG\\r\\n"' in written(records(message))[0][0][1]


@CASES.covers("V52")
def test_rows_without_a_key_stay_together() -> None:
    rows = [framed(row({"u": {"a": cell(3, at)}}), offset=at) for at in range(20)]
    translator = Translator(OPEN, OPEN, partitions=16)
    assert len({out.partition for one in rows for out in translator.translate(one)}) == 1
    assert change(row({"u": {"a": cell(3, 1)}})).schema.handle_key() == ()


def test_every_number_is_a_case_or_a_decision() -> None:
    importlib.import_module("edge_cases.test_open_protocol_events")
    CASES.check()
