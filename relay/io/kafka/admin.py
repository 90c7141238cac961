"""Inspect and create topics with the admin client of aiokafka 0.14.

That client raises nothing when a broker refuses: the error of each topic is a code in the answer, which is
read here. With `auto.create.topics.enable`, its own `describe_topics` would create the topics that it asks
about; so the request is made here.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as TopicToCreate
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    BrokerResponseError,
    ClusterAuthorizationFailedError,
    IncompatibleBrokerVersion,
    InvalidConfigurationError,
    InvalidReplicationFactorError,
    KafkaError,
    NoError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)

from relay.io.kafka.aiokafka_compat import REQUEST_SECONDS, started, unreachable
from relay.io.kafka.broker_errors import text_of
from relay.io.kafka.clients import Brokers
from relay.io.kafka.requests import UNKNOWN_OPERATIONS, Operation, TopicsRequest, allows

POLL_SECONDS = 0.1

#: The settings that relay reads.
SETTINGS = (
    "cleanup.policy",
    "max.message.bytes",
    "message.timestamp.before.max.ms",
    "message.timestamp.type",
    "retention.ms",
)


class TopicInfo(msgspec.Struct, frozen=True):
    """An existing topic.

    `partitions`: their number. `settings`: by Kafka's names, None if they may not be read. `is_led`: whether
    every partition has a leader, and so can be written. `is_readable`: False without permission to read it;
    True where brokers do not report permissions.
    """

    partitions: int
    settings: Mapping[str, str] | None
    is_led: bool = True
    is_readable: bool = True


class ClusterTopics(msgspec.Struct, frozen=True):
    """The state of some topics of a cluster. A topic that does not exist is in neither mapping.

    `found`: usable topics. `unusable`: reasons by topic. `brokers`: the addresses that the brokers advertise;
    two clusters have none in common. Cluster ids are less reliable: people copy them from examples.
    """

    found: Mapping[str, TopicInfo]
    unusable: Mapping[str, str]
    brokers: frozenset[tuple[str, int]] = frozenset()


class NewTopic(msgspec.Struct, frozen=True):
    """A topic to create; `replicas` -1 is the default of the broker."""

    name: str
    partitions: int
    replicas: int
    settings: Mapping[str, str]


class CreateError(msgspec.Struct, frozen=True):
    """Why a broker does not create a topic: the kind of error, and the text of the broker."""

    error: type[BrokerResponseError]
    message: str

    @property
    def is_forbidden(self) -> bool:
        """Return whether permissions are missing."""
        return self.error in {TopicAuthorizationFailedError, ClusterAuthorizationFailedError}

    @property
    def is_about_replicas(self) -> bool:
        """Return whether the number of replicas is not available."""
        return self.error is InvalidReplicationFactorError

    @property
    def is_about_settings(self) -> bool:
        """Return whether a setting is unknown or wrong."""
        return self.error is InvalidConfigurationError


class TopicAdmin:
    """The topics of one cluster. Every method raises BrokerUnavailable if no broker answers in time."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    @property
    def servers(self) -> str:
        """Return the configured addresses of the brokers."""
        return self._brokers.servers

    async def look(self, names: Iterable[str]) -> ClusterTopics:
        """Request partitions and settings."""
        async with self._admin() as admin:
            return await _look(admin, sorted(set(names)))

    async def look_until_found(self, names: Iterable[str]) -> ClusterTopics:
        """Look until a broker knows each topic or reports why it is unusable.

        A new topic reaches the brokers one after the other. After `Timeouts.visible_seconds`, returns the
        state known by then.
        """
        wanted = sorted(set(names))
        deadline = time.monotonic() + self._brokers.timeouts.visible_seconds
        while True:
            seen = await self.look(wanted)
            known = seen.found.keys() | seen.unusable.keys()
            if known.issuperset(wanted) or time.monotonic() > deadline:
                return seen
            await asyncio.sleep(POLL_SECONDS)

    async def names(self) -> list[str]:
        """Request the names of all visible topics, without Kafka's internal ones."""
        async with self._admin() as admin:
            return sorted(each["topic"] for each in await admin.describe_topics() if not each["is_internal"])

    async def create(self, topics: Sequence[NewTopic]) -> dict[str, CreateError]:
        """Create topics and wait until they can be written; return the errors of those that were refused.

        A topic that exists already, as when two instances start together, is no error.
        """
        async with self._admin() as admin:
            refused = await _create(admin, topics)
            waiting = [topic.name for topic in topics if topic.name not in refused]
            while waiting:
                topics_now = await _look(admin, waiting)
                led = {name for name, topic in topics_now.found.items() if topic.is_led}
                ready = led | topics_now.unusable.keys()
                waiting = [name for name in waiting if name not in ready]
                await asyncio.sleep(POLL_SECONDS if waiting else 0)
        return refused

    @contextlib.asynccontextmanager
    async def _admin(self) -> AsyncIterator[Any]:
        arguments = self._brokers.arguments
        admin = AIOKafkaAdminClient(bootstrap_servers=self.servers, client_id="relay", **arguments)
        try:
            await started(REQUEST_SECONDS, admin, self._brokers)
            async with asyncio.timeout(REQUEST_SECONDS):
                yield admin
        except (KafkaError, TimeoutError, OSError) as error:
            raise unreachable(self.servers, error) from error
        finally:
            await admin.close()


async def _look(admin: Any, names: Collection[str]) -> ClusterTopics:  # aiokafka is not typed
    if not names:
        return ClusterTopics({}, {})
    answer = (await admin._send_request(TopicsRequest(list(names)))).to_object()
    errors = {topic["topic"]: for_code(topic["error_code"]) for topic in answer["topics"]}
    described = {topic["topic"]: topic for topic in answer["topics"] if errors[topic["topic"]] is NoError}
    unusable = {
        name: _reason(error)
        for name, error in errors.items()
        if error not in {NoError, UnknownTopicOrPartitionError}
    }
    found = {}
    # Another broker may not know a new topic yet; it then counts as not found.
    for name, settings in (await _settings(admin, described)).items():
        partitions = described[name]["partitions"]
        is_led = all(partition["leader"] >= 0 for partition in partitions)
        operations = described[name].get("operations", UNKNOWN_OPERATIONS)
        is_readable = allows(operations, Operation.READ) is not False
        found[name] = TopicInfo(len(partitions), settings, is_led, is_readable)
    brokers = frozenset((broker["host"], broker["port"]) for broker in answer["brokers"])
    return ClusterTopics(found, unusable, brokers)


def _reason(error: type[BrokerResponseError]) -> str:
    # Without permission to describe a topic, a client cannot find out whether it exists.
    if error is TopicAuthorizationFailedError:
        return "not visible; grant DESCRIBE on it"
    return text_of(error())


async def _settings(admin: Any, names: Collection[str]) -> dict[str, Mapping[str, str] | None]:
    """Return the settings of the topics that the broker knows."""
    if not names:
        return {}
    found: dict[str, Mapping[str, str] | None] = {}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name, dict.fromkeys(SETTINGS)) for name in names]
    try:
        responses = await admin.describe_configs(resources)
    except (IncompatibleBrokerVersion, NotImplementedError):
        # Some brokers other than Kafka do not know this request.
        return dict.fromkeys(names)
    for response in responses:
        for code, _, _, name, entries, *_ in response.resources:
            error = for_code(code)
            if error is NoError:
                found[name] = {entry[0]: entry[1] for entry in entries if entry[1] is not None}
            elif error is not UnknownTopicOrPartitionError:
                found[name] = None
    return found


async def _create(admin: Any, topics: Sequence[NewTopic]) -> dict[str, CreateError]:
    """Repeat the request until the controller has created or refused every topic.

    The caller's deadline ends it.
    """
    refused: dict[str, CreateError] = {}
    open_topics = {topic.name: _to_create(topic) for topic in topics}
    client = admin._client
    while True:
        # Without a known controller, as during an election, the client fails with an AttributeError.
        if client.cluster.controller is not None:
            for name, code, *text in (await admin.create_topics(list(open_topics.values()))).topic_errors:
                error = for_code(code)
                # After a timeout the topic may be created or not: a repeated request returns "exists".
                if error.retriable:
                    continue
                if error not in {NoError, TopicAlreadyExistsError}:
                    refused[name] = CreateError(error, (text[0] if text else None) or text_of(error()))
                del open_topics[name]
        if not open_topics:
            return refused
        await asyncio.sleep(POLL_SECONDS)
        # The controller may have moved; the client itself looks for it again only after an exception.
        await client.force_metadata_update()


def _to_create(topic: NewTopic) -> TopicToCreate:
    # The client takes -1 replicas only with an assignment; to the broker an empty one is none.
    assignments: dict[int, list[int]] | None = {} if topic.replicas == -1 else None
    return TopicToCreate(topic.name, topic.partitions, topic.replicas, assignments, dict(topic.settings))
