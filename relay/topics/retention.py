"""How long topics keep records. Kafka deletes by timestamp, and relay keeps the timestamps of its source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from relay.kafka.admin import TopicInfo

#: Kafka's "no limit" for times, and longer than any.
FOREVER_MS: Final = 2**63 - 1
_RETENTION: Final = "retention.ms"
#: Settings of a topic for records that nothing deletes, such as those of files.
KEPT_FOREVER: Final = {_RETENTION: "-1"}


def retention_ms(found: TopicInfo) -> int:
    """Return how long a topic keeps records: forever, if its settings may not be read."""
    settings = found.settings or {}
    if "delete" not in settings.get("cleanup.policy", "delete"):
        return FOREVER_MS
    kept = int(settings.get(_RETENTION, -1))
    return FOREVER_MS if kept < 0 else kept


def longest_retention_ms(known: Mapping[str, TopicInfo], sources: Iterable[str]) -> int | None:
    """Return how long the source topics keep records; None if the settings of none may be read."""
    found = [known[name] for name in sources if name in known]
    return max((retention_ms(each) for each in found if each.settings is not None), default=None)


def retention_settings(known: Mapping[str, TopicInfo], sources: Iterable[str]) -> dict[str, str]:
    """Return the setting with which a new topic keeps records as long as its sources do."""
    kept = longest_retention_ms(known, sources)
    if kept is None:
        return {}
    return KEPT_FOREVER if kept == FOREVER_MS else {_RETENTION: str(kept)}
