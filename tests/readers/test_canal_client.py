"""Canal's own client reads what relay writes, and its client adapter can store it."""

from __future__ import annotations

import pytest
from readers.canal import dmls, refused, steps, unchanged_in_old
from readers.java import Program
from readers.sources import FILES, translated, wrongly_read
from support import CANAL

OPTIONS = {"profile": "canal-adapter"}


@pytest.mark.parametrize("file", FILES)
def test_every_row_of_every_table(canal: Program, file: str) -> None:
    messages = [record.value or b"" for record in translated(file, CANAL, **OPTIONS)]
    given = dmls(canal, messages)
    assert wrongly_read(file, lambda table: steps(table, given[table.database, table.name])) == {}
    everything = [dml for of_table in given.values() for dml in of_table]
    assert refused(everything) == []
    assert unchanged_in_old(everything) == []
    assert {dml["type"] for dml in everything if not dml["ddl"]} <= {"INSERT", "UPDATE", "DELETE"}


@pytest.mark.parametrize("batch", ["1", "16"])
@pytest.mark.parametrize("file", FILES)
def test_every_row_of_every_packet(canal: Program, file: str, batch: str) -> None:
    options = {"max-batch-size": batch, "ddl": "keep"}
    packets = [record.value or b"" for record in translated(file, "canal-protobuf", **options)]
    given = dmls(canal, packets, are_packets=True)
    assert wrongly_read(file, lambda table: steps(table, given[table.database, table.name])) == {}
    everything = [dml for of_table in given.values() for dml in of_table]
    assert unchanged_in_old(everything) == []
    assert {dml["type"] for dml in everything if not dml["ddl"]} <= {"INSERT", "UPDATE", "DELETE"}
