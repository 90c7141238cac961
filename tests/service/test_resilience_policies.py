"""Error policies on a real broker: dead letters beside what is translated, in both modes."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import pytest
from service.resilience_support import MODES, NOW, Echo, committed, committed_at, numbered

from relay.core.dead_letters import CODE_HEADER
from relay.io.kafka.ports import Partition, Undelivered
from relay.io.kafka.sink import TransactionalSink
from relay.model.errors import ClaimCheckMissing, Malformed, NotRepresentable
from relay.model.records import SOURCE_HEADER, ConsumerRecord, ProducerRecord

pytestmark = pytest.mark.kafka

#: A value for each policy, and the code of its error.
CODES = {
    b"garbage": "decode.malformed",
    b"strict": "encode.not-representable",
    b"large": "service.record-too-large",
    b"gone": "service.claim-check-missing",
}
KEYS = ("decode", "encode", "too_large", "claim_check")
LIMIT = 3_000


class Picky(Echo):
    """Refuses a value for each policy; `large` grows above the target's limit."""

    def translate(self, record: ConsumerRecord, /) -> list[ProducerRecord]:
        if record.value == b"garbage":
            raise Malformed("picky", "value", "is garbage")
        if record.value == b"strict":
            raise NotRepresentable("picky", "value", "cannot be held")
        if record.value == b"gone":
            raise ClaimCheckMissing("object o is missing")
        (out,) = super().translate(record)
        value = b"x" * LIMIT if record.value == b"large" else out.value
        return [ProducerRecord(out.topic, out.partition, out.timestamp_ms, out.key, value, out.headers)]


def given() -> list[ConsumerRecord]:
    """Good records, and between them each kind that is refused, in both partitions."""
    found = numbered(100)
    for index, value in enumerate(CODES):
        for partition in (0, 1):
            bad = ConsumerRecord("", partition, 0, NOW + 5, b"key", value, (("h", b"1"), ("h", None)))
            found.insert(20 * index + 5, bad)
    return found


def policies(policy: str, **more: Any) -> Mapping[str, Any]:
    return {f"errors_{key}": policy for key in KEYS} | {"target_compression": "none"} | more


def marks(records: list[ConsumerRecord]) -> list[bytes | None]:
    return [dict(record.headers)[SOURCE_HEADER] for record in records]


@pytest.mark.parametrize("mode", MODES)
async def test_every_refused_record_becomes_a_dead_letter(
    kafka: Any, make_config: Any, run_relay: Any, mode: str
) -> None:
    source, target, letters = (
        await kafka.topic(2),
        await kafka.topic(2, max_message_bytes=str(LIMIT)),
        f"dead-{uuid.uuid4().hex}",
    )
    config = make_config(
        source, target, **policies("dead-letter", errors_dead_letter_topic=letters), **MODES[mode]
    )
    await kafka.produce(source, given())
    relay = run_relay(config, Picky(target))
    await committed(kafka, relay, 108)
    assert await relay.stop() == 0
    originals = await kafka.read(source)
    bad = [record for record in originals if record.value in CODES]
    found = await kafka.read(letters, committed=True)
    assert [(one.partition, one.timestamp_ms, one.key, one.value, one.headers[:2]) for one in found] == [
        (one.partition, one.timestamp_ms, one.key, one.value, one.headers) for one in bad
    ]
    assert marks(found) == [f"{source}/{one.partition}/{one.offset}".encode() for one in bad]
    assert [(dict(one.headers)[CODE_HEADER] or b"").decode() for one in found] == [
        CODES[one.value or b""] for one in bad
    ]
    good = [
        f"{source}/{one.partition}/{one.offset}/0".encode() for one in originals if one.value not in CODES
    ]
    assert marks(await kafka.read(target, committed=True)) == good
    assert relay.status.dead_letters == dict.fromkeys(CODES.values(), 2)


@pytest.mark.parametrize("mode", MODES)
async def test_every_refused_record_is_skipped(
    kafka: Any, make_config: Any, run_relay: Any, mode: str
) -> None:
    source, target = await kafka.topic(2), await kafka.topic(2, max_message_bytes=str(LIMIT))
    await kafka.produce(source, given())
    relay = run_relay(make_config(source, target, **policies("skip"), **MODES[mode]), Picky(target))
    await committed(kafka, relay, 108)
    assert await relay.stop() == 0
    good = [
        f"{source}/{one.partition}/{one.offset}/0".encode()
        for one in await kafka.read(source)
        if one.value not in CODES
    ]
    assert marks(await kafka.read(target, committed=True)) == good
    assert relay.status.skips == dict.fromkeys(CODES.values(), 2)


async def test_a_letter_and_its_offset_are_one_transaction(
    kafka: Any, make_config: Any, run_relay: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that fails takes the letters back with everything else, and they are written again."""
    failures = [1]

    class Failing(TransactionalSink):
        async def commit(self, offsets: Mapping[Partition, int]) -> None:
            if failures and sum(offsets.values()) > 50:
                failures.pop()
                raise Undelivered("no answer", retriable=True)
            await super().commit(offsets)

    monkeypatch.setattr("relay.service.app.TransactionalSink", Failing)
    source, target, letters = (
        await kafka.topic(2),
        await kafka.topic(2, max_message_bytes=str(LIMIT)),
        f"dead-{uuid.uuid4().hex}",
    )
    config = make_config(
        source, target, **policies("dead-letter", errors_dead_letter_topic=letters), **MODES["exactly-once"]
    )
    await kafka.produce(source, given())
    relay = run_relay(config, Picky(target))
    await committed(kafka, relay, 108)
    assert await relay.stop() == 0
    assert len(await kafka.read(letters)) == 16
    assert len(await kafka.read(letters, committed=True)) == 8
    assert len(await kafka.read(target, committed=True)) == 100


@pytest.mark.parametrize("mode", MODES)
async def test_a_dead_letter_that_does_not_fit_stops_relay(
    kafka: Any, make_config: Any, run_relay: Any, mode: str
) -> None:
    """It would be lost otherwise. Everything before it is there, and nothing of its partition behind it."""
    source, target, letters = (
        await kafka.topic(2),
        await kafka.topic(2),
        await kafka.topic(1, max_message_bytes="500"),
    )
    bad = ConsumerRecord("", 0, 0, NOW, b"k" * 600, b"garbage")
    await kafka.produce(source, [*numbered(20), bad, *numbered(20, start=20)])
    config = make_config(
        source, target, **policies("dead-letter", errors_dead_letter_topic=letters), **MODES[mode]
    )
    for _ in range(2):
        relay = run_relay(config, Picky(target))
        assert await relay.ended() == 2
        (refused,) = relay.log.named("record.refused")
        assert (refused["partition"], refused["offset"], refused["code"]) == (
            f"{source}/0",
            10,
            "decode.malformed",
        )
        await kafka.until(lambda relay=relay: committed_at(kafka, relay, 0, 10))
    assert await kafka.length(letters) == 0
    found = [one.value for one in await kafka.read(target, committed=True) if one.partition == 0]
    assert found == [b"%d" % i for i in range(0, 20, 2)]
