"""The signals that ask relay to stop. Each would end the process at once, without a drain."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Final

#: SIGHUP comes from a terminal that closes; nothing else is done with the other ones.
STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


@contextlib.contextmanager
def stopped_by_signals(stop: Callable[[], object]) -> Iterator[None]:
    """Call `stop` on each of these signals during a `with` block; later ones are ignored, so that one more
    does not change the exit status. A SIGHUP that is ignored already, as `nohup` has it, stays so.
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
