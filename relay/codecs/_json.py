"""What every JSON wire needs when the strict parser refuses a message.

Contract: a codec decodes with its own `msgspec.json.Decoder`; what that refuses (`REFUSED`) goes to `parse_leniently`, which
gives the typed message or raises Malformed, whatever the bytes. Real producers send raw newlines inside strings, native numbers
where text is the rule, a byte order mark; every number's digits are kept as text.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from relay.errors import Malformed

T = TypeVar("T")


#: What msgspec raises for bytes that are no message; the last two are no MsgspecError.
REFUSED: Final = (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def parse_leniently(protocol: str, data: bytes, message: type[T], tidy: Callable[[dict[str, Any]], dict[str, Any]]) -> T:
    """Parse one JSON object; `tidy` puts the document, whose numbers are text, into the wire's own shape.

    Raises Malformed with the path of what does not fit.
    """
    try:
        document = json.loads(data.decode("utf-8-sig"), strict=False, parse_int=Number, parse_float=Number, parse_constant=Number)
        # Lone surrogates pass json.loads but are no Unicode text: no encoder could write them.
        json.dumps(document, ensure_ascii=False).encode()
        if not isinstance(document, dict):
            raise Malformed(protocol, "", "not a JSON object")
        return msgspec.convert(_plain(tidy(document)), message, strict=False)
    except msgspec.ValidationError as error:
        raise Malformed(protocol, _path(str(error)), str(error).partition(" - at ")[0]) from error
    except UnicodeError as error:
        raise Malformed(protocol, "", "not UTF-8") from error
    except RecursionError as error:
        raise Malformed(protocol, "", "nested too deeply") from error
    except ValueError as error:
        # The parser's message holds positions, not values; a document is never quoted.
        raise Malformed(protocol, "", f"not JSON: {error}") from error


class Number(str):
    """A JSON number as its text."""

    __slots__ = ()


def json_text(value: object) -> str:
    """A part of a leniently read document as compact JSON; numbers keep their digits."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{json_text(part)}" for name, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _plain(value: Any) -> Any:  # noqa: ANN401  any JSON
    """The document with numbers as ordinary text, which msgspec turns into what the message's fields are."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, Number) else value


def _path(message: str) -> str:
    """The path in a msgspec message, `$.data[0].c1` → `data[0].c1`."""
    return message.partition(" - at `$")[2].rstrip("`").lstrip(".")
