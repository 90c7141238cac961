"""Open Protocol's edge cases of values."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from edge_cases.open_protocol import CASES
from open_support import (
    cell,
    change,
    counted,
    ddl,
    framed,
    read,
    records,
    row,
    values,
    written,
)
from support import OPEN

from relay import (
    Malformed,
    Translator,
    UnsupportedMessage,
)
from relay.codecs.open_protocol.values import quoted, read_quoted
from relay.codecs.shared.lenient_json import go_number

TEXT, BYTES, INT = 64, 65, 65
SHANGHAI = {"timezone": "Asia/Shanghai"}
PNG = b"\x89PNG\r\n\x1a\n"


def value(given: Any, options: dict[str, str] | None = None) -> Any:
    """The canonical value of a column; the first row of a shape and the next ones are read on different ways."""
    message = row({"u": {"c": given}})
    first, second = change(message, options=options).after, change(message, message, options=options).after
    assert first is not None
    assert repr(first) == repr(second)
    return first[0]


def again(given: Any) -> Any:
    """The text of the column's value when it is written again."""
    message = written(
        records(row('{"u":{"c":%s}}' % (given if isinstance(given, str) else json.dumps(given))))
    )
    return message[0][0][1].decode().partition('"v":')[2].removesuffix("}}}")


# ---------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        CASES.param("V01", cell(8, 18446744073709551615, 193), 18446744073709551615),
        CASES.param("V02", cell(8, 9007199254740993), 9007199254740993),
        CASES.param("V03", cell(8, -9223372036854775808), -9223372036854775808),
        CASES.param("V04", cell(8, 18446744073709551615), 18446744073709551615),
        CASES.param("V07", cell(5, 100000), 100000.0),
        CASES.param("V10", cell(4, 153.123), 153.123),
        CASES.param("V10", cell(4, 153.12300109863281), 153.123),
        CASES.param("V13", cell(15, "", TEXT), ""),
        CASES.param("V13", cell(15, None, TEXT), None),
        CASES.param("V14", cell(15, r"C:\new", TEXT), r"C:\new"),
        CASES.param("V15", cell(15, r"C:\\new", BYTES), rb"C:\new"),
        CASES.param("V16", cell(254, r"\x89PNG\r\n\x1a\n", BYTES), PNG),
        CASES.param("V17", cell(254, r"a\x00\x00", BYTES), b"a\0\0"),
        CASES.param("V18", cell(15, r"\u00e9", BYTES), b"\xc3\xa9"),
        CASES.param("V18", cell(15, r"\xe9", BYTES), b"\xe9"),
        CASES.param("V18", cell(15, "é", BYTES), b"\xc3\xa9"),
        CASES.param("V19", cell(253, r"\U0001f600", BYTES), b"\xf0\x9f\x98\x80"),
        CASES.param("V19", cell(253, r"\101", BYTES), b"A"),
        CASES.param("V24", cell(252, "5rWL6K+VdGV4dA==", TEXT), "测试text"),
        CASES.param("V25", cell(252, "5rWL6K+VdGV4dA==", BYTES), "测试text".encode()),
        CASES.param("V28", cell(15, "YWE=", None), "aa"),
        CASES.param("V29", cell(15, "aa?", None), "aa?"),
        CASES.param("V31", cell(16, 18446744073709551615, 193), 18446744073709551615),
        CASES.param("V32", cell(247, 0, TEXT), 0),
        CASES.param("V32", cell(248, 0, TEXT), 0),
        CASES.param("V36", cell(12, "2024-02-30 00:00:00"), "2024-02-30 00:00:00"),
        CASES.param("V36", cell(12, "2024-00-10 00:00:00"), "2024-00-10 00:00:00"),
        CASES.param("V37", cell(11, "-838:59:59.000001"), "-838:59:59.000001"),
        CASES.param("V38", cell(11, "-00:00:01.500000"), "-00:00:01.500000"),
        CASES.param("V39", cell(10, "2000-01-01"), "2000-01-01"),
        CASES.param("V39", cell(14, "2000-01-01"), "2000-01-01"),
        CASES.param("V39", cell(14, "2000-01-01 00:00:00"), "2000-01-01"),
        CASES.param("V40", cell(13, 0, 193), 0),
        CASES.param("V40", cell(13, 1970, 193), 1970),
        CASES.param("V40", cell(13, 2155, 193), 2155),
        CASES.param("V41", cell(245, "null"), "null"),
        CASES.param("V41", cell(245, None), None),
        CASES.param("V43", cell(246, "-0.00"), Decimal("-0.00")),
        CASES.param("V43", cell(246, "9" * 35 + "." + "1" * 30), Decimal("9" * 35 + "." + "1" * 30)),
        CASES.param("V45", cell(225, "[1,-2.5]"), "[1,-2.5]"),
        CASES.param("V45", cell(225, "[1, -2.5]"), "[1,-2.5]"),
        CASES.param("V45", cell(225, "[]"), "[]"),
        CASES.param("V47", cell(6, None), None),
        CASES.param("V50", cell(3, 1, 0x141), 1),
    ],
)
def test_values(given: dict[str, Any], expected: Any) -> None:
    found = value(given)
    assert (repr(found), type(found)) == (repr(expected), type(expected))


@pytest.mark.parametrize(
    ("given", "good", "reason"),
    [
        CASES.param("V05", cell(8, 18446744073709551616), 1, "a number beyond 64 bits"),
        CASES.param("V06", cell(3, 1.0), 1, "not an integer"),
        CASES.param("V06", cell(3, "1"), 1, "not an integer"),
        CASES.param("V06", cell(3, True), 1, "not an integer"),
        *(
            CASES.param("V20", cell(15, text, BYTES), "a", reason)
            for text, reason in (
                (r"\q", "an escape that Go does not write, at byte 0"),
                (r"ab\x4", "an escape that Go does not write, at byte 2"),
                (r"\'", "an escape that Go does not write, at byte 0"),
                (r"\ud800", "no character, at byte 0"),
                (r"\U00110000", "no character, at byte 0"),
                ("abc\\", "an escape that Go does not write, at byte 3"),
            )
        ),
        CASES.param("V21", cell(15, 'a"b', BYTES), "a", "an escape that Go does not write, at byte 1"),
        CASES.param("V26", cell(252, "!!!", TEXT), "", "not base64"),
        CASES.param("V26", cell(252, "5rWL6K+VdGV4dA", BYTES), "", "not base64"),
        CASES.param("V40", cell(13, "1970"), 1, "not an integer"),
        CASES.param("V42", cell(245, {"a": 1}), "{}", "not a string"),
        CASES.param("V44", cell(246, 12.5), "12.5", "not a string"),
        CASES.param("V47", cell(6, 1), None, "not null"),
        CASES.param("V47", cell(6, "1"), None, "not null"),
        CASES.param("V48", {"t": 3, "f": 65}, 1, "Object missing required field `v`"),
    ],
)
def test_an_invalid_value_is_reported_by_column_and_without_the_value(
    given: dict[str, Any], good: Any, reason: str
) -> None:
    bad = row({"u": {"a": cell(3, 1), "c": given}})
    for earlier in ([], [row({"u": {"a": cell(3, 1), "c": given | {"v": good}}})]):
        with pytest.raises(Malformed, match=rf"^ticdc-open-protocol: u\.c[^:]*: {reason}"):
            _ = change(*earlier, bad).after
        with pytest.raises(Malformed, match=rf"u\.c[^:]*: {reason}"):
            written(records(*earlier, bad))


@CASES.covers("V46")
@pytest.mark.parametrize(
    ("code", "reason"), [(255, "GEOMETRY"), (200, "type code 200"), (0, "type code 0"), (-1, "type code -1")]
)
def test_types_that_no_column_has(code: int, reason: str) -> None:
    for given in (cell(code, None), cell(code, "x")):
        with pytest.raises(UnsupportedMessage, match=rf"value\.c\.t: {reason}"):
            read(row({"u": {"c": given}}))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        CASES.param("V08", '{"t":5,"f":65,"v":-0}', "-0"),
        CASES.param("V08", '{"t":4,"f":65,"v": -0 }', "-0"),
        CASES.param("V09", '{"t":5,"f":65,"v":1e-07}', "1e-07"),
        CASES.param("V09", '{"t":5,"f":65,"v":1e-7}', "1e-07"),
        CASES.param("V10", '{"t":4,"f":65,"v":153.123}', "153.123"),
        *(
            CASES.param("V11", f'{{"t":{code},"f":65,"v":{given}}}', text)
            for code in (4, 5)
            for given, text in (
                ("1e20", "100000000000000000000"), ("1e21", "1e+21"), ("1e-6", "0.000001"), ("9.9e-7", "9.9e-07"),
                ("0.00001234", "0.00001234"), ("100000.0", "100000"), ("1.5e16", "15000000000000000"),
            )
        ),
        CASES.param("V43", cell(246, "-0.00"), '"-0.00"'),
    ],
)  # fmt: skip
def test_values_as_they_are_written(given: Any, expected: str) -> None:
    assert again(given) == expected


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
    assert again(cell(15, r"\x89PNG\r\n", BYTES)) == r'"\\x89PNG\\r\\n"'


@CASES.covers("V30")
@pytest.mark.parametrize(
    "part", ['{"u":{"a":%s,"c":%s}}', '{"u":{"a":%s},"p":{"a":{"t":3,"f":65,"v":2},"c":%s}}']
)
def test_bytes_that_are_no_text_are_replaced_and_counted(part: str) -> None:
    message = row(
        (part % ('{"t":3,"f":65,"v":1}', '{"t":15,"f":64,"v":"a~b"}')).encode().replace(b"~", b"\xff")
    )
    for earlier in ([], [row(part % ('{"t":3,"f":65,"v":1}', '{"t":15,"f":64,"v":"ab"}'))]):
        found = change(*earlier, message)
        assert "a\ufffdb" in (found.before or found.after or ())
        assert 1 in (found.after or ())
        assert counted(records(*earlier, message))["invalid-text"] == 1


@CASES.covers("V34")
def test_the_bits_of_a_set_are_its_members_in_the_order_of_the_definition() -> None:
    found = change(ddl("CREATE TABLE t (s SET('a','b','c'))"), row({"u": {"s": cell(248, 5, TEXT)}}))
    (bits,), members = found.after or (), found.schema.columns[0].type.members or ()
    assert isinstance(bits, int)
    assert [member for at, member in enumerate(members) if bits >> at & 1] == ["a", "c"]


@CASES.covers("V35")
def test_the_zero_timestamp_is_in_no_zone() -> None:
    zero = cell(7, "0000-00-00 00:00:00.000")
    assert value(zero, SHANGHAI) == value(zero) == "0000-00-00 00:00:00.000"
    assert value(cell(7, "2024-01-01 08:00:00.000"), SHANGHAI) == "2024-01-01 00:00:00.000"


@CASES.covers("V49")
def test_null_keeps_type_and_flags() -> None:
    codes = (
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        9,
        10,
        11,
        12,
        13,
        15,
        16,
        225,
        245,
        246,
        247,
        248,
        249,
        250,
        251,
        252,
        254,
    )
    texts, unsigned = {247, 248}, {13, 16}
    row_ = {
        f"c{code}": cell(code, None, 64 if code in texts else 193 if code in unsigned else 65)
        for code in codes
    }
    row_ |= {f"t{code}": cell(code, None, 64) for code in (15, 249, 250, 251, 252, 254)}
    row_ |= {f"u{code}": cell(code, None, 193) for code in (1, 2, 3, 8, 9, 246, 4, 5)}
    assert set(change(row({"u": row_})).after or ()) == {None}
    assert values(records(row({"u": row_}), row({"u": row_}))) == [{"u": row_}] * 2


@CASES.covers("V51")
def test_the_flag_says_what_the_handle_key_is() -> None:
    found = change(row({"u": {"a": cell(3, 1, 1, h=True), "b": cell(3, 2, 3)}}))
    assert found.schema.handle_key() == ("b",)


@CASES.covers("V52")
def test_rows_without_a_key_stay_together() -> None:
    rows = [framed(row({"u": {"a": cell(3, at)}}), offset=at) for at in range(20)]
    translator = Translator(OPEN, OPEN, partitions=16)
    assert len({out.partition for one in rows for out in translator.translate(one)}) == 1
    assert change(row({"u": {"a": cell(3, 1)}})).schema.handle_key() == ()
