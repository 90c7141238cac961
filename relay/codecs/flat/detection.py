"""How flat rows, which relay writes but does not read, are recognized."""

from __future__ import annotations

from typing import Final

import msgspec

from relay.codecs.detection import REFUSED, Message, Sign, Strength, word_in

_TITLE: Final = "rows that Debezium's ExtractNewRecordState has flattened"
_NAMES: Final = ("__op", "__deleted")
#: What Debezium calls a row; around it there should be an envelope.
_ROW: Final = ".Value"
#: How the names of the same columns end with another prefix, and what these say.
_ENDS: Final = {"op": frozenset({"c", "u", "d", "r"}), "deleted": frozenset({"true", "false"})}

#: Members beside which `op` is the operation of an envelope.
_OF_ENVELOPES: Final = frozenset({"source", "payload", "before", "after"})


class _Field(msgspec.Struct):
    name: str


class _Record(msgspec.Struct):
    """What tells a flat row in its Avro schema."""

    fields: list[_Field]
    connect_name: str = msgspec.field(name="connect.name", default="")


_decode_record: Final = msgspec.json.Decoder(_Record).decode


def signs(message: Message) -> Sign | None:
    """Columns that say what happened to a row, as Debezium's ExtractNewRecordState adds them; with a schema
    also the name of the row.
    """
    if message.schema:
        return _in_avro(message.schema)
    has_schema = "schema" in message.members and "payload" in message.members
    row = message.inside("payload") if has_schema else message.members
    name = next((name for name in _NAMES if name in row), "")
    if name:
        return Sign(Strength.CERTAIN, _TITLE, f"member {name}")
    if has_schema and word_in(message.inside("schema"), "name").endswith(_ROW):
        return Sign(Strength.CERTAIN, _TITLE, f"a schema whose name ends with {_ROW}")
    if not row.keys().isdisjoint(_OF_ENVELOPES) or len(row) < 2:
        return None
    for name in row:
        for end, words in _ENDS.items():
            if _has_prefix(name, end) and word_in(row, name) in words:
                # With a prefix of one's own (add.fields.prefix).
                return Sign(Strength.LIKELY, _TITLE, f"member {name[:40]}, an operation in a word")
    return None


def _has_prefix(name: str, end: str) -> bool:
    """Whether a name is `end` behind a prefix, and not another word, such as `shop`."""
    return name.endswith(end) and not name.removesuffix(end)[-1:].isalnum()


def _in_avro(schema: str) -> Sign | None:
    try:
        record = _decode_record(schema)
    except REFUSED:
        return None
    names = {field.name for field in record.fields}
    name = next((name for name in _NAMES if name in names), "")
    if name:
        return Sign(Strength.CERTAIN, _TITLE, f"field {name}")
    if record.connect_name.endswith(_ROW):
        return Sign(Strength.CERTAIN, _TITLE, f"a schema whose connect.name ends with {_ROW}")
    return None
