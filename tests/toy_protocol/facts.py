"""Toy facts, a protocol that is only read: one JSON object `{"toy_facts": "db.table", "row": {"id": 1}}`, a new
row of numbers. No codec writes it.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from relay.catalog import Catalog
from relay.codecs.codec import Codec, Options, encodes_nothing
from relay.codecs.detection import DetectionMessage, FormatMatch, Strength
from relay.codecs.losses import Before, Capabilities, Loss
from relay.model.errors import Malformed
from relay.model.events import Column, ColumnType, Event, Op, RowChange, Rows, Source, TableId, TableSchema
from relay.model.lookups import LookupCache
from relay.model.records import ConsumerRecord

NAME: Final = "toy-facts"


class _Fact(msgspec.Struct):
    toy_facts: str
    row: dict[str, int]


_parse = msgspec.json.Decoder(_Fact).decode


class Decoder:
    """Reads toy facts."""

    def __init__(self, options: Options, answers: LookupCache) -> None:
        pass

    def decode(
        self, record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
    ) -> tuple[list[Event], Catalog]:
        """Give the record's row; see `relay.codecs.codec.Decoder`."""
        if not record.value:
            losses.append(Loss.TOMBSTONE)
            return [], catalog
        try:
            fact = _parse(record.value)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise Malformed(NAME, "", "not a toy fact") from error
        database, _, table = fact.toy_facts.partition(".")
        columns = tuple(Column(name, ColumnType("bigint")) for name in fact.row)
        schema = TableSchema(TableId(database, table), columns, complete=False)
        source = Source("toy-facts", record.timestamp_ms * 1_000_000)
        rows = Rows(None, tuple(fact.row.values()))
        return [RowChange(Op.INSERT, schema, rows, source, source.event_time_ns)], catalog


def detect(message: DetectionMessage) -> FormatMatch | None:
    """Know a fact by its first member."""
    if "toy_facts" not in message.members:
        return None
    return FormatMatch(Strength.CERTAIN, "Toy facts", "member toy_facts")


def _decodes() -> Capabilities:
    nothing: dict[str, Any] = dict.fromkeys(Capabilities.__struct_fields__, False)
    return Capabilities(**nothing | {"before": Before.NONE, "deletes": False})


CODEC: Final = Codec(
    name=NAME,
    title="Toy facts, a protocol of relay's own tests",
    options=Options,
    decodes=_decodes(),
    encodes=encodes_nothing,
    decoder=Decoder,
    encoder=None,
    detection_rule=detect,
)
