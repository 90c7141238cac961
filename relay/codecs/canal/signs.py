"""How messages of Canal's family are recognised, and which of its producers wrote them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from relay.codecs.canal.protobuf import fields
from relay.codecs.signs import Message, Sign, Strength, members_in

_FAMILY: Final = "Canal-JSON"
_MEMBERS: Final = frozenset({"isDdl", "type"})
_OFFICIAL: Final = frozenset({"TYPE", "DATABASE"})
#: Members of `_tidb` that an option of TiCDC adds, and the option.
_BY_OPTION: Final = {
    "rowkey": ("output-row-key", "true"),
    "onlyHandleKey": ("large-message-handle-option", "handle-key-only"),
    "claimCheckLocation": ("large-message-handle-option", "claim-check"),
}
_NULL: Final = b"null"
#: Fields of a packet, and its type for messages.
_TYPE, _BODY, _MESSAGES = 3, 5, 7


def is_of_family(text: bytes) -> bool:
    """Whether a text is JSON with the members that all of the family have."""
    return members_in(text).keys() >= _MEMBERS


def _of_family(look: Callable[[Message], Sign]) -> Callable[[Message], Sign | None]:
    """Ask only about messages with the members that all of the family have."""

    def signs(message: Message) -> Sign | None:
        return look(message) if message.members.keys() >= _MEMBERS else None

    return signs


@_of_family
def ticdc(message: Message) -> Sign:
    """With its extension TiCDC has a member of its own; without it, no GTID and no count of messages."""
    members, settings = message.members, dict[str, str]()
    if message.compression:
        settings["large-message-handle-compression"] = message.compression
    if _has_full_types(members):
        settings["content-compatible"] = "true"
    if "_tidb" in members:
        own = message.inside("_tidb")
        settings["enable-tidb-extension"] = "true"
        settings |= dict(option for name, option in _BY_OPTION.items() if name in own)
        return Sign(Strength.CERTAIN, "TiCDC Canal-JSON", "member _tidb", settings)
    if message.compression:
        evidence = f"a message compressed by itself ({message.compression})"
        return Sign(Strength.LIKELY, "TiCDC Canal-JSON", evidence, settings)
    settings["enable-tidb-extension"] = "false"
    if "gtid" not in members and _is(members, "id", b"0"):
        return Sign(Strength.LIKELY, "TiCDC Canal-JSON", "members isDdl and type, id 0, no gtid", settings)
    return Sign(Strength.POSSIBLE, _FAMILY, "members isDdl and type", settings)


def _has_full_types(members: Mapping[str, msgspec.Raw]) -> bool:
    """Whether types have lengths, which TiCDC writes only if it is to be compatible."""
    return b"(" in bytes(members.get("mysqlType", b"")) and "gtid" not in members


def _is(members: Mapping[str, msgspec.Raw], name: str, text: bytes) -> bool:
    return bytes(members.get(name, b"")) == text


@_of_family
def upstream(message: Message) -> Sign:
    """Upstream Canal has a GTID, even if an empty one, and counts its messages."""
    members = message.members
    if "_tidb" in members or message.compression:
        return Sign(Strength.POSSIBLE, _FAMILY, "members isDdl and type")
    if "gtid" in members:
        return Sign(Strength.LIKELY, "Canal-JSON of upstream Canal", "members isDdl, type and gtid")
    if "id" in members and not _is(members, "id", b"0") and not _is_ckafka_row(members):
        evidence = "members isDdl and type, an id that counts"
        return Sign(Strength.LIKELY, "Canal-JSON of upstream Canal", evidence)
    return Sign(Strength.POSSIBLE, _FAMILY, "members isDdl and type")


def ckafka(message: Message) -> Sign | None:
    """CKafka's rows have upper-case members, its DDL those of Canal."""
    members = message.members
    if members.keys() >= _OFFICIAL:
        evidence = "members TYPE and DATABASE"
        return Sign(Strength.CERTAIN, "CKafka's official format 1", evidence)
    if not members.keys() >= _MEMBERS:
        return None
    if _is_ckafka_row(members):
        return Sign(Strength.LIKELY, "CKafka's Canal format", "rows with neither mysqlType nor pkNames")
    return Sign(Strength.POSSIBLE, _FAMILY, "members isDdl and type")


def _is_ckafka_row(members: Mapping[str, msgspec.Raw]) -> bool:
    return (
        _is(members, "isDdl", b"false")
        and all(name in members and _is(members, name, _NULL) for name in ("mysqlType", "sqlType", "pkNames"))
        and not members_in(members.get("_tidb", b""))
        and not _is(members, "data", _NULL)
    )


def packets(message: Message) -> Sign | None:
    """A packet says its type, and has a body."""
    found = dict[int, int | bytes]()
    try:
        found.update(fields(message.value))
    except ValueError:
        return None
    if found.get(_TYPE) != _MESSAGES or not isinstance(found.get(_BODY), bytes):
        return None
    return Sign(Strength.CERTAIN, "Canal's Protocol Buffers", "a packet of type MESSAGES")
