"""relay: whole change events from one CDC format to another, between Kafka topics or in your own program.

    from relay import ConsumerRecord, Translator

    translator = Translator("ticdc-canal-json", "canal-json")
    for produced in translator.translate(ConsumerRecord("orders", 0, 17, 1700000000000, None, value)):
        print(produced.partition, produced.key, produced.value)

Everything listed in `__all__` is the public surface; `docs/protocols.md` describes the protocols and their options.
"""

from relay.errors import (
    CodecError,
    ConfigError,
    DecodeError,
    EncodeError,
    Malformed,
    NotRepresentable,
    RelayError,
    UnsupportedMessage,
)
from relay.model import (
    ABSENT,
    Column,
    ColumnType,
    DdlKind,
    Event,
    Heartbeat,
    Op,
    RowChange,
    Rows,
    SchemaChange,
    Source,
    TableId,
    TableSchema,
    TransactionMark,
    Watermark,
)
from relay.records import ConsumerRecord, ProducerRecord
from relay.translator import Translator

__all__ = [
    "ABSENT",
    "CodecError",
    "Column",
    "ColumnType",
    "ConfigError",
    "ConsumerRecord",
    "DdlKind",
    "DecodeError",
    "EncodeError",
    "Event",
    "Heartbeat",
    "Malformed",
    "NotRepresentable",
    "Op",
    "ProducerRecord",
    "RelayError",
    "RowChange",
    "Rows",
    "SchemaChange",
    "Source",
    "TableId",
    "TableSchema",
    "TransactionMark",
    "Translator",
    "UnsupportedMessage",
    "Watermark",
]
