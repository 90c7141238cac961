"""Encoders whose messages depend on their topic, by which a registry names schemas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from relay.codecs.codec import Encode, EncodedRecord
from relay.codecs.losses import Loss
from relay.model.events import Event
from relay.model.records import ConsumerRecord

_MOST_TOPICS: Final = 10_000


class ByTopic:
    """The front of a `TopicEncoder`: what writes for each topic is kept. `_encode` writes for one."""

    def __init__(self) -> None:
        self._topics: dict[str, Encode] = {}

    def for_topic(self, topic: str) -> Encode:
        """Return how events are encoded for a topic; see `TopicEncoder`."""
        found = self._topics.get(topic)
        if found is None:
            if len(self._topics) >= _MOST_TOPICS:
                self._topics.clear()
            found = self._topics[topic] = partial(self._encode, topic)
        return found

    def encode(
        self, events: Sequence[Event], source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterable[EncodedRecord]:
        """Give the events' messages for the topic of their record; see `relay.codecs.codec.Encoder`."""
        return self._encode(source_record.topic, events, source_record, losses)

    def _encode(
        self, topic: str, events: Sequence[Event], source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterable[EncodedRecord]:
        """Give the events' messages for a topic."""
        raise NotImplementedError
