"""The settings of the Kafka clients (`relay.io.kafka.settings`), made from the configuration."""

from __future__ import annotations

from typing import Any

from pydantic import SecretStr

from relay.config.config import Config
from relay.config.keys import SecurityConfig, SourceConfig
from relay.io.kafka import settings
from relay.io.kafka.settings import (
    ClusterSettings,
    ConsumerSettings,
    ProducerSettings,
    Secret,
    Shard,
    StartSettings,
    TransactionalSettings,
)
from relay.model.events import TSO_LOGICAL_BITS


def security_settings(table: SecurityConfig, name: str) -> settings.Security:
    """Convert a table `[….security]`; `name` is its name in messages."""
    values: dict[str, Any] = {
        key: Secret(value.get_secret_value()) if isinstance(value, SecretStr) else value
        for key, value in dict(table).items()
    }
    return settings.Security(table=name, **values)


def source_cluster(config: Config) -> ClusterSettings:
    """Return the cluster of the source topics."""
    source = config.source
    return ClusterSettings(source.bootstrap_servers, security_settings(source.security, "source.security"))


def target_cluster(config: Config) -> ClusterSettings:
    """Return the cluster of the target topics, the dead letters and the schema history.

    By default it is the source's.
    """
    target = config.target
    if not target.bootstrap_servers:
        return source_cluster(config)
    return ClusterSettings(target.bootstrap_servers, security_settings(target.security, "target.security"))


def start_settings(source: SourceConfig) -> StartSettings:
    """Return where partitions without a committed offset begin."""
    return StartSettings(
        source.start,
        source.start_offsets,
        source.start_timestamp_ms,
        source.start_commit_ts >> TSO_LOGICAL_BITS,
    )


def consumer_settings(config: Config) -> ConsumerSettings:
    """Return how the source topics are read."""
    source = config.source
    return ConsumerSettings(
        cluster=source_cluster(config),
        topics=source.topics,
        has_pattern=bool(source.topics_pattern),
        metadata_max_age_ms=source.metadata_max_age_ms,
        group_id=source.group_id,
        group_instance_id=source.group_instance_id,
        start=start_settings(source),
        fetch_max_bytes=source.fetch_max_bytes,
        max_partition_fetch_bytes=source.max_partition_fetch_bytes,
        fetch_max_wait_ms=source.fetch_max_wait_ms,
        session_timeout_ms=source.session_timeout_ms,
        rebalance_timeout_ms=source.rebalance_timeout_ms,
        client_rack=source.client_rack,
        shard=_shard(config),
    )


def producer_settings(config: Config) -> ProducerSettings:
    """Return how the target topics are written."""
    return ProducerSettings(
        cluster=target_cluster(config),
        compression=config.target.compression,
        compression_level=config.target.compression_level,
        max_batch_bytes=config.target.max_batch_bytes,
        delivery_timeout_seconds=config.delivery.delivery_timeout_seconds,
    )


def transactional_settings(config: Config) -> TransactionalSettings:
    """Return how the target topics are written in transactions."""
    return TransactionalSettings(
        **vars(producer_settings(config)),
        transactional_id=config.transactional_id,
        transaction_timeout_seconds=config.delivery.transaction_timeout_seconds,
        group_id=config.source.group_id,
        source_topics=config.source.topics,
        shard=_shard(config),
        progress_topic=None if config.is_one_cluster else config.delivery.progress_topic,
    )


def shard_settings(config: Config) -> list[TransactionalSettings]:
    """Return the transactional settings of every shard, those of other instances and processes included."""
    count = config.delivery.shards * config.delivery.processes
    return [transactional_settings(config.as_shard(number, count)) for number in range(count)]


def _shard(config: Config) -> Shard:
    return Shard(config.delivery.shard, config.delivery.shards)
