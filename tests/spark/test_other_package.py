"""A protocol of another package (`toy_protocol`) in the Spark job: its workers answer needs on both sides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from spark.backfills import config_for, lines_in
from support import CANAL, DATA, TICDC
from toy_protocol.codec import NAME as TOY

from relay import Resolver
from relay.config import Config
from relay.config.wiring import translator_of
from relay.io.record_lines import format_record, parse_record
from spark_backfill.job import from_files


def relayed(config: Config, lines: list[bytes]) -> list[bytes]:
    """The lines that `relay translate` writes."""
    translator, found = translator_of(config), list[bytes]()
    for line in lines:
        for out in Resolver().translate(translator, parse_record(line)):
            found.append(format_record(out, len(found)).rstrip(b"\n"))
    return found


def test_there_and_back(spark: Any, tmp_path: Path) -> None:
    given = DATA / "ticdc/canal-json.tidb-extension/09_dml.jsonl"
    registry = {"registry": str(tmp_path / "schemas")}
    there = config_for(
        str(given), str(tmp_path / "there"), route={"from": TICDC, "to": TOY, "to_options": registry}
    )
    from_files(spark, there)
    (written,) = lines_in(tmp_path / "there").values()
    assert written == relayed(there, given.read_bytes().splitlines())
    (tmp_path / "between.jsonl").write_bytes(b"\n".join(written))
    back = config_for(
        str(tmp_path / "between.jsonl"),
        str(tmp_path / "back"),
        route={"from": TOY, "to": CANAL, "from_options": registry},
    )
    counts = from_files(spark, back)
    (again,) = lines_in(tmp_path / "back").values()
    assert again == relayed(back, written)
    assert {json.loads(json.loads(line)["value"])["isDdl"] for line in again} == {False}
    assert counts.read == len(written)
