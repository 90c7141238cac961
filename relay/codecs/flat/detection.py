"""Detection of flat rows, which relay writes but does not read."""

from __future__ import annotations

from typing import Final

import msgspec

from relay.codecs.detection import REFUSED, DetectionMessage, FormatMatch, Strength, string_in

_TITLE: Final = "rows that Debezium's ExtractNewRecordState has flattened"
_NAMES: Final = ("__op", "__deleted")
#: Suffix of Debezium's row names; such a row should be inside an envelope.
_ROW: Final = ".Value"
#: Suffixes of the names of the same columns with another prefix, and their values.
_ENDS: Final = {"op": frozenset({"c", "u", "d", "r"}), "deleted": frozenset({"true", "false"})}

#: With one of these members, `op` is the operation of an envelope.
_OF_ENVELOPES: Final = frozenset({"source", "payload", "before", "after"})


class _Field(msgspec.Struct):
    name: str


class _Record(msgspec.Struct):
    """The parts of an Avro schema by which a flat row is recognized."""

    fields: list[_Field]
    connect_name: str = msgspec.field(name="connect.name", default="")


_decode_record: Final = msgspec.json.Decoder(_Record).decode


def detect(message: DetectionMessage) -> FormatMatch | None:
    """Detect the operation columns that Debezium's ExtractNewRecordState adds; with a schema also the name of
    the row.
    """
    if message.schema:
        return _in_avro(message.schema)
    has_schema = "schema" in message.members and "payload" in message.members
    row = message.inside("payload") if has_schema else message.members
    name = next((name for name in _NAMES if name in row), "")
    if name:
        return FormatMatch(Strength.CERTAIN, _TITLE, f"member {name}")
    if has_schema and string_in(message.inside("schema"), "name").endswith(_ROW):
        return FormatMatch(Strength.CERTAIN, _TITLE, f"a schema whose name ends with {_ROW}")
    if not row.keys().isdisjoint(_OF_ENVELOPES) or len(row) < 2:
        return None
    for name in row:
        for end, words in _ENDS.items():
            if _has_prefix(name, end) and string_in(row, name) in words:
                # With a custom prefix (add.fields.prefix).
                return FormatMatch(Strength.LIKELY, _TITLE, f"member {name[:40]}, an operation as a word")
    return None


def _has_prefix(name: str, end: str) -> bool:
    """Return whether a name is `end` after a prefix, and not another word, such as `shop`."""
    return name.endswith(end) and not name.removesuffix(end)[-1:].isalnum()


def _in_avro(schema: str) -> FormatMatch | None:
    try:
        record = _decode_record(schema)
    except REFUSED:
        return None
    names = {field.name for field in record.fields}
    name = next((name for name in _NAMES if name in names), "")
    if name:
        return FormatMatch(Strength.CERTAIN, _TITLE, f"field {name}")
    if record.connect_name.endswith(_ROW):
        return FormatMatch(Strength.CERTAIN, _TITLE, f"a schema whose connect.name ends with {_ROW}")
    return None
