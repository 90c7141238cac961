"""A signal ends the work and decides the exit status."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from spark_backfill.stopping import until_signal


@pytest.fixture(autouse=True)
def _handlers_are_put_back() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_the_work(number: signal.Signals, status: int) -> None:
    """What the work raises then is no news, and more signals change nothing."""
    stopped, logged = threading.Event(), list[str]()

    def work() -> None:
        os.kill(os.getpid(), number)
        assert stopped.wait(30)
        os.kill(os.getpid(), number)
        raise RuntimeError("cancelled")

    assert until_signal(work, stopped.set, logged.append) == status
    assert logged == [number.name]
    os.kill(os.getpid(), number)


def test_work_between_two_jobs_is_stopped_as_well() -> None:
    asked = threading.Semaphore(0)

    def work() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(3):
            assert asked.acquire(timeout=30)

    def stop() -> None:
        asked.release()
        raise ConnectionError("Java has ended")

    assert until_signal(work, stop, lambda _: None, stop_again_seconds=0.01) == 143


def test_work_that_does_not_stop_is_left() -> None:
    end = threading.Event()

    def work() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        end.wait(30)

    assert until_signal(work, lambda: None, lambda _: None, end_seconds=0.05) == 143
    end.set()


def test_without_a_signal_the_work_is_what_counts() -> None:
    before = signal.getsignal(signal.SIGTERM)

    def failing() -> None:
        raise LookupError("mine")

    assert until_signal(lambda: None, lambda: None, lambda _: None) == 0
    with pytest.raises(LookupError, match="mine"):
        until_signal(failing, lambda: None, lambda _: None)
    assert signal.getsignal(signal.SIGTERM) is before
