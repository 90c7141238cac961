"""Detection of the Canal family's messages and of their producers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from relay.codecs.canal.canal_protobuf.protobuf import fields
from relay.codecs.detection import (
    DetectionMessage,
    DetectionRule,
    FormatMatch,
    Strength,
    members_in,
    string_in,
)
from relay.model.errors import Malformed

_FAMILY: Final = "Canal-JSON"
_MEMBERS: Final = frozenset({"isDdl", "type"})
#: Members that upstream Canal and TiCDC always write.
_OWN: Final = frozenset({
    "id", "database", "table", "pkNames", "isDdl", "type", "es", "ts", "sql", "sqlType", "mysqlType", "old",
    "data", "_tidb", "gtid",
})  # fmt: skip
_ROW_TYPES: Final = frozenset({"INSERT", "UPDATE", "DELETE", "INIT"})
_OFFICIAL: Final = frozenset({"TYPE", "DATABASE"})
#: Members of `_tidb` that an option of TiCDC adds, and the option.
_BY_OPTION: Final = {
    "rowkey": ("output-row-key", "true"),
    "onlyHandleKey": ("large-message-handle-option", "handle-key-only"),
    "claimCheckLocation": ("large-message-handle-option", "claim-check"),
}
_NULL: Final = b"null"
_NO_TYPES: Final = frozenset({_NULL, b"{}"})
#: Number of digits of seconds since 1970 until 2286.
_DIGITS_OF_SECONDS: Final = 10
#: Fields of a packet, and its type for messages.
_TYPE, _BODY, _MESSAGES = 3, 5, 7


def refusal(protocol: str, text: bytes) -> Malformed | None:
    """Return the error for a JSON object that is no message of the family, whatever its `type`, else None."""
    members = members_in(text)
    if not members or members.keys() >= _MEMBERS or _has_rows(members) or members.keys() <= _OWN:
        return None
    return Malformed(protocol, "", "not a Canal message: it has neither isDdl nor a list of rows")


def _has_rows(members: Mapping[str, msgspec.Raw]) -> bool:
    """Return whether there are a row's operation and a list of rows; old releases of Flink CDC have deleted
    rows in `old`.
    """
    rows = (bytes(members.get(name, b"")) for name in ("data", "old"))
    return string_in(members, "type") in _ROW_TYPES and any(each.startswith(b"[") for each in rows)


def _of_family(rule: DetectionRule) -> DetectionRule:
    """Restrict a rule to messages with the members common to the family."""

    def family_rule(message: DetectionMessage) -> FormatMatch | None:
        return rule(message) if message.members.keys() >= _MEMBERS else None

    return family_rule


@_of_family
def ticdc(message: DetectionMessage) -> FormatMatch | None:
    """Detect TiCDC: with its extension by its member `_tidb`; without it by id 0 and a missing GTID."""
    members, settings = message.members, dict[str, str]()
    if message.compression:
        settings["large-message-handle-compression"] = message.compression
    if _has_full_types(members):
        settings["content-compatible"] = "true"
    if "_tidb" in members:
        own = message.inside("_tidb")
        settings["enable-tidb-extension"] = "true"
        settings |= dict(option for name, option in _BY_OPTION.items() if name in own)
        return FormatMatch(Strength.CERTAIN, "TiCDC Canal-JSON", "member _tidb", settings)
    if message.compression:
        evidence = f"a message compressed by itself ({message.compression})"
        return FormatMatch(Strength.LIKELY, "TiCDC Canal-JSON", evidence, settings)
    settings["enable-tidb-extension"] = "false"
    if "gtid" not in members and _is(members, "id", b"0") and _has_order_of_ticdc(members):
        if _has_types(members):
            evidence = "members isDdl and type, id 0 before the others, types, no gtid"
            return FormatMatch(Strength.LIKELY, "TiCDC Canal-JSON", evidence, settings)
        if _is(members, "isDdl", b"true") and not _is_in_seconds(members):
            evidence = "members isDdl and type, id 0 before the others, no gtid"
            return FormatMatch(Strength.LIKELY, "TiCDC Canal-JSON", evidence, settings)
    if _lacks_types(members):
        return None
    return FormatMatch(Strength.POSSIBLE, _FAMILY, "members isDdl and type", settings)


def _is_row(members: Mapping[str, msgspec.Raw]) -> bool:
    return _is(members, "isDdl", b"false")


def _has_order_of_ticdc(members: Mapping[str, msgspec.Raw]) -> bool:
    """Return whether members are in TiCDC's order; other producers sort them alphabetically."""
    return next(iter(members)) == "id"


def _lacks_types(members: Mapping[str, msgspec.Raw]) -> bool:
    """Return whether it is a row without column types, which TiCDC and upstream Canal always write."""
    sql_type, mysql_type = (bytes(members.get(name, _NULL)) for name in ("sqlType", "mysqlType"))
    return _is_row(members) and (sql_type in _NO_TYPES or mysql_type in _NO_TYPES) and _has_cells(members)


def _has_types(members: Mapping[str, msgspec.Raw]) -> bool:
    """Return whether it is a row with column types."""
    return _is_row(members) and _has_cells(members) and not _lacks_types(members)


def _has_cells(members: Mapping[str, msgspec.Raw]) -> bool:
    """Return whether there is a list with rows."""
    return bytes(members.get("data", _NULL)).startswith(b"[{")


def _is_in_seconds(members: Mapping[str, msgspec.Raw]) -> bool:
    """Return whether the event time is in seconds, as CKafka writes it."""
    return bytes(members.get("es", b"")).isdigit() and len(members["es"]) <= _DIGITS_OF_SECONDS


def _has_full_types(members: Mapping[str, msgspec.Raw]) -> bool:
    """Return whether types have lengths, which TiCDC writes only with `content-compatible`."""
    return b"(" in bytes(members.get("mysqlType", b"")) and "gtid" not in members


def _is(members: Mapping[str, msgspec.Raw], name: str, text: bytes) -> bool:
    return bytes(members.get(name, b"")) == text


def upstream(message: DetectionMessage) -> FormatMatch | None:
    """Detect upstream Canal by its GTID, even an empty one, and its message numbers. Look-alikes write its
    messages without `isDdl`, or without types.
    """
    members = message.members
    if not members.keys() >= _MEMBERS:
        if not _has_rows(members) or not _OFFICIAL.isdisjoint(members):
            return None
        title = "Canal-JSON without isDdl, as Flink CDC, SeaTunnel and Flink SQL write it"
        return FormatMatch(Strength.LIKELY, title, "an operation of Canal's, rows in a list")
    if "_tidb" in members or message.compression:
        return FormatMatch(Strength.POSSIBLE, _FAMILY, "members isDdl and type")
    if "gtid" in members:
        return FormatMatch(Strength.LIKELY, "Canal-JSON of upstream Canal", "members isDdl, type and gtid")
    if _lacks_types(members) and not _is_ckafka_row(members):
        title = "Canal-JSON of a look-alike such as Tencent DTS"
        return FormatMatch(
            Strength.LIKELY, title, "members isDdl and type, a row without sqlType or mysqlType"
        )
    if "id" in members and not _is(members, "id", b"0") and not _is_ckafka_row(members):
        evidence = "members isDdl and type, an id that counts"
        return FormatMatch(Strength.LIKELY, "Canal-JSON of upstream Canal", evidence)
    if _has_types(members) and list(members) == sorted(members):
        evidence = "members isDdl and type, in alphabetical order"
        return FormatMatch(Strength.LIKELY, "Canal-JSON of upstream Canal", evidence)
    return FormatMatch(Strength.POSSIBLE, _FAMILY, "members isDdl and type")


def ckafka(message: DetectionMessage) -> FormatMatch | None:
    """Detect CKafka: rows have upper-case members, DDL those of Canal."""
    members = message.members
    if members.keys() >= _OFFICIAL:
        evidence = "members TYPE and DATABASE"
        return FormatMatch(Strength.CERTAIN, "CKafka's official format 1", evidence)
    if not members.keys() >= _MEMBERS:
        return None
    title = "CKafka's Canal format"
    if _is_ckafka_row(members):
        return FormatMatch(Strength.LIKELY, title, "rows with neither mysqlType nor pkNames")
    if _is(members, "isDdl", b"true") and _is_in_seconds(members):
        return FormatMatch(Strength.LIKELY, title, "a statement whose es is in seconds")
    return (
        None if _lacks_types(members) else FormatMatch(Strength.POSSIBLE, _FAMILY, "members isDdl and type")
    )


def _is_ckafka_row(members: Mapping[str, msgspec.Raw]) -> bool:
    return (
        _is(members, "isDdl", b"false")
        and all(name in members and _is(members, name, _NULL) for name in ("mysqlType", "sqlType", "pkNames"))
        and not members_in(members.get("_tidb", b""))
        and not _is(members, "data", _NULL)
    )


def packets(message: DetectionMessage) -> FormatMatch | None:
    """Detect a packet by its type and body."""
    found = dict[int, int | bytes]()
    try:
        found.update(fields(message.value))
    except ValueError:
        return None
    if found.get(_TYPE) != _MESSAGES or not isinstance(found.get(_BODY), bytes):
        return None
    return FormatMatch(Strength.CERTAIN, "Canal's Protocol Buffers", "a packet of type MESSAGES")
