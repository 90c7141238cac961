"""The codec `debezium-json`: Debezium's connectors for MySQL and MariaDB, as JsonConverter writes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from relay.codecs.codec import Codec, Payload, RowSignature
from relay.codecs.debezium.native.decoder import NAME, Decoder
from relay.codecs.debezium.native.options import DebeziumOptions
from relay.codecs.losses import Before, Carries, Keys, Lossy
from relay.model import Event
from relay.needs import Answers
from relay.records import ConsumerRecord


def carries(options: DebeziumOptions) -> Carries:
    """What a message can say with these options."""
    return Carries(
        before=Before.FULL,
        delete_image=True,
        primary_key=True,
        column_types=options.has_value_schema,
        type_parameters=False,
        ddl=options.include_schema_changes,
        watermark=False,
        exact_decimals=options.decimal_handling_mode != "double",
        every_date=False,
        null_beside_default=not options.replace_null_with_default,
        commit_ts=False,
        gtid=True,
        binlog_position=True,
        source_name=True,
        snapshot=True,
        server_id=True,
        thread_id=True,
        query=True,
        transaction=options.provide_transaction_metadata,
        transaction_order=options.provide_transaction_metadata,
        transaction_total=options.provide_transaction_metadata,
        transaction_marks=options.provide_transaction_metadata,
    )


class Encoder:
    """Writes nothing yet."""

    def __init__(self, options: DebeziumOptions, answers: Answers) -> None:
        del options, answers
        self.prepare = None

    def encode(
        self, events: Sequence[Event], caused_by: ConsumerRecord, lossy: list[Lossy]
    ) -> Iterator[Payload]:
        """See `relay.codecs.codec.Encoder`."""
        raise NotImplementedError


CODEC: Final = Codec(
    name=NAME,
    title="Debezium JSON of its own MySQL and MariaDB connectors, 1.9 to 3.6",
    options=DebeziumOptions,
    decodes=carries(DebeziumOptions(provide_transaction_metadata=True, replace_null_with_default=False)),
    encodes=carries,
    decoder=Decoder,
    encoder=Encoder,
    keys=Keys.ROW,
    row_signature=RowSignature(((b'"op":"c"', b'"op":"u"', b'"op":"d"', b'"op":"r"'),)),
)
