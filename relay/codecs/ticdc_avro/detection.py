"""Detection of TiCDC Avro: by its control messages, or rows without an envelope."""

from __future__ import annotations

from typing import Final

from relay.codecs.detection import DetectionMessage, FormatMatch, Strength
from relay.codecs.ticdc_avro.control import DDL, kind_of
from relay.codecs.ticdc_avro.values import TIDB_TYPE

_TITLE: Final = "TiCDC Avro"
#: Members of fields in TiCDC's Debezium beside their `tidb_type`.
_OF_DEBEZIUM: Final = '"connect.field"'


def detect(message: DetectionMessage) -> FormatMatch | None:
    """Detect a statement, a watermark or a deleted row; or Avro without an envelope."""
    kind = kind_of(message)
    if kind:
        what = f"a commit ts after the byte 0x0{kind[0]}"
        if kind == DDL:
            what = "a statement after the byte 0x01"
        return FormatMatch(Strength.CERTAIN, _TITLE, what, {"avro-enable-watermark": "true"})
    if message.avro is None or message.avro[:1] == b"{":
        return None
    if TIDB_TYPE in message.schema and _OF_DEBEZIUM not in message.schema:
        settings = {"enable-tidb-extension": "true" if "_tidb_commit_ts" in message.schema else "false"}
        return FormatMatch(Strength.CERTAIN, _TITLE, "a schema with tidb_type", settings)
    if message.schema:
        return None
    return FormatMatch(Strength.POSSIBLE, "Avro with the id of a schema registry", "no envelope of Debezium")
