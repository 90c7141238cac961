"""The log says when an outage is over, and how many lines it has left out."""

from __future__ import annotations

import asyncio
from typing import Any

from status_support import Clock, running_status

from relay.service.observe.recovery_log import logging_recovery


async def test_the_end_of_an_outage_is_logged_with_its_length(list_log: Any) -> None:
    clock = Clock()
    status = running_status(clock)
    async with logging_recovery(list_log, status):
        for check, seconds in (("source", 200), ("commit", 3721), ("records", 0.25)):
            status.set_check(check, ok=False, detail="no broker answers")
            clock.passes(seconds)
            status.set_check(check, ok=True)
        status.set_check("target", ok=False)
        clock.passes(61)
        status.recovered("target", "topics")
    status.set_check("source", ok=False)
    status.set_check("source", ok=True)
    logged = [
        (each["check"], each["level"], each["seconds"], each["message"])
        for each in list_log.named("connection.recovered")
    ]
    assert logged == [
        ("source", "info", 200.0, "the source brokers respond again, after 3 min 20 s"),
        ("commit", "info", 3721.0, "offsets are committed again, after 1 h 2 min 1 s"),
        ("records", "info", 0.2, "records can be relayed again, after 0.2 s"),
        ("target", "info", 61.0, "the target accepts records again, after 1 min 1 s"),
    ]
    assert [(each["check"], each["message"]) for each in list_log.named("check.failing")][:2] == [
        ("source", "no broker answers"),
        ("commit", "no broker answers"),
    ]


async def test_lines_that_were_left_out_are_counted_out_at_the_end(list_log: Any) -> None:
    async with logging_recovery(list_log, running_status(Clock())):
        for offset in range(43):
            list_log.rate_limited("record.dead-lettered", "decode.malformed", position=f"in/0/{offset}")
        list_log.rate_limited("record.dead-lettered", "encode", position="in/0/43")
        list_log.rate_limited("record.dead-lettered", "encode", position="in/0/44")
        assert len(list_log.named("log.left-out")) == 0
    many, one = list_log.named("log.left-out")
    del many["time"], one["time"]
    assert many == {
        "level": "warning",
        "event": "log.left-out",
        "of": "record.dead-lettered",
        "kind": "decode.malformed",
        "lines": 42,
        "message": "42 more lines like this suppressed",
    }
    assert (one["lines"], one["message"]) == (1, "1 more line like this suppressed")


async def test_they_are_counted_out_when_no_more_come(list_log: Any) -> None:
    """Once each: a line that comes later begins anew."""
    async with logging_recovery(list_log, running_status(Clock()), look_seconds=0.005):
        for _ in range(5):
            list_log.rate_limited("kafka.client", "no node", level="error", every_seconds=0.1)
        async with asyncio.timeout(5):
            while not list_log.named("log.left-out"):  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.005)
        list_log.rate_limited("kafka.client", "no node", level="error")
    logged = [
        (each["event"], each["level"], each.get("lines"), each.get("repeated")) for each in list_log.events
    ]
    assert logged == [
        ("kafka.client", "error", None, 0),
        ("log.left-out", "error", 4, None),
        ("kafka.client", "error", None, 0),
    ]
