"""Requests to stop: signals that cause one, and waits that end early at one."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator
from types import FrameType
from typing import Final, TypeVar

T = TypeVar("T")
#: Signals that ask relay to stop; by default each ends the process at once, without a drain. SIGHUP is sent
#: when a terminal closes; relay has no other use for SIGUSR1 and SIGUSR2.
STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


class Stop:
    """An event that is set once, from outside."""

    def __init__(self, event: asyncio.Event | None = None) -> None:
        event = event or asyncio.Event()
        self.set, self.is_set, self.wait = event.set, event.is_set, event.wait

    async def unless_stopped(self, work: Coroutine[object, object, T]) -> T | None:
        """Return the result of the work, or None as soon as a stop is requested.

        Then, or if the caller is cancelled, the work is cancelled, too. That is the only time a start or a
        poll is cancelled: whatever state this leaves the source in, it is closed next.
        """
        task, stop = asyncio.ensure_future(work), asyncio.ensure_future(self.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            stop.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

    async def sleep(self, seconds: float) -> None:
        """Wait for this long, or until a stop is requested."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.wait(), seconds)


@contextlib.contextmanager
def stopped_by_signals(stop: Callable[[], object]) -> Iterator[None]:
    """Call `stop` in the running loop after a signal in `STOP_SIGNALS`; signals that arrive together cause
    one call.

    After the block they are ignored, so that a late signal does not change the exit status. A signal that is
    already ignored, such as SIGHUP under `nohup`, stays ignored.

    `loop.add_signal_handler` is not used: `remove_signal_handler` briefly restores the default action, and a
    signal at that moment would kill relay. Nor may others use it during the block: a process has only one
    wake-up socket for signals.
    """
    loop = asyncio.get_running_loop()
    numbers = [each for each in STOP_SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
    receiver, sender = socket.socketpair()
    with receiver, sender:
        receiver.setblocking(False)
        sender.setblocking(False)

        def read() -> None:
            if not {*receiver.recv(4096)}.isdisjoint(numbers):
                stop()

        # Python writes the number of each signal that has a handler into this socket.
        earlier = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        loop.add_reader(receiver, read)
        for number in numbers:
            signal.signal(number, _do_nothing)
            signal.siginterrupt(number, False)
        try:
            yield
        finally:
            # Blocked in this thread meanwhile: Python may print a traceback for a signal that loses its
            # handler before it is handled.
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
            for number in numbers:
                # Not a Python handler: Python resets those to the default action when it shuts down.
                signal.signal(number, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            signal.set_wakeup_fd(earlier)
            loop.remove_reader(receiver)


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    """Handle a signal, so that Python writes its number into the wake-up socket."""
