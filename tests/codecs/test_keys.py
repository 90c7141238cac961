"""What a protocol says of its Kafka keys is what it writes: a compacted topic keeps the last record of each
key.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest
from support import TICDC, captured, events, translated_records

from relay import ConsumerRecord, ProducerRecord, RowChange, Translator
from relay.codecs import PROTOCOLS
from relay.codecs.losses import Keys
from relay.model import Cell, Row

RECORDS = captured("ticdc/canal-json.tidb-extension/09_dml")


def rows_of(protocol: str, out: ProducerRecord, at: int) -> list[RowChange]:
    record = ConsumerRecord("t", 0, at, 0, out.key, out.value)
    return [event for event in events(protocol, [record]) if isinstance(event, RowChange)]


def identity(change: RowChange) -> tuple[str, tuple[Cell, ...]] | None:
    """Table and handle key; None for a table without one."""
    row: Row = change.after or change.before or ()
    key = change.schema.handle_key()
    return (
        (str(change.table), tuple(row[at] for at, one in enumerate(change.schema.columns) if one.name in key))
        if key
        else None
    )


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_keys_are_what_the_codec_says(protocol: str) -> None:
    written = translated_records(Translator(TICDC, protocol), RECORDS)
    found = [(out.key, row) for at, out in enumerate(written) for row in rows_of(protocol, out, at)]
    assert len(found) > 40
    keys = PROTOCOLS[protocol].keys
    assert {key is None for key, _ in found} == {keys is Keys.NONE}
    by_key: dict[bytes | None, set[object]] = defaultdict(set)
    for key, row in found:
        by_key[key].add(identity(row))
    if keys is Keys.ROW:
        assert max(map(len, by_key.values())) == 1
    if keys is Keys.MESSAGE:
        assert max(map(len, by_key.values())) > 1, "rows of one transaction have one key"
        assert Counter(out.key for out in written).most_common(1)[0][1] > 1
