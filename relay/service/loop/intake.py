"""From polled records to a round of batches: translate, apply the error policies, keep the schema history.
All that is done for every single record is in `Intake.take`.

What a record needs from a claim-check storage is fetched, and what it leaves there is stored, before the next
one is looked at.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet

from relay.config.choices import Policy
from relay.config.tables import Errors
from relay.dead_letters import dead_letter, policy_for, tables_of
from relay.errors import CodecError, RelayError
from relay.kafka.ports import Partition, Sink
from relay.logs import Log
from relay.needs import Need
from relay.records import ConsumerRecord, ProducerRecord
from relay.service.loop.history import history_record
from relay.service.loop.resolver import Objects, Translates
from relay.service.loop.rounds import Owned, RecordRefused, Round, record_too_large
from relay.service.observe.board import Board

#: Longest stretch of translating before heartbeats and acknowledgements get their turn.
YIELD_SECONDS = 0.010
#: Records between two looks at the clock.
LOOK_EVERY = 16


class Intake:
    """Translates records. `history_topic` "" keeps no history; `dead_letter_partitions`: how many the
    dead-letter topic has.

    `route`: its name in dead letters. `ahead`: places of records that taught the catalogue before their turn,
    and that the history lacks.
    """

    def __init__(  # noqa: PLR0913 - what a record may meet on its way
        self,
        translator: Translates,
        objects: Objects,
        log: Log,
        board: Board,
        *,
        errors: Errors | None = None,
        history_topic: str = "",
        dead_letter_partitions: int = 1,
        route: str = "",
        ahead: AbstractSet[tuple[str, int, int]] = frozenset(),
    ) -> None:
        self.translator, self._objects, self._log, self._board = translator, objects, log, board
        self._errors = errors or Errors()
        self._history_topic, self._dead_letter_partitions = history_topic, dead_letter_partitions
        self._route, self._ahead = route, ahead

    async def take(
        self,
        records: Sequence[ConsumerRecord],
        owned: Owned,
        current: Round,
        sink: Sink,
        is_over: Callable[[], bool],
    ) -> int:
        """Translate records of one partition into the round, until their end, a refused record, `is_over`, or
        the round is late.

        Gives how many of them are done. `owned.next` and the round's offsets move behind those.
        """
        translator, batches = self.translator, current.batches
        translate, catalog = translator.translate, translator.catalog
        ahead = self._ahead if records[0].partition == 0 else ()
        waits = self._objects.writes
        is_plain, done = not (ahead or waits), 0
        # Where the last record went, and the batch that takes more for there; None: look it up.
        topic, partition, batch = None, None, None
        for record in records:
            try:
                produced = translate(record)
            except Exception as error:
                waits = True
                answered = await self._answer(error, record, current, sink, is_over)
                if answered is None:
                    break
                produced = answered
            # Almost every record becomes one that goes behind others of its partition; a batch takes none
            # that is too large.
            is_added = False
            if is_plain and len(produced) == 1 and translator.catalog is catalog:
                out = produced[0]
                if out.partition != partition or out.topic != topic:
                    topic, partition = out.topic, out.partition
                    batch = batches.get((topic, partition))
                is_added = batch is not None and batch.append(out)
            if not is_added:
                learnt = (
                    translator.catalog is not catalog
                    or (record.topic, record.partition, record.offset) in ahead
                )
                checked = self._checked(produced, record, current, sink, learnt=learnt)
                if checked is None or not await self._stored(checked, record, current, is_over):
                    break
                catalog = translator.catalog
                await self._add(checked, current, sink)
                # It may have sent the batch, and begun another.
                topic, partition, batch = None, None, None
            done += 1
            is_time = (waits or not done % LOOK_EVERY) and time.monotonic() >= current.pause_at
            if is_time and await self._overtaken(current, is_over):
                break
        if done:
            owned.next = current.reached[Partition(records[0].topic, records[0].partition)] = (
                records[done - 1].offset + 1
            )
        return done

    async def send_rest(self, current: Round, sink: Sink) -> None:
        """Hand over the batches that are not full."""
        for key in list(current.batches):
            await self._send(key, current, sink)

    async def _answer(
        self,
        error: Exception,
        record: ConsumerRecord,
        current: Round,
        sink: Sink,
        is_over: Callable[[], bool],
    ) -> list[ProducerRecord] | None:
        """What is written for a record that was not translated at once; None ends the round before it."""
        if isinstance(error, Need):
            try:
                return await self._objects.answer(error, self.translator, record, is_over)
            except Exception as another:
                error = another
        return self._instead(error, record, current, sink)

    def _checked(
        self,
        produced: list[ProducerRecord],
        record: ConsumerRecord,
        current: Round,
        sink: Sink,
        *,
        learnt: bool,
    ) -> list[ProducerRecord] | None:
        """What is written of translated records, with the history of what was learnt; None ends the round
        before this one.
        """
        if oversize := sink.too_large(produced):
            instead = self._instead(record_too_large(record, oversize), record, current, sink)
            if instead is None:
                return None
            produced = instead
        if not (learnt and self._history_topic):
            return produced
        entry = history_record(record, self._history_topic)
        if oversize := sink.too_large([entry]):
            current.refused = RecordRefused(record, record_too_large(record, oversize))
            return None
        return [entry, *produced]

    def _instead(
        self, error: Exception, record: ConsumerRecord, current: Round, sink: Sink
    ) -> list[ProducerRecord] | None:
        """Do with a record what its error's policy says: a dead letter, nothing, or (None) end the round
        before it.
        """
        policy = policy_for(error, self._errors)
        if policy is Policy.STOP or not isinstance(error, RelayError):
            current.refused = RecordRefused(record, error)
            return None
        instead = []
        if policy is Policy.DEAD_LETTER:
            tables = tables_of(self.translator, record)
            topic, partitions = self._errors.dead_letter_topic, self._dead_letter_partitions
            instead = [dead_letter(record, error, topic, tables, partitions, self._route)]
            if oversize := sink.too_large(instead):
                error.add_note(str(record_too_large(record, oversize)))
                current.refused = RecordRefused(record, error)
                return None
        # What it says about tables holds for the rows behind it.
        with contextlib.suppress(CodecError, Need):
            self.translator.learn(record)
        self._note(policy, error, record)
        return instead

    def _note(self, policy: Policy, error: RelayError, record: ConsumerRecord) -> None:
        place = f"{record.topic}/{record.partition}/{record.offset}"
        self._board.failed("translate", error.code, place, str(error))
        if policy is Policy.SKIP:
            self._board.skipped(error.code)
            self._log.seldom("record.skipped", error.code, place=place, code=error.code, message=str(error))
        else:
            self._board.dead_letter(error.code)
            self._log.seldom(
                "record.dead-lettered", error.code, place=place, code=error.code, message=str(error)
            )

    async def _stored(
        self,
        produced: list[ProducerRecord],
        record: ConsumerRecord,
        current: Round,
        is_over: Callable[[], bool],
    ) -> bool:
        """Store the objects that records refer to. False ends the round before them: a refusal, a stop or a
        rebalance.
        """
        if not self._objects.writes:
            return True
        try:
            return await self._objects.store(produced, is_over)
        except Exception as error:
            # Whatever it is: what came before is delivered first.
            current.refused = RecordRefused(record, error)
            return False

    async def _overtaken(self, current: Round, is_over: Callable[[], bool]) -> bool:
        """Let others have their turn; True if a rebalance or a stop came, or the time of the round is up."""
        await asyncio.sleep(0)
        self._board.beat()
        current.pause_at = time.monotonic() + YIELD_SECONDS
        return current.is_late or is_over()

    async def _add(self, produced: list[ProducerRecord], current: Round, sink: Sink) -> None:
        """Put records into batches; one that is full is handed over, and a new one begun."""
        for out in produced:
            key = out.topic, out.partition
            batch = current.batches.get(key)
            if batch is None or not batch.append(out):
                if batch is not None:
                    await self._send(key, current, sink)
                current.batches[key] = sink.batch()
                current.batches[key].append(out)

    async def _send(self, key: tuple[str, int], current: Round, sink: Sink) -> None:
        batch = current.batches.pop(key)
        current.written[key[0]] += len(batch)
        current.sizes[key[0]] += batch.size
        # It may wait for the target.
        self._board.beat()
        current.pending.append(await sink.send(Partition(*key), batch))
