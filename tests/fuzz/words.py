"""What mutations put in: numbers, dates, texts, type words, and the canaries that must never be seen again.

A canary stands where a row's value stood. No error text may hold it, in any spelling.
"""

from __future__ import annotations

import json
import random
from typing import Final

CANARY: Final = "CaNaRy"
#: Digits and base64 of canaries; the base64 holds wherever the three bytes of a group begin.
_CANARY_NUMBER: Final = "7190283746"
#: What errors are searched for.
CANARY_SPELLINGS: Final = (CANARY, CANARY.lower(), _CANARY_NUMBER, "Q2FOYVJ5", "43614e615279", "0283746")

NUMBERS: Final = (
    *(
        b"0",
        b"-0",
        b"-0.0",
        b"1.0",
        b"0.1e1",
        b"-1",
        b"00",
        b"+1",
        b"0x10",
        b"NaN",
        b"Infinity",
        b"-Infinity",
    ),
    *(
        b"1e400",
        b"-1e400",
        b"1e-400",
        b"1E+308",
        b"1e19",
        b"5e-324",
        b"1e99999999",
        b"1e99999999999999999999",
    ),
    *(b"127", b"128", b"255", b"256", b"65536", b"2147483648", b"-2147483649", b"4294967296"),
    *(b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808", b"-9223372036854775809"),
    *(b"18446744073709551615", b"18446744073709551616", b"-18446744073709551616"),
    *(b"1" + b"0" * 400, b"0." + b"3" * 300, b"9" * 4301, b"-" + b"9" * 30),
    *(b"253402300800000", b"-62135596800001", b"470615239938539520", b"1795254668955000", b"1795254668"),
)

DATES: Final = (
    *("0000-00-00", "0000-00-00 00:00:00", "2024-00-10", "2024-02-30", "2024-02-30 10:00:00", "9999-12-31"),
    *("9999-12-31 23:59:59.999999", "10000-01-01", "-0001-01-01", "0001-01-01 00:00:00", "0099-12-31"),
    *("1970-01-01 00:00:00", "1969-12-31 23:59:59", "2038-01-19 03:14:08", "1582-10-10", "2024-13-01"),
    *("2024-01-01 24:00:00", "2024-01-01 23:59:60", "2024-01-01 10:00:00.1234567", "2024-01-01 10:00:00."),
    *("838:59:59", "-838:59:59.000001", "839:00:00", "99999999:00:00", "-00:00:00", "12:60:00", "1:2:3"),
    *("2024-01-01T10:00:00Z", "2024-01-01T10:00:00+14:59", "2024-01-01T10:00:00.999999999Z", "20240101"),
    *("2024-1-1", " 2024-01-01", "2024-01-01 ", "٢٠٢٤-٠١-٠١", "9" * 40 + "-01-01", "1901", "2155", "1900"),
)

#: In characters, of which JSON may need six bytes for each: rows stay below the default limits of a record.
_LONGEST_TEXT: Final = 1_000_000
TEXTS: Final = (
    *(
        "",
        " ",
        "a",
        "'",
        '"',
        "`",
        "\\",
        "\x00",
        "\x1b[31m",
        "\x85\x9b",
        "\u2028",
        "\u202eabc",
        "\ufeff",
        "\ufffd",
    ),
    *(
        "null",
        "true",
        "NaN",
        "0x",
        "{}",
        "[]",
        "é",
        "表",
        "😀",
        "İ",
        "ß",
        "a\nb",
        "a\r\nb",
        "\t",
        "\x7f",
        "%s{0}",
    ),
    *("relay.source", "../../etc/passwd", "-", ".", "$", "a.b", "a,b", "a b", "CURRENT_TIMESTAMP", "b'1'"),
    *("AAAA", "AAA=", "A", "////", "-_==", "AA==AA==", "1e5", "12,5", "١٢", "a" * 300, "é" * 2000),
)

_BASES: Final = (
    *(
        "int",
        "bigint",
        "tinyint",
        "smallint",
        "mediumint",
        "float",
        "double",
        "decimal",
        "bit",
        "year",
        "date",
    ),
    *(
        "datetime",
        "timestamp",
        "time",
        "char",
        "varchar",
        "binary",
        "varbinary",
        "tinytext",
        "text",
        "longtext",
    ),
    *("tinyblob", "blob", "mediumblob", "longblob", "enum", "set", "json", "vector", "geometry", "point"),
)
_PARAMETERS: Final = (
    *(
        "",
        "",
        "",
        "()",
        "(0)",
        "(1)",
        "(3)",
        "(6)",
        "(7)",
        "(9)",
        "(10,2)",
        "(65,30)",
        "(66,31)",
        "(2,5)",
        "(-1)",
    ),
    *("(64)", "(65)", "(255)", "(65536)", "(400000000)", "(4294967296)", "(99999999999999999999)", "(1,2,3)"),
    *(
        "('a','b')",
        "('a')",
        "('')",
        "('it''s',\"x\")",
        "('a','a')",
        "('a,b','ü')",
        "(a)",
        "( 3 )",
        "(",
        ")",
        "('a",
    ),
)
_ATTRIBUTES: Final = (
    "",
    "",
    "",
    "",
    " unsigned",
    " zerofill",
    " unsigned zerofill",
    " binary",
    " x",
    " array",
)
_WHOLE: Final = (
    *("", "unknown", "bigint unsigned unsigned", "enum()", "set()", "BINARY(400000000)", "bit(4000000000)"),
    *(
        "double(10,2)",
        "float(53)",
        "varchar(20) character set latin1",
        "INT(11)",
        "serial",
        "bool",
        "national char",
    ),
    *("enum(" + ",".join(f"'m{number}'" for number in range(300)) + ")", "int" * 200, "decimal(" * 50),
)


def type_word(chance: random.Random) -> str:
    """A type as producers write it, or nearly."""
    if chance.random() < 0.2:
        return chance.choice(_WHOLE)
    word = chance.choice(_BASES) + chance.choice(_PARAMETERS) + chance.choice(_ATTRIBUTES)
    return word.upper() if chance.random() < 0.3 else word


def odd_text(chance: random.Random) -> bytes:
    """A JSON string, or nearly: half characters, raw controls and bytes that are no UTF-8 among them."""
    roll = chance.random()
    if roll < 0.5:
        return json_string(chance.choice(TEXTS), chance)
    if roll < 0.7:
        return json_string(chance.choice(DATES), chance)
    if roll < 0.8:
        return json_string(type_word(chance), chance)
    if roll < 0.98:
        return chance.choice(_BROKEN)
    text = chance.choice(TEXTS) * chance.choice((10, 10, 100, 1000, 20_000))
    return json_string(text[:_LONGEST_TEXT], chance)


_BROKEN: Final = (
    *(
        b'"\\ud800"',
        b'"a\\udc00b"',
        b'"\xff"',
        b'"\xc3"',
        b'"\xed\xa0\x80"',
        b'"\xf4\x90\x80\x80"',
        b'"\\u0000"',
    ),
    *(b'"\x00"', b'"\x1f"', b'"a\nb"', b'"\\x"', b'"\\u12"', b'"', b"'a'", b'"\\', b'"\xef\xbb\xbf"'),
)


def json_string(text: str, chance: random.Random) -> bytes:
    """The text as a JSON string, as one producer or another escapes it."""
    return json.dumps(text, ensure_ascii=chance.random() < 0.5).encode(errors="surrogatepass")


def canary(chance: random.Random) -> bytes:
    """A row's value, as JSON, that can be recognized."""
    return chance.choice(_CANARIES)


_CANARIES: Final = (
    *(b'"CaNaRy"', b'"CaNaRy\\u0000"', b'"CaNaRy\xff"', b'"CaNaRy\\ud800"', b'"2024-CaNaRy"', b'"0xCaNaRy"'),
    *(b'"7190283746"', b"7190283746", b"-7190283746", b"71902837460283746028374602837460", b"7190283746.5e3"),
    *(
        b'"7190283746-01-01"',
        b'"7190283746:00:00"',
        b'"Q2FOYVJ5"',
        b'"Q2FOYVJ5="',
        b'["CaNaRy"]',
        b'"a,CaNaRy"',
    ),
    *(b'{"v":"CaNaRy"}', b'"' + b"CaNaRy" * 200 + b'"', b'"7190283746e400"', b'"71902837.46028374602837460"'),
)
