"""Detection of the Debezium family's messages, by the connector that they name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import Final

import msgspec

from relay.codecs.debezium.shared.messages import TICDC
from relay.codecs.detection import DetectionMessage, FormatMatch, Strength, string_in

_FAMILY: Final = "Debezium"
_OWN: Final = frozenset({"mysql", "mariadb"})
#: A text in Avro, after its length, that may be the connector in `source` after a version.
_TEXTS_IN_AVRO: Final = re.compile(
    rb"(?<=[\w.+-])[\6\x08\n\f\x0e\x10\x12\x14\x16\x18\x1a\x1c][A-Za-z]"
).finditer
_VERSION: Final = re.compile(rb"\d+\.\d+[\w.+-]*", re.ASCII).fullmatch
_SHORTEST_VERSION, _LONGEST_VERSION = 3, 63
_MOST_TEXTS: Final = 10_000
#: The connector for TiDB of Debezium 3.7.
_TIDB: Final = "tidb"
#: The connector name in CockroachDB's changefeeds, whose envelope is like Debezium's.
_COCKROACHDB: Final = "cockroachdb"
_ROW: Final = frozenset({"op", "after"})
_OPS: Final = frozenset({"c", "u", "d", "r"})
_TRANSACTION: Final = frozenset({"status", "id", "event_count"})
_HISTORY: Final = frozenset({"position", "ddl"})
_OF_HISTORY: Final = frozenset({"tableChanges", "databaseName"})
#: Members of other formats next to `payload`, or in it.
_OTHERS: Final = frozenset({"version", "__op", "__deleted"})


def _path(message: DetectionMessage) -> tuple[str, ...]:
    """Return the path of the envelope, which may have a schema next to it."""
    return ("payload",) if "payload" in message.members else ()


def _body(message: DetectionMessage) -> Mapping[str, msgspec.Raw]:
    """Return the envelope's members."""
    return message.inside(*_path(message))


def _connector(message: DetectionMessage) -> tuple[str, str]:
    """Return connector and version from `source`; two empty texts if they are missing."""
    source = message.inside(*_path(message), "source")
    if "connector" not in source:
        return "", ""
    return string_in(source, "connector"), string_in(source, "version")


def _with_version(title: str, version: str) -> str:
    return f"{title} {version}" if version and version.isascii() and len(version) < 40 else title


def ticdc(message: DetectionMessage) -> FormatMatch | None:
    """Detect TiCDC by its name as the connector."""
    body = _body(message)
    connector, _ = _connector(message)
    if connector != TICDC:
        return None
    has_schema = "schema" in message.members
    settings = {"debezium-disable-schema": "false" if has_schema else "true"}
    if string_in(body, "op") == "m":
        settings["enable-tidb-extension"] = "true"
    if "start_ts" in message.inside(*_path(message), "source"):
        settings["debezium-include-start-ts"] = "true"
    return FormatMatch(Strength.CERTAIN, "TiCDC Debezium", f"source.connector is {TICDC}", settings)


def native(message: DetectionMessage) -> FormatMatch | None:
    """Detect Debezium's own connectors for MySQL and MariaDB."""
    if "schemaId" in message.members:
        return None  # its schema is elsewhere
    body = _body(message)
    connector, version = _connector(message)
    settings = {"schemas.enable": "true" if "schema" in message.members else "false"}
    if connector in _OWN:
        title = f"{_with_version('Debezium', version)} (JSON)"
        return FormatMatch(Strength.CERTAIN, title, f"source.connector is {connector}", settings)
    if connector:
        return None
    if body.keys() >= _TRANSACTION:
        return FormatMatch(Strength.LIKELY, "Debezium (JSON)", "members status, id and event_count", settings)
    if body.keys() == {"ts_ms"} and b'"serverName"' in (message.key or b""):
        return FormatMatch(Strength.LIKELY, "Debezium (JSON)", "a heartbeat: serverName in the key", settings)
    return None


def others(message: DetectionMessage) -> FormatMatch | None:
    """Detect connectors of other databases, whose types relay does not know."""
    connector, version = _connector(message)
    if not connector or connector in _OWN or connector == TICDC or not connector.isalnum():
        return None
    return _of_other_database(connector[:40], version, f"source.connector is {connector[:40]}")


def others_in_avro(message: DetectionMessage) -> FormatMatch | None:
    """Detect connectors of other databases in Avro."""
    connector = _avro_connector(message)
    if not connector or connector in _OWN or connector == TICDC:
        return None
    return _of_other_database(connector, "", f"Avro whose source.connector is {connector}")


def _of_other_database(connector: str, version: str, evidence: str) -> FormatMatch:
    title = f"{_with_version('Debezium', version)} of another database ({connector})"
    if connector == _TIDB:
        title = f"{_with_version('Debezium', version)} with its connector for TiDB"
    return FormatMatch(Strength.CERTAIN, title, evidence)


def without_connector(message: DetectionMessage) -> FormatMatch | None:
    """Detect the envelope from other programs: Flink CDC, SeaTunnel, RisingWave, Flink SQL, CockroachDB."""
    body, (connector, _) = _body(message), _connector(message)
    if connector or not body.keys() >= _ROW or not _OTHERS.isdisjoint({*message.members, *body}):
        return None
    if string_in(body, "op") not in _OPS:
        return None
    if string_in(message.inside(*_path(message), "source"), "origin") == _COCKROACHDB:
        title = "a changefeed of CockroachDB (envelope=enriched)"
        return FormatMatch(Strength.CERTAIN, title, f"source.origin is {_COCKROACHDB}")
    title = f"{_FAMILY}'s envelope without a connector, as Flink CDC, SeaTunnel and RisingWave write it"
    return FormatMatch(Strength.LIKELY, title, "members op and after, no source.connector")


def history(message: DetectionMessage) -> FormatMatch | None:
    """Detect the schema history topic of a connector."""
    if message.members.keys() >= _HISTORY and not message.members.keys().isdisjoint(_OF_HISTORY):
        title, evidence = "the schema history of a Debezium connector", "members position and ddl"
        return FormatMatch(Strength.CERTAIN, title, evidence)
    return None


def _avro_connector(message: DetectionMessage) -> str:
    """Return the connector in `source` after a version, "" if there is none."""
    data = message.avro or b""
    for found in islice(_TEXTS_IN_AVRO(data), _MOST_TEXTS):
        at = found.start()
        text = data[at + 1 : at + 1 + data[at] // 2]
        is_word = len(text) == data[at] // 2 and text.isalnum() and text.isascii()
        if is_word and _ends_with_version(data[max(0, at - _LONGEST_VERSION - 1) : at]):
            return text.decode()
    return ""


def _ends_with_version(data: bytes) -> bool:
    """Return whether bytes end with a version preceded by its length."""
    lengths = range(_SHORTEST_VERSION, len(data))
    return any(data[-length - 1] == 2 * length and _VERSION(data[-length:]) for length in lengths)


def ticdc_avro(message: DetectionMessage) -> FormatMatch | None:
    """Detect TiCDC in Avro, where texts are unencoded."""
    if _avro_connector(message) != TICDC:
        return None
    return FormatMatch(
        Strength.CERTAIN, "TiCDC's Debezium in Avro", f"Avro whose source.connector is {TICDC}"
    )


def native_avro(message: DetectionMessage) -> FormatMatch | None:
    """Detect Debezium's own connectors in Avro."""
    connector = _avro_connector(message)
    if connector in _OWN:
        return FormatMatch(
            Strength.CERTAIN, "Debezium in Avro", f"Avro whose source.connector is {connector}"
        )
    if message.avro is not None and b"event_count" in message.schema.encode():
        return FormatMatch(Strength.LIKELY, "Debezium in Avro", "a schema with event_count")
    return None


#: Formats of Debezium that relay does not support.
UNREADABLE: Final = (others, others_in_avro, without_connector, history)
