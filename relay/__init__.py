"""relay: whole change events from one CDC format to another, between Kafka topics or in your own program.

    from relay import ConsumerRecord, Translator

    translator = Translator("ticdc-canal-json", "canal-json")
    for produced in translator.translate(ConsumerRecord("orders", 0, 17, 1700000000000, None, value)):
        print(produced.partition, produced.key, produced.value)

Everything listed in `__all__` is the public surface; `docs/protocols.md` describes the protocols and their
options.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relay.catalog import Catalog
    from relay.codecs.losses import Loss
    from relay.core.column_path import TranslatedRows
    from relay.core.counts import UnwrittenStatement
    from relay.core.pipeline import State
    from relay.core.selection import Selection
    from relay.core.translator import Translator
    from relay.io.resolver import Learns, Registry, Resolver
    from relay.io.storage import Storage
    from relay.model.errors import (
        ClaimCheckMissing,
        CodecError,
        ConditionFailed,
        ConfigError,
        DecodeError,
        EncodeError,
        LimitExceeded,
        Malformed,
        MessageTooLarge,
        NeedUnanswered,
        NotRepresentable,
        OutOfMemory,
        Problem,
        RelayError,
        ServiceError,
        StorageUnavailable,
        UnsupportedMessage,
    )
    from relay.model.events import (
        ABSENT,
        Absent,
        Bootstrap,
        CellProjection,
        Column,
        ColumnType,
        DdlKind,
        Default,
        Event,
        Generated,
        Heartbeat,
        Images,
        Index,
        Op,
        Position,
        RenamedTable,
        RowChange,
        RowProjection,
        Rows,
        SchemaChange,
        Snapshot,
        Source,
        StatementInText,
        TableChange,
        TableId,
        TableSchema,
        Transaction,
        TransactionMark,
        UniqueKey,
        Watermark,
    )
    from relay.model.limits import Limits
    from relay.model.lookups import ClaimCheck, Need, RegisteredSchema
    from relay.model.records import Blob, ConsumerRecord, ProducerRecord, RecordPosition
    from relay.model.table_globs import TableFilter, TableGlob
    from relay.routing import TopicRule
    from relay.routing.partitioning import Partitioning
    from relay.rules.columns import ColumnAction, ColumnRule
    from relay.rules.rows import RowRule, UnknownBefore
    from relay.rules.tables import MergedDdl, TableRule
    from relay.templates.batches import SourceBatch, TargetBatch
    from relay.templates.columns import RecordColumns, TextColumn
    from relay.templates.engine import Engine

__all__ = [
    "ABSENT",
    "Absent",
    "Blob",
    "Bootstrap",
    "Catalog",
    "CellProjection",
    "ClaimCheck",
    "ClaimCheckMissing",
    "CodecError",
    "Column",
    "ColumnAction",
    "ColumnRule",
    "ColumnType",
    "ConditionFailed",
    "ConfigError",
    "ConsumerRecord",
    "DdlKind",
    "DecodeError",
    "Default",
    "EncodeError",
    "Engine",
    "Event",
    "Generated",
    "Heartbeat",
    "Images",
    "Index",
    "Learns",
    "LimitExceeded",
    "Limits",
    "Loss",
    "Malformed",
    "MergedDdl",
    "MessageTooLarge",
    "Need",
    "NeedUnanswered",
    "NotRepresentable",
    "Op",
    "OutOfMemory",
    "Partitioning",
    "Position",
    "Problem",
    "ProducerRecord",
    "RecordColumns",
    "RecordPosition",
    "RegisteredSchema",
    "Registry",
    "RelayError",
    "RenamedTable",
    "Resolver",
    "RowChange",
    "RowProjection",
    "RowRule",
    "Rows",
    "SchemaChange",
    "Selection",
    "ServiceError",
    "Snapshot",
    "Source",
    "SourceBatch",
    "State",
    "StatementInText",
    "Storage",
    "StorageUnavailable",
    "TableChange",
    "TableFilter",
    "TableGlob",
    "TableId",
    "TableRule",
    "TableSchema",
    "TargetBatch",
    "TextColumn",
    "TopicRule",
    "Transaction",
    "TransactionMark",
    "TranslatedRows",
    "Translator",
    "UniqueKey",
    "UnknownBefore",
    "UnsupportedMessage",
    "UnwrittenStatement",
    "Watermark",
]

#: The modules of the public names, light ones first. They are imported when a name is first used, so that
#: `relay --help` need not load the codecs.
_MODULES = (
    *("model.errors", "model.limits", "model.records", "model.events", "model.lookups"),
    *("routing.partitioning", "model.table_globs", "catalog", "codecs.losses", "io.storage"),
    *(
        "core.selection",
        "core.counts",
        "routing",
        "rules.columns",
        "rules.rows",
        "rules.tables",
        "templates.batches",
        "templates.columns",
        "templates.engine",
        "core.pipeline",
    ),
    *("core.column_path", "core.translator", "io.resolver"),
)


def __getattr__(name: str) -> object:
    if name in __all__:
        for module_name in _MODULES:
            module = import_module(f"relay.{module_name}")
            if hasattr(module, name):
                return getattr(module, name)
    message = f"module 'relay' has no attribute {name!r}"
    raise AttributeError(message)


def __dir__() -> list[str]:
    return __all__
