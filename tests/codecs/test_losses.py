"""What a target does with each fact of an event's source: it is read back, or it is counted."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from relay.catalog import Catalog
from relay.codecs import PROTOCOLS
from relay.codecs.codec import parse_options
from relay.codecs.losses import Lossy
from relay.model import (
    Column,
    ColumnType,
    DdlKind,
    Op,
    RowChange,
    Rows,
    SchemaChange,
    Snapshot,
    Source,
    TableId,
    TableSchema,
)
from relay.needs import Answers
from relay.records import ConsumerRecord

TABLE = TableSchema(
    TableId("d", "t"), (Column("id", ColumnType("int"), nullable=False),), primary_key=("id",)
)
TIME_NS = 1_795_254_665_538_000_000
COMMIT_TS = TIME_NS // 1_000_000 << 18
#: A fact of the source, the field that must hold it after a round trip, and how its loss is counted.
FACTS: dict[str, tuple[dict[str, Any], Lossy]] = {
    "commit_ts": ({"commit_ts": COMMIT_TS}, Lossy.COMMIT_TS),
    "start_ts": ({"start_ts": COMMIT_TS - 5}, Lossy.START_TS),
    "gtid": ({"gtid": "3e11fa47-71ca-11e1-9e33-c80aa9429562:23"}, Lossy.GTID),
    "binlog_position": ({"binlog_file": "mysql-bin.000003", "binlog_position": 484}, Lossy.BINLOG_POSITION),
    "row_key": ({"row_key": b"t\x80\xff"}, Lossy.ROW_KEY),
    "name": ({"name": "prod"}, Lossy.SOURCE_NAME),
    "snapshot": ({"snapshot": Snapshot.TRUE}, Lossy.SNAPSHOT),
    "extras": ({"extras": {"unheard-of": 1}}, Lossy.EXTRAS),
    "event_time_ns": ({}, Lossy.EVENT_TIME_PRECISION),
}
TARGETS = [
    ("ticdc-canal-json", {}),
    ("ticdc-canal-json", {"enable-tidb-extension": "true", "output-row-key": "true"}),
    ("canal-json", {}),
    ("ckafka-json", {}),
    ("ticdc-open-protocol", {}),
    ("ticdc-debezium", {}),
    ("ticdc-debezium", {"debezium-include-start-ts": "true", "cluster-id": "prod"}),
]


def _source(fact: str) -> Source:
    return msgspec.structs.replace(Source("elsewhere", TIME_NS), **FACTS[fact][0])


def _sent(
    protocol: str, given: dict[str, str], event: RowChange | SchemaChange
) -> tuple[list[Source], list[Lossy]]:
    """The sources of the events that a reader gets, and what the writer has counted."""
    codec = PROTOCOLS[protocol]
    options = parse_options(codec, given, "options")
    lossy: list[Lossy] = []
    caused_by = ConsumerRecord("topic", 0, 7, TIME_NS // 1_000_000, None, None)
    payloads = codec.encoder(options, Answers()).encode([event], caused_by, lossy)
    decoder, found = codec.decoder(options, Answers()), []
    for payload in payloads:
        record = ConsumerRecord("topic", 0, 7, TIME_NS // 1_000_000, payload.key, payload.value)
        found += [read.source for read in decoder.decode(record, Catalog(), [])[0]]
    return found, lossy


@pytest.mark.parametrize("fact", FACTS)
@pytest.mark.parametrize(("protocol", "given"), TARGETS, ids=str)
def test_rows(protocol: str, given: dict[str, str], fact: str) -> None:
    source = _source(fact)
    (read,), lossy = _sent(protocol, given, RowChange(Op.INSERT, TABLE, Rows(None, (1,)), source, TIME_NS))
    is_kept = getattr(read, fact) == getattr(source, fact)
    assert is_kept is not (FACTS[fact][1] in lossy)


@pytest.mark.parametrize("fact", sorted(set(FACTS) - {"snapshot"}))
@pytest.mark.parametrize(("protocol", "given"), TARGETS, ids=str)
def test_ddl(protocol: str, given: dict[str, str], fact: str) -> None:
    source = _source(fact)
    change = SchemaChange(
        "DROP TABLE t", TABLE.id, (DdlKind.DROP_TABLE,), "ERASE", source, TIME_NS, targets=(TABLE.id,)
    )
    (read,), lossy = _sent(protocol, given, change)
    is_kept = getattr(read, fact) == getattr(source, fact)
    assert is_kept or FACTS[fact][1] in lossy


@pytest.mark.parametrize(("protocol", "given"), TARGETS, ids=str)
def test_what_relay_formats_tells_is_what_is_counted(protocol: str, given: dict[str, str]) -> None:
    """`Carries` of a target and the counter agree on every fact of the source."""
    codec = PROTOCOLS[protocol]
    carries = codec.encodes(parse_options(codec, given, "options"))
    for fact, field in {"name": "source_name"}.items() | {
        (name, name) for name in FACTS if hasattr(carries, name)
    }:
        _, lossy = _sent(
            protocol, given, RowChange(Op.INSERT, TABLE, Rows(None, (1,)), _source(fact), TIME_NS)
        )
        counted = FACTS[fact][1] in lossy
        if fact == "name" and getattr(carries, field):
            continue  # it has a name of its own, which may be another one
        assert getattr(carries, field) is not counted, fact
