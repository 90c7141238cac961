"""Which format a message has that is not the one of its route: for errors that name it.

Contract: `refusal` is asked about messages that a codec cannot read, or that have members which it does not
know. A format is told by members that no other has. Sources: the formats' documents and the test data of
tiflow, Maxwell, CloudCanal, OMS, MaxScale and DataWorks (November 2026).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from relay.codecs.wire.lenient_json import REFUSED
from relay.errors import UnsupportedMessage

_ZERO: Final = 0
_LENGTH_BYTES: Final = 8
#: A zero byte and the four bytes of a schema's number.
_AVRO_HEAD: Final = 5
#: The first byte of Avro with the id of a schema, and with a GUID.
_FRAMES: Final = (b"\0", b"\1")
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class _Format(NamedTuple):
    """`title`: what users call it; `protocols`: those of relay's that read it."""

    title: str
    protocols: tuple[str, ...] = ()


_SIMPLE: Final = _Format("TiCDC Simple", ("ticdc-simple-json",))
_DEBEZIUM: Final = _Format("Debezium", ("ticdc-debezium", "debezium-json"))
_HISTORY: Final = _Format("the schema history of a Debezium connector")
_FLAT: Final = _Format("rows that Debezium's ExtractNewRecordState has flattened")
_DATAWORKS: Final = _Format("DataWorks")
_MAXWELL: Final = _Format("Maxwell", ("maxwell-json",))
_CKAFKA: Final = _Format("CKafka's official format 1", ("ckafka-json",))
_CANAL: Final = _Format("Canal-JSON", ("canal-json", "ticdc-canal-json", "ckafka-json"))
_OPEN: Final = _Format("TiCDC Open Protocol", ("ticdc-open-protocol",))
_AVRO: Final = _Format("Avro with the number of a schema registry")
#: Members that only this format has together; the first that fits counts.
_BY_MEMBERS: Final = (
    (frozenset({"position", "ddl", "tableChanges"}), _HISTORY),
    (frozenset({"position", "ddl", "databaseName"}), _HISTORY),
    (frozenset({"__op"}), _FLAT),
    (frozenset({"__deleted"}), _FLAT),
    (frozenset({"commitTs", "buildTs"}), _SIMPLE),
    (frozenset({"commitTs", "schemaVersion"}), _SIMPLE),
    (frozenset({"isDdl", "type"}), _CANAL),
    (frozenset({"payload", "version"}), _DATAWORKS),
    (frozenset({"payload"}), _DEBEZIUM),
    (frozenset({"op", "source"}), _DEBEZIUM),
    (frozenset({"op", "before", "after"}), _DEBEZIUM),
    (frozenset({"TYPE", "DATABASE"}), _CKAFKA),
    (frozenset({"action", "dbValType"}), _Format("CloudCanal's own JSON")),
    (frozenset({"action", "bid"}), _Format("CloudCanal's own JSON")),
    (frozenset({"prevStruct", "postStruct"}), _Format("the default format of OceanBase's OMS")),
    (frozenset({"event_type", "domain", "sequence"}), _Format("MaxScale")),
)
#: Members that flattened rows may have inside of `payload`.
_FLAT_MEMBERS: Final = frozenset({"__op", "__deleted"})
_MAXWELL_TYPES: Final = frozenset(
    f'"{word}"'.encode()
    for word in (
        "insert", "update", "delete", "bootstrap-start", "bootstrap-insert", "bootstrap-complete",
        "table-create", "table-alter", "table-drop", "database-create", "database-alter", "database-drop",
    )
)  # fmt: skip


def refusal_unless_framed(protocol: str, value: bytes) -> UnsupportedMessage | None:
    """As `refusal`, of a message that should begin as Avro with the id of a schema; None if it does."""
    return None if value[:1] in _FRAMES else refusal(protocol, value)


def refusal(protocol: str, value: bytes | None) -> UnsupportedMessage | None:
    """Return the error that names the format of a message, None if it has no other format that is known."""
    if not value:
        return None
    if value[0] == _ZERO and len(value) > _AVRO_HEAD:
        return _refusal(protocol, _binary_format(value))
    try:
        members: dict[str, Any] = _decode_members(value)
        payload = members.get("payload")
        inside: dict[str, Any] = _decode_members(payload) if payload and "schema" in members else {}
    except REFUSED:
        return None
    if not inside.keys().isdisjoint(_FLAT_MEMBERS):
        return _refusal(protocol, _FLAT)
    return refusal_of_members(protocol, members)


def refusal_of_members(protocol: str, members: Mapping[str, Any]) -> UnsupportedMessage | None:
    """Return the error that names the format of a JSON object with these members; see `refusal`."""
    for names, found in _BY_MEMBERS:
        if members.keys() >= names:
            return _refusal(protocol, found)
    word = members.get("type")
    if isinstance(word, msgspec.Raw):
        word = bytes(word)
    elif isinstance(word, str):
        word = f'"{word}"'.encode()
    is_maxwell = "database" in members and isinstance(word, bytes) and word in _MAXWELL_TYPES
    return _refusal(protocol, _MAXWELL) if is_maxwell else None


def _binary_format(value: bytes) -> _Format:
    """Open Protocol begins with the length of a segment, Avro with the number of its schema."""
    length = int.from_bytes(value[:_LENGTH_BYTES])
    return _OPEN if len(value) >= _LENGTH_BYTES and length <= len(value) - _LENGTH_BYTES else _AVRO


def _refusal(protocol: str, found: _Format) -> UnsupportedMessage | None:
    if protocol in found.protocols:
        return None
    reason = f"this looks like {found.title}"
    if found.protocols:
        reason += f": is the source protocol {' or '.join(found.protocols[:2])}?"
    return UnsupportedMessage(protocol, "", reason)
