"""The source topics that a pattern matches."""

from __future__ import annotations

from relay.config import Config
from relay.config.kafka import source_cluster
from relay.io.kafka.admin import TopicAdmin
from relay.io.kafka.clients import Brokers
from relay.model.errors import TopicUnusable
from relay.text.redaction import first_of

_MOST_NAMES = 20


async def with_found_topics(config: Config, brokers: Brokers | None = None) -> Config:
    """Return a configuration whose source topics are named: those that its pattern matches now.

    `brokers`: those of the source, if their files were read before. Raises TopicUnusable if none does, and
    BrokerUnavailable.
    """
    if not config.source.topics_pattern:
        return config
    brokers = brokers or Brokers.from_settings(source_cluster(config))
    names = await TopicAdmin(brokers).names()
    if found := [name for name in names if config.reads(name)]:
        return config.with_topics(found)
    raise TopicUnusable(nothing_matches(config, names))


def written_matches(config: Config, names: list[str] | tuple[str, ...]) -> list[str]:
    """Return the topics that match the pattern and are not read, because the route may write them."""
    return [name for name in names if config.source.names_topic(name) and not config.reads(name)]


def nothing_matches(config: Config, names: list[str] | tuple[str, ...] = ()) -> str:
    """Return the message that no topic matches. `names`: all topics of the cluster."""
    source = config.source
    text = f"no topic at {source.bootstrap_servers} matches topics_pattern {source.topics_pattern}"
    if written := written_matches(config, names):
        listed = first_of(written, _MOST_NAMES)
        text += f" except topics that this route may write, which it does not read: {listed}"
    return text
