"""The error that ends a task, written by a worker and read by the driver.

Spark keeps only its text, surrounded by other text and perhaps cut off.
"""

from __future__ import annotations

import json
import re
from typing import Final

from relay.core.detection import FormatHints
from relay.core.translator import Translator
from relay.model.errors import RelayError, ServiceError
from relay.model.records import ConsumerRecord

#: Prefix of the text; the driver finds it anywhere in the text of Spark's error.
STOP_MARK: Final = "relay-stopped:"
#: The text of `DdlUnread`.
_UNREAD: Final = re.compile(r"relay-ddl-unread:<(?P<position>[^<>]*)>")
_TEXT: Final = r'(?:[^"\\\n]|\\(?:u[0-9a-f]{4}|[^u\n]))*'
#: `Stopped` as JSON, whose message may have lost its end.
_STOPPED: Final = re.compile(
    rf'{STOP_MARK}{{"position": "(?P<position>{_TEXT})", "code": "(?P<code>{_TEXT})", '
    rf'"status": (?P<status>\d+), "message": "(?P<message>{_TEXT})'
)


class Stopped(Exception):
    """The error by which a worker ends its task: position, error and exit status, never a value of a row."""

    def __init__(self, error: RelayError, position: str) -> None:
        # The message comes last: Spark may cut off long ones.
        known = {"position": position, "code": error.code, "status": error.exit_status, "message": str(error)}
        super().__init__(STOP_MARK + json.dumps(known))


def stopped_at(record: ConsumerRecord, error: RelayError, translator: Translator) -> Stopped:
    """Return the error that ends a task at a failed record, with the format that it seems to have."""
    hints = FormatHints(translator.known_schema)
    return Stopped(hints.named(error, record), str(record.position))


class DdlUnread(Exception):
    """The error by which a worker ends its task if the schema pass may have missed DDL.

    `position`: that of a record with DDL; "" if a record fails, which DDL elsewhere might prevent.
    """

    def __init__(self, position: str = "") -> None:
        super().__init__(f"relay-ddl-unread:<{position}>")


def unread_ddl(text: str) -> str | None:
    """Return the position of the `DdlUnread` in the text of Spark's error; None without one."""
    found = _UNREAD.search(text)
    return None if found is None else found["position"]


class RecordStopped(RelayError):
    """The driver's form of it: a task has met a record, or an object, at which the run ends.

    Records already written stay.
    """

    code = "backfill.stopped"

    def __init__(self, position: str, code: str, message: str, status: int) -> None:
        super().__init__(f"{position}: {code}: {message}")
        self.exit_status = status  # type: ignore[misc]  # it is the error's own


def error_of_task(text: str) -> RelayError | None:
    """Return the error in the text of Spark's error, as far as it is left; None without one."""
    if STOP_MARK not in text:
        return None
    whole = _STOPPED.search(text)
    if whole is None:
        return ServiceError(
            "a task stopped the run, and Spark truncated the reason: RELAY_TRACEBACK=1 shows the rest"
        )
    position, code, message = (json.loads(f'"{whole[name]}"') for name in ("position", "code", "message"))
    return RecordStopped(position, code, message, int(whole["status"]))
