"""Flat JSON: one row a message, as a plain object of its columns, with operation, time and source next to
them.

    key:   {"id": 1}
    value: {"id": 1, "name": "x", …, "__op": "c", "__deleted": "false", "__db": "d", "__table": "t",
            "__source_ts_ms": 1795254665538}

Debezium's ExtractNewRecordState reduces messages to this form, and ClickHouse, StarRocks, Doris and sinks of
Elasticsearch load it. It has no one producer, and is only written. The key has the columns of the primary
key, or of the unique key that identifies a row, or those that a rule of [[target.topics]] names; it is null
if the table has neither. Not expressible: old rows of updates, types, DDL, watermarks, transactions.
"""

from __future__ import annotations

from typing import Final

from relay.codecs.codec import Codec, KeySupport, TemplateSupport
from relay.codecs.flat.detection import detect
from relay.codecs.flat.encoder import NAME, FlatEncoder
from relay.codecs.flat.options import PROFILE_REASONS, PROFILES, FlatOptions, carries
from relay.codecs.losses import NOTHING, Keys

CODEC: Final = Codec(
    name=NAME,
    title="rows as plain JSON objects, for warehouses and search engines",
    options=FlatOptions,
    decodes=NOTHING,
    encodes=carries,
    decoder=None,
    encoder=FlatEncoder,
    profiles=PROFILES,
    profile_reasons=PROFILE_REASONS,
    detection_rule=detect,
    keys=KeySupport(meaning=Keys.ROW, encoder=FlatEncoder),
    templates=TemplateSupport(writes_rows_alone=lambda _: True, writes_events_alone=lambda _: True),
)
