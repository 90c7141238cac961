"""Messages of other formats: of those that no codec reads, and of those that a codec would take for its own.

A family knows no other. `relay.codecs`, which knows them all, gives `watch` the rooms to ask before anything
is decoded. Sources of the formats: their documents, and the test data of CloudCanal, OMS, MaxScale, DataWorks
(November 2026).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from relay.codecs.signs import Message, Sighting, Sign, Signs, Strength, behind_schema_id, other_format
from relay.codecs.wire.avro import frame_of, has_id_header
from relay.codecs.wire.large_messages import Compression, Decompression, decompressed
from relay.errors import DecodeError, Malformed, UnsupportedMessage
from relay.limits import DEFAULT_LIMITS
from relay.records import ConsumerRecord, Header

#: Longer messages are not looked into, compressed or not: naming a format is not worth their memory.
MOST_BYTES: Final = 1 << 20
_LIMITS: Final = msgspec.structs.replace(DEFAULT_LIMITS, decompressed_bytes=MOST_BYTES)
_LZ4: Final = b"\x04\x22\x4d\x18"
#: A zero byte, and an id of 8 bytes.
_LONG_PREFIX_BYTES: Final = 9

Look = Callable[[Message], Sequence[Sighting]]
_looks: Final[list[Look]] = []


def watch(look: Look) -> None:
    """Take who is asked about messages from now on."""
    _looks[:] = [look]


def message_of(
    key: bytes | None, value: bytes, headers: tuple[Header, ...] = (), schema: str = ""
) -> Message:
    """Return a message as rooms look at it. `schema`: the text of the schema that it names, if known."""
    avro = _avro_in(value, headers)
    if len(value) > MOST_BYTES:
        return Message(key, value[:MOST_BYTES], headers, schema=schema, avro=avro)
    try:
        text = decompressed("", "", value, Compression.AUTO, Decompression(_LIMITS))
    except DecodeError:
        text = value
    compression = ""
    if text is not value:
        compression = "lz4" if value.startswith(_LZ4) else "snappy"
        if not text.lstrip().startswith((b"{", b"\x16")):
            # Many short texts can be read as a block of snappy.
            text, compression = value, ""
    return Message(key, value, headers, text=text, compression=compression, schema=schema, avro=avro)


def _avro_in(value: bytes, headers: tuple[Header, ...]) -> bytes | None:
    """The Avro in a value whose schema it names itself, or a header; None if neither does."""
    if not has_id_header(headers, "value"):
        return behind_schema_id(value)
    try:
        frame = frame_of("", ConsumerRecord("", 0, 0, 0, None, value, headers), "value")
    except Malformed:
        return None
    return None if frame is None else frame.body


def refusal(protocol: str, value: bytes) -> UnsupportedMessage | None:
    """Return the error that names the format of a message that this protocol could read, and should not
    because it is another's; None if it is its own.
    """
    message = Message(None, value)
    for look in _looks:
        seen = look(message)
        # One that its own room knows is another dialect at most.
        is_own = any(each.protocol == protocol for each in seen)
        if not is_own and (said := other_format(protocol, seen)):
            return UnsupportedMessage(protocol, "", said)
    return None


def _by_members(title: str, *names: str) -> Signs:
    """Recognise a format by a combination of members that only it has."""
    wanted, evidence = frozenset(names), f"members {', '.join(names)}"

    def signs(message: Message) -> Sign | None:
        return Sign(Strength.CERTAIN, title, evidence) if message.members.keys() >= wanted else None

    return signs


def _by_beginning(title: str, evidence: str, *beginnings: bytes) -> Signs:
    """Know a format by its first bytes."""

    def signs(message: Message) -> Sign | None:
        return Sign(Strength.LIKELY, title, evidence) if message.value.startswith(beginnings) else None

    return signs


def _json_schema(message: Message) -> Sign | None:
    if message.avro is None or message.avro[:1] != b"{":
        return None
    evidence = "JSON behind the id of a registry's schema"
    return Sign(Strength.LIKELY, "JSON Schema with the number of a schema registry", evidence)


def _avro_of_apicurio(message: Message) -> Sign | None:
    """Know Apicurio's own frame: a zero byte, the id of a schema in 8 bytes, Avro."""
    value = message.value
    if len(value) <= _LONG_PREFIX_BYTES or has_id_header(message.headers, "value"):
        return None
    if not 0 < int.from_bytes(value[:_LONG_PREFIX_BYTES], "big") < 1 << 32:
        return None
    title = "Avro with a schema id of 8 bytes, as Apicurio's serializers write it by themselves"
    return Sign(Strength.LIKELY, title, "with apicurio.registry.as-confluent=true they write 4")


#: Formats that relay does not read, and users have.
UNREADABLE: Final[Sequence[Signs]] = (
    _by_members("DataWorks", "payload", "version", "schema"),
    _by_members("CloudCanal's own JSON", "action", "dbValType"),
    _by_members("CloudCanal's own JSON", "action", "bid"),
    _by_members("the default format of OceanBase's OMS", "prevStruct", "postStruct"),
    _by_members("MaxScale", "event_type", "domain", "sequence"),
    _by_members("Oracle GoldenGate", "op_type", "op_ts", "current_ts"),
    _by_members("PostgreSQL's wal2json", "action", "schema", "table", "columns"),
    _by_members("PostgreSQL's wal2json", "change", "nextlsn"),
    _by_members("TiCDC Open Protocol as TiCDC's storage sink writes it", "scm", "tbl", "ts"),
    _by_members("AWS DMS", "data", "metadata"),
    _by_members("Qlik Replicate", "magic", "type", "message"),
    _json_schema,
    _avro_of_apicurio,
    _by_beginning("an Avro file", "the first bytes Obj", b"Obj\x01"),
    _by_beginning("a Parquet file", "the first bytes PAR1", b"PAR1"),
    _by_beginning(
        "TiCDC's CSV", "a line that begins with the letter of an operation", b'"I",', b'"U",', b'"D",'
    ),
    _by_beginning("XML", "the first byte <", b"<"),
)
