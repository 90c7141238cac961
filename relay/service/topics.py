"""What must be true of the topics before the relay starts, and the limits of the target topics."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, for_code

from relay.config import Config
from relay.errors import BrokerUnavailable, TopicUnusable

DEFAULT_LIMIT_BYTES = 1_048_588
REQUEST_SECONDS = 30.0


async def check_topics(config: Config) -> dict[str, int]:
    """Check that all topics exist and that the targets have enough partitions; give each target topic's `max.message.bytes`.

    Raises TopicUnusable with everything that is wrong, BrokerUnavailable.
    """
    targets = config.target_topics
    source = await _Cluster.asked(config.source.bootstrap_servers, config.source.topics, limits=False)
    target = await _Cluster.asked(config.target_servers, targets.values(), limits=True)
    problems = source.problems + target.problems
    for name, target_name in targets.items():
        if name not in source.partitions or target_name not in target.partitions:
            continue
        needed = config.target_partitions or source.partitions[name]
        found = target.partitions[target_name]
        if found < needed:
            why = "`partitions` in [target] says" if config.target_partitions else f"{name} has"
            problems.append(
                f"topic {target_name} has {found} partitions, and {why} {needed}: add partitions to {target_name}, "
                f"or set `partitions` in [target] to {found}"
            )
    if problems:
        raise TopicUnusable("; ".join(problems))
    return target.limits


class _Cluster:
    """What one cluster says about some topics."""

    def __init__(self) -> None:
        self.partitions: dict[str, int] = {}
        self.limits: dict[str, int] = {}
        self.problems: list[str] = []

    @classmethod
    async def asked(cls, servers: str, topics: Iterable[str], *, limits: bool) -> _Cluster:
        names = sorted(set(topics))
        answer = cls()
        admin = AIOKafkaAdminClient(bootstrap_servers=servers, client_id="relay")
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                await admin.start()
                for topic in await admin.describe_topics(names):
                    answer._add_topic(topic, servers)
                if limits and answer.partitions:
                    await answer._add_limits(admin)
        except (KafkaError, TimeoutError, OSError) as error:
            reason = str(error) or type(error).__name__
            raise BrokerUnavailable(
                f"no broker answers at {servers}: {reason}; check the addresses and that the brokers are up"
            ) from error
        finally:
            await admin.close()
        return answer

    def _add_topic(self, topic: dict[str, Any], servers: str) -> None:
        name, code = topic["topic"], topic["error_code"]
        if code == 0:
            self.partitions[name] = len(topic["partitions"])
        elif code == 3:  # UNKNOWN_TOPIC_OR_PARTITION
            self.problems.append(f"topic {name} does not exist at {servers}: create it, relay creates no topics")
        else:
            self.problems.append(f"topic {name} at {servers} cannot be used: {for_code(code).__name__}")

    async def _add_limits(self, admin: AIOKafkaAdminClient) -> None:
        """Read `max.message.bytes`; who may not read it gets the broker's usual value."""
        self.limits = dict.fromkeys(self.partitions, DEFAULT_LIMIT_BYTES)
        resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in self.partitions]
        for response in await admin.describe_configs(resources):
            for code, _, _, name, entries, *_ in response.resources:
                if code == 0:
                    self.limits[name] = next(int(entry[1]) for entry in entries if entry[0] == "max.message.bytes")
