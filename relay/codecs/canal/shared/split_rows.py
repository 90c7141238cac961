"""Splitting messages of several rows, as Canal prints them, into messages of one row."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from relay.codecs.codec import Message
from relay.model.limits import is_too_deep
from relay.model.records import ConsumerRecord

_START: Final = b'{"data":['
_END: Final = b'],"database":"'
#: The bytes between the rows and the old rows: only this order proves that both are the message's own.
_MIDDLE: Final = re.compile(
    rb'\],"database":"[^"\\]*+","es":[0-9]++,(?:"gtid":"[^"\\]*+",)?"id":[0-9]++,"isDdl":false,'
    rb'"mysqlType":\{[^{}]*+\},"old":(?:null|(?P<old>\[)(?=\{))'
).match
_OLD_END: Final = b'],"pkNames":'
_items: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


def parts(record: ConsumerRecord) -> Sequence[Message]:
    """Split a message of several rows into messages of one row, if the rows are alike; else return none."""
    value, key = record.value or b"", record.key
    if not value.startswith(_START) or is_too_deep(value):
        return ()
    end = value.find(_END)
    rows = _rows(value[len(_START) : end]) if end > 0 else []
    middle = _MIDDLE(value, end) if len(rows) > 1 else None
    if middle is None:
        return ()
    between, at = middle[0], middle.end()
    if not middle["old"]:
        rest = between + value[at:]
        return [(key, _START + row + rest) for row in rows]
    behind = value.find(_OLD_END, at)
    olds, rest = _rows(value[at:behind]), value[behind:]
    if behind < 0 or len(olds) != len(rows):
        return ()
    return [(key, b"".join((_START, row, between, old, rest))) for row, old in zip(rows, olds, strict=True)]


def _rows(text: bytes) -> list[bytes]:
    """Return the elements of a list's text without brackets; none if it is not a list."""
    try:
        return [bytes(item) for item in _items(b"[%b]" % text)]
    except (msgspec.DecodeError, RecursionError):
        return []
