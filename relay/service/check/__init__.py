"""`relay check --connect`: check brokers, topics and permissions before a start. A finding is one line."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class CheckState(StrEnum):
    """Result of a check."""

    OK = "ok"
    NOTE = "note"
    FAILED = "FAILED"
    UNTESTED = "untested"


def unreported(operations: str) -> str:
    """Return the text for permissions that a broker does not report."""
    return f"the broker, unlike Kafka since 2.3, does not report whether {operations} is allowed"


class Finding(NamedTuple):
    """One check: its subject, its result, and a text."""

    state: CheckState
    subject: str
    text: str

    def __str__(self) -> str:
        return f"{self.state:<8}  {self.subject}: {self.text}"
