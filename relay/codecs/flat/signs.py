"""How flat rows, which relay writes but does not read, are recognised."""

from __future__ import annotations

from typing import Final

import msgspec

from relay.codecs.signs import REFUSED, Message, Sign, Strength

_TITLE: Final = "rows that Debezium's ExtractNewRecordState has flattened"
_NAMES: Final = ("__op", "__deleted")
#: What Debezium calls a row; around it there should be an envelope.
_ROW: Final = ".Value"


class _Field(msgspec.Struct):
    name: str


class _Record(msgspec.Struct):
    """What tells a flat row in its Avro schema."""

    fields: list[_Field]
    connect_name: str = msgspec.field(name="connect.name", default="")


_decode_record: Final = msgspec.json.Decoder(_Record).decode


def signs(message: Message) -> Sign | None:
    """Columns that say what happened to a row, as Debezium's ExtractNewRecordState adds them; in Avro also
    the name of the row.
    """
    if message.schema:
        return _in_avro(message.schema)
    row = message.inside("payload") if "schema" in message.members else message.members
    name = next((name for name in _NAMES if name in row), "")
    return Sign(Strength.CERTAIN, _TITLE, f"member {name}") if name else None


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
