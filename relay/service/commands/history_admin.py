"""Access the schema history's topic for the commands: read and write records."""

from __future__ import annotations

from collections.abc import Sequence

from relay.config import Config
from relay.config.kafka import producer_settings, target_cluster
from relay.io.kafka.admin import TopicAdmin
from relay.io.kafka.clients import Brokers
from relay.io.kafka.ports import Undelivered, start_sink
from relay.io.kafka.reading import Progress, read_topic
from relay.io.kafka.sink import KafkaSink
from relay.io.kafka.sizes import TopicLimits
from relay.model.errors import DeliveryFailed, RecordTooLarge, TopicUnusable
from relay.model.records import ConsumerRecord, ProducerRecord
from relay.service.commands.replay import target_topics
from relay.service.loop.history import kept_records
from relay.topics.plan import RequiredTopic, Role, not_created, problems, required_topics

#: Records between two waits for acknowledgements.
CHUNK = 500


async def read_kept(config: Config, progress: Progress | None = None) -> list[ConsumerRecord]:
    """Return the history's own live records, in order.

    Raises TopicUnusable if the topic is missing, BrokerUnavailable.
    """
    found: list[ConsumerRecord] = []
    brokers = Brokers.from_settings(target_cluster(config))
    await read_topic(brokers, config.history_topic, found.append, progress)
    return kept_records(found)


async def ensure_topic(config: Config) -> bool:
    """Create the history's topic if it is missing, and return whether it was.

    Raises TopicUnusable, BrokerUnavailable.
    """
    cluster = TopicAdmin(Brokers.from_settings(target_cluster(config)))
    wanted = next(each for each in required_topics(config, {}) if each.role is Role.HISTORY)
    is_missing = not await _is_there(wanted, cluster, config)
    if is_missing:
        refused = await cluster.create([wanted.new_topic])
        if refused:
            raise TopicUnusable(not_created(wanted, refused[wanted.name], cluster.servers))
        # Only the broker knows the outcome of the request, or whether another client has created the topic
        # meanwhile.
        await cluster.look_until_found([wanted.name])
        await _is_there(wanted, cluster, config)
    return is_missing


async def _is_there(wanted: RequiredTopic, cluster: TopicAdmin, config: Config) -> bool:
    seen = await cluster.look([wanted.name])
    if wanted.name in seen.unusable:
        raise TopicUnusable(
            f"topic {wanted.name} at {cluster.servers} cannot be used: {seen.unusable[wanted.name]}"
        )
    if wanted.name not in seen.found:
        return False
    wrong = list(problems(wanted, seen.found[wanted.name], config))
    if wrong:
        raise TopicUnusable("; ".join(wrong))
    return True


async def write(config: Config, records: Sequence[ProducerRecord], progress: Progress) -> None:
    """Write records to the history, in order, and wait for the acknowledgements.

    Nothing is written if one of them is too large. Raises RecordTooLarge, TopicUnusable, BrokerUnavailable,
    DeliveryFailed.
    """
    # Never the transactional sink: it would fence the running relay.
    limits = (await target_topics(config, [config.history_topic])).limits
    sink = KafkaSink(producer_settings(config), limits)
    try:
        if oversize := TopicLimits(limits).too_large(records):
            raise RecordTooLarge(
                f"a record becomes {oversize.size} bytes, but topic {oversize.topic} accepts "
                f"{oversize.limit}: "
                "raise its max.message.bytes"
            )
        await start_sink(sink)
        for start in range(0, len(records), CHUNK):
            chunk = records[start : start + CHUNK]
            await sink.write(chunk)
            progress(start + len(chunk), len(records))
    except Undelivered as error:
        raise DeliveryFailed(
            f"writing failed: {error}; records written so far are kept; run the command again"
        ) from error
    finally:
        await sink.stop()
