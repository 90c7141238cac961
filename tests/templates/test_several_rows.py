"""Messages of several rows, of which each is translated as a message of its own would be."""

from __future__ import annotations

from typing import Any

import pytest
from open_support import V1, Message, cell, ddl, framed, raw, resolved, row, segment
from support import OPEN, TICDC
from templates_support import Both

from relay import ConsumerRecord
from relay.core.selection import Selection, chosen_tables
from relay.model.limits import Limits

OLD, NEW = (
    {"id": cell(3, 1, 11), "name": cell(15, "a", 64)},
    {"id": cell(3, 1, 11), "name": cell(15, "b", 64)},
)
INSERT, DELETE = row({"u": NEW}), row({"d": NEW})
UPDATE = row({"u": NEW, "p": OLD})
BATCH = INSERT, UPDATE, DELETE
TABLE = ddl("CREATE TABLE d.t (id INT PRIMARY KEY, name VARCHAR(9))", ts=1)


def warm(both: Both, *messages: Message) -> Both:
    """Translate messages until templates of them are known."""
    for message in messages:
        assert [both.fits(framed(message)) for _ in range(3)][-1]
    return both


def test_templates_are_learned_from_messages_of_several_rows() -> None:
    both = Both(OPEN)
    met = [both.fits(framed(*BATCH, offset=at)) for at in range(6)]
    assert not any(met[:3])
    assert met[-1]
    assert both.templated.paths["fast"] % len(BATCH) == 0
    assert both.fits(framed(INSERT))
    assert both.fits(framed(*[INSERT] * 50))


@pytest.mark.parametrize(
    ("messages", "fits"),
    [
        ((UPDATE, INSERT), True),
        ((INSERT, row({"u": NEW}, tbl="other")), False),
        ((INSERT, row({"u": NEW}, ohk=True)), False),
        ((INSERT, row(b"{}")), False),
        ((INSERT, resolved(9)), False),
        ((INSERT, ddl("ALTER TABLE d.t ADD COLUMN c INT", ts=9), INSERT), False),
        ((INSERT, row({"u": {"id": cell(3, "x", 11), "name": cell(15, "a", 64)}})), False),
        ((INSERT, row({"u": NEW, "p": OLD | {"id": cell(3, 2, 11)}})), False),
        ((INSERT, row({"u": NEW}, ts=1)), False),
    ],
)
def test_all_rows_have_to_fit(messages: tuple[Message, ...], fits: bool) -> None:
    both = warm(Both(OPEN, target=TICDC).learn(framed(TABLE)), *BATCH)
    assert both.fits(framed(*messages)) is fits


def broken(key: bytes, value: bytes) -> ConsumerRecord:
    return raw(V1 + key, value)


ROW_KEY, ROW = segment(INSERT[0]), segment(INSERT[1])


@pytest.mark.parametrize(
    "record",
    [
        broken(ROW_KEY * 2, ROW),
        broken(ROW_KEY, ROW * 2),
        broken(ROW_KEY * 2, ROW * 3),
        broken(ROW_KEY * 2 + b"x", ROW * 2),
        broken(ROW_KEY * 2, ROW * 2 + bytes(7)),
        broken(ROW_KEY * 2, (ROW * 2)[:-1]),
        broken(ROW_KEY * 2 + segment(b""), ROW * 3),
        broken(b"", b""),
        raw(bytes(8) + ROW_KEY * 2, ROW * 2),
        raw(None, ROW * 2),
        raw(V1 + ROW_KEY * 2, None),
    ],
)
def test_broken_frames(record: ConsumerRecord) -> None:
    assert not warm(Both(OPEN), INSERT).fits(record)


@pytest.mark.parametrize("source", [{"topic": "{database}.{table}"}, {"topic": "{topic}.{table}"}])
def test_topics_of_tables(source: dict[str, Any]) -> None:
    other = row({"u": NEW}, tbl="other")
    both = warm(Both(OPEN, **source), INSERT, other)
    assert both.fits(framed(INSERT, other, INSERT))


@pytest.mark.parametrize(
    "limits", [Limits(rows=2), Limits(output_bytes=2_000), Limits(output_bytes=1)], ids=str
)
def test_limits(limits: Limits) -> None:
    both = warm(Both(OPEN, limits=limits), INSERT)
    assert not both.fits(framed(*[INSERT] * 5))
    assert not both.fits(framed(*[INSERT] * 5))


@pytest.mark.parametrize(("target", "option"), [(OPEN, "max-batch-size"), ("canal-json", "max-batch-size")])
def test_targets_that_put_rows_together(target: str, option: str) -> None:
    both = Both(OPEN, target=target, target_options={option: "2"})
    assert not any(both.fits(framed(INSERT, INSERT, INSERT)) for _ in range(4))


def test_events_that_all_have_the_first_time() -> None:
    record = framed(INSERT, row({"u": NEW}, ts=9 << 40))
    both = warm(Both(OPEN), INSERT)
    assert both.fits(record)
    timeless = ConsumerRecord("topic", 0, 0, -1, record.key, record.value)
    assert not any(both.fits(timeless) for _ in range(4))


def test_tables_that_are_not_chosen() -> None:
    both = Both(OPEN, selection=Selection(tables=chosen_tables(["d.t"], [])))
    both = warm(both, INSERT)
    other = row({"u": NEW}, tbl="other")
    assert not any(both.fits(framed(INSERT, other)) for _ in range(5))
    assert both.fits(framed(INSERT, INSERT))
