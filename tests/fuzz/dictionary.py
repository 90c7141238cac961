"""Values that are tried inside a shape: tokens of JSON by what a text looks like, and texts that differ a little.

Each is a whole token, as it stands in a message; some are no JSON.
"""

from __future__ import annotations

import base64
import random
import re
from typing import Final, Literal

Look = Literal["whole", "fraction", "date", "base64", "label", "text", "word"]

_BITS: Final = (7, 8, 15, 16, 23, 24, 31, 32, 46, 48, 53, 62, 63, 64, 65, 127, 128)
_POWERS: Final = [sign * (1 << bits) + more for bits in _BITS for sign in (1, -1) for more in (-1, 0, 1)]
_WHOLE: Final = (
    *map(str, _POWERS),
    *("0", "-0", "007", "-007", "+1", "1e3", "1.0", "1E3", "00", "-00", "--1", "-", "1_000", "0x1F", "10L"),
    *(
        " 1",
        "1 ",
        "\\t1",
        "1\\n",
        "\\u0031",
        "\\u0661",
        "\\uff11",
        "\\u00b2",
        "",
        "9" * 19,
        "9" * 20,
        "1" + "0" * 65,
    ),
    *("69", "70", "99", "1901", "2155", "1900", "2156", "86399999999", "86400000000", "3020399000000"),
    *(
        "-62135596800000",
        "253402300799999",
        "253402300800000",
        "-3020399999999",
        "719162",
        "-719162",
        "2932896",
    ),
)
_FRACTION: Final = (
    *(
        "0.0",
        "-0.0",
        "0.00",
        "-0.00",
        "00.5",
        ".5",
        "5.",
        "-.5",
        "0.50",
        "000123.4500",
        "123.",
        "+1.5",
        "1.5e3",
    ),
    *(
        "1e-7",
        "1E-7",
        "1.0E-5",
        "1e+21",
        "1E21",
        "1.0E10",
        "1e10",
        "1e-10",
        "9999999999.99",
        "0.30000000000000004",
    ),
    *("5e-324", "4.9E-324", "2.2250738585072014e-308", "1.7976931348623157e308", "1.7976931348623159e308"),
    *(
        "1e400",
        "-1e400",
        "1e-400",
        "3.4028235e38",
        "3.4028236e+38",
        "3.4028235677973366e38",
        "1.17549435E-38",
    ),
    *(
        "1.4e-45",
        "7e-46",
        "0.1",
        "1.1",
        "16777217",
        "16777216.0",
        "123456.79",
        "0.001",
        "9.999999e-4",
        "1.0E7",
    ),
    *(
        "NaN",
        "Infinity",
        "-Infinity",
        "+Inf",
        "-Inf",
        "inf",
        "nan",
        "1d",
        "1f",
        "0x1p3",
        "1__0.5",
        "1,5",
        "1 .5",
    ),
    *("9" * 65, "0." + "9" * 65, "9" * 35 + "." + "9" * 30, "9" * 66, "1e65", "1E+2", "1.00E2", "12345678.9"),
    *(
        "-0.000001",
        "0.0000001",
        "100000000000000000000",
        "1e20",
        "1e21",
        "123456789012345680000",
        "\\u0661.5",
    ),
)
_DATE: Final = (
    *("0000-00-00", "0001-01-01", "0000-01-01", "9999-12-31", "2024-02-29", "2023-02-29", "2024-00-10"),
    *("2024-10-00", "10000-01-01", "1582-10-10", "1582-10-04", "1582-10-15", "1970-01-01", "1969-12-31"),
    *("24-01-01", "2024-1-1", "2024-13-01", "2024-01-32", "-001-01-01", "+2024-01-01", " 2024-01-01", ""),
    *("0000-00-00 00:00:00", "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "2024-01-01 24:00:00"),
    *("2024-01-01 23:60:00", "2024-01-01 23:59:60", "1970-01-01 00:00:00", "1969-12-31 23:59:59.999999"),
    *("2038-01-19 03:14:07.999999", "2038-01-19 03:14:08", "2024-03-10 02:30:00", "1986-05-04 00:30:00"),
    *(f"2024-05-06 07:08:09.{'123456789'[:digits]}" for digits in range(10)),
    *(f"2024-05-06 07:08:09.{'0' * digits}" for digits in range(1, 10)),
    *(
        "2024-05-06T07:08:09Z",
        "2024-05-06T07:08:09.5Z",
        "2024-05-06T07:08:09.1234567Z",
        "2024-05-06T07:08:09",
    ),
    *(
        "2024-05-06 07:08:09Z",
        "2024-05-06T07:08:09+08:00",
        "2024-05-06 07:08:09+00:00",
        "2024-05-06T24:00:00Z",
    ),
    *("2024-05-06T07:08:09.000000Z", "2024-05-06 07:08", "2024-05-06 7:08:09", "0001-01-01T00:00:00Z"),
    *("9999-12-31T23:59:59.999999Z", "0000-00-00T00:00:00Z", "2024-05-06 07:08:09,5", "2024-05-06t07:08:09z"),
    *(
        "838:59:59",
        "-838:59:59.999999",
        "838:59:59.999999",
        "839:00:00",
        "24:00:00",
        "-00:00:01",
        "-00:00:00",
    ),
    *(
        "00:00:00",
        "-00:00:00.000001",
        "23:59:59.999999",
        "1:02:03",
        "001:02:03",
        "12:60:00",
        "12:00:60",
        "12:34",
    ),
    *(
        "12:34:56.",
        "12:34:56.1234567",
        "1 12:34:56",
        "+12:34:56",
        "\\u0661\\u0662:34:56",
        "99:99:99",
        "-12:34:56.50",
    ),
)
_BASE64: Final = (
    *("", "AA==", "AA=", "AA", "AA===", "AAA=", "AAAA", "AB==", "AAB=", "=", "====", "A", "A===", "AAAAA"),
    *(
        "+/+/",
        "-_-_",
        "+/-_",
        "AA==AA==",
        "AA==\\n",
        " AA==",
        "AA =",
        "A\\u0041==",
        "\\/\\/\\/\\/",
        "/w==",
        "_w==",
    ),
    *(
        "\\u00ff",
        "\\u0100",
        "\\u0080\\u00ff",
        "ÿ",
        "Ā",
        "\\u0000",
        "\\u0000\\u0000",
        "x\\u0000",
        "\\u0000x",
        "😀",
    ),
    *(
        base64.b64encode(bytes(range(at, at + length))).decode()
        for at in (0, 120, 240)
        for length in (1, 2, 8, 9, 16)
    ),
    *("0x00ff", "b'1'", "0", "1", "255", "256", "18446744073709551615", "ff", "FF", "00FF", "f", "\\\\x00"),
)
_LABEL: Final = (
    *(
        "",
        "0",
        "1",
        "2",
        "3",
        "4",
        "7",
        "64",
        "65",
        "255",
        "-1",
        "a",
        "b",
        "c",
        "a,b",
        "b,a",
        "a,a",
        "a,",
        ",a",
        ",",
    ),
    *(
        "A",
        "B",
        "a ",
        " a",
        "x",
        "none",
        "1,2",
        "9223372036854775808",
        "18446744073709551615",
        "small",
        "red,blue",
    ),
)
_TEXT: Final = (
    *("", "a", '\\"', "\\\\", "\\/", "/", "\\b", "\\f", "\\n", "\\r", "\\t", "\\u0000", "\\u0001", "\\u001f"),
    *("\\u007f", "\x7f", "\\u0080", "\\u2028", "\u2028", "\u2029", "\\u2029", "\\u003c", "<>&'", "\\u0026"),
    *(
        "\\ud83d\\ude00",
        "😀",
        "\\uD83D\\uDE00",
        "\\ud83d",
        "\\ude00",
        "\\ude00\\ud83d",
        "\\ud83dx",
        "\\ud83d\\u0041",
    ),
    *(
        "é",
        "\\u00e9",
        "\\u00E9",
        "e\\u0301",
        "\ufeff",
        "\\ufeff",
        "\ufffd",
        "\\uffff",
        "\U0010ffff",
        "\\x",
        "\\u12",
    ),
    *(
        "\\u12g4",
        "\t",
        "\n",
        "\x00",
        "\x1f",
        "'",
        "`",
        "{",
        "[1,2]",
        '{\\"a\\":1}',
        '{\\"a\\": 1.0}',
        "[0.1, 2e3]",
    ),
    *(
        '{\\"b\\":1,\\"a\\":2}',
        '{\\"a\\":1,\\"a\\":2}',
        "null",
        "true",
        "NULL",
        "\\\\N",
        "x" * 70,
        "é" * 90,
        "\\\\u0041",
    ),
    *(
        "[1.0,2.5]",
        "[]",
        "[ 1 ]",
        "[1e3,-0]",
        "{}",
        '\\"',
        '\\"x\\"',
        "1e400",
        "%s",
        "\\u0085",
        "\\u00a0",
        "  ",
    ),
)
_BROKEN: Final = (
    b'"\xff"',
    b'"\xc3"',
    b'"\xed\xa0\x80"',
    b'"\xc0\x80"',
    b'"\xf4\x90\x80\x80"',
    b'"a\xe9"',
    b'"',
)
_WORDS: Final = (
    b"null",
    b"true",
    b"false",
    b"nul",
    b"None",
    b"[]",
    b"{}",
    b'{"a":1}',
    b"[1]",
    b"NaN",
    b"",
    b"-",
)

TEXTS: Final[dict[Look, tuple[str, ...]]] = {
    "whole": _WHOLE,
    "fraction": _FRACTION,
    "date": _DATE,
    "base64": _BASE64,
    "label": _LABEL,
    "text": _TEXT,
    "word": ("null", "true", "false"),
}
_WHOLE_TEXT: Final = re.compile(r"[+-]?\d+").fullmatch
_FRACTION_TEXT: Final = re.compile(r"[+-]?\d*\.?\d+([eE][+-]?\d+)?").fullmatch
_DATE_TEXT: Final = re.compile(r"-?\d+([-:]\d+){1,2}([ T][\d:.]+Z?)?(\.\d+)?").fullmatch
_BASE64_TEXT: Final = re.compile(r"([A-Za-z0-9+/]{4})+|([A-Za-z0-9+/]{4})*[A-Za-z0-9+/]{2,3}={1,2}").fullmatch
_LABEL_TEXT: Final = re.compile(r"[a-z]{1,8}(,[a-z]{1,8})*").fullmatch


def look_of(token: bytes) -> Look:
    """What a token looks like, quoted or not."""
    if token in (b"null", b"true", b"false"):
        return "word"
    text = token.strip(b'"').decode(errors="replace")
    if _WHOLE_TEXT(text):
        return "whole"
    if _FRACTION_TEXT(text):
        return "fraction"
    if _DATE_TEXT(text):
        return "date"
    if _LABEL_TEXT(text):
        return "label"
    return "base64" if _BASE64_TEXT(text) else "text"


def other_token(token: bytes, look: Look, chance: random.Random) -> bytes:
    """A token to replace another one: one a little different, an edge of its own look, or of any."""
    roll = chance.random()
    if roll < 0.55:
        return nearly(token, chance)
    if roll < 0.86:
        return _spelled(chance.choice(TEXTS[look]), token, chance, 0.06)
    if roll < 0.96:
        return _spelled(chance.choice(TEXTS[chance.choice(_LOOKS)]), token, chance, 0.2)
    return chance.choice(_WORDS if chance.random() < 0.7 else _BROKEN)


_LOOKS: Final[tuple[Look, ...]] = tuple(TEXTS)


def _spelled(text: str, token: bytes, chance: random.Random, other_quotes: float) -> bytes:
    """The text with quotes where the token has some, or the other way round."""
    is_quoted = (token[:1] == b'"') is not (chance.random() < other_quotes)
    raw = text.encode()
    return b'"%b"' % raw if is_quoted else raw


def nearly(token: bytes, chance: random.Random) -> bytes:
    """A token of the same form: other digits, other letters, a character more or less."""
    if token in (b"null", b"true", b"false"):
        return chance.choice((b"null", b"true", b"false", b'"x"', b"1"))
    changed = bytearray(token)
    share = chance.choice((0.1, 0.5, 1.0))
    for at, byte in enumerate(token):
        if chance.random() < share:
            if 48 <= byte <= 57:
                changed[at] = chance.choice(b"0123456789009")
            elif (65 <= byte <= 90 or 97 <= byte <= 122) and share < 1 and token[at - 1 : at] != b"\\":
                changed[at] = chance.choice(b"abyzABYZ09+/ ")
    if chance.random() < 0.12 and len(changed) > 2:
        at = chance.randrange(1, len(changed) - 1)
        if chance.random() < 0.5:
            del changed[at]
        else:
            changed.insert(at, chance.choice(b'0123456789.-eE \\/"abz,'))
    return bytes(changed)
