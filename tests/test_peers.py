"""The parts of `make bench-peers` that need neither Kafka nor Java: what is read, what is expected, what is said
of a peer's output."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import orjson
import pytest
from rich.console import Console

from benchmarks.peers_check import WrongOutput, faults
from benchmarks.peers_load import CANAL, DEBEZIUM, PARTITIONS, Load, Size, load
from benchmarks.peers_loop import to_canal
from benchmarks.peers_programs import RELAY, Contest, Environment, contests, declared
from benchmarks.peers_report import Source, remarks, result, table
from benchmarks.peers_runs import PeerRun
from relay.core.translator import Translator

ROWS = 60
Json = dict[str, Any]


@pytest.fixture(scope="module")
def made() -> Load:
    return load(ROWS, Size(counted=100, warm_up=50, jvm_warm_up=70))


def _of(messages: list[Json], kind: str) -> Json:
    return next(each for each in messages if each["type"] == kind)


def test_the_loop_by_hand_writes_what_relay_writes(made: Load) -> None:
    translator = Translator(CANAL.source, CANAL.target, {}, {})
    for record in [*made.ticdc.control, *made.ticdc.rows]:
        (expected,) = translator.translate(record)
        assert to_canal(record.value or b"", record.offset) == expected.value


def test_a_topic_has_its_ddl_in_every_partition_and_the_rows_again_and_again(made: Load) -> None:
    partitions = [list(made.ticdc.records(number)) for number in range(PARTITIONS)]
    assert [records[0] for records in partitions] == [*made.ticdc.control] * PARTITIONS
    assert [len(records) - 1 for records in partitions] == [38, 38, 37, 37]
    assert partitions[1][1] is made.ticdc.rows[1]
    assert partitions[1][1 + ROWS // PARTITIONS] is made.ticdc.rows[1]


def test_the_topics_of_a_contest_have_the_same_rows(made: Load) -> None:
    ids = [orjson.loads(row.value or b"")["data"][0]["id"] for row in made.ticdc.rows]
    assert [str(orjson.loads(row.key or b"")["payload"]["id"]) for row in made.debezium_for_jvm.rows] == ids
    assert made.ticdc_for_jvm.rows == made.ticdc.rows
    assert len(made.open_protocol.rows) == ROWS


def test_how_many_messages_are_expected(made: Load) -> None:
    canal, debezium = contests(made)
    ops = [each["type"] for each in made.as_canal[1:]]
    again = [*ops, *ops, *ops][:170]
    flink = 170 + again.count("UPDATE")
    assert [each.outputs for each in canal.programs] == [154, flink, flink, 174, 154, 154]
    assert [each.outputs for each in debezium.programs] == [154, flink, 170]


def test_the_flink_job_and_the_worker_read_and_write_the_given_topics(
    made: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.peers_programs.java_command", lambda *_: ["java"])
    environment = Environment("127.0.0.1:9", "written", tmp_path)
    flink, connect = contests(made)[1].programs[1:]
    flink.command(environment)
    types = declared(made.as_canal)
    assert [types[f"wide_12_{at}"] for at in range(1, 4)] == ["INT", "STRING", "DECIMAL(14,2)"]
    assert [types["wide_12_4"], types["wide_12_6"], types["wide_12_7"]] == [
        "TIMESTAMP(3)",
        "DATE",
        "TIMESTAMP(0)",
    ]
    sql = (tmp_path / "written.sql").read_text()
    assert "`wide_12_1` BIGINT,\n  `wide_12_2` STRING,\n  `wide_12_3` DOUBLE" in sql
    assert "'topic' = 'debezium-70'" in sql
    assert "'topic' = 'written'" in sql
    connect.command(environment)
    sink = (tmp_path / "written.sink.properties").read_text()
    assert "topics=debezium-70\ntarget.topic=written\n" in sink


def test_what_relay_writes_has_no_faults(made: Load) -> None:
    canal, debezium = contests(made)
    for wanted in (canal.wanted, debezium.wanted):
        assert faults(map(orjson.dumps, wanted), wanted, ddl=True) == []


def test_differences_are_reported(made: Load) -> None:
    wanted: list[Json] = [*contests(made)[0].wanted]
    update = _of(wanted, "UPDATE")
    (row,), (old,) = update["data"], update["old"]
    for changed, fault in [
        (update | {"old": [row | old]}, "`old` has what did not change"),
        (update | {"data": [dict(sorted(row.items()))]}, "columns in another order"),
        (update | {"mysqlType": {}, "gtid": None}, "other gtid, mysqlType"),
        (update | {"_tidb": 1}, "with _tidb"),
        (
            {name: cell for name, cell in update.items() if name not in {"es", "pkNames"}},
            "without es, pkNames",
        ),
    ]:
        assert faults([orjson.dumps(changed)], wanted, ddl=False) == [fault]
    assert faults([orjson.dumps(update)], wanted, ddl=True) == ["drops the DDL"]
    insert = _of(wanted, "INSERT")
    reads = {"id": int, "wide_12_3": float}
    typed = {name: reads.get(name, str)(cell) for name, cell in insert["data"][0].items()}
    differences = faults([orjson.dumps(insert | {"data": [typed]})], wanted, ddl=False)
    assert differences == ["values in another form"]


def test_an_update_as_two_messages_is_a_fault_with_the_right_images_only(made: Load) -> None:
    wanted: list[Json] = [*contests(made)[0].wanted]
    update = _of(wanted, "UPDATE")
    (row,), (old,) = update["data"], update["old"]
    split_images = [
        update | {"type": "DELETE", "data": [row | old], "old": None},
        update | {"type": "INSERT", "old": None},
    ]
    assert faults(map(orjson.dumps, split_images), wanted, ddl=False) == [
        "an UPDATE comes as DELETE and INSERT"
    ]
    with pytest.raises(WrongOutput, match="was expected"):
        faults([orjson.dumps(update | {"type": "DELETE", "old": None})], wanted, ddl=False)


def test_a_wrong_row_is_no_run(made: Load) -> None:
    wanted: list[Json] = [*contests(made)[0].wanted]
    insert = _of(wanted, "INSERT")
    (row,) = insert["data"]
    for changed in (
        {"data": [row | {"wide_12_1": "0"}]},
        {"data": [row | {"id": "0"}]},
        {"type": "DELETE"},
        {"data": None},
    ):
        with pytest.raises(WrongOutput):
            faults([orjson.dumps(insert | changed)], wanted, ddl=False)


def test_a_round_of_relay_is_compared_with_the_same_round_of_a_peer(made: Load) -> None:
    contest = contests(made)[1]
    contest = Contest(DEBEZIUM, contest.programs[:2], contest.wanted)
    runs = [
        PeerRun(name, speed, cpu, peak, 1.0, 900, differences)
        for speed, cpu, peak, ours, theirs in [
            (300, 1.0, 80, 200, 2.0),
            (100, 2.0, 88, 100, 4.0),
            (90, 1.2, 84, 30, 6.0),
        ]
        for name, speed, cpu, peak, differences in [
            (RELAY, speed, cpu, peak, []),
            ("Flink SQL", ours, theirs, 800, ["drops the DDL"]),
        ]
    ]
    found = result(contest, {"open-50": Source(900, 0.2), "debezium-70": Source(800, 0.1)}, runs)
    (ratio,) = found.ratios
    assert (ratio.peer, ratio.messages_per_second, ratio.cpu_seconds) == ("Flink SQL", 1.5, 0.5)
    assert [each.messages_per_second for each in found.overall] == [100, 100]
    assert remarks(found) == ["relay run: writes what relay writes", "Flink SQL: drops the DDL"]
    console = Console(width=120, file=io.StringIO(), record=True)
    console.print(table(found))
    assert "relay / Flink SQL" in console.export_text()
