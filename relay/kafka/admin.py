"""Topics as a cluster has them: looking at them and creating them, over aiokafka 0.14's admin client.

That client raises nothing for what a broker refuses: each topic's error is a code in the answer, and it is
read here. The client's own `describe_topics` has brokers with `auto.create.topics.enable` create what is only
asked for; so the request is made here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    BrokerResponseError,
    ClusterAuthorizationFailedError,
    InvalidConfigurationError,
    InvalidReplicationFactorError,
    KafkaError,
    NoError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)
from aiokafka.protocol.metadata import MetadataRequest

from relay.kafka.aiokafka_compat import REQUEST_SECONDS, started, unreachable
from relay.kafka.clients import Settings

POLL_SECONDS = 0.1

#: The settings that matter to relay.
SETTINGS = (
    "cleanup.policy",
    "max.message.bytes",
    "message.timestamp.before.max.ms",
    "message.timestamp.type",
    "retention.ms",
)


class Found(msgspec.Struct, frozen=True):
    """A topic that exists: how many partitions, and its settings by Kafka's names; None where they may not be
    read.

    `is_led`: whether every partition can be written at the moment.
    """

    partitions: int
    settings: Mapping[str, str] | None
    is_led: bool = True


class Seen(msgspec.Struct, frozen=True):
    """What a cluster says about some topics. A topic that does not exist is in neither; `unusable` tells why,
    by topic.

    `brokers`: the addresses that the brokers give of themselves; two clusters have none in common. Their ids
    tell less: people copy them from examples.
    """

    found: Mapping[str, Found]
    unusable: Mapping[str, str]
    brokers: frozenset[tuple[str, int]] = frozenset()


class NewSpec(msgspec.Struct, frozen=True):
    """A topic to be created; `replicas` -1 is the broker's default."""

    name: str
    partitions: int
    replicas: int
    settings: Mapping[str, str]


class Refusal(msgspec.Struct, frozen=True):
    """Why a broker does not create a topic: its error, and its words."""

    error: type[BrokerResponseError]
    words: str

    @property
    def is_forbidden(self) -> bool:
        """Whether rights are missing."""
        return self.error in {TopicAuthorizationFailedError, ClusterAuthorizationFailedError}

    @property
    def is_about_replicas(self) -> bool:
        """Whether the number of replicas cannot be had."""
        return self.error is InvalidReplicationFactorError

    @property
    def is_about_settings(self) -> bool:
        """Whether a setting is unknown or wrong."""
        return self.error is InvalidConfigurationError


class Cluster:
    """The topics of one cluster. Every method raises BrokerUnavailable if no broker answers in time.

    `settings`: TLS and SASL, as `relay.kafka.clients` makes them.
    """

    def __init__(self, servers: str, settings: Settings) -> None:
        self.servers, self._settings = servers, settings

    async def look(self, names: Iterable[str]) -> Seen:
        """Ask for partitions and settings."""
        async with self._admin() as admin:
            return await _look(admin, sorted(set(names)))

    async def create(self, topics: Sequence[NewSpec]) -> dict[str, Refusal]:
        """Create topics and wait until they can be written; gives those that the broker refuses to create.

        A topic that exists already, as when two instances start together, is no refusal.
        """
        async with self._admin() as admin:
            refused = await _create(admin, topics)
            waiting = [topic.name for topic in topics if topic.name not in refused]
            while waiting:
                seen = await _look(admin, waiting)
                ready = {name for name, found in seen.found.items() if found.is_led} | seen.unusable.keys()
                waiting = [name for name in waiting if name not in ready]
                await asyncio.sleep(POLL_SECONDS if waiting else 0)
        return refused

    @contextlib.asynccontextmanager
    async def _admin(self) -> AsyncIterator[Any]:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.servers, client_id="relay", **self._settings)
        try:
            await started(REQUEST_SECONDS, admin)
            async with asyncio.timeout(REQUEST_SECONDS):
                yield admin
        except (KafkaError, TimeoutError, OSError) as error:
            raise unreachable(self.servers, error) from error
        finally:
            await admin.close()


async def _look(admin: Any, names: Collection[str]) -> Seen:  # aiokafka is not typed
    if not names:
        return Seen({}, {})
    request = MetadataRequest(list(names), allow_auto_topic_creation=False)
    answer = (await admin._send_request(request)).to_object()  # see the head of this module
    errors = {topic["topic"]: for_code(topic["error_code"]) for topic in answer["topics"]}
    partitions = {
        topic["topic"]: topic["partitions"] for topic in answer["topics"] if errors[topic["topic"]] is NoError
    }
    unusable = {
        name: _words(error)
        for name, error in errors.items()
        if error not in {NoError, UnknownTopicOrPartitionError}
    }
    found = {}
    # A topic that has just been created may be known to one broker and not yet to the other: then it is not
    # there yet.
    for name, settings in (await _settings(admin, partitions)).items():
        is_led = all(partition["leader"] >= 0 for partition in partitions[name])
        found[name] = Found(len(partitions[name]), settings, is_led)
    return Seen(found, unusable, frozenset((broker["host"], broker["port"]) for broker in answer["brokers"]))


def _words(error: type[BrokerResponseError]) -> str:
    # Who may not see a topic is not told either whether it exists.
    return (
        "it may not be seen, grant DESCRIBE on it"
        if error is TopicAuthorizationFailedError
        else error.__name__
    )


async def _settings(admin: Any, names: Collection[str]) -> dict[str, Mapping[str, str] | None]:
    """Give the settings of topics, without those that the broker does not know."""
    if not names:
        return {}
    found: dict[str, Mapping[str, str] | None] = {}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name, dict.fromkeys(SETTINGS)) for name in names]
    for response in await admin.describe_configs(resources):
        for code, _, _, name, entries, *_ in response.resources:
            error = for_code(code)
            if error is NoError:
                found[name] = {entry[0]: entry[1] for entry in entries if entry[1] is not None}
            elif error is not UnknownTopicOrPartitionError:
                found[name] = None
    return found


async def _create(admin: Any, topics: Sequence[NewSpec]) -> dict[str, Refusal]:
    """Ask until the controller has said yes or no to every topic; the caller's deadline ends it."""
    refused: dict[str, Refusal] = {}
    open_topics = {topic.name: _new_topic(topic) for topic in topics}
    client = admin._client
    while True:
        # Without a known controller, as during an election, the client fails with an AttributeError.
        if client.cluster.controller is not None:
            for name, code, *words in (await admin.create_topics(list(open_topics.values()))).topic_errors:
                error = for_code(code)
                # After a time-out the topic may come or not; it is asked for again, and then "exists" is the
                # answer.
                if error.retriable:
                    continue
                if error not in {NoError, TopicAlreadyExistsError}:
                    refused[name] = Refusal(error, (words[0] if words else None) or error.__name__)
                del open_topics[name]
        if not open_topics:
            return refused
        await asyncio.sleep(POLL_SECONDS)
        # The controller may have moved; the client looks for it anew after an exception only.
        await client.force_metadata_update()


def _new_topic(topic: NewSpec) -> NewTopic:
    # The client takes -1 replicas only with an assignment, and an empty one is none to the broker.
    assignments: dict[int, list[int]] | None = {} if topic.replicas == -1 else None
    return NewTopic(topic.name, topic.partitions, topic.replicas, assignments, dict(topic.settings))
