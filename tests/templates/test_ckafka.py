"""CKafka's rows as sources of templates: which rows fit, and that the same comes out of all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ckafka_support import CKAFKA, ddl, row, written
from engine_support import ENGINES
from support import CAPTURED
from templates_support import Both, Options, outcome

from relay import ConsumerRecord, Loss
from relay.codecs import BUILT_IN
from relay.templates.engine import Engine

pytestmark = pytest.mark.parametrize("engine", ENGINES)

COLUMNS = "id INT PRIMARY KEY, name VARCHAR(20), price DECIMAL(9,2), kind ENUM('a','b'), at DATETIME"
CELLS = {"price": "1.50", "id": "1", "at": "2026-01-02 03:04:05", "name": "x", "kind": "a"}
OLD = CELLS | {"name": "y"}
TARGETS = sorted(name for name, codec in BUILT_IN.items() if codec.is_writable and not codec.uses_registry)
#: Targets whose encoders know traced values.
WITH_TEMPLATES = (
    "canal-json", "ckafka-json", "debezium-json", "flat-json", "maxwell-json", "ticdc-canal-json",
    "ticdc-debezium", "ticdc-open-protocol", "ticdc-simple-avro", "ticdc-simple-json",
)  # fmt: skip
DEBEZIUM = {"tombstones.on.delete": "false"}


def record(
    document: dict[str, Any], offset: int, partition: int = 0, time_ms: int = 1_795_254_680_123
) -> ConsumerRecord:
    value = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    return ConsumerRecord("topic", partition, offset, time_ms, None, value)


def both(
    engine: type[Engine], target: str = "canal-json", options: Options | None = None, **settings: Any
) -> Both:
    """Translators that know the table, of which rows have no template yet."""
    pair = Both(CKAFKA, options, target, engine, **settings)
    return pair.learn(record(ddl(f"CREATE TABLE t ({COLUMNS})"), 0))


def learned(pair: Both, **members: Any) -> Both:
    """The same, that have met such a row so often that it has a template."""
    return pair.learn(*[record(row(**members), 1) for _ in range(2)])


@pytest.mark.parametrize("target", WITH_TEMPLATES)
@pytest.mark.parametrize(
    "members",
    [{"new": CELLS}, {"new": CELLS, "old": OLD, "letter": "U"}, {"old": CELLS, "letter": "D"}],
    ids=["insert", "update", "delete"],
)
def test_rows_fit_with_other_values(engine: type[Engine], target: str, members: dict[str, Any]) -> None:
    options = DEBEZIUM if target == "debezium-json" else {}
    pair = learned(both(engine, target, target_options=options), **members)
    others = {"name": "z", "price": "-7.00", "kind": "b", "at": None}
    for image in ("new", "old"):
        if image in members:
            members = members | {image: members[image] | others}
    assert pair.fits(record(row(**members, TIME="20240229235959", BINLOG_POS=1 << 40), 7))


@pytest.mark.parametrize(
    "text", ["20230229000000", "2023010100000", "20230101250000", "x", "", None, "42000101000000"]
)
def test_what_is_no_time_fits_nothing(engine: type[Engine], text: str | None) -> None:
    pair = learned(both(engine), new=CELLS)
    assert not pair.fits(record(row(CELLS, TIME=text), 7))


@pytest.mark.parametrize("offset", ["+00:00", "+08:00", "-03:30", "+05:45"])
@pytest.mark.parametrize("target", ["canal-json", CKAFKA])
def test_times_of_every_offset_fit(engine: type[Engine], offset: str, target: str) -> None:
    pair = learned(both(engine, target, {"event-time-offset": offset}), new=CELLS)
    # The target's own offset is another one, in which the wall clock would have to be written anew.
    assert pair.fits(record(row(CELLS, TIME="20231231235959"), 7)) == (target != CKAFKA or offset == "+08:00")


def test_rows_of_a_snapshot_have_the_time_of_their_record(engine: type[Engine]) -> None:
    pair = both(engine, partitions=None)
    snapshot = row(CELLS, TIME="19700101080000")
    pair.learn(*[record(snapshot, at) for at in (1, 2)])
    assert pair.fits(record(snapshot, 3, time_ms=1_795_254_690_456))
    assert not pair.fits(record(row(CELLS), 4))
    assert not pair.fits(record(snapshot, 5, time_ms=-1))


def test_a_label_that_is_no_member_fits_nothing(engine: type[Engine]) -> None:
    """The row is then read as one of a table that has another definition by now."""
    pair = learned(both(engine), new=CELLS)
    assert not pair.fits(record(row(CELLS | {"kind": "c"}), 7))
    assert pair.fits(record(row(CELLS | {"kind": "b"}), 8))


def test_a_label_that_is_not_written_is_looked_at(engine: type[Engine]) -> None:
    options = {"delete-only-output-handle-key-columns": "true"}
    pair = learned(both(engine, "ticdc-canal-json", target_options=options), old=CELLS, letter="D")
    assert not pair.fits(record(row(old=CELLS | {"kind": "c"}, letter="D"), 7))
    assert pair.fits(record(row(old=CELLS | {"kind": "b"}, letter="D"), 8))


def test_rows_with_unknown_labels_have_no_template(engine: type[Engine]) -> None:
    pair = both(engine)
    for at in range(20):
        assert not pair.fits(record(row(CELLS | {"kind": "c"}), at + 1))
    assert not pair.fits(record(row(CELLS), 30))


@pytest.mark.parametrize("zone", ["+08:00", "Asia/Shanghai"])
def test_local_times_of_unknown_types_are_counted_one_by_one(engine: type[Engine], zone: str) -> None:
    """A text that looks like a time may be a TIMESTAMP or a DATETIME, of which only one is local."""
    pair = Both(CKAFKA, {"timezone": zone}, engine=engine)
    for at, text in enumerate(["2026-01-02 03:04:05"] * 4 + ["x"] * 4):
        pair.fits(record(row({"id": "1", "at": text}), at))
    assert pair.templated.losses[Loss.VALUE_INFERRED] == 4


def test_each_order_of_columns_is_a_shape(engine: type[Engine]) -> None:
    pair = learned(both(engine), new=CELLS)
    reordered = dict(sorted(CELLS.items()))
    assert not pair.fits(record(row(reordered), 7))
    assert pair.fits(record(row(reordered), 9))
    assert pair.fits(record(row(CELLS), 10))


def test_rows_that_lack_columns_have_no_template_of_whole_ones(engine: type[Engine]) -> None:
    pair = learned(both(engine), new=CELLS, old=OLD, letter="U")
    few = {name: text for name, text in OLD.items() if name != "price"}
    for at in range(4):
        assert not pair.fits(record(row(CELLS, few, "U"), at + 7))


@pytest.mark.parametrize("target", ["canal-json", "debezium-json", "ticdc-open-protocol"])
def test_the_binlog_and_the_gtid_may_differ(engine: type[Engine], target: str) -> None:
    members: dict[str, Any] = {"GLOBAL_ID": "3e11fa47:1", "BINLOG_NAME": "mysql-bin.000001"}
    pair = learned(both(engine, target), new=CELLS, **members)
    others = {"GLOBAL_ID": "3e11fa47:2", "BINLOG_NAME": "mysql-bin.000002"}
    assert pair.fits(record(row(CELLS, **members | others, BINLOG_POS=99), 7))
    for name in members:
        for nothing in ("", None):
            assert not pair.fits(record(row(CELLS, **members | {name: nothing}), 8))
    for position in (-1, 1 << 63, None):
        assert not pair.fits(record(row(CELLS, **members, BINLOG_POS=position), 9))


def test_members_that_nobody_keeps_are_counted(engine: type[Engine]) -> None:
    pair = both(engine)
    for at in range(4):
        assert not pair.fits(record(row(CELLS, GROUP_ID=at), at + 1))


def test_a_key_that_changes_is_no_key_that_stays(engine: type[Engine]) -> None:
    for target in ("ticdc-canal-json", "debezium-json"):
        pair = learned(both(engine, target), new=CELLS, old=OLD, letter="U")
        assert not pair.fits(record(row(CELLS, OLD | {"id": "2"}, "U"), 7))
        assert pair.fits(record(row(CELLS | {"id": "2"}, OLD | {"id": "2"}, "U"), 8))


def test_rows_of_other_partitions_follow_ddl_by_time(engine: type[Engine]) -> None:
    pair = learned(both(engine), new=CELLS)
    assert pair.fits(record(row(CELLS), 7, partition=1))
    assert not pair.fits(record(row(CELLS, TIME="20160610115819"), 8, partition=1))
    assert not pair.fits(record(row(CELLS), 0))


def test_ddl_makes_other_templates(engine: type[Engine]) -> None:
    pair = learned(both(engine), new=CELLS)
    pair.learn(record(ddl("ALTER TABLE t ADD c INT", "ALTER", es=1465531300), 7))
    assert not pair.fits(record(row(CELLS, TIME="20160610121000"), 8))


def test_captured_rows_become_the_same(engine: type[Engine]) -> None:
    """Rows of TiCDC that relay has written as CKafka's, on all routes."""
    files = [file for file in CAPTURED if file.startswith(("ticdc/canal-json/09", "ticdc/canal-json/01"))]
    assert len(files) == 2
    for file in files:
        records = written(file)
        for target in TARGETS:
            pair = Both(CKAFKA, target=target, engine=engine)
            for each in records * 3:
                assert outcome(pair.templated, each) == outcome(pair.plain, each)
            assert pair.templated.losses == pair.plain.losses
            assert pair.templated.events == pair.plain.events
            assert (pair.templated.paths["fast"] > 0) == (target in WITH_TEMPLATES)
