"""Parses partitions and positions of the source that options name, with or without their topic."""

from __future__ import annotations

from relay.config import Config
from relay.io.kafka.ports import Partition
from relay.model.errors import ConfigError, Problem
from relay.model.records import RecordPosition
from relay.text.redaction import quoted


def source_topic(config: Config, given: str | None, path: str) -> str:
    """Return the given topic, or by default the only one. Raises ConfigError if it is no source topic."""
    topics = config.source.topics
    if given is None and len(topics) == 1:
        return topics[0]
    if given is None or not config.reads(given):
        problem = "lacks the topic"
        if given is not None:
            problem = f"{given!r} is not a source topic of this configuration"
        raise ConfigError([Problem(path, problem, f"its source topics are: {shown_topics(config)}")])
    return given


def shown_topics(config: Config) -> str:
    """Return the source topics for a message."""
    return ", ".join(config.source.topics) or f"those that match {config.source.topics_pattern}"


def parse_position(text: str, config: Config, path: str) -> RecordPosition:
    """Parse `[topic/]partition/offset`. Raises ConfigError."""
    position = RecordPosition.parse(_with_topic(text, 1, config, path))
    if position is None:
        hint = "write TOPIC/PARTITION/OFFSET, such as orders/3/4711"
        raise ConfigError([Problem(path, f"{quoted(text)} is not a position", hint)])
    source_topic(config, position.topic, path)
    return position


def parse_partition(text: str, config: Config, path: str) -> Partition:
    """Parse `[topic/]partition`. Raises ConfigError."""
    partition = Partition.parse(_with_topic(text, 0, config, path))
    if partition is None:
        hint = "write TOPIC/PARTITION, such as orders/3"
        raise ConfigError([Problem(path, f"{quoted(text)} is not a partition", hint)])
    source_topic(config, partition.topic, path)
    return partition


def _with_topic(text: str, slashes: int, config: Config, path: str) -> str:
    """Complete a text that has only the slashes of a text without a topic."""
    return f"{source_topic(config, None, path)}/{text}" if text.count("/") == slashes else text
