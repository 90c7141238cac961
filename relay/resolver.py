"""Answers to what a translator needs, for programs that may wait: service, Spark job, command line.

`Resolver.translate` is the loop around a translator: call, fetch what is needed, provide it, call again.
All of it waits; the service calls `fetch` and `store` in threads.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from relay.errors import NeedUnanswered
from relay.files import read_small, write_whole
from relay.limits import DEFAULT_LIMITS
from relay.model import Event
from relay.needs import ClaimCheck, Need
from relay.plugins import installed, unusable
from relay.records import Blob, ConsumerRecord, ProducerRecord
from relay.storage import Storage
from relay.translator import Translator

Answer = TypeVar("Answer")
Result = TypeVar("Result")
#: Answers needs of one type. Raises StorageUnavailable if asking again may help, else NeedUnanswered.
Fetch = Callable[[Any], object]
Fetches = Mapping[type[Need[Any]], Fetch]


class Resolver:
    """Fetch what needs name, and store what produced records refer to.

    `storage` answers claim checks; `fetches` says who answers needs of other types (a schema registry, a
    database), before other packages are asked (entry points of the group `relay.resolvers`). `cache`: a
    folder in which answers that never change are kept over restarts, about `cache_bytes` of them; they are
    found there when nobody else answers any more.
    """

    def __init__(
        self,
        storage: Storage | None = None,
        fetches: Fetches | None = None,
        cache: Path | None = None,
        cache_bytes: int = DEFAULT_LIMITS.cache_bytes,
    ) -> None:
        self._storage = storage or Storage()
        self._fetches: dict[type[Need[Any]], Fetch] = {ClaimCheck: self._storage.fetch, **(fetches or {})}
        self._cache = None if cache is None else AnswerCache(cache, cache_bytes)

    def translate(self, translator: Translator, record: ConsumerRecord) -> list[ProducerRecord]:
        """Translate a record. Raises like `Translator.translate` and `fetch`, but no Need."""
        return self._resolved(translator, translator.translate, record)

    def inspect(self, translator: Translator, record: ConsumerRecord) -> list[Event]:
        """Decode a record. Raises like `Translator.inspect` and `fetch`, but no Need."""
        return self._resolved(translator, translator.inspect, record)

    def _resolved(
        self, translator: Translator, call: Callable[[ConsumerRecord], Result], record: ConsumerRecord
    ) -> Result:
        while True:
            try:
                return call(record)
            except Need as need:
                translator.provide(need, self.fetch(need))

    def fetch(self, need: Need[Answer]) -> Answer:
        """Fetch an answer. Raises ClaimCheckMissing, StorageUnavailable, NeedUnanswered; ConfigError if what
        another package brings for it cannot be used.
        """
        if self._cache is not None and (found := self._cache.find(need)) is not None:
            return found
        fetch = self._fetches.get(type(need)) or _installed().get(type(need))
        if fetch is None:
            raise NeedUnanswered(f"{need.what()} is needed, and nothing is configured that knows it")
        answer = cast("Answer", fetch(need))
        if self._cache is not None:
            self._cache.keep(need, answer)
        return answer

    def store(self, blob: Blob) -> None:
        """Store an object that a record refers to. Raises StorageUnavailable."""
        self._storage.store(blob)


@functools.cache
def _installed() -> Fetches:
    """How other packages answer needs. An entry point names a dict of `Fetch` by the type of the need."""
    found: dict[type[Need[Any]], Fetch] = {}
    for place, fetches in installed("relay.resolvers", dict):
        if ClaimCheck in fetches or found.keys() & fetches.keys():
            raise unusable(place, "answers needs that relay or another package answers")
        found |= fetches
    return found


class AnswerCache:
    """Answers that never change, each in a file of its own below a folder. Several processes may share it.

    When they have more than about `most_bytes` together, those that were kept first are removed, so that a
    quarter is free again. May be called from several threads.
    """

    def __init__(self, folder: Path, most_bytes: int = DEFAULT_LIMITS.cache_bytes) -> None:
        self._folder, self._most_bytes = folder, most_bytes
        #: Bytes that may be added before the folder is listed again: never more than a quarter of all, as
        #: others add to it, too.
        self._room = 0
        self._lock = threading.Lock()

    def find(self, need: Need[Answer]) -> Answer | None:
        """Read an answer; None if there is none that can be read."""
        if not need.is_immutable:
            return None
        try:
            return cast("Answer", msgspec.json.decode(read_small(self._path(need)), type=need.answer_type))
        except (OSError, TypeError, ValueError):
            return None

    def keep(self, need: Need[Answer], answer: Answer) -> None:
        """Write an answer so that readers see all of it or nothing; a folder that refuses is passed over."""
        if not need.is_immutable:
            return
        # What JSON cannot hold, such as half a character, is not kept either.
        with contextlib.suppress(OSError, TypeError, ValueError):
            path, data = self._path(need), msgspec.json.encode(answer)
            if len(data) <= self._most_bytes:
                self._folder.mkdir(parents=True, exist_ok=True)
                write_whole(path, data)
                with self._lock:
                    self._room -= len(data)
                    if self._room < 0:
                        self._make_room(path)

    def _make_room(self, newest: Path) -> None:
        """List the folder; if there is too much in it, remove what is oldest. Raises OSError."""
        self._room = quarter = self._most_bytes // 4
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
        self._room = min(self._most_bytes - size, quarter)

    def _path(self, need: Need[Any]) -> Path:
        named = msgspec.json.encode((type(need).__module__, type(need).__name__, need.args))
        return self._folder / f"{hashlib.sha256(named).hexdigest()}.json"
