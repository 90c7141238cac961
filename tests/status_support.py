"""A status as a running relay has it, with clocks that the test moves."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable

import msgspec

from relay.codecs.losses import Loss
from relay.io.kafka.ports import Partition
from relay.model.events import TableId
from relay.service.observe.about import About, Endpoint, InitialLabels
from relay.service.observe.status import ProcessReport, Status
from relay.service.observe.together import TogetherStatus
from relay.service.processes.channel import packed, receive_first

#: 2026-11-21 10:00 UTC.
START = 1_795_255_200.0
LIMIT = 120.0
#: What the metrics of a status may count.
SERIES = InitialLabels(
    errors=(("translate", "decode.malformed"), ("produce", "service.delivery-failed")),
    dead_letters=("decode.malformed",),
    skipped=("service.claim-check-missing",),
    expected_losses=frozenset({"commit-ts"}),
)
ORDERS_0, ORDERS_1 = Partition("orders", 0), Partition("orders", 1)


class Clock:
    """Both clocks of a status: the wall's and the steady one. They go on when the test says so."""

    def __init__(self) -> None:
        self.time, self.steady = START, 1000.0

    def passes(self, seconds: float) -> None:
        self.time += seconds
        self.steady += seconds


class Translated:
    """The counters of a translator."""

    def __init__(self) -> None:
        self.events: Counter[str] = Counter()
        self.losses: Counter[Loss] = Counter()
        self.inferred_tables: dict[TableId, int] = {}
        self.paths: Counter[str] = Counter()
        self.counts_by_table: dict[TableId, Counter[str]] = {}
        self.remembered_rows: int | None = None


def make_status(clock: Clock | None = None, topics: dict[str, str] | None = None) -> Status:
    """A status that nobody has written to."""
    clock = clock or Clock()
    topics = topics or {"orders": "orders.canal-json"}
    source = Endpoint("ticdc-canal-json", {"enable-tidb-extension": "true"}, "source:9092")
    about = About(
        "0.1.0",
        source,
        Endpoint("canal-json", {}, "target:9092"),
        topics,
        "relay",
        "at-least-once",
        "relay.dead",
        "relay.history",
        series=SERIES,
        has_table_metrics=True,
    )
    return Status(about, lambda: clock.time, steady=lambda: clock.steady)


def running_status(clock: Clock, translated: Translated | None = None) -> Status:
    """A status of a loop that turns, with two partitions: one is read to its end, of the other 50 records
    wait.
    """
    status = make_status(clock)
    status.translator = translated
    status.set_check("configuration", ok=True)
    status.enter_phase("running")
    status.assigned([ORDERS_0, ORDERS_1])
    status.progress(ORDERS_0, position=100, end=100, timestamp_ms=int(clock.time - 5) * 1000)
    status.progress(ORDERS_1, position=150, end=200, timestamp_ms=int(clock.time - 30) * 1000)
    status.note_in_flight(0, 0)
    status.heartbeat()
    return status


def turns(status: Status, clock: Clock, seconds: int, turn: Callable[[], None] = lambda: None) -> None:
    """Let the loop turn once a second."""
    for _ in range(seconds):
        clock.passes(1)
        turn()
        status.heartbeat()


def together(clock: Clock, *statuses: Status, processes: int = 2) -> TogetherStatus:
    """Return the common status after reports from these processes."""
    about = statuses[0].about if statuses else make_status(clock).about
    about = msgspec.structs.replace(about, processes=processes)
    found = TogetherStatus(about, lambda: clock.time, steady=lambda: clock.steady)
    for number, status in enumerate(statuses):
        found.report_from(number, ProcessReport(10**9 + number, heard(status, clock), [GENERATION] * 3))
    return found


#: What a garbage collector has done in a generation.
GENERATION = {"collections": 5, "collected": 7, "uncollectable": 0}


def heard(status: Status, clock: Clock) -> Status:
    """What another process knows of a status, with the clocks of the test."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(packed(status))
        found: Status = receive_first(theirs)
    found.now, found.steady = lambda: clock.time, lambda: clock.steady
    return found
