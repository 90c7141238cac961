"""Fixed facts of the service, derived from its configuration: for its status, its metrics and its log."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Final

import msgspec

from relay.codecs import LargeMessageOptions
from relay.config import Config
from relay.config.checks import config_advice
from relay.config.keys import Delivery
from relay.config.wiring import translator_of
from relay.core.error_policies import ERROR_CLASSES, Policy
from relay.core.route import Route
from relay.io.kernel import engine_name, installed
from relay.io.logs import Log
from relay.io.metrics import DEAD_LETTERS, SCHEMA_HISTORY
from relay.model.errors import (
    BrokerUnavailable,
    ClaimCheckMissing,
    DefinitionMissing,
    DeliveryFailed,
    KeyColumnsMissing,
    KeyMissing,
    LimitExceeded,
    Malformed,
    MessageTooLarge,
    NotRepresentable,
    OutOfMemory,
    RecordTooLarge,
    RelayError,
    SchemaMissing,
    UnsupportedMessage,
    UnusableTopicName,
)
from relay.service.rate_limit import NO_LIMITS, RateLimits, rate_limits_of
from relay.text.redaction import shown_option

#: Errors from which relay recovers, whatever the route, by the stage that raises them.
_RECOVERED: tuple[tuple[str, type[RelayError]], ...] = (
    ("poll", BrokerUnavailable),
    ("produce", BrokerUnavailable),
    ("produce", DeliveryFailed),
    ("commit", DeliveryFailed),
)


class InitialLabels(msgspec.Struct, frozen=True):
    """Label values that are exported with 0 from the start. Others are exported with their first count.

    `errors`: stage and code. `dead_letters`, `skipped`: codes of records that become dead letters, and of
    those that are left out. `expected_losses`: kinds that follow from the two formats
    (`Route.expected_losses`).
    """

    errors: tuple[tuple[str, str], ...] = ()
    dead_letters: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    expected_losses: frozenset[str] = frozenset()

    @classmethod
    def of(cls, config: Config) -> InitialLabels:
        """Derive the label values from a configuration. An error at which relay ends is never exported."""
        route = translator_of(config).route
        by_class, policies = _errors_of(config, route), config.errors.by_class
        codes = {
            policy: tuple(
                sorted(
                    kind.code for name in ERROR_CLASSES if policies[name] is policy for kind in by_class[name]
                )
            )
            for policy in (Policy.DEAD_LETTER, Policy.SKIP)
        }
        given_up = sorted(codes[Policy.DEAD_LETTER] + codes[Policy.SKIP])
        errors = [(stage, kind.code) for stage, kind in _RECOVERED]
        return cls(
            errors=(*errors, *(("translate", code) for code in given_up)),
            dead_letters=codes[Policy.DEAD_LETTER],
            skipped=codes[Policy.SKIP],
            expected_losses=route.expected_losses,
        )


def _errors_of(config: Config, route: Route) -> dict[str, list[type[RelayError]]]:
    """Return the errors that a record of this route may meet, by the key of [errors] that decides."""
    decode: list[type[RelayError]] = [Malformed, UnsupportedMessage, LimitExceeded, OutOfMemory]
    if route.source.rows_need_definitions:
        decode.append(DefinitionMissing)
    if route.source.uses_registry:
        decode.append(SchemaMissing)
    encode: list[type[RelayError]] = [NotRepresentable, KeyMissing]
    if config.has_table_topics:
        encode.append(UnusableTopicName)
    if any(rule.key for rule in config.target.topics):
        encode.append(KeyColumnsMissing)
    too_large: list[type[RelayError]] = [RecordTooLarge]
    if isinstance(route.target_options, LargeMessageOptions):
        too_large.append(MessageTooLarge)
    claim_check: list[type[RelayError]] = [ClaimCheckMissing] if "from" in route.storages else []
    return {"decode": decode, "encode": encode, "too_large": too_large, "claim_check": claim_check}


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
    metrics, too. `rate_limits`: of all processes together. `deduplicate_rows`: how many written rows all
    processes remember at most, 0 without `deduplicate`.
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
    series: InitialLabels = InitialLabels()
    has_table_metrics: bool = False
    rate_limits: RateLimits = NO_LIMITS
    deduplicate_rows: int = 0

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
            series=InitialLabels.of(config),
            has_table_metrics=config.http.table_metrics,
            rate_limits=rate_limits_of(config),
            deduplicate_rows=route.deduplicate_rows * config.delivery.processes if route.deduplicate else 0,
        )

    def with_topics(self, config: Config) -> About:
        """Return the facts with the topics of a configuration, which were found by a pattern."""
        by_name = tuple(config.fixed_topics)
        return msgspec.structs.replace(self, topics=config.target_topics, by_name=by_name)

    @property
    def own_topics(self) -> dict[str, str]:
        """Return the topics that relay keeps besides the target's, and the purpose of each."""
        own = {self.dead_letter_topic: DEAD_LETTERS, self.history_topic: SCHEMA_HISTORY}
        return {topic: kind for topic, kind in own.items() if topic}


def _shown(options: Mapping[str, str]) -> dict[str, str]:
    return {name: shown_option(name, value) for name, value in sorted(options.items())}


def announce(config: Config, log: Log) -> None:
    """Log the route to run, and settings that have no effect or may be a mistake."""
    count = config.delivery.processes
    log.info(
        "relay.starting",
        source=config.source.bootstrap_servers,
        target=config.target_servers,
        topics=list(config.source.topics) or config.source.topics_pattern,
        group=config.source.group_id,
        mode=str(config.delivery.mode),
        translation=f"{config.route.from_} to {config.route.to}",
        kernel=engine_name() or None,
        **({"processes": count} if count > 1 else {}),
    )
    if unusable := installed().problem:
        log.warning("kernel.unusable", message=unusable)
    for problem in config_advice(config):
        log.warning("configuration.warning", key=problem.path, message=problem.text)
