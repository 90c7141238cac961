"""Answer the needs of a translator, for programs that may block: service, Spark job, command line.

`Resolver.translate` is the loop around a translator: call, fetch the needed data, provide it, call again. All
of it blocks; the service calls `fetch` and `store` in threads.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar, cast

from relay.codecs.plugins import installed, unusable
from relay.core.translator import Translator
from relay.io.answer_cache import AnswerCache
from relay.io.storage import Storage
from relay.model.errors import ConfigError, NeedUnanswered, Problem
from relay.model.events import Event, TableId
from relay.model.limits import DEFAULT_LIMITS
from relay.model.lookups import ClaimCheck, Need, RegisteredSchema, SchemaById, SchemaId
from relay.model.records import Blob, ConsumerRecord, ProducerRecord

Answer = TypeVar("Answer")
Result = TypeVar("Result")
#: Answers needs of one type. Raises StorageUnavailable if a retry may help, else NeedUnanswered.
Fetch = Callable[[Any], object]
Fetches = Mapping[type[Need[Any]], Fetch]


class Learns(Protocol):
    """The interface of a translator that can learn."""

    def learn(self, record: ConsumerRecord, /) -> tuple[TableId, ...]:
        """Apply a record's DDL and schemas to the catalog, and return the tables concerned."""
        ...

    def provide(self, need: Need[Any], answer: Any, /) -> None:  # noqa: ANN401 - of the need's type
        """Provide the answer to a need."""
        ...


class Registry(Protocol):
    """A schema registry (`relay.io.registry`). Raises RegistryUnavailable, SchemaMissing, SchemaRefused."""

    def schema(self, id: int | str, /) -> RegisteredSchema:
        """Return the schema of an id: a number, or the text of a GUID."""
        ...

    def id_of(self, subject: str, schema: RegisteredSchema, /) -> int:
        """Return the id of a schema in a subject, where it is registered if it is new."""
        ...


class Resolver:
    """Fetch the data that needs refer to, and store the blobs that produced records refer to.

    `storage` answers claim checks; `registries` needs of schemas, by the registry's name in the need:
    `source` of records read, `target` of records written. `fetches`: fetch functions for needs of other types
    (a database, say), tried before those of other packages (entry points of the group `relay.resolvers`).
    `cache`: a folder that keeps immutable answers over restarts, about `cache_bytes` of them; they are used
    when no other source answers any more. `options`: the command-line options that name registries, by side;
    without them it is the configuration's tables.
    """

    def __init__(
        self,
        storage: Storage | None = None,
        fetches: Fetches | None = None,
        cache: Path | None = None,
        cache_bytes: int = DEFAULT_LIMITS.cache_bytes,
        registries: Mapping[str, Registry] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self._options = options or {}
        self._storage, self._registries = storage or Storage(), registries or {}
        self._fetches: dict[type[Need[Any]], Fetch] = {ClaimCheck: self._storage.fetch, **(fetches or {})}
        self._cache = None if cache is None else AnswerCache(cache, cache_bytes)

    def translate(self, translator: Translator, record: ConsumerRecord) -> list[ProducerRecord]:
        """Translate a record. Raises like `Translator.translate` and `fetch`, but no Need."""
        return self._resolved(translator, translator.translate, record)

    def inspect(self, translator: Translator, record: ConsumerRecord) -> list[Event]:
        """Decode a record. Raises like `Translator.inspect` and `fetch`, but no Need."""
        return self._resolved(translator, translator.inspect, record)

    def learn(self, translator: Learns, record: ConsumerRecord) -> tuple[TableId, ...]:
        """Apply a record's DDL and schemas to the catalog. A claim check holds a row, and is not fetched.

        Raises like `Translator.learn` and `fetch`.
        """
        while True:
            try:
                return translator.learn(record)
            except ClaimCheck:
                raise
            except Need as need:
                translator.provide(need, self.fetch(need))

    def _resolved(
        self, translator: Translator, call: Callable[[ConsumerRecord], Result], record: ConsumerRecord
    ) -> Result:
        while True:
            try:
                return call(record)
            except Need as need:
                translator.provide(need, self.fetch(need))

    def fetch(self, need: Need[Answer]) -> Answer:
        """Fetch an answer.

        Raises ClaimCheckMissing, SchemaMissing, StorageUnavailable, NeedUnanswered; ConfigError if another
        package's fetch function cannot be used.
        """
        if isinstance(need, SchemaById | SchemaId) and need.registry in self._registries:
            # A registry has a separate cache: the resolver does not know which registry the name refers to
            # now.
            return cast("Answer", _registered(self._registries[need.registry], need))
        if self._cache is not None and (found := self._cache.find(need)) is not None:
            return found
        fetch = self._fetches.get(type(need))
        if fetch is None:
            others = plugin_fetches()
            fetch = others.fetches.get(type(need))
            if fetch is None and others.problems:  # one of these may be the missing one
                raise ConfigError(others.problems)
        if fetch is None:
            raise NeedUnanswered(
                f"{need.what()} is needed, but no source for it is configured{self._hint(need)}"
            )
        answer = cast("Answer", fetch(need))
        if self._cache is not None:
            self._cache.keep(need, answer)
        return answer

    def _hint(self, need: Need[Any]) -> str:
        """Return the remedy for a schema that no registry knows."""
        if not isinstance(need, SchemaById | SchemaId) or need.registry not in _SIDES:
            return ""
        option = self._options.get(need.registry)
        where = f"with {option}" if option else f"in [{need.registry}.schema_registry]"
        return f": name a schema registry {where}"

    def store(self, blob: Blob) -> None:
        """Store an object that a record refers to. Raises StorageUnavailable."""
        self._storage.store(blob)


#: The names of a route's registries in needs.
_SIDES: Final = ("source", "target")


def _registered(registry: Registry, need: SchemaById | SchemaId) -> RegisteredSchema | int:
    if isinstance(need, SchemaId):
        return registry.id_of(need.subject, need.schema)
    return registry.schema(need.id)


class PluginFetches(NamedTuple):
    """The fetch functions of other packages, and the problems of packages that cannot be used."""

    fetches: Fetches
    problems: list[Problem]


@functools.cache
def plugin_fetches() -> PluginFetches:
    """Load the fetch functions. An entry point names a dict of `Fetch` by the type of the need."""
    found: dict[type[Need[Any]], Fetch] = {}
    problems: list[Problem] = []
    taken: set[type[Need[Any]]] = {ClaimCheck}
    for plugin in installed("relay.resolvers", dict):
        fetches, problem = plugin.found or {}, plugin.problem
        if twice := taken & fetches.keys():
            problem = unusable(
                plugin.reference, "resolves a need that relay or another package already resolves"
            )
            found = {need: fetch for need, fetch in found.items() if need not in twice}
        else:
            found |= fetches
        taken |= fetches.keys()
        problems += [] if problem is None else [problem]
    return PluginFetches(found, problems)
