"""Which records of which topic a command is asked for. No Kafka client is loaded for this."""

from __future__ import annotations

from pathlib import Path

import msgspec


class TopicRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Where a topic is, and which records of it are wanted, as the options say."""

    topic: str | None = None
    bootstrap: str | None = None
    config: Path | None = None
    settings: tuple[str, ...] = ()
    last: int | None = None
    since: str | None = None
    until: str | None = None
    offsets: str | None = None
    partitions: tuple[int, ...] = ()
    follow: bool = False
    everything: bool = False
    option: str = "--from-topic"

    @property
    def arguments(self) -> tuple[str, ...]:
        """The topic as arguments of a command that reads it."""
        given = {"--from-topic": self.topic, "--brokers": self.bootstrap, "--config": self.config}
        named = [
            word for option, value in given.items() if value is not None for word in (option, str(value))
        ]
        return (*named, *(word for setting in self.settings for word in ("--set", setting)))
