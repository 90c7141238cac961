"""What tests of topics share: new names, settings of topics, and configurations that need topics of relay's
own.
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from relay.config import Config
from relay.config.kafka import source_cluster, target_cluster
from relay.io.kafka.clients import Clusters
from relay.io.kafka.settings import DEFAULT_TIMEOUTS, Timeouts
from relay.model.errors import TopicUnusable
from relay.topics.startup import check_topics


def new_name() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


async def settings_of(kafka: Any, topic: str) -> dict[str, str]:
    (answer,) = await kafka.admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    return {entry[0]: entry[1] for entry in answer.resources[0][4]}


async def exists(kafka: Any, topic: str) -> bool:
    return topic in await kafka.admin.list_topics()


async def refusal(config: Config, timeouts: Timeouts = DEFAULT_TIMEOUTS) -> str:
    clusters = Clusters.from_settings(source_cluster(config), target_cluster(config), timeouts)
    with pytest.raises(TopicUnusable) as refused:
        await check_topics(config, clusters)
    return str(refused.value)


def without_history(**more: Any) -> dict[str, Any]:
    return {"schema_history_topic": ""} | more


def dead_letters(name: str, **more: Any) -> dict[str, Any]:
    return {"errors_decode": "dead-letter", "errors_dead_letter_topic": name} | more


def two_clusters(broker: str, name: str) -> dict[str, Any]:
    """Two names of one broker are two clusters as far as relay can tell."""
    other = broker.replace("127.0.0.1", "localhost")
    return {
        "delivery_mode": "exactly-once",
        "delivery_progress_topic": name,
        "target_bootstrap_servers": other,
    }
