"""How messages of Debezium's family are recognised: by the connector that they name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import Final

import msgspec

from relay.codecs.debezium.envelope import CONNECTOR
from relay.codecs.signs import Message, Sign, Strength, word_in

_FAMILY: Final = "Debezium"
_OWN: Final = frozenset({"mysql", "mariadb"})
#: How `source` begins in Avro: a version, which vendors end in their own way, and the connector, each behind
#: its length.
_CONNECTORS_IN_AVRO: Final = re.compile(rb"\x0a(mysql|TiCDC)|\x0e(mariadb)").finditer
_VERSION: Final = re.compile(rb"\d+\.\d+[\w.+-]*", re.ASCII).fullmatch
_SHORTEST_VERSION, _LONGEST_VERSION = 3, 63
_MOST_CONNECTORS: Final = 1_000
_ROW: Final = frozenset({"op", "after"})
_TRANSACTION: Final = frozenset({"status", "id", "event_count"})
_HISTORY: Final = frozenset({"position", "ddl"})
_OF_HISTORY: Final = frozenset({"tableChanges", "databaseName"})
#: Members that other formats have beside `payload`, or in it.
_OTHERS: Final = frozenset({"version", "__op", "__deleted"})


def _path(message: Message) -> tuple[str, ...]:
    """Return where the envelope stands: a schema may be beside it."""
    return ("payload",) if "payload" in message.members else ()


def _body(message: Message) -> Mapping[str, msgspec.Raw]:
    """Return the envelope's members."""
    return message.inside(*_path(message))


def _may_be(message: Message) -> Sign | None:
    """What is an envelope by its form alone."""
    body = _body(message)
    if _OTHERS.isdisjoint(message.members) and _OTHERS.isdisjoint(body) and body.keys() >= _ROW:
        return Sign(Strength.POSSIBLE, _FAMILY, "members op and after")
    return None


def _connector(message: Message) -> tuple[str, str]:
    """Return connector and version, as `source` tells them; two empty texts if it does not."""
    source = message.inside(*_path(message), "source")
    if "connector" not in source:
        return "", ""
    return word_in(source, "connector"), word_in(source, "version")


def _with_version(title: str, version: str) -> str:
    return f"{title} {version}" if version and version.isascii() and len(version) < 40 else title


def ticdc(message: Message) -> Sign | None:
    """TiCDC names itself as the connector."""
    body = _body(message)
    connector, _ = _connector(message)
    if connector != CONNECTOR:
        return None if connector else _may_be(message)
    has_schema = "schema" in message.members
    settings = {"debezium-disable-schema": "false" if has_schema else "true"}
    if word_in(body, "op") == "m":
        settings["enable-tidb-extension"] = "true"
    if "start_ts" in message.inside(*_path(message), "source"):
        settings["debezium-include-start-ts"] = "true"
    return Sign(Strength.CERTAIN, "TiCDC Debezium", f"source.connector is {CONNECTOR}", settings)


def native(message: Message) -> Sign | None:
    """Debezium's own connectors for MySQL and MariaDB."""
    body = _body(message)
    connector, version = _connector(message)
    settings = {"schemas.enable": "true" if "schema" in message.members else "false"}
    if connector in _OWN:
        title = f"{_with_version('Debezium', version)} (JSON)"
        return Sign(Strength.CERTAIN, title, f"source.connector is {connector}", settings)
    if connector:
        return None
    if body.keys() >= _TRANSACTION:
        return Sign(Strength.LIKELY, "Debezium (JSON)", "members status, id and event_count", settings)
    if body.keys() == {"ts_ms"} and b'"serverName"' in (message.key or b""):
        return Sign(Strength.LIKELY, "Debezium (JSON)", "a heartbeat: serverName in the key", settings)
    return _may_be(message)


def others(message: Message) -> Sign | None:
    """Connectors of other databases, whose types relay does not know."""
    connector, version = _connector(message)
    if not connector or connector in _OWN or connector == CONNECTOR or not connector.isalnum():
        return None
    title = f"{_with_version('Debezium', version)} of another database ({connector[:40]})"
    return Sign(Strength.CERTAIN, title, f"source.connector is {connector[:40]}")


def history(message: Message) -> Sign | None:
    """The topic in which a connector keeps what it has learnt."""
    if message.members.keys() >= _HISTORY and not message.members.keys().isdisjoint(_OF_HISTORY):
        title, evidence = "the schema history of a Debezium connector", "members position and ddl"
        return Sign(Strength.CERTAIN, title, evidence)
    return None


#: What comes from Debezium, and is no protocol of relay's.
UNREADABLE: Final = (others, history)


def _avro_connector(message: Message) -> str:
    """Return the connector that `source` names, "" if it names none that relay reads."""
    data = message.avro or b""
    for found in islice(_CONNECTORS_IN_AVRO(data), _MOST_CONNECTORS):
        at = found.start()
        if _ends_with_version(data[max(0, at - _LONGEST_VERSION - 1) : at]):
            return found[found.lastindex or 0].decode()
    return ""


def _ends_with_version(data: bytes) -> bool:
    """Whether bytes end with a version behind its length."""
    lengths = range(_SHORTEST_VERSION, len(data))
    return any(data[-length - 1] == 2 * length and _VERSION(data[-length:]) for length in lengths)


def ticdc_avro(message: Message) -> Sign | None:
    """As `ticdc`, in Avro, where the texts stand as they are."""
    if _avro_connector(message) != CONNECTOR:
        return None
    return Sign(Strength.CERTAIN, "TiCDC's Debezium in Avro", f"Avro whose source.connector is {CONNECTOR}")


def native_avro(message: Message) -> Sign | None:
    """As `native`, in Avro."""
    connector = _avro_connector(message)
    if connector in _OWN:
        return Sign(Strength.CERTAIN, "Debezium in Avro", f"Avro whose source.connector is {connector}")
    if message.avro is not None and b"event_count" in message.schema.encode():
        return Sign(Strength.LIKELY, "Debezium in Avro", "a schema with event_count")
    return None
