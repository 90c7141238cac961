"""The list of Open Protocol's edge cases, and its example of a batch."""

from __future__ import annotations

from edge_cases.support import EdgeCases
from open_support import Message, cell, framed
from support import OPEN

from relay import ConsumerRecord, RelayError, Translator

CASES = EdgeCases("open-protocol", "Open Protocol")

#: A key change of `t1` split into DELETE and INSERT, and a row of a partitioned table.
BATCH: tuple[Message, ...] = (
    (
        {"ts": 458210000000000004, "scm": "test", "tbl": "t1", "t": 1},
        {"d": {"id": cell(3, 1, 11, h=True), "val": cell(15, "aa", 64)}},
    ),
    (
        {"ts": 458210000000000004, "scm": "test", "tbl": "t1", "t": 1},
        {"u": {"id": cell(3, 4, 11, h=True), "val": cell(15, "dd", 64)}},
    ),
    (
        {"ts": 458210000000000005, "scm": "test", "tbl": "pt", "t": 1, "ptn": 112},
        {"u": {"id": cell(3, 9, 11, h=True), "v": cell(16, 129, 193)}},
    ),
)


def error_of(record: ConsumerRecord, *earlier: Message) -> RelayError | None:
    """What is wrong with a record, decoded and with its rows read; a translator that refused it is as it was."""
    translator = Translator(OPEN, OPEN)
    for at, message in enumerate(earlier):
        translator.translate(framed(message, offset=at))
    before = translator.events, translator.losses, translator.catalog
    try:
        translator.translate(record)
    except RelayError as error:
        assert (translator.events, translator.losses, translator.catalog) == before
        return error
    return None
