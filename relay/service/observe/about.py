"""Fixed facts of the service, derived from its configuration, and the maximum age of a heartbeat."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Final

import msgspec

from relay.config import Config
from relay.config.keys import Delivery
from relay.io.kernel import engine_name
from relay.service.observe.series import Series
from relay.text.redaction import shown_option

#: Topics that relay writes besides the target's.
DEAD_LETTERS, SCHEMA_HISTORY = "dead-letter", "schema-history"

#: A turn of the loop may wait for acknowledgements and then for a new producer, each as long as a delivery
#: may take.
_DELIVERIES_OF_A_TURN: Final = 2
_SHORTEST_LIMIT_SECONDS: Final = 60.0


def heartbeat_limit(delivery: Delivery) -> float:
    """Return the age in seconds from which a heartbeat means that the loop hangs: longer than any turn."""
    return max(_SHORTEST_LIMIT_SECONDS, _DELIVERIES_OF_A_TURN * delivery.delivery_timeout_seconds)


class Endpoint(msgspec.Struct, frozen=True):
    """One side of the route: its protocol, its options without secrets, and its brokers."""

    protocol: str
    options: Mapping[str, str]
    brokers: str


class About(msgspec.Struct, frozen=True):
    """Facts that do not change while relay runs.

    `topics`: source to target topic; `mode` as in [delivery]. `by_name`: the target topics whose traffic is
    counted separately; the traffic of all others, which are those of tables, is counted under `by_table` (""
    if there are none). `dead_letter_topic`, `history_topic`: "" for none. `has_row_keys`: keys of the
    target's records identify rows. `processes`: how many share the work. `kernel`: the engine that applies
    templates, "" for none. `series`: label values that may occur. `has_table_metrics`: counts by table are
    metrics, too.
    """

    version: str
    source: Endpoint
    target: Endpoint
    topics: Mapping[str, str]
    group: str
    mode: str
    dead_letter_topic: str = ""
    history_topic: str = ""
    heartbeat_limit_seconds: float = heartbeat_limit(Delivery())
    by_name: tuple[str, ...] = ()
    by_table: str = ""
    has_row_keys: bool = False
    processes: int = 1
    kernel: str = ""
    series: Series = Series()
    has_table_metrics: bool = False

    @classmethod
    def of(cls, config: Config) -> About:
        """Derive the facts from a configuration.

        Storage addresses lose their parameters, which may be secret.
        """
        route = config.route
        by_table = [template.text for template, _ in config.templates if template.is_by_table]
        return cls(
            version=version("relay-cdc"),
            source=Endpoint(route.from_, _shown(route.from_options), config.source.bootstrap_servers),
            target=Endpoint(route.to, _shown(route.to_options), config.target_servers),
            topics=config.target_topics,
            group=config.source.group_id,
            mode=str(config.delivery.mode),
            dead_letter_topic=config.dead_letter_topic if config.has_dead_letters else "",
            history_topic=config.history_topic,
            heartbeat_limit_seconds=heartbeat_limit(config.delivery),
            by_name=tuple(config.fixed_topics),
            by_table=by_table[0] if by_table else "",
            has_row_keys=config.has_row_keys,
            processes=config.delivery.processes,
            kernel=engine_name(),
            series=Series.of(config),
            has_table_metrics=config.http.table_metrics,
        )

    @property
    def own_topics(self) -> dict[str, str]:
        """Return the topics that relay keeps besides the target's, and the purpose of each."""
        own = {self.dead_letter_topic: DEAD_LETTERS, self.history_topic: SCHEMA_HISTORY}
        return {topic: kind for topic, kind in own.items() if topic}


def _shown(options: Mapping[str, str]) -> dict[str, str]:
    return {name: shown_option(name, value) for name, value in sorted(options.items())}
