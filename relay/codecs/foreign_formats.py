"""Detection rules of formats that none of relay's codecs reads.

Each rule is tested with a message of its format (`tests/foreign_messages.py`). `relay.core.detection`
ignores a rule if a codec can read the message. Sources of the formats: their documentation, and the test
data of CloudCanal, OMS, MaxScale, DataWorks, Flink CDC, Debezium, TiDB Binlog (November 2026).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from relay.codecs.canal.canal_protobuf.protobuf import fields
from relay.codecs.debezium import detection as _debezium
from relay.codecs.detection import REFUSED, DetectionMessage, DetectionRule, FormatMatch, Strength, string_in
from relay.codecs.shared.avro import has_id_header

#: A zero byte, and an id of 8 bytes.
_LONG_PREFIX_BYTES: Final = 9


# ---------------------------------------------------------------- JSON


def _by_members(title: str, *names: str) -> DetectionRule:
    """Recognize a format by a combination of members that only it has."""
    wanted, evidence = frozenset(names), f"members {', '.join(names)}"

    def rule(message: DetectionMessage) -> FormatMatch | None:
        return FormatMatch(Strength.CERTAIN, title, evidence) if message.members.keys() >= wanted else None

    return rule


def _by_values(title: str, name: str, values: frozenset[str], *others: str) -> DetectionRule:
    """Recognize a format by values of one member and the presence of others, with or without a schema."""

    def rule(message: DetectionMessage) -> FormatMatch | None:
        found = message.inside("payload") if "schema" in message.members else message.members
        value = string_in(found, name)
        if value not in values or not found.keys() >= set(others):
            return None
        return FormatMatch(Strength.CERTAIN, title, f"{name} {value}")

    return rule


def _by_prefix(title: str, prefix: str) -> DetectionRule:
    """Recognize a format by the prefix of its own members' names."""

    def rule(message: DetectionMessage) -> FormatMatch | None:
        name = next((name for name in message.members if name.startswith(prefix)), "")
        return FormatMatch(Strength.LIKELY, title, f"member {prefix}…") if name else None

    return rule


def _of_dms(message: DetectionMessage) -> FormatMatch | None:
    """Recognize AWS DMS by `metadata`, which has the kind of a message: of a row, or a control record without
    `data`.
    """
    metadata = message.inside("metadata")
    if metadata.keys() >= {"operation", "record-type"}:
        kind = "a control record" if string_in(metadata, "record-type") == "control" else "a data record"
        return FormatMatch(Strength.CERTAIN, "AWS DMS", f"{kind}: metadata.record-type")
    if "data" in message.members and "operation" in metadata:
        return FormatMatch(Strength.CERTAIN, "AWS DMS", "members data and metadata.operation")
    return None


def _of_airbyte(message: DetectionMessage) -> FormatMatch | None:
    record = message.inside("record")
    if "type" not in message.members or not record.keys() >= {"stream", "data"}:
        return None
    return FormatMatch(Strength.CERTAIN, "Airbyte", "members record.stream and record.data")


def _of_striim(message: DetectionMessage) -> FormatMatch | None:
    metadata = message.inside("metadata")
    if not {"OperationName", "OPERATION_NAME", "TableName", "TABLE_NAME"}.isdisjoint(metadata):
        return FormatMatch(Strength.CERTAIN, "Striim", "an operation's or a table's name in metadata")
    return None


def _of_wal2json(message: DetectionMessage) -> FormatMatch | None:
    """Recognize wal2json: version 2 has an object for each row, and for BEGIN and COMMIT; version 1 one for a
    transaction.
    """
    members, title = message.members, "PostgreSQL's wal2json"
    action = string_in(members, "action")
    if action in _WAL2JSON_ROWS and members.keys() >= {"schema", "table"}:
        return FormatMatch(Strength.CERTAIN, title, f"action {action} with schema and table")
    if action in _WAL2JSON_ROWS | {"B", "C", "M"} and members.keys() <= _WAL2JSON:
        return FormatMatch(Strength.LIKELY, title, f"action {action}")
    if bytes(members.get("change", b"")).startswith(b"[") and members.keys() <= _WAL2JSON_1:
        return FormatMatch(Strength.LIKELY, title, "member change, a list")
    return None


_WAL2JSON_ROWS: Final = frozenset({"I", "U", "D", "T"})
_WAL2JSON: Final = frozenset(
    {"action", "xid", "timestamp", "lsn", "nextlsn", "origin", "transactional", "prefix", "content"}
)
_WAL2JSON_1: Final = frozenset({"change", "xid", "nextlsn", "timestamp", "origin"})
#: Types of messages in the signal topic, or of rows in the signal table, of a Debezium connector.
_SIGNALS: Final = frozenset({
    "log", "execute-snapshot", "stop-snapshot", "pause-snapshot", "resume-snapshot", "schema-changes",
    "set-binlog-position",
})  # fmt: skip


def _notification(message: DetectionMessage) -> FormatMatch | None:
    """Recognize a notification of a Debezium connector, which has a separate topic."""
    found = message.inside("payload") if "schema" in message.members else message.members
    if not found.keys() >= {"id", "aggregate_type", "type"}:
        return None
    return FormatMatch(
        Strength.CERTAIN, "a notification of a Debezium connector", "members aggregate_type and type"
    )


def _cloud_event(message: DetectionMessage) -> FormatMatch | None:
    """Recognize a CloudEvent: all in one object, or the attributes in headers."""
    if message.members.keys() >= {"specversion", "type", "source"}:
        return FormatMatch(Strength.CERTAIN, "CloudEvents", "member specversion")
    if any(name.lower() in {"ce_specversion", "ce-specversion"} for name, _ in message.headers):
        return FormatMatch(Strength.CERTAIN, "CloudEvents", "header ce_specversion")
    return None


def _ext_json(message: DetectionMessage) -> FormatMatch | None:
    """Recognize Apicurio's ExtJsonConverter, which puts the schema of a message into the registry."""
    if message.members.keys() == {"schemaId", "payload"}:
        title = "JSON of Apicurio's ExtJsonConverter, whose schema only the registry has"
        return FormatMatch(Strength.CERTAIN, title, "members schemaId and payload")
    return None


def _connect_row(message: DetectionMessage) -> FormatMatch | None:
    """Recognize a row of Kafka Connect's JsonConverter, as the JDBC source writes it, with its schema."""
    is_row = message.members.keys() == {"schema", "payload"} and "source" not in message.inside("payload")
    if not is_row or string_in(message.inside("schema"), "type") != "struct":
        return None
    return FormatMatch(Strength.POSSIBLE, "JSON of Kafka Connect with a schema", "members schema and payload")


def _text_in_json(message: DetectionMessage) -> FormatMatch | None:
    """Recognize JSON that is a text, in which there is JSON again: a converter has been used twice."""
    if not message.text.lstrip().startswith(b'"'):
        return None
    try:
        inner = msgspec.json.decode(message.text, type=str)
    except REFUSED:
        return None
    if not inner.lstrip().startswith(("{", "[")):
        return None
    title = "JSON in a JSON string, as a JsonConverter writes text that is already JSON"
    return FormatMatch(Strength.CERTAIN, title, "a string that begins with a brace")


# ---------------------------------------------------------------- bytes


def _by_beginning(
    title: str, evidence: str, *beginnings: bytes, strength: Strength = Strength.LIKELY
) -> DetectionRule:
    """Recognize a format by its first bytes."""

    def rule(message: DetectionMessage) -> FormatMatch | None:
        return FormatMatch(strength, title, evidence) if message.value.startswith(beginnings) else None

    return rule


def _by_pattern(title: str, evidence: str, pattern: re.Pattern[bytes]) -> DetectionRule:
    """Recognize a format by a pattern for its first bytes."""

    def rule(message: DetectionMessage) -> FormatMatch | None:
        return FormatMatch(Strength.LIKELY, title, evidence) if pattern.match(message.value) else None

    return rule


def _json_schema(message: DetectionMessage) -> FormatMatch | None:
    if message.avro is None or message.avro[:1] != b"{":
        return None
    evidence = "JSON after the id of a registry's schema"
    return FormatMatch(Strength.LIKELY, "JSON Schema with the id of a schema registry", evidence)


def _protobuf_of_registry(message: DetectionMessage) -> FormatMatch | None:
    """Recognize Protobuf with a registry: after the schema's id come indexes of the message in it (a zero
    byte for the first), and fields.
    """
    body = message.avro
    if body is None or message.schema or body[:1] != b"\0" or not _is_protobuf(body[1:]):
        return None
    evidence = "indexes and fields after the id of a registry's schema"
    return FormatMatch(Strength.LIKELY, "Protobuf with the id of a schema registry", evidence)


def _is_protobuf(data: bytes) -> bool:
    """Return whether all bytes are fields, as in a small message."""
    try:
        numbers = [number for number, _ in fields(data)]
    except ValueError:
        return False
    return bool(numbers) and min(numbers) > 0 and max(numbers) <= _MOST_FIELDS


#: Higher field numbers are coincidences.
_MOST_FIELDS: Final = 100
#: Binlog of TiDB Binlog's drainer (pingcap/tidb-tools binlog.proto): type, commit ts, rows or a statement.
_DRAINER_TYPE, _DRAINER_COMMIT_TS, _DRAINER_BODIES = 1, 2, {3, 4}
_SMALLEST_TSO: Final = 1 << 50


def _drainer(message: DetectionMessage) -> FormatMatch | None:
    found = dict[int, int | bytes]()
    try:
        found.update(fields(message.value))
    except ValueError:
        return None
    commit_ts = found.get(_DRAINER_COMMIT_TS)
    if found.get(_DRAINER_TYPE, 0) not in {0, 1} or not isinstance(commit_ts, int):
        return None
    if commit_ts < _SMALLEST_TSO or found.keys().isdisjoint(_DRAINER_BODIES) or max(found) > 4:
        return None
    return FormatMatch(
        Strength.CERTAIN, "TiDB Binlog's drainer (Protobuf)", "a commit ts next to rows or a statement"
    )


def _avro_of_apicurio(message: DetectionMessage) -> FormatMatch | None:
    """Recognize Apicurio's own frame: a zero byte, the id of a schema in 8 bytes, Avro."""
    value = message.value
    if len(value) <= _LONG_PREFIX_BYTES or has_id_header(message.headers, "value"):
        return None
    if not 0 < int.from_bytes(value[:_LONG_PREFIX_BYTES], "big") < 1 << 32:
        return None
    title = "Avro with a schema id of 8 bytes, as Apicurio's serializers write it by default"
    return FormatMatch(Strength.LIKELY, title, "with apicurio.registry.as-confluent=true they write 4")


def _id_in_apicurios_header(message: DetectionMessage) -> FormatMatch | None:
    name = next((name for name, _ in message.headers if name.startswith("apicurio.value.")), "")
    if not name:
        return None
    title = "a message whose schema id is in a header of Apicurio's"
    return FormatMatch(Strength.CERTAIN, title, f"header {name[:40]}")


def _of_glue(message: DetectionMessage) -> FormatMatch | None:
    """Recognize AWS Glue: a version, whether it is compressed, the id of a schema version in 16 bytes."""
    value = message.value
    if len(value) <= _GLUE_PREFIX_BYTES or value[0] != 3 or value[1] not in {0, 5}:
        return None
    return FormatMatch(
        Strength.LIKELY, "a message with a schema id of AWS Glue", "the version byte 3 before a UUID"
    )


_GLUE_PREFIX_BYTES: Final = 18


def _message_pack(message: DetectionMessage) -> FormatMatch | None:
    if message.value[:1] < b"\x80":
        return None
    try:
        found = msgspec.msgpack.decode(message.value, type=dict[str, msgspec.Raw])
    except REFUSED:
        return None
    return FormatMatch(Strength.LIKELY, "MessagePack", "a map with names") if found else None


def _cbor(message: DetectionMessage) -> FormatMatch | None:
    """Recognize CBOR: a map (major type 5) whose first name is a short text (major type 3); a tag may mark it
    as CBOR.
    """
    value = message.value.removeprefix(b"\xd9\xd9\xf7")
    if len(value) < 3 or not (0xA1 <= value[0] <= 0xB7 or value[0] == 0xBF) or not 0x61 <= value[1] <= 0x77:
        return None
    name = value[2 : 2 + value[1] - 0x60]
    if len(name) < value[1] - 0x60 or not name.isascii() or not name.decode().isprintable():
        return None
    return FormatMatch(Strength.LIKELY, "CBOR", "a map with names")


def _csv(message: DetectionMessage) -> FormatMatch | None:
    """Recognize a line of several fields, only of text."""
    line = message.value[:_CSV_BYTES].splitlines()[0] if message.value[:1].strip() else b""
    if line.count(b",") < 2 or line[:1] in b"{[" or not line.isascii() or not line.decode().isprintable():
        return None
    return FormatMatch(Strength.POSSIBLE, "CSV", "a line of text with commas")


_CSV_BYTES: Final = 10_000

#: Formats that users have and relay does not read.
UNREADABLE: Final[Sequence[DetectionRule]] = (
    *_debezium.UNREADABLE,
    _by_members("DataWorks", "payload", "version", "schema"),
    _by_members("CloudCanal's own JSON", "action", "dbValType"),
    _by_members("CloudCanal's own JSON", "action", "bid"),
    _by_members("the default format of OceanBase's OMS", "prevStruct", "postStruct"),
    _by_members("MaxScale", "event_type", "domain", "sequence"),
    _by_members("Oracle GoldenGate", "op_type", "op_ts", "current_ts"),
    _of_wal2json,
    _by_members("TiCDC Open Protocol as TiCDC's storage sink writes it", "scm", "tbl", "ts"),
    _of_dms,
    _of_striim,
    _by_members("Qlik Replicate", "magic", "type", "message"),
    _by_prefix("HVR (Fivetran LDP)", "hvr_"),
    _by_prefix("Fivetran", "_fivetran_"),
    _by_members("a change stream of MongoDB", "operationType", "ns"),
    _of_airbyte,
    _by_members("Singer", "type", "stream", "record"),
    _by_members("a webhook of Supabase", "type", "table", "record", "old_record"),
    _by_values("a signal to a Debezium connector", "type", _SIGNALS, "data"),
    _notification,
    _cloud_event,
    _ext_json,
    _connect_row,
    _text_in_json,
    _json_schema,
    _protobuf_of_registry,
    _drainer,
    _avro_of_apicurio,
    _id_in_apicurios_header,
    _of_glue,
    _message_pack,
    _cbor,
    _csv,
    _by_beginning("an Avro file", "the first bytes Obj", b"Obj\x01", strength=Strength.CERTAIN),
    _by_beginning("a Parquet file", "the first bytes PAR1", b"PAR1", strength=Strength.CERTAIN),
    _by_beginning("an ORC file", "the first bytes ORC", b"ORC"),
    _by_beginning("gzip", "the first bytes 1f 8b", b"\x1f\x8b"),
    _by_beginning("Zstandard", "the first bytes 28 b5 2f fd", b"\x28\xb5\x2f\xfd"),
    _by_beginning("serialized Java objects", "the first bytes ac ed 00 05", b"\xac\xed\0\5"),
    _by_beginning(
        "TiCDC's CSV", "a line that begins with the letter of an operation", b'"I",', b'"U",', b'"D",'
    ),
    _by_pattern("syslog", "a priority in angle brackets", re.compile(rb"<\d{1,3}>")),
    _by_pattern("XML", "a tag or a declaration", re.compile(rb"<[?!A-Za-z_]")),
)
