"""Cache immutable answers on disk, so that a restarted program need not request them again."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import threading
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import msgspec

from relay.io.files import read_small, write_whole
from relay.model.limits import DEFAULT_LIMITS
from relay.model.lookups import Need

Answer = TypeVar("Answer")
_log = logging.getLogger("relay.cache")
#: The module name of relay's own needs in file names. It stays the same if the module moves, so that answers
#: that an older version has kept are found.
_OWN_MODULE: Final = "relay.needs"


class AnswerCache:
    """Immutable answers, each in a separate file below a folder. Several processes may share it.

    When they exceed about `most_bytes` together, the oldest are removed until a quarter is free again. May be
    called from several threads.
    """

    def __init__(self, folder: Path, most_bytes: int = DEFAULT_LIMITS.cache_bytes) -> None:
        self._folder, self._most_bytes = folder, most_bytes
        #: Bytes that may be added before the folder is listed again: never more than a quarter of the limit,
        #: as other processes add to it, too.
        self._free_bytes = 0
        self._lock = threading.Lock()
        self._is_reported = False

    def find(self, need: Need[Answer]) -> Answer | None:
        """Read an answer; None if it is missing or unreadable."""
        if not need.is_immutable:
            return None
        try:
            return cast("Answer", msgspec.json.decode(read_small(self._path(need)), type=need.answer_type))
        except (OSError, TypeError, ValueError):
            return None

    def keep(self, need: Need[Answer], answer: Answer) -> None:
        """Write an answer so that readers see all of it or nothing.

        Logs the first failure: the work goes on without the folder, and the next start asks again.
        """
        if not need.is_immutable:
            return
        try:
            self._keep(need, answer)
        except OSError as error:
            if not self._is_reported:
                self._is_reported = True
                why = error.strerror or type(error).__name__
                _log.warning(
                    "cannot cache answers in %s: %s; they are fetched again after a restart",
                    self._folder,
                    why,
                )

    def _keep(self, need: Need[Answer], answer: Answer) -> None:
        # Answers that JSON cannot represent, such as a lone surrogate, are not kept either.
        with contextlib.suppress(TypeError, ValueError):
            path, data = self._path(need), msgspec.json.encode(answer)
            if len(data) <= self._most_bytes:
                self._folder.mkdir(parents=True, exist_ok=True)
                write_whole(path, data)
                with self._lock:
                    self._free_bytes -= len(data)
                    if self._free_bytes < 0:
                        self._evict(path)

    def _evict(self, newest: Path) -> None:
        """List the folder; if it exceeds the limit, remove the oldest files. Raises OSError."""
        self._free_bytes = quarter = self._most_bytes // 4
        files = []
        for path in self._folder.glob("*.json"):
            with contextlib.suppress(FileNotFoundError):  # another process has removed it
                found = path.stat()
                files.append((found.st_mtime_ns, path, found.st_size))
        size = sum(size for _, _, size in files)
        if size > self._most_bytes:
            for _, path, its_size in sorted(files):
                if path != newest and size > self._most_bytes - quarter:
                    path.unlink(missing_ok=True)
                    size -= its_size
        self._free_bytes = min(self._most_bytes - size, quarter)

    def _path(self, need: Need[Any]) -> Path:
        module = type(need).__module__
        module = _OWN_MODULE if module == Need.__module__ else module
        named = msgspec.json.encode((module, type(need).__name__, need.args))
        return self._folder / f"{hashlib.sha256(named).hexdigest()}.json"
