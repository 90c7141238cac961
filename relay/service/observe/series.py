"""Label values that the metrics of a route may have, as far as they follow from its configuration."""

from __future__ import annotations

import msgspec

from relay.codecs import LargeMessageOptions
from relay.codecs.losses import Loss, expected_losses
from relay.config import Config
from relay.config.wiring import translator_of
from relay.core.error_policies import ERROR_CLASSES, Policy
from relay.core.route import Route
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

#: Errors from which relay recovers, whatever the route, by the stage that raises them.
_RECOVERED: tuple[tuple[str, type[RelayError]], ...] = (
    ("poll", BrokerUnavailable),
    ("produce", BrokerUnavailable),
    ("produce", DeliveryFailed),
    ("commit", DeliveryFailed),
)


class Series(msgspec.Struct, frozen=True):
    """Label values that are exported with 0 from the start. Others are exported with their first count.

    `errors`: stage and code. `dead_letters`, `skipped`: codes of records that become dead letters, and of
    those that are left out. `expected_losses`: kinds that follow from the two formats
    (`relay.codecs.losses.expected_losses`).
    """

    errors: tuple[tuple[str, str], ...] = ()
    dead_letters: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    expected_losses: frozenset[str] = frozenset()

    @classmethod
    def of(cls, config: Config) -> Series:
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
        losses = set(expected_losses(route.source.decodes, route.target.output(route.target_options)))
        if not route.passes_watermarks:
            losses.add(Loss.WATERMARK)
        return cls(
            errors=(*errors, *(("translate", code) for code in given_up)),
            dead_letters=codes[Policy.DEAD_LETTER],
            skipped=codes[Policy.SKIP],
            expected_losses=frozenset(map(str, losses)),
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
