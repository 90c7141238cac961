"""Lenient parsing of JSON messages that the strict parser refuses.

A codec decodes with its own `msgspec.json.Decoder`; messages that it refuses (`REFUSED`) go to
`parse_leniently`, which returns the typed message or raises Malformed, whatever the bytes. Real producers
send raw newlines inside strings, native numbers instead of text, a byte order mark; every number's digits are
kept as text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from relay.model.errors import Malformed
from relay.model.limits import DEFAULT_LIMITS, Limits, check_levels, exceeded
from relay.mysql.conversion_names import kernel_name
from relay.mysql.numbers import go_text

T = TypeVar("T")


#: Errors that msgspec raises for bytes that are no message; the last two are not MsgspecErrors.
REFUSED: Final = (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError, RecursionError)


_document_in: Final = msgspec.json.Decoder(msgspec.Raw).decode


@kernel_name("document")
def json_document(text: str) -> msgspec.Raw:
    """Return a JSON column's document unchanged, so that no number loses digits. Raises ValueError."""
    try:
        return _document_in(text)
    except REFUSED:
        raise ValueError("not JSON") from None


def parse_leniently(
    protocol: str,
    data: bytes,
    convert: Callable[[dict[str, Any]], T],
    normalize: Callable[[dict[str, Any]], dict[str, Any]],
    limits: Limits = DEFAULT_LIMITS,
) -> T:
    """Parse one JSON object; `normalize` converts the document, whose numbers are text, to the form of the
    message, and `convert` makes the message (`MessageParser.convert`).

    Raises Malformed with the path of the offending value; LimitExceeded for more than `lenient_json_bytes`:
    Python's own parser takes a hundred bytes of memory for one of JSON.
    """
    check_levels(protocol, "", data)
    most = limits.lenient_json_bytes
    if len(data) > most:
        raise exceeded(protocol, "", "bytes that are not strict JSON", "lenient_json_bytes", most)
    try:
        document = json.loads(
            data.decode("utf-8-sig"),
            strict=False,
            parse_int=NumberText,
            parse_float=NumberText,
            parse_constant=NumberText,
        )
        # Lone surrogates pass json.loads but are not valid Unicode: no encoder could write them.
        json.dumps(document, ensure_ascii=False).encode()
        if not isinstance(document, dict):
            raise Malformed(protocol, "", "not a JSON object")
        return convert(_plain(normalize(document)))
    except msgspec.ValidationError as error:
        raise Malformed(protocol, *complaint(error)) from None
    except UnicodeError:
        raise Malformed(protocol, "", "not UTF-8") from None
    except RecursionError:
        raise Malformed(protocol, "", "nested too deeply") from None
    except ValueError as error:
        # The parser's message holds positions, not values; a document is never quoted.
        raise Malformed(protocol, "", f"not JSON: {error}") from None


@kernel_name("go-number")
def go_number(value: float) -> int | float | msgspec.Raw:
    """Return a float as JSON of TiCDC: Go's shortest digits, positional from 1e-6 to below 1e21, without a
    trailing `.0`.

    A number that msgspec would print differently is returned as text (pingcap/ticdc pkg/util/json_writer.go,
    2026-08). Raises ValueError for NaN and infinity.
    """
    if value.is_integer() and abs(value) < _EXACT:
        return int(value) if value or math.copysign(1.0, value) > 0 else _NEGATIVE_ZERO
    if not math.isfinite(value):
        raise ValueError("not a finite number, which JSON cannot hold")
    size = abs(value)
    if _PRINTED_ALIKE <= size < _EXACT:
        return value
    return msgspec.Raw((go_text(value) if 1e-6 <= size < 1e21 else repr(value)).encode())


#: Whole numbers up to here are exact in a float; msgspec prints all digits of a fraction from
#: `_PRINTED_ALIKE` on.
_EXACT: Final = float(1 << 53)
_PRINTED_ALIKE: Final = 1e-5
_NEGATIVE_ZERO: Final = msgspec.Raw(b"-0")


def with_negative_zeros(data: bytes) -> bytes:
    """Return the JSON with `-0.0` for members that are `-0`, which JSON parsers read as an integer without a
    sign. Strings stay unchanged.
    """
    # `bytes in bytes` first tries the former as a number, which costs an exception.
    if (data.find(b":-0") >= 0 or data.find(b": -0") >= 0) and _MAYBE_NEGATIVE_ZERO(data):
        return _STRING_OR_NEGATIVE_ZERO.sub(_signed, data)
    return data


_MAYBE_NEGATIVE_ZERO: Final = re.compile(rb":\s*-0[\s,}]").search
#: The closing quote may be missing, so that every byte of a broken document is scanned once.
_STRING_OR_NEGATIVE_ZERO: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|(?<=[\s:])-0(?=[\s,}])', re.DOTALL)


def _signed(match: re.Match[bytes]) -> bytes:
    return b"-0.0" if match[0] == b"-0" else match[0]


class NumberText(str):
    """A JSON number as its text."""

    __slots__ = ()


def json_text(value: object) -> str:
    """Return a part of a leniently read document as compact JSON; numbers keep their digits."""
    if isinstance(value, NumberText):
        return str(value)
    if isinstance(value, dict):
        members = [
            f"{json.dumps(name, ensure_ascii=False)}:{json_text(part)}" for name, part in value.items()
        ]
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _plain(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return the document with numbers as ordinary text, which msgspec converts to the fields' types."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, NumberText) else value


def complaint(error: Exception) -> tuple[str, str]:
    """Return the path and the reason in an error of msgspec (`$.data[0].c1` → `data[0].c1`), without the
    value that it quotes for an unknown member of an enumeration.
    """
    reason, mark, path = str(error).rpartition(" - at `$")
    if not mark:
        reason, path = str(error), ""
    quoting = _QUOTING(reason)
    return path.rstrip("`").lstrip("."), reason if quoting is None else f"{quoting[1]}, none of those allowed"


_QUOTING: Final = re.compile(r"(Invalid (?:enum )?value) ").match
