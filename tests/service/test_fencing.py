"""An instance that replaces a failed producer does not fence the one that was started in its place."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiokafka.client import CoordinationType
from aiokafka.errors import IncompatibleBrokerVersion, KafkaConnectionError, NotCoordinatorError

from relay.config.kafka import transactional_settings
from relay.io.kafka.fencing import ProducerIdAndEpoch, ProducerIdentity, is_fenced
from relay.io.kafka.ports import Partition, Undelivered
from relay.io.kafka.requests import TransactionsRequest, TransactionsResponse
from relay.io.kafka.sink import TransactionalSink
from relay.model.errors import InstanceFenced
from relay.model.records import ProducerRecord

NOW = 1_700_000_000_000
OURS = ProducerIdAndEpoch(7, 3)
GIVEN_UP = ProducerIdAndEpoch(7, 4)


class Instance:
    """One process of a shard: sinks that replace each other."""

    def __init__(self, config: Any, target: str) -> None:
        self.config, self.target, self.identity = config, target, ProducerIdentity()
        self.sinks: list[TransactionalSink] = []

    async def start(self) -> None:
        """Replace its sink, if it has one."""
        if self.sinks:
            await self.sinks[-1].abandon()
        settings = transactional_settings(self.config)
        self.sinks.append(TransactionalSink(settings, {self.target: 1_000_000}, identity=self.identity))
        await self.sinks[-1].start()

    async def write(self, value: bytes) -> None:
        await self.sinks[-1].write([ProducerRecord(self.target, 0, NOW, None, value, ())])

    async def commit(self, offset: int) -> None:
        await self.sinks[-1].commit({Partition(self.config.source.topics[0], 0): offset})

    async def state(self) -> tuple[str, ProducerIdAndEpoch]:
        """What the coordinator says of the shard's id."""
        client, name = self.sinks[-1].producer.client, self.config.transactional_id
        node = await client.coordinator_lookup(CoordinationType.TRANSACTION, name)
        ((_, _, state, _, _, producer_id, epoch, _, _),) = (
            await client.send(node, TransactionsRequest(name))
        ).transactions
        return state, ProducerIdAndEpoch(producer_id, epoch)


@pytest.fixture
async def instances(kafka: Any, make_config: Any) -> AsyncIterator[list[Instance]]:
    """Two of one shard, the older one with a transaction that is open."""
    source, target = await kafka.topic(), await kafka.topic()
    config = make_config(source, target, delivery_mode="exactly-once")
    found = [Instance(config, target) for _ in range(2)]
    await found[0].start()
    await found[0].write(b"older")
    yield found
    for instance in found:
        for sink in instance.sinks:
            await sink.abandon()


@pytest.mark.kafka
@pytest.mark.parametrize(
    "newest", ["has done nothing", "is in a transaction", "has committed", "has replaced its producer"]
)
async def test_the_newest_instance_goes_on_whatever_it_does(
    kafka: Any, instances: list[Instance], newest: str
) -> None:
    older, newer = instances
    await newer.start()
    if newest == "has replaced its producer":
        await newer.start()
    if newest != "has done nothing":
        await newer.write(b"first")
    if newest == "has committed":
        await newer.commit(1)
    for _ in range(2):
        with pytest.raises(InstanceFenced, match="another instance with the same shard has started"):
            await older.start()
    await newer.write(b"second")
    await newer.commit(2)
    values = [each.value for each in await kafka.read(newer.target, committed=True)]
    assert values == ([b"second"] if newest == "has done nothing" else [b"first", b"second"])


@pytest.mark.kafka
@pytest.mark.parametrize("newest", ["has done nothing", "is in a transaction"])
async def test_the_newest_instance_goes_on_after_one_that_was_idle(
    instances: list[Instance], newest: str
) -> None:
    older, newer = instances
    await older.commit(1)
    await newer.start()
    if newest == "is in a transaction":
        await newer.write(b"newer")
    with pytest.raises(InstanceFenced):
        await older.start()
    await newer.commit(2)


@pytest.mark.kafka
async def test_an_instance_that_is_alone_replaces_its_producer_as_often_as_it_likes(
    kafka: Any, instances: list[Instance]
) -> None:
    older, _ = instances
    for number in range(4):
        await older.start()
        await older.write(b"%d" % number)
        if number % 2:
            await older.commit(number)
    await older.start()
    assert [each.value for each in await kafka.read(older.target, committed=True)] == [b"1", b"3"]


@pytest.mark.kafka
async def test_a_transaction_that_the_brokers_gave_up_is_no_takeover(
    kafka: Any, instances: list[Instance], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They raise the epoch as for another instance; brokers look for such transactions every ten seconds."""
    older, _ = instances
    monkeypatch.setattr(type(older.config.delivery), "transaction_timeout_seconds", property(lambda _: 0.5))
    await older.start()
    ours = older.identity.producer
    await older.write(b"lasts")

    async def is_given_up() -> bool:
        return (await older.state())[0] == "CompleteAbort"

    await kafka.until(is_given_up)
    assert ours is not None
    assert (await older.state())[1] == ours._replace(epoch=ours.epoch + 1), (
        "what the rule of `is_fenced_by` rests on"
    )
    await older.start()
    await older.write(b"again")
    await older.commit(1)
    assert [each.value for each in await kafka.read(older.target, committed=True)] == [b"again"]


@pytest.mark.parametrize(
    ("newest", "state", "seconds", "is_lost"),
    [
        (OURS, "Ongoing", 60, False),
        (OURS, "CompleteAbort", 0, False),
        (GIVEN_UP, "CompleteAbort", 0, False),
        (GIVEN_UP, "PrepareAbort", 0, False),
        (GIVEN_UP, "Ongoing", 0, False),
        (ProducerIdAndEpoch(7, 5), "CompleteAbort", 0, False),
        (ProducerIdAndEpoch(7, 2), "CompleteCommit", None, False),
        (GIVEN_UP, "CompleteAbort", 60, True),
        (GIVEN_UP, "CompleteAbort", None, True),
        (GIVEN_UP, "Empty", 0, True),
        (GIVEN_UP, "CompleteCommit", 0, True),
        (GIVEN_UP, "Ongoing", 60, True),
        (ProducerIdAndEpoch(7, 5), "Ongoing", 0, True),
        (ProducerIdAndEpoch(7, 6), "CompleteAbort", 0, True),
        (ProducerIdAndEpoch(8, 0), "Empty", 0, True),
    ],
)
def test_who_has_the_id(newest: ProducerIdAndEpoch, state: str, seconds: float | None, is_lost: bool) -> None:
    """`seconds`: how long our transaction may still last, if there is one."""
    identity = ProducerIdentity(OURS)
    if seconds is not None:
        identity.begin(seconds)
    assert identity.is_fenced_by(newest, state) is is_lost


def test_what_is_not_known_is_not_lost() -> None:
    """A producer id that was asked for without an answer may be the newest."""
    identity = ProducerIdentity(OURS)
    identity.renew(None)
    assert not identity.is_fenced_by(ProducerIdAndEpoch(7, 4), "Empty")


class Coordinator:
    """A client whose brokers know the id not, or do not tell."""

    def __init__(self, *codes: int, error: Exception | None = None) -> None:
        self.codes, self.error = codes, error

    async def send(self, node: int, request: Any) -> Any:
        if self.error is not None:
            raise self.error
        answer = TransactionsResponse()
        answer.transactions = [(code, "id", "Empty", 0, 0, 7, 4, [], {}) for code in self.codes]
        return answer


NOT_FOUND, NOT_ALLOWED = 105, 53


@pytest.mark.parametrize(
    ("client", "is_taken"),
    [
        (Coordinator(0), True),
        (Coordinator(), False),
        (Coordinator(NOT_FOUND), False),
        (Coordinator(NOT_ALLOWED), False),
        (Coordinator(error=IncompatibleBrokerVersion()), False),
        (Coordinator(error=NotImplementedError()), False),
    ],
    ids=["another one", "no answer", "forgotten", "not allowed", "older brokers", "much older brokers"],
)
async def test_what_brokers_do_not_tell_stops_nobody(client: Coordinator, is_taken: bool) -> None:
    assert await is_fenced(client, 1, "id", ProducerIdentity(OURS)) is is_taken


NOT_COORDINATOR = 16


async def test_who_is_no_coordinator_any_more_does_not_tell() -> None:
    """The start fails, and is tried again with the new one."""
    with pytest.raises(NotCoordinatorError):
        await is_fenced(Coordinator(NOT_COORDINATOR), 1, "id", ProducerIdentity(OURS))


class Unreached(TransactionalSink):
    """A sink whose brokers go before it has asked for a producer."""

    async def start(self) -> None:
        self.producer.client.coordinator_lookup = self._refuse
        await super().start()

    async def _refuse(self, *_: object) -> int:
        raise KafkaConnectionError("gone")


@pytest.mark.kafka
async def test_a_start_that_asked_for_nothing_forgets_nothing(instances: list[Instance]) -> None:
    older, newer = instances
    unreached = Unreached(
        transactional_settings(older.config), {older.target: 1_000_000}, identity=older.identity
    )
    with pytest.raises(Undelivered):
        await unreached.start()
    await unreached.abandon()
    await newer.start()
    with pytest.raises(InstanceFenced):
        await older.start()
