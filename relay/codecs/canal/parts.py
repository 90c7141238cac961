"""Messages of several rows, as Canal prints them, taken apart into messages of one row."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from relay.codecs.codec import Message
from relay.records import ConsumerRecord

_START: Final = b'{"data":[{'
_BETWEEN: Final = b"},{"
_CLOSE: Final = b"}"
_END: Final = b'}],"database":"'
#: What stands between the rows and the old rows: only this way it is certain that both are the message's own.
_MIDDLE: Final = re.compile(
    rb'}\],"database":"[^"\\]*+","es":[0-9]++,(?:"gtid":"[^"\\]*+",)?"id":[0-9]++,"isDdl":false,'
    rb'"mysqlType":\{[^{}]*+\},"old":(?:null|(?P<old>\[\{))'
).match
_OLD_END: Final = b'}],"pkNames":'


def parts(record: ConsumerRecord) -> Sequence[Message]:
    """Return the messages of one row each that a message of several rows would be, if the rows are alike;
    none for any other message.

    No row has a closing brace, nor even text with one: then each part that is JSON has a row of the message.
    """
    value = record.value or b""
    end = value.find(_END)
    middle = _MIDDLE(value, end) if end > 0 and value.startswith(_START) else None
    rows = value[len(_START) : end].split(_BETWEEN)
    if middle is None or len(rows) < 2:
        return ()
    olds, at = [b""] * len(rows), middle.end()
    if middle["old"]:
        behind = value.find(_OLD_END, at)
        olds, at = value[at:behind].split(_BETWEEN), behind
    if at < 0 or len(olds) != len(rows) or any(_CLOSE in row for row in (*rows, *olds)):
        return ()
    rest = value[at:]
    return [
        (record.key, b"".join((_START, row, middle[0], old, rest)))
        for row, old in zip(rows, olds, strict=True)
    ]
