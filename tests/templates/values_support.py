"""Values of all kinds near the edges of their types, made of a seed."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

MEMBERS: Final = ("a", "it's", "ü", "2", "x\\y")

_DATES: Final = (
    "0000-00-00", "0000-01-01", "0001-01-01", "0069-12-31", "0099-02-29", "0100-03-01", "1000-01-01",
    "1969-12-31", "1970-01-01", "1900-02-29", "2000-02-29", "2009-11-31", "2020-02-00", "2038-01-19",
    "2024-02-29", "9999-12-31", "2020-13-01",
)  # fmt: skip
_CLOCKS: Final = ("00:00:00", "00:00:01", "23:59:59", "12:34:56", "24:00:00", "12:60:00", "07:08:61")
_FRACTIONS: Final = ("", ".0", ".1", ".000", ".120", ".123", ".000001", ".123000", ".123456", ".1234567", ".")
_TIMES: Final = (
    "-838:59:59", "838:59:59", "838:59:59.999999", "-838:59:59.000001", "00:00:00", "-00:00:01",
    "100:00:00", "839:00:00", "-12:00:00.5", "7:00:00",
)  # fmt: skip
_NUMBERS: Final = (
    "0", "-0", "00", "1", "-1", "+1", "127", "-128", "255", "65535", "2147483647", "4294967295",
    "9007199254740993", "9223372036854775807", "-9223372036854775808", "9223372036854775808",
    "18446744073709551615", "18446744073709551616", "-9223372036854775809", "1_0", " 1", "1900", "1970", "2155",
    "0.1", "-0.00", "0.000001", "0.0000001", "1e3", "1E+30", "1e-7", "1.0", "1.10", "100.00", "-12.3450", "0012.5",
    "99999999999999999999999999999999999.999999999999999999999999999999", "3.14", "3.4028235e38", "3.4028236e38",
    "1.17549435E-38", "1e-45", "5e-324", "1.7976931348623157e308", "1e309", "123456789", "16777217", "0.3",
    "NaN", "Infinity", ".5", "5.", "-", "", "1e999999999", "9999999999999999.9999", "10000000000000000",
)  # fmt: skip
_WORDS: Final = (
    *MEMBERS, "a,it's", "ü,2", "a,nope", "", "a\\,b", "x\\\\y", "[1,-2.5]", "[1, 2]", "[]", '{"a": 1, "b" : [ 2 ]}',
    '"a b"', "null", '{"a":"x y\\" z"}', "[1,]", "true", "\x00", "abc\x00\x00", "é", "日本", "\u2028", "😀", "\x7f",
    "\\x00\\x89PNG\\r\\n", '\\"', "0xDEADBEEF", "deadbeef", "DEADBEE", "TRUE", "false",
)  # fmt: skip
_BYTES: Final = (
    b"", b"\0", b"a", b"abc", b"\x01\0\0", b"\xff", b"\x7f\xff", b"\x80\x00", b"\x00\x80", b"\xff\xff\xff",
    bytes(range(256)), "é日本😀".encode(), b"\xc3", b"\xed\xa0\x80", b"\xe2\x80\xa8", b"\xc2\x85\xc2\xad", b'"\\\x07\x7f',
)  # fmt: skip

Random = random.Random


def _digits(chosen: Random, most: int) -> str:
    return "".join(chosen.choices("0123456789", k=chosen.randint(1, most)))


def number_text(chosen: Random) -> str:
    """A number, mostly a usual one."""
    kind = chosen.randrange(8)
    if kind == 0:
        return chosen.choice(_NUMBERS)
    if kind == 1:
        return repr(chosen.uniform(-1, 1) * 10.0 ** chosen.randint(-50, 50))
    sign = chosen.choice(("", "", "-"))
    if kind < 5:
        return sign + (_digits(chosen, 22).lstrip("0") or "0")
    fraction = _digits(chosen, chosen.choice((2, 4, 10, 30)))
    return f"{sign}{_digits(chosen, chosen.choice((3, 8, 35))).lstrip('0') or '0'}.{fraction}"


def date_text(chosen: Random) -> str:
    """A date, not always of the calendar."""
    if chosen.random() < 0.3:
        return chosen.choice(_DATES)
    year = chosen.choice((chosen.randint(1, 9999), chosen.randint(1900, 2100), chosen.randint(0, 120)))
    return f"{year:04}-{chosen.randint(1, 12):02}-{chosen.randint(1, 31):02}"


def zero_date_text(chosen: Random) -> str:
    """A date, often without a month or a day."""
    date = date_text(chosen)
    return f"{date[:5]}{chosen.choice(('00', date[5:7]))}-{chosen.choice(('00', date[8:10]))}"


def _clock(chosen: Random) -> str:
    if chosen.random() < 0.2:
        return chosen.choice(_CLOCKS)
    return f"{chosen.randint(0, 23):02}:{chosen.randint(0, 59):02}:{chosen.randint(0, 59):02}"


def _fraction(chosen: Random) -> str:
    if chosen.random() < 0.5:
        return chosen.choice(_FRACTIONS)
    digits = chosen.randint(1, 6)
    return "." + _digits(chosen, 6)[:digits].ljust(digits, "0")


def datetime_text(chosen: Random, date: Callable[[Random], str] = date_text) -> str:
    """A DATETIME."""
    return f"{date(chosen)} {_clock(chosen)}{_fraction(chosen)}"


def iso_text(chosen: Random) -> str:
    """A date and time as ISO 8601."""
    if chosen.random() < 0.05:
        return "1970-01-01T00:00:00Z"
    end = chosen.choice(("Z", "Z", "Z", "", "+02:00", "-0130"))
    return f"{date_text(chosen)}{chosen.choice('TTTT ')}{_clock(chosen)}{_fraction(chosen)}{end}"


def time_text(chosen: Random) -> str:
    """A TIME."""
    if chosen.random() < 0.2:
        return chosen.choice(_TIMES) + chosen.choice(("", "", "Z"))
    hours = chosen.choice((chosen.randint(0, 23), chosen.randint(0, 838)))
    clock = f"{hours:02}:{chosen.randint(0, 59):02}:{chosen.randint(0, 59):02}"
    return chosen.choice(("", "", "-")) + clock + _fraction(chosen) + chosen.choice(("", "", "", "Z"))


def some_bytes(chosen: Random) -> bytes:
    """Bytes, also of text."""
    if chosen.random() < 0.4:
        return chosen.choice(_BYTES)
    if chosen.random() < 0.3:
        return word(chosen).encode()
    return chosen.randbytes(chosen.randint(0, 20))


def bytes_text(chosen: Random) -> str:
    """Bytes as one of the texts that stand for them."""
    data, kind = some_bytes(chosen), chosen.randrange(5)
    if kind == 0:
        return data.hex()
    if kind == 1:
        return data.decode("latin-1")
    encoded = base64.b64encode(data).decode()
    if kind == 2:
        return encoded.replace("+", "-").replace("/", "_")
    return encoded if kind == 3 else encoded.rstrip("=")


def word(chosen: Random) -> str:
    """Text: labels, JSON, what has escapes, characters of other scripts."""
    if chosen.random() < 0.6:
        return chosen.choice(_WORDS)
    return "".join(chr(chosen.choice((chosen.randint(0, 127), chosen.randint(160, 255), chosen.randint(0x3040, 0x30FF))))
                   for _ in range(chosen.randint(0, 12)))  # fmt: skip


_TEXTS: Final[tuple[Callable[[Random], str], ...]] = (
    number_text, date_text, datetime_text, iso_text, time_text, bytes_text, word,
)  # fmt: skip


def text(chosen: Random) -> str:
    """Text that may be a value of any type, sometimes with a fault."""
    made = chosen.choice(_TEXTS)(chosen)
    if chosen.random() < 0.1 and made:
        at = chosen.randrange(len(made))
        made = (
            made[:at]
            + chosen.choice(("", "0", "9", "-", ".", "T", "Z", "\0", "é", "=", "\\"))
            + made[at + 1 :]
        )
    return made


def whole(chosen: Random) -> int:
    """An integer, mostly within 64 bits."""
    kind = chosen.randrange(5)
    if kind == 0:
        return chosen.choice(
            (0, 1, -1, 1900, 70, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64, -(1 << 63), -(1 << 63) - 1)
        )
    if kind == 1:
        return chosen.randint(-800_000, 3_000_000)
    if kind == 2:
        return chosen.randint(0, 64)
    if kind == 3:
        return chosen.randint(-3_020_401_000_000, 3_020_401_000_000)
    return chosen.choice((1, -1)) * chosen.getrandbits(chosen.randint(1, 64))


def real(chosen: Random) -> float:
    """A float that JSON has a number for."""
    kind = chosen.randrange(5)
    if kind == 0:
        return chosen.choice(
            (
                0.0,
                -0.0,
                1e21,
                1e-6,
                1e-7,
                1e15,
                1e16,
                9007199254740993.0,
                3.4028234663852886e38,
                3.4028235677973366e38,
                5e-324,
                1.7976931348623157e308,
                1e-45,
                0.1,
                3.14,
                16777217.0,
                1e7,
                9999999.0,
                0.001,
                0.00099,
            )
        )
    if kind == 1:
        return float(chosen.randint(-10_000_000, 10_000_000))
    if kind == 2:
        return round(chosen.uniform(-10_000, 10_000), chosen.randint(0, 6))
    if kind == 3:
        import struct

        found: float = struct.unpack(">f", chosen.randbytes(4))[0]
        return found if found - found == 0 else 1.5
    return chosen.uniform(-1, 1) * 10.0 ** chosen.randint(-320, 307)


def decimal(chosen: Random) -> Decimal:
    """A DECIMAL."""
    while True:
        try:
            found = Decimal(number_text(chosen).replace("_", ""))
        except ArithmeticError:
            continue
        if found.is_finite() and abs(found.adjusted()) < 100:
            return found


def token_value(chosen: Random) -> Any:
    """What a JSON token may be."""
    kind = chosen.randrange(10)
    if kind < 5:
        return text(chosen)
    if kind < 7:
        return whole(chosen)
    return (real, decimal, lambda each: each.random() < 0.5)[kind - 7](chosen)


def canonical_value(chosen: Random) -> Any:
    """What a column may hold."""
    kind = chosen.randrange(10)
    if kind < 4:
        return text(chosen)
    return (whole, whole, real, decimal, some_bytes, some_bytes)[kind - 4](chosen)
