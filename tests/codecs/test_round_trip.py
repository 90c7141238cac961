"""decode(encode(event)) is the event, less what the protocol's `Carries` says it has no place for."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from strategies import Case, cases

from relay.catalog import Catalog
from relay.codecs import PROTOCOLS
from relay.codecs.codec import parse_options
from relay.codecs.losses import Carries, Lossy
from relay.model import ABSENT, Cell, Column, Event, Op, Row, RowChange, Rows, SchemaChange, TableSchema
from relay.needs import Answers
from relay.records import ConsumerRecord

ROUTES = [
    ("ticdc-canal-json", {}),
    ("ticdc-canal-json", {"enable-tidb-extension": "true", "content-compatible": "true"}),
    ("ticdc-canal-json", {"enable-tidb-extension": "true", "delete-only-output-handle-key-columns": "true"}),
    ("canal-json", {}),
    ("ticdc-open-protocol", {}),
    ("ticdc-open-protocol", {"max-batch-size": "16", "only-output-updated-columns": "true"}),
    ("ticdc-open-protocol", {"delete-only-output-handle-key-columns": "true", "output-old-value": "false"}),
    ("ticdc-debezium", {}),
    ("ticdc-debezium", {"debezium-disable-schema": "true"}),
    ("ticdc-debezium", {"enable-tidb-extension": "true", "replace.null.with.default": "false"}),
    ("ckafka-json", {}),
]


def _carried(change: RowChange, carries: Carries) -> RowChange:
    """The change as far as a protocol can say it: what `project` is in relay's architecture."""
    source, before, after, op = change.source, change.before, change.after, change.op
    if not carries.commit_ts:
        source = msgspec.structs.replace(source, commit_ts=None)
    if op is Op.DELETE and not carries.delete_image and before is not None:
        key = change.schema.handle_key()
        before = tuple(
            cell if column.name in key else ABSENT
            for column, cell in zip(change.schema.columns, before, strict=True)
        )
    if op is Op.UPDATE and carries.before == "none":
        op, before = Op.INSERT, None
    if not carries.event_time_milliseconds:
        source = msgspec.structs.replace(source, event_time_ns=source.event_time_ns // 10**9 * 10**9)
    before, after = (_carried_row(change.schema, row, carries) for row in (before, after))
    return msgspec.structs.replace(change, op=op, images=Rows(before, after), source=source)


def _carried_row(schema: TableSchema, row: Row | None, carries: Carries) -> Row | None:
    if row is None:
        return None
    return tuple(
        _carried_cell(column, cell, carries) for column, cell in zip(schema.columns, row, strict=True)
    )


def _carried_cell(column: Column, cell: Cell, carries: Carries) -> Cell:
    if isinstance(cell, Decimal) and not carries.exact_decimals:
        return Decimal(format(Decimal(repr(float(cell))), f".{column.type.scale}f"))
    if column.type.base in {"date", "datetime"} and not carries.every_date and str(cell).startswith("0000"):
        return None
    return cell


def _records(encoder: Any, events: list[Event], lossy: list[Lossy], first: int) -> list[ConsumerRecord]:
    caused_by = ConsumerRecord("topic", 0, first, 1_795_254_653_500, None, None)
    payloads = encoder.encode(events, caused_by, lossy)
    return [
        ConsumerRecord("topic", 0, first + number, 1_795_254_653_500, payload.key, payload.value)
        for number, payload in enumerate(payloads)
    ]


@pytest.mark.parametrize(("protocol", "given_options"), ROUTES, ids=str)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases())
def test_round_trip(protocol: str, given_options: dict[str, str], case: Case) -> None:
    codec = PROTOCOLS[protocol]
    options = parse_options(codec, given_options, "options")
    encoder, decoder, carries = (
        codec.encoder(options, Answers()),
        codec.decoder(options, Answers()),
        codec.encodes(options),
    )
    lossy: list[Lossy] = []
    records = _records(encoder, [case.created], lossy, 0)
    records += _records(encoder, list(case.changes), lossy, len(records))
    found: list[Event] = []
    catalog = Catalog()
    for record in records:
        events, catalog = decoder.decode(record, catalog, [])
        found += events
    created, *changes = found
    assert isinstance(created, SchemaChange)
    assert (created.ddl, created.table, created.kinds, created.after) == (
        case.created.ddl,
        case.created.table,
        case.created.kinds,
        case.created.after,
    )
    assert len(changes) == len(case.changes)
    for change, expected in zip(changes, (_carried(one, carries) for one in case.changes), strict=True):
        assert isinstance(change, RowChange)
        assert (change.op, change.schema) == (expected.op, expected.schema)
        assert (change.before, change.after) == (expected.before, expected.after)
        assert (change.source.event_time_ns, change.source.commit_ts) == (
            expected.source.event_time_ns,
            expected.source.commit_ts,
        )
