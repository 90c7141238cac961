"""The signals that ask relay to stop. By default each ends the process at once, without a drain."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Final

#: SIGHUP is sent when a terminal closes; relay has no other use for SIGUSR1 and SIGUSR2.
STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


@contextlib.contextmanager
def stopped_by_signals(stop: Callable[[], object]) -> Iterator[None]:
    """Call `stop` on each of these signals during a `with` block.

    After the block they are ignored, so that a late signal does not change the exit status. A signal that is
    already ignored, such as SIGHUP under `nohup`, stays ignored.
    """
    loop = asyncio.get_running_loop()
    numbers = [each for each in STOP_SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
    for number in numbers:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)
