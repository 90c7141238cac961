"""DDL that is once in the source and in every partition of the target, or the other way round, in the job: the
bytes and partitions of the relay.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from spark.backfills import config_for, lines_in
from spark.test_files import relayed
from support import CANAL, DATA, OPEN, TICDC, captured

from spark_backfill.counts import as_document, as_text
from spark_backfill.job import from_files


@pytest.mark.parametrize(
    ("source", "target", "places"),
    [(TICDC, OPEN, {0, 1, 2}), (OPEN, CANAL, {0}), (OPEN, "ticdc-debezium", {0, 1, 2})],
)
def test_statements_are_the_relays(
    source: str, target: str, places: set[int], spark: Any, tmp_path: Path
) -> None:
    file = f"ticdc/{source.removeprefix('ticdc-')}.3-partitions/10_ddl"
    config = config_for(
        str(DATA / f"{file}.jsonl"), str(tmp_path / "out"), route={"from": source, "to": target}
    )
    counts = from_files(spark, config)
    expected = relayed(config, captured(file))
    written = lines_in(tmp_path / "out")

    assert {place: _unordered(lines) for place, lines in written.items()} == {
        place: _unordered(lines) for place, lines in expected.items()
    }
    found = {place: _statements(target, lines) for place, lines in written.items()}
    assert {int(place.rpartition("/")[2]) for place, at in found.items() if at} == places
    if target == CANAL:
        assert counts.lost["ddl-copies"] == 2 * sum(map(len, found.values()))
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
    assert counts.guessed["dml_db.accounts"] > 0
    assert counts.guessed.total() == counts.lost["schema-guessed"]
    assert as_document(counts, 0)["guessed_tables"] == dict(sorted(counts.guessed.items()))
    assert f"    dml_db.accounts {counts.guessed['dml_db.accounts']}" in as_text(counts, 0)
    assert not from_files(spark, config_for(str(file), str(tmp_path / "known"), route=route)).guessed
