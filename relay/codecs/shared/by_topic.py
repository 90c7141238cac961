"""Encoders whose messages depend on their topic, because a registry names schemas by topic."""

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
    """Base of a `TopicEncoder`: caches each topic's encoding function. `_encode` encodes for one topic."""

    def __init__(self) -> None:
        self._topics: dict[str, Encode] = {}

    def for_topic(self, topic: str) -> Encode:
        """Return the encoding function for a topic; see `TopicEncoder`."""
        found = self._topics.get(topic)
        if found is None:
            if len(self._topics) >= _MOST_TOPICS:
                self._topics.clear()
            found = self._topics[topic] = partial(self._encode, topic)
        return found

    def encode(
        self, events: Sequence[Event], source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterable[EncodedRecord]:
        """Return the events' messages for the topic of their record; see `relay.codecs.codec.Encoder`."""
        return self._encode(source_record.topic, events, source_record, losses)

    def _encode(
        self, topic: str, events: Sequence[Event], source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterable[EncodedRecord]:
        """Return the events' messages for a topic."""
        raise NotImplementedError
