"""Error policies for records that cannot be relayed, for service, Spark job and command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from relay.core.dead_letters import dead_letter, without_payload
from relay.model.errors import (
    ClaimCheckMissing,
    CodecError,
    DecodeError,
    EncodeError,
    MessageTooLarge,
    RecordTooLarge,
    RelayError,
    SchemaMissing,
    TooManyFailures,
)
from relay.model.events import Event, RowChange, SchemaChange, TableId
from relay.model.lookups import Need
from relay.model.records import ConsumerRecord, ProducerRecord
from relay.text.redaction import printable


class Policy(StrEnum):
    """The handling of a record that cannot be relayed."""

    STOP = "stop"
    SKIP = "skip"
    DEAD_LETTER = "dead-letter"


#: The keys of [errors]: an error of each has a policy.
ERROR_CLASSES: Final = ("decode", "encode", "too_large", "claim_check")


def error_class(error: BaseException) -> str | None:
    """Return the key of [errors] that decides about this error; None if relay always stops."""
    if isinstance(error, RecordTooLarge | MessageTooLarge):
        return "too_large"
    if isinstance(error, DecodeError | SchemaMissing):
        return "decode"
    if isinstance(error, EncodeError):
        return "encode"
    return "claim_check" if isinstance(error, ClaimCheckMissing) else None


class SchemaLearner(Protocol):
    """The interface of a translator that finds the tables of a refused record."""

    def learn(self, record: ConsumerRecord, /) -> tuple[TableId, ...]:
        """Apply a record's DDL and schemas to the catalog, and return the tables concerned."""
        ...


class Refused(NamedTuple):
    """The outcome for a refused record.

    `dead_letters`: the dead letter to write, or none. `tables`: the record's tables, if it can be read.
    """

    policy: Policy
    dead_letters: list[ProducerRecord]
    tables: tuple[TableId, ...] = ()


class ErrorPolicies(NamedTuple):
    """The policies of [errors] by error class, and the destination of dead letters.

    `partitions`: number of partitions of the dead-letter topic. `route`: the route's name in dead letters.
    `has_payload`: whether dead letters have key, value and headers of their originals.
    """

    by_class: Mapping[str, Policy]
    topic: str = ""
    partitions: int = 1
    route: str = ""
    has_payload: bool = True

    def policy_of(self, error: BaseException) -> Policy:
        """Return the policy for this error.

        Errors that a retry or an operator can resolve stop relay, regardless of the configuration.
        """
        name = error_class(error)
        return Policy.STOP if name is None else self.by_class.get(name, Policy.STOP)

    def apply(self, error: BaseException, record: ConsumerRecord, translator: SchemaLearner) -> Refused:
        """Apply the policy to a record that cannot be relayed, and return the outcome.

        If relay continues after the record, it is decoded once more to apply its table definitions to the
        translator's catalog, because later rows depend on them.
        """
        policy = self.policy_of(error)
        if policy is Policy.STOP or not isinstance(error, RelayError):
            return Refused(Policy.STOP, [])
        tables = _tables_learned(record, translator)
        if policy is Policy.SKIP:
            return Refused(policy, [], tables)
        letter = dead_letter(record, error, self.topic, tables, self.partitions, self.route)
        if not self.has_payload:
            letter = without_payload(letter, record)
        return Refused(policy, [letter], tables)


def nothing_relayed(count: int, error: BaseException, protocol: str) -> TooManyFailures:
    """Return the error for a run that exceeds `max_initial_failures` of [errors]."""
    text = str(error)
    end = "" if text.endswith((".", "?", "!")) else "."
    return TooManyFailures(
        f"none of the first {count} records could be relayed: {text}{end} Is `from`, {protocol}, the "
        "protocol of these topics? `relay inspect` shows the readable parts of a record; "
        "`max_initial_failures` and `on_max_initial_failures` in [errors] limit failures at the start"
    )


class Inspects(Protocol):
    """A translator that can decode a record without keeping state."""

    def inspect(self, record: ConsumerRecord, /) -> Sequence[Event]:
        """Decode one record."""
        ...


def tables_in(record: ConsumerRecord, translator: Inspects) -> list[str]:
    """Return the names of a record's tables, as far as it can be decoded."""
    try:
        events = translator.inspect(record)
    except (CodecError, Need):
        return []
    tables = (event.table for event in events if isinstance(event, RowChange | SchemaChange))
    return [printable(str(table)) for table in dict.fromkeys(tables)]


def _tables_learned(record: ConsumerRecord, translator: SchemaLearner) -> tuple[TableId, ...]:
    try:
        return translator.learn(record)
    except (CodecError, Need):
        return ()
