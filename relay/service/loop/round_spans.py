"""The loop's interface to tracing: a span for each round.

`relay.service.observe.tracing` implements it with OpenTelemetry.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from relay.model.records import ConsumerRecord


class RoundSpan(Protocol):
    """The span of one round, from its records to their acknowledgement. No method waits or raises."""

    def take(self, records: Sequence[ConsumerRecord]) -> None:
        """Add records of one partition to the round."""
        ...

    def translated(self, written: int, error: str) -> None:
        """Note that all records are translated and handed to the producer.

        `written`: the number of records to write. `error`: code of the error that ends the round, or "".
        """
        ...

    def delivered(self) -> None:
        """End the span: readers of the target can read the records."""
        ...


class RoundTracer(Protocol):
    """Makes the spans of rounds."""

    def begin(self) -> RoundSpan:
        """Begin the span of a round."""
        ...

    def fail_open(self, error: str) -> None:
        """End all open spans with the code of an error. Their rounds will be repeated."""
        ...
