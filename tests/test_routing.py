"""Where records go: rows of one key to one partition and in order, DDL and watermarks where the target's
readers look for them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import OPEN, events, record, row_message

from relay import ConsumerRecord, ProducerRecord, RowChange, Translator
from relay.model.events import Op
from relay.testing.strategies import TABLE

TICDC_JSON = "ticdc-canal-json"
_TICDC = {"enable-tidb-extension": "true"}
_DDL = "CREATE TABLE `t` (`a` INT NOT NULL,`k` VARCHAR(20) NOT NULL,`v` INT,PRIMARY KEY(`k`, `a`))"
_TYPES = {"a": "int", "k": "varchar", "v": "int"}


def _tidb(commit_ts: int) -> dict[str, Any]:
    return {"_tidb": {"commitTs": commit_ts}}


def _stream(changes: list[tuple[int, str, str]], source_partitions: int) -> list[ConsumerRecord]:
    """A DDL in every source partition, then changes `(a, k, operation)` as TiCDC spreads them: a key in one
    partition.
    """
    ddl = {
        "id": 0,
        "database": "d",
        "table": "t",
        "pkNames": None,
        "isDdl": True,
        "type": "CREATE",
        "es": 1,
        "ts": 1,
        "sql": _DDL,
    }
    found = [record(ddl | _tidb(10), offset=0, partition=at) for at in range(source_partitions)]
    for number, (a, k, op) in enumerate(changes):
        cells = {"a": str(a), "k": k, "v": str(number)}
        old = [cells | {"v": "-1"}] if op == "UPDATE" else None
        message = row_message(_TYPES, cells, op=op, old=old, pkNames=["a", "k"], **_tidb(11 + number))
        found.append(record(message, offset=1 + number, partition=hash((a, len(k))) % source_partitions))
    return found


_CHANGES = st.lists(
    st.tuples(
        st.integers(0, 3), st.sampled_from(["", "x", "表"]), st.sampled_from(["INSERT", "UPDATE", "DELETE"])
    ),
    max_size=30,
)


def _rows(protocol: str, records: list[ProducerRecord]) -> dict[int, list[RowChange]]:
    """The row changes in each target partition, in order."""
    found: dict[int, list[RowChange]] = defaultdict(list)
    for partition in sorted({out.partition for out in records}):
        mine = [out for out in records if out.partition == partition]
        read = [ConsumerRecord("t", partition, at, 0, out.key, out.value) for at, out in enumerate(mine)]
        found[partition] = [event for event in events(protocol, read) if isinstance(event, RowChange)]
    return found


@pytest.mark.parametrize("target", ["ticdc-canal-json", "canal-json", OPEN, "ticdc-debezium"])
@settings(max_examples=40, deadline=None)
@given(changes=_CHANGES, partitions=st.integers(1, 7), source_partitions=st.integers(1, 3))
def test_rows_of_a_key_stay_together_and_in_order(
    target: str, changes: list[tuple[int, str, str]], partitions: int, source_partitions: int
) -> None:
    translator = Translator("ticdc-canal-json", target, None, None, partitions=partitions)
    out = [made for one in _stream(changes, source_partitions) for made in translator.translate(one)]
    found: dict[tuple[Any, ...], list[tuple[int, int]]] = defaultdict(list)
    for partition, rows in _rows(target, out).items():
        for change in rows:
            row = change.before if change.op is Op.DELETE else change.after
            assert row is not None
            cells = {column.name: cell for column, cell in zip(change.schema.columns, row, strict=True)}
            found[cells["a"], cells["k"]].append((partition, int(str(cells["v"]))))
    assert sum(map(len, found.values())) == len(changes)
    for moves in found.values():
        assert len({partition for partition, _ in moves}) == 1
        assert [number for _, number in moves] == sorted(number for _, number in moves)


def _partitions(target: str, message: dict[str, Any], options: dict[str, str]) -> list[int]:
    translator = Translator("ticdc-canal-json", target, None, options, partitions=3)
    return [out.partition for out in translator.translate(record(message, partition=2))]


@pytest.mark.parametrize(
    ("target", "options", "ddl", "watermark"),
    [
        ("canal-json", {}, [0], []),
        ("ckafka-json", {}, [0], []),
        ("ticdc-canal-json", _TICDC, [0], [0, 1, 2]),
        (OPEN, {}, [0, 1, 2], [0, 1, 2]),
        ("ticdc-debezium", _TICDC, [0, 1, 2], [0, 1, 2]),
    ],
)
def test_ddl_and_watermarks(
    target: str, options: dict[str, str], ddl: list[int], watermark: list[int]
) -> None:
    """Canal's readers look for DDL in partition 0, those of Open Protocol in every one; watermarks are
    everywhere.
    """
    statement = {
        "database": TABLE.database,
        "table": "t",
        "isDdl": True,
        "type": "CREATE",
        "es": 1,
        "ts": 1,
        "sql": _DDL,
    }
    assert _partitions(target, statement | _tidb(10), options) == ddl
    mark = {
        "database": "",
        "table": "",
        "isDdl": False,
        "type": "TIDB_WATERMARK",
        "es": 1,
        "ts": 1,
        "_tidb": {"watermarkTs": 9},
    }
    assert _partitions(target, mark, options) == watermark


def test_a_batch_is_split_by_the_keys_of_its_rows() -> None:
    rows = [{"a": str(a), "k": "x", "v": "1"} for a in range(8)]
    batch = Translator("canal-json", OPEN, None, {"max-batch-size": "16"}).translate(
        record(row_message(_TYPES, *rows, pkNames=["a"]))
    )
    assert len(batch) == 1
    source = ConsumerRecord("t", 0, 0, 0, batch[0].key, batch[0].value)
    spread = Translator(OPEN, "ticdc-canal-json", partitions=4).translate(source)
    assert len(spread) == len(rows)
    assert len({out.partition for out in spread}) > 1
    assert sorted(json.loads(out.value or b"")["data"][0]["a"] for out in spread) == sorted(
        row["a"] for row in rows
    )


def _ckafka(cells: dict[str, str], op: str = "I", old: dict[str, str] | None = None) -> dict[str, Any]:
    return {
        "DATABASE": "d",
        "TABLE": "t",
        "TIME": "20240101000000",
        "TYPE": op,
        "NEW_VALUES": cells,
        "OLD_VALUES": old,
    }


def _ddl(sql: str) -> dict[str, Any]:
    return {"database": "d", "table": "t", "isDdl": True, "type": "CREATE", "es": 1, "ts": 1, "sql": sql}


def _target_partitions(translator: Translator, *messages: dict[str, Any]) -> list[int]:
    """Where the rows of these messages go."""
    return [
        out.partition
        for at, message in enumerate(messages)
        for out in translator.translate(record(message, offset=at))
        if not message.get("isDdl")
    ]


UNIQUE = "CREATE TABLE t (a INT NOT NULL UNIQUE, k VARCHAR(20), v INT)"


@pytest.mark.parametrize("target", ["canal-json", "ticdc-canal-json", "ckafka-json", OPEN, "ticdc-debezium"])
@pytest.mark.parametrize(
    ("source", "ddl", "more"),
    [
        ("ckafka-json", _DDL, {}),
        ("ckafka-json", UNIQUE, {}),
        # A table with a unique key and no primary key; rows of a producer that names no key at all.
        ("canal-json", UNIQUE, {"pkNames": []}),
        ("canal-json", UNIQUE, {"pkNames": None}),
        ("canal-json", _DDL, {"pkNames": None}),
        ("ticdc-canal-json", _DDL, {"pkNames": None}),
        ("canal-json", _DDL, {"pkNames": ["a", "k"]}),
        ("ticdc-canal-json", _DDL, {"pkNames": ["k", "a"]}),
    ],
)
def test_no_row_changes_its_partition_when_its_ddl_is_learned(
    source: str, target: str, ddl: str, more: dict[str, Any]
) -> None:
    def message(a: int, op: str = "INSERT", v: str = "1") -> dict[str, Any]:
        # Not in the order of the table.
        cells = {"v": v, "k": f"x{a}", "a": str(a)}
        if source == "ckafka-json":
            return _ckafka(cells, op[0], None if op == "INSERT" else cells | {"v": "0"})
        return row_message(_TYPES, cells, op=op, old=[{"v": "0"}] if op == "UPDATE" else None, **more)

    translator = Translator(source, target, partitions=7)
    rows = [message(a) for a in range(12)]
    before = _target_partitions(translator, *rows)
    after = _target_partitions(translator, _ddl(ddl), *rows)
    updates = _target_partitions(translator, *(message(a, "UPDATE", v="2") for a in range(12)))
    assert before == after == updates
    assert len(set(before)) == (1 if source == "ckafka-json" or not more["pkNames"] else len(set(before)))
    if more.get("pkNames"):
        assert len(set(before)) > 1


def test_both_parts_of_a_split_update_stay_with_their_table() -> None:
    translator = Translator("canal-json", OPEN, partitions=7)
    cells = {"a": "1", "k": "x", "v": "1"}
    update = row_message(_TYPES, cells, op="UPDATE", old=[{"a": "2"}], pkNames=[])
    rows = [row_message(_TYPES, cells | {"a": str(a)}, pkNames=[]) for a in range(9)]
    assert len(set(_target_partitions(translator, *rows, _ddl(UNIQUE), update, *rows))) == 1


def test_the_order_of_columns_does_not_matter() -> None:
    """The classic TiCDC sends them by name, DDL has them as the table has them."""
    cells = {"k": "x", "v": "1", "a": "1"}
    both = [
        _target_partitions(
            Translator(TICDC_JSON, "canal-json", partitions=101),
            row_message(_TYPES, given, pkNames=["a", "k"]),
        )
        for given in (cells, dict(sorted(cells.items())))
    ]
    assert both[0] == both[1]
