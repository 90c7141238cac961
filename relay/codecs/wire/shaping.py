"""Options of targets that say how what a reader could take wrongly is written.

Contract: each function decides for one event, and raises NotRepresentable where the user wants a refusal.
Codecs offer of an option the values that their format has a form for. What a source does not tell is counted
by its decoder.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from relay.errors import NotRepresentable
from relay.model import Op

_ABOUT: Final = "an UPDATE whose old row the source does not tell: "
#: Of a format in which an UPDATE cannot lack its old row, or says INSERT by lacking it.
InsertUnknownBefore = Annotated[
    Literal["insert", "refuse"],
    Meta(description=_ABOUT + "written as an INSERT, or refused", extra={"side": "target"}),
]
#: Of a format in which an UPDATE may lack its old row.
KeepUnknownBefore = Annotated[
    Literal["update", "insert", "refuse"],
    Meta(
        description=_ABOUT + "written without it, as an INSERT, or refused",
        extra={"side": "target"},
    ),
]

_UPDATE: Final = Op.UPDATE
_INSERT: Final = Op.INSERT


def op_without_before(wanted: str, protocol: str) -> Op:
    """Return what an UPDATE without its old row is written as. Raises NotRepresentable if it is refused."""
    if wanted == "refuse":
        reason = "an UPDATE whose old row is unknown; the target option unknown-before=insert writes it"
        raise NotRepresentable(protocol, "", reason)
    return _INSERT if wanted == "insert" else _UPDATE
