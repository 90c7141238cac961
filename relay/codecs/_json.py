"""The one place where JSON of the wire is parsed.

Contract: `parse` gives the typed message or raises Malformed, whatever the bytes. The strict and fast parser goes first; what it
refuses and real producers still send (raw newlines inside strings, native numbers where text is the rule, a byte order mark) is
read by the lenient one, which keeps every number's digits as text.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from relay.errors import Malformed

T = TypeVar("T")


def parse(protocol: str, data: bytes, decoder: msgspec.json.Decoder[T], tidy: Callable[[Any], Any]) -> T:
    """Parse one JSON object. `tidy` puts a leniently read document into the wire's own shape (numbers are text in it).

    Raises Malformed with the path of what does not fit.
    """
    try:
        return decoder.decode(data)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _parse_leniently(protocol, data, decoder, tidy)


def _parse_leniently(protocol: str, data: bytes, decoder: msgspec.json.Decoder[T], tidy: Callable[[Any], Any]) -> T:
    try:
        text = data.decode("utf-8-sig")
        document = json.loads(text, strict=False, parse_int=str, parse_float=str, parse_constant=str)
        # Lone surrogates pass json.loads but are no Unicode text: no encoder could write them.
        json.dumps(document, ensure_ascii=False).encode()
        if not isinstance(document, dict):
            raise Malformed(protocol, "", "not a JSON object")
        return msgspec.convert(tidy(document), decoder.type, strict=False)
    except msgspec.ValidationError as error:
        raise Malformed(protocol, _path(str(error)), str(error).split(" - at ")[0]) from error
    except UnicodeError as error:
        raise Malformed(protocol, "", "not UTF-8") from error
    except RecursionError as error:
        raise Malformed(protocol, "", "nested too deeply") from error
    except ValueError as error:
        # The parser's message holds positions, not values; a document is never quoted.
        raise Malformed(protocol, "", f"not JSON: {error}") from error


def _path(message: str) -> str:
    """The path in a msgspec message, `$.data[0].c1` → `data[0].c1`."""
    return message.partition(" - at `$")[2].rstrip("`").lstrip(".")
