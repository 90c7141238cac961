"""Fetch and store the external data of records in threads, while heartbeats continue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from relay.catalog import Catalog
from relay.core.counts import UnwrittenStatement
from relay.core.pipeline import State
from relay.io.logs import Log
from relay.io.resolver import Learns, Resolver
from relay.model.errors import ClaimCheckMissing, RegistryUnavailable, SchemaMissing, StorageUnavailable
from relay.model.events import Event, TableId
from relay.model.lookups import ClaimCheck, Need
from relay.model.records import ConsumerRecord, ProducerRecord
from relay.service.loop.settings import DEFAULT_SETTINGS
from relay.service.observe.figures import HasCounts

#: The longest wait that a registry may ask for. The loop sends no heartbeat until all attempts are made.
_LONGEST_RETRY_SECONDS = 5.0

Given = TypeVar("Given")
Found = TypeVar("Found")
IsOver = Callable[[], bool]


class Translates(HasCounts, Protocol):
    """The translator's interface to the service."""

    def translate(self, record: ConsumerRecord, /) -> list[ProducerRecord]:
        """Return the target's records for one source record. All or nothing, and repeatable. Raises Need."""
        ...

    def provide(self, need: Need[Any], answer: Any, /) -> None:  # noqa: ANN401 - of the need's type
        """Provide the answer to a need."""
        ...

    def learn(self, record: ConsumerRecord, /) -> tuple[TableId, ...]:
        """Apply a record's DDL and schemas to the catalog, and return the tables concerned."""
        ...

    @property
    def name_conflicts(self) -> list[tuple[TableId, list[TableId]]]:
        """Return the names in the target that several known tables would have, each with these tables."""
        ...

    def storable(self, record: ConsumerRecord, /) -> ConsumerRecord | None:
        """Return the record to store for one that has just changed the catalog; None if another one did."""
        ...

    def inspect(self, record: ConsumerRecord, /) -> list[Event]:
        """Decode one record."""
        ...

    def row_time_ms(self, record: ConsumerRecord, /) -> int | None:
        """Return when the newest row of a record was committed, by the database's clock; None if unknown."""
        ...

    @property
    def watermarks_ms(self) -> Mapping[tuple[str, int], int]:
        """Return the time of the last watermark of each source partition."""
        ...

    def count_tables(self, most: int, /) -> None:
        """Count rows and statements by table from now on, for at most `most` tables."""
        ...

    def inferred_after(self, number: int, /) -> list[TableId]:
        """Return the tables without known DDL whose rows were translated, except the first `number`."""
        ...

    def why_unknown(self, table: TableId, /) -> str:
        """Return, as text, why the definition of such a table was unknown."""
        ...

    def unwritten_after(self, number: int, /) -> list[UnwrittenStatement]:
        """Return the statements that removed rows and were not written, except the first `number`."""
        ...

    @property
    def catalog(self) -> Catalog:
        """Return the table definitions: another object after a record that changed them."""
        ...

    @property
    def state(self) -> State:
        """Return the whole state that translating a record may change."""
        ...

    def restore(self, state: State, /) -> None:
        """Restore a `state` returned earlier."""
        ...

    @property
    def needs_all_partitions(self) -> bool:
        """Return whether its watermarks are right only if it sees every partition of the source."""
        ...

    @property
    def copies_ddl(self) -> bool:
        """Return whether it writes a statement to every partition that the source has."""
        ...

    def partitions_of(self, topic: str, /) -> int | None:
        """Return over how many partitions rows of a table's topic are distributed; None if they are not."""
        ...

    def forget_rows(self) -> None:
        """Forget which rows were written, since others may have read the partitions meanwhile."""
        ...

    def expect_partitions(self, partitions: Iterable[tuple[str, int]], /) -> None:
        """Set the partitions of the source."""
        ...


async def learn(resolver: Resolver, translator: Learns, record: ConsumerRecord) -> tuple[TableId, ...]:
    """Do the same as `Resolver.learn`, with blocking calls in a thread. Raises the same errors."""
    while True:
        try:
            return translator.learn(record)
        except ClaimCheck:
            raise
        except Need as need:
            translator.provide(need, await asyncio.to_thread(resolver.fetch, need))


class AsyncResolver:
    """A `Resolver` for the loop: blocking calls run in threads and are repeated for a while.

    `writes`: whether produced records can have blobs; only then are they checked for any. `retry_seconds`:
    the waits between attempts.
    """

    def __init__(
        self,
        log: Log,
        resolver: Resolver | None = None,
        *,
        writes: bool = True,
        retry_seconds: Sequence[float] = DEFAULT_SETTINGS.retry_seconds,
    ) -> None:
        self._log, self._resolver, self.writes = log, resolver or Resolver(), writes
        self._retry_seconds = retry_seconds

    async def resolve(
        self, need: Need[Any], translator: Translates, record: ConsumerRecord, is_over: IsOver
    ) -> list[ProducerRecord] | None:
        """Fetch the data that the record needs, and translate it again; None once `is_over` is true.

        Raises ClaimCheckMissing, SchemaMissing, StorageUnavailable, NeedUnanswered, and the errors of the
        translation.
        """
        while True:
            answer = await self._retry(self._resolver.fetch, need, is_over)
            if answer is None:
                return None
            translator.provide(need, answer)
            try:
                return translator.translate(record)
            except Need as another:
                need = another

    async def store(self, produced: Sequence[ProducerRecord], is_over: IsOver) -> bool:
        """Store all blobs of these records; False once `is_over` is true. Raises StorageUnavailable."""
        for blob in [blob for record in produced for blob in record.blobs]:
            await self._retry(self._resolver.store, blob, is_over)
            if is_over():
                return False
        return True

    async def _retry(self, work: Callable[[Given], Found], given: Given, is_over: IsOver) -> Found | None:
        for wait in (*self._retry_seconds, None):
            try:
                found = await asyncio.to_thread(work, given)
            except (ClaimCheckMissing, SchemaMissing, StorageUnavailable) as error:
                if wait is None:
                    raise
                self._log.warning("storage.failed", code=error.code, reason=str(error))
                asked_for = error.retry_after_seconds if isinstance(error, RegistryUnavailable) else 0.0
                await asyncio.sleep(max(wait, min(asked_for, _LONGEST_RETRY_SECONDS)))
            else:
                return None if is_over() else found
            if is_over():
                break
        return None
