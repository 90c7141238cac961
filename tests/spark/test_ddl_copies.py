"""DDL that is once in the source and in every partition of the target, or the other way round, in the job: the
bytes and partitions of the relay.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from open_support import ddl, framed
from spark.backfills import config_for, lines_in
from spark.test_files import relayed
from support import CANAL, DATA, OPEN, TICDC, captured
from typer.testing import CliRunner

from relay.catalog import Unknown
from relay.cli.commands import app
from relay.io.record_lines import format_record
from spark_backfill.counts import as_document, as_text
from spark_backfill.job import from_files


@pytest.mark.parametrize(
    ("source", "target", "partitions"),
    [(TICDC, OPEN, {0, 1, 2}), (OPEN, CANAL, {0}), (OPEN, "ticdc-debezium", {0, 1, 2})],
)
def test_statements_are_the_relays(
    source: str, target: str, partitions: set[int], spark: Any, tmp_path: Path
) -> None:
    file = f"ticdc/{source.removeprefix('ticdc-')}.3-partitions/10_ddl"
    config = config_for(
        str(DATA / f"{file}.jsonl"), str(tmp_path / "out"), route={"from": source, "to": target}
    )
    counts = from_files(spark, config)
    expected = relayed(config, captured(file))
    written = lines_in(tmp_path / "out")

    assert {name: _unordered(lines) for name, lines in written.items()} == {
        name: _unordered(lines) for name, lines in expected.items()
    }
    found = {name: _statements(target, lines) for name, lines in written.items()}
    assert {int(name.rpartition("/")[2]) for name, at in found.items() if at} == partitions
    if target == CANAL:
        assert counts.lost["ddl-copies"] == 2 * sum(map(len, found.values()))
        assert f"  notes    ddl-copies {counts.lost['ddl-copies']}" in as_text(counts, 0)
    assert counts.unwritten_ddl == as_document(counts, 0)["unwritten_ddl"] == []
    # A statement stands among the rows, by its time.
    for lines in written.values():
        times = [json.loads(line)["timestamp"] for line in lines]
        assert times == sorted(times)


def _unordered(lines: list[bytes]) -> list[str]:
    """Lines without what depends on their order, and without headers, which name a source."""
    found = [json.loads(line) for line in lines]
    return sorted(json.dumps([each["timestamp"], each["key"], each["value"]]) for each in found)


def _statements(protocol: str, lines: list[bytes]) -> list[int]:
    mark = {OPEN: '"t":2', CANAL: '"isDdl":true'}.get(protocol, '"ddl":"')
    found = [json.loads(line) for line in lines]
    return [
        at
        for at, each in enumerate(found)
        if mark in json.dumps([each["key"], each["value"]]).replace("\\", "")
    ]


def test_tables_whose_ddl_is_not_there_are_named(spark: Any, tmp_path: Path) -> None:
    file = DATA / "ticdc/canal-json.3-partitions/09_dml.jsonl"
    lines = file.read_text().splitlines()
    rows = [line for line in lines if '"isDdl":false' in json.loads(line)["value"]]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    route = {"from": TICDC, "to": CANAL}
    counts = from_files(spark, config_for(str(tmp_path / "rows.jsonl"), str(tmp_path / "out"), route=route))
    assert counts.inferred["dml_db.accounts"] > 0
    assert counts.inferred.total() == counts.lost["schema-inferred"]
    assert as_document(counts, 0)["inferred_tables"] == dict(sorted(counts.inferred.items()))
    reason = f"    dml_db.accounts {counts.inferred['dml_db.accounts']}: {Unknown.NO_DDL}"
    assert reason in as_text(counts, 0)
    assert as_document(counts, 0)["inferred_reasons"]["dml_db.accounts"] == Unknown.NO_DDL
    assert not from_files(spark, config_for(str(file), str(tmp_path / "known"), route=route)).inferred


def test_statements_that_remove_rows_and_are_not_written_are_named(spark: Any, tmp_path: Path) -> None:
    file = DATA / "ticdc/canal-json.tidb-extension/10_ddl.jsonl"
    route = {"from": TICDC, "to": "flat-json"}
    counts = from_files(spark, config_for(str(file), str(tmp_path / "out"), route=route))
    assert 0 < len(counts.unwritten) <= counts.lost["truncate-or-drop"]
    assert as_document(counts, 0)["unwritten_statements"] == list(counts.unwritten)
    assert any("(truncate table, " in line for line in as_text(counts, 0))


@pytest.mark.parametrize("options", [{}, {"strict": "true"}])
def test_ddl_without_its_copy_in_partition_0_is_warned_of_as_by_translate(
    options: dict[str, str], spark: Any, tmp_path: Path
) -> None:
    partitions = ("b", 1), ("a", 0), ("a", 1), ("c", 2)
    given = [framed(ddl("alter table t add x int"), topic=topic, partition=at) for topic, at in partitions]
    file, out = tmp_path / "copies.jsonl", tmp_path / "out"
    file.write_bytes(b"".join(format_record(record, 0) for record in given))
    options |= {"enable-tidb-extension": "true"}
    counts = from_files(
        spark, config_for(str(file), str(out), route={"from": OPEN, "to": TICDC, "to_options": options})
    )
    assert list(lines_in(out)) == ["a/0"]
    assert as_document(counts, 0)["unwritten_ddl"] == ["b", "c"]

    flags = [f"--to-option={name}={value}" for name, value in options.items()]
    done = CliRunner().invoke(app, ["translate", "--from", OPEN, "--to", TICDC, *flags, str(file)])
    assert done.exit_code == 0
    lines = done.stderr.splitlines()
    assert [*map(str.strip, lines[-2:])] == ["b", "c"]
    assert lines[-3].startswith("  Warning: DDL was left out")
    # The job also tells the tables.
    assert as_text(counts, 0)[1:-1] == lines[1:]
