"""TiCDC Avro (protocol=avro): a table's rows as Avro records with schemas in a registry.

    key     00, id of a schema in 4 bytes, Avro: a record of the key's columns
    value   00, id of a schema in 4 bytes, Avro: a record of the columns, and after them, with options, the
            old row (_ticdc_before), _tidb_op, _tidb_commit_ts, _tidb_commit_physical_time and a checksum;
            null for a deleted row
    others  statements and watermarks, with an option (`relay.codecs.ticdc_avro.control`)

Emitted by TiCDC since v4.0. Messages of both architectures are read, the new one's are written. Not
expressible without options: old rows, whether a row was inserted or updated, commit ts, times, statements,
watermarks. Never expressible: names that Avro does not allow, widths of integers, parameters of most types.
Verified with records of pingcap/ticdc master b813e76f9 (2026-08-18).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from relay.codecs.codec import Codec, KeySupport, NonDdlMarker, RegistrySupport, TemplateSupport
from relay.codecs.losses import Keys
from relay.codecs.shared.avro import APICURIO_HEADERS, ID_HEADERS, PREFIX_BYTES, named_schemas
from relay.codecs.shared.id_headers import placing
from relay.codecs.ticdc_avro.control import DDL, kind_of
from relay.codecs.ticdc_avro.decoder import TicdcAvroDecoder
from relay.codecs.ticdc_avro.detection import detect
from relay.codecs.ticdc_avro.encoder import TicdcAvroEncoder
from relay.codecs.ticdc_avro.options import TicdcAvroOptions, carries
from relay.codecs.ticdc_avro.rows import table_name
from relay.codecs.ticdc_avro.values import NAME
from relay.model.records import ConsumerRecord
from relay.templates.ops import Marker


def _named_schemas(record: ConsumerRecord) -> Sequence[int | str]:
    """Return the ids that a record names; a statement begins as a GUID does."""
    return [] if kind_of(record) == DDL else named_schemas(record)


CODEC: Final = Codec(
    name=NAME,
    title="TiCDC Avro (protocol=avro), with a schema registry",
    options=TicdcAvroOptions,
    decodes=carries(
        TicdcAvroOptions(
            enable_tidb_extension=True, avro_enable_watermark=True, avro_include_before_value=True
        )
    ),
    encodes=carries,
    decoder=TicdcAvroDecoder,
    encoder=partial(placing, TicdcAvroEncoder),
    ddl_everywhere=True,
    own_headers=frozenset(ID_HEADERS.values()),
    # A frame begins with a zero byte, which the JSON of a statement cannot contain.
    non_ddl_marker=NonDdlMarker(((b"\0",),)),
    detection_rule=detect,
    keys=KeySupport(meaning=Keys.ROW, encoder=partial(placing, TicdcAvroEncoder)),
    registry=RegistrySupport(_named_schemas),
    templates=TemplateSupport(
        writes_rows_alone=lambda _: True,
        writes_events_alone=lambda _: True,
        marker=Marker("any", size=PREFIX_BYTES),
        deciding_headers=frozenset(ID_HEADERS.values()).union(*APICURIO_HEADERS.values()),
        table_name=table_name,
    ),
)
