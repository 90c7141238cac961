"""The lease of a checkpoint: two runs that share a checkpoint would write the same step twice.

The lease is a file that names its run. The run rewrites it every few seconds and deletes it at a clean end.
A new run that finds a lease watches it: if the file changes, another run is active; if it does not, that run
was killed, and the new one takes over the lease. No clocks are compared. A killed run of the same machine and
PID namespace is recognized by its process id, so that a restart there does not wait.

If the file system creates files atomically (a local disk, HDFS), one of two runs that start together is
refused at once; otherwise (object stores) at the latest at its first step, before it writes.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from relay.model.errors import ServiceError
from spark_backfill.hadoop import hadoop_path

#: How often a lease is renewed, and how long one must be unchanged before it is taken over.
RENEW_SECONDS: Final = 4.0
WATCH_SECONDS: Final = 15.0
#: How often an unreadable lease, such as one being written, is read, and how soon again.
_READS: Final = 20
_READ_AGAIN_SECONDS: Final = 0.1
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE: Final = Path("/proc/self/ns/pid")


def pid_space(boot_id: Path = _BOOT_ID) -> str:
    """Return the scope of this process's ids: the machine's boot id, read from a file, and the PID namespace.

    "" on systems that do not report them. Containers on one machine or on several may have the same host
    name.
    """
    try:
        return f"{boot_id.read_text().strip()} {_PID_NAMESPACE.readlink()}"
    except OSError:
        return ""


class Holder(NamedTuple):
    """The holder of a lease. `renewals`: how often it was written since.

    `pid_space`: scope of its process id, "" if unknown, as in leases of older versions.
    """

    run: str
    host: str
    pid: int
    renewals: int
    pid_space: str = ""

    @property
    def is_gone(self) -> bool:
        """Return whether the holder has certainly ended: its process id is of this scope and not in use."""
        if not self.pid_space or (self.host, self.pid_space) != (platform.node(), pid_space()):
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass
        return False


#: Stands for the holder of a lease that cannot be read: it is being written, or its run was killed while
#: it wrote the lease.
_UNKNOWN: Final = Holder("", "", 0, 0)


class Lease:
    """The lease of this run, held from `__enter__` to `__exit__`.

    Entering raises ServiceError while another run holds it.
    """

    def __init__(
        self,
        spark: SparkSession,
        checkpoint: str,
        say: Callable[[str], object] = lambda _: None,
        *,
        renew_seconds: float = RENEW_SECONDS,
        watch_seconds: float = WATCH_SECONDS,
    ) -> None:
        self._path, self._system = hadoop_path(spark, f"{checkpoint.rstrip('/')}/relay/lease.json")
        self._say, self._renew_seconds, self._watch_seconds = say, renew_seconds, watch_seconds
        self._holder = Holder(uuid.uuid4().hex, platform.node(), os.getpid(), 0, pid_space())
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="relay-lease", daemon=True)

    def __enter__(self) -> Self:
        """Take the lease."""
        if not self._create():
            found = self._other_holder()
            if found is not None and not found.is_gone:
                self._watch(found)
            self._write()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Release the lease."""
        self._ended.set()
        self._thread.join(self._renew_seconds)
        with contextlib.suppress(Py4JError, OSError, ServiceError):  # Spark itself may have ended
            if self.is_held():
                self._system.delete(self._path, False)

    def is_held(self) -> bool:
        """Return whether the lease is still this run's."""
        return self._is_own(self._read_holder())

    def check(self) -> None:
        """Raise ServiceError unless the lease is still this run's."""
        found = self._read_holder()
        if not self._is_own(found):
            raise self._refused(found)

    def _is_own(self, found: Holder | None) -> bool:
        return found is not None and found.run == self._holder.run

    def _watch(self, found: Holder) -> None:
        if found is _UNKNOWN:
            self._say(f"{self._path} cannot be read: waiting to check whether another run is using it")
        else:
            holder = f"process {found.pid} on {found.host}"
            self._say(f"{self._path} is held by {holder}: waiting to check whether it is alive")
        end = time.monotonic() + self._watch_seconds
        while time.monotonic() < end:
            time.sleep(min(1.0, self._watch_seconds / 10))
            now = self._other_holder()
            if now is None:  # it has just ended
                return
            if now != found:
                raise self._refused(None if now is _UNKNOWN else now)

    def _refused(self, found: Holder | None) -> ServiceError:
        who = "another run" if found is None else f"another run, process {found.pid} on {found.host},"
        return ServiceError(f"{who} is using this checkpoint ({self._path}): wait until it ends, or stop it")

    def _renew(self) -> None:
        while not self._ended.wait(self._renew_seconds):
            # A disk that fails for a moment must not end the renewals: `check` comes before each step.
            with contextlib.suppress(Py4JError, OSError, ServiceError):
                if self.is_held():
                    self._holder = self._holder._replace(renewals=self._holder.renewals + 1)
                    self._write()

    def _create(self) -> bool:
        """Write the lease if it does not exist. Return whether it was written."""
        try:
            stream = self._system.create(self._path, False)
        except Py4JJavaError as error:
            if "FileAlreadyExists" in error.java_exception.getClass().getSimpleName():
                return False
            raise
        self._finish(stream)
        return True

    def _write(self) -> None:
        self._finish(self._system.create(self._path, True))

    def _finish(self, stream: Any) -> None:
        stream.write(bytearray(json.dumps(self._holder._asdict()).encode()))
        stream.close()

    def _other_holder(self) -> Holder | None:
        """Return the holder of the lease, None without one, `_UNKNOWN` if it cannot be read."""
        try:
            return self._read_holder()
        except ServiceError:
            return _UNKNOWN

    def _read_holder(self) -> Holder | None:
        """Return the holder of the lease, None without one. One that is being written is read again."""
        for _ in range(_READS):
            try:
                if not self._system.exists(self._path):
                    return None
                stream = self._system.open(self._path)
                try:
                    text = bytes(stream.readAllBytes())
                finally:
                    stream.close()
                return Holder(**json.loads(text))
            except (Py4JJavaError, ValueError, TypeError):
                time.sleep(_READ_AGAIN_SECONDS)
        raise ServiceError(f"{self._path} cannot be read: delete it if no run is using this checkpoint")
