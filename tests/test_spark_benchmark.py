"""The parts of `make bench-spark` that need no Spark: its cases, its loads, and its report."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import pytest
from support import DATA

from benchmarks.spark_load import Load
from benchmarks.spark_matrix import FULL, PARTS, QUICK, Case, parameters
from benchmarks.spark_report import (
    DRIVER_MB,
    HEAP_MB,
    LISTING_SECONDS,
    RATIO,
    RATIO_OF_MANY_TABLES,
    TWO_CORES,
    WORKER_MB,
    Cores,
    Limit,
    Listing,
    Machine,
    ManyTables,
    Result,
    Results,
    Run,
    Same,
    Simulated,
    Speed,
    TablesWritten,
    report,
    rows,
)
from relay import ConsumerRecord

MACHINE = Machine("a processor", 2, 24.0, 0.1, "Python.")
CASE = FULL.cases[0]
RUN = Run(20.0, 30.0, 200.0, 150.0)


def results(*found: Result, load: float = 0.1, **failed: str) -> Results:
    machine = Machine(MACHINE.cpu, MACHINE.cores, MACHINE.memory_gb, load, MACHINE.software)
    return Results(machine, "a -> b", "today", "Options: none.", 1.0, list(found), failed)


def lines_with(text: str, found: Results) -> list[str]:
    """The lines of the table with the text."""
    return [line for line in report(found).splitlines() if line.startswith("|") and text in line]


def test_the_matrix_has_each_combination() -> None:
    given = parameters(["--messages", "2000,1_000", "--partitions", "4", "--tables", "1,50", "--alters", "7"])
    assert given.cases == [
        Case(1000, 4, 1, 7),
        Case(1000, 4, 50, 7),
        Case(2000, 4, 1, 7),
        Case(2000, 4, 50, 7),
    ]
    assert given.compared == [Case(2000, 1, 1, 7), Case(2000, 1, 50, 7)]
    assert len(FULL.cases) == 10
    assert str(FULL.cases[-1]) == "3,000,000 messages, 12 partitions, captured tables, 20 ALTERs"


def test_many_tables_have_up_to_a_million_messages() -> None:
    """Unless no other number was given."""
    many = {each.messages for each in FULL.cases if each.tables > 1}
    assert many == {150_000, 1_000_000}
    (only,) = parameters(["--messages", "3000000", "--partitions", "1", "--tables", "9"]).cases
    assert only.messages == 3_000_000


def test_quick_changes_defaults_only() -> None:
    assert parameters([]) == FULL
    assert parameters(["--quick"]) == QUICK
    assert parameters(["--quick", "--partitions", "2"]) == QUICK._replace(partitions=(2,))
    assert {*QUICK.cases} < {*FULL.cases}


def test_small_cases_have_more_rounds() -> None:
    assert [FULL.rounds_of(each) for each in FULL.messages] == [5, 3, 2]
    assert parameters(["--rounds", "9"]).rounds_of(3_000_000) == 9
    assert parameters(["--rounds", "1"]).rounds_of(150_000) == 1


def test_parts_run_in_their_order() -> None:
    assert parameters(["--only", "same,speed"]).only == ("speed", "same")
    assert parameters([]).only == PARTS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "speed,size"], "unknown part: size"),
        (["--messages", "1000,0"], "not a number of at least 1: '0'"),
        (["--tasks", "many"], "not a number of at least 1: 'many'"),
        (["--alters", "-1"], "not a number of at least 0: '-1'"),
    ],
)
def test_wrong_parameters_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parameters(arguments)
    assert message in capsys.readouterr().err


def statements(records: Sequence[ConsumerRecord], kind: bytes) -> list[ConsumerRecord]:
    return [each for each in records if b'"type":"%b"' % kind in (each.value or b"")]


@pytest.mark.parametrize("tables", [1, 12])
def test_partitions_have_all_messages_between_them(tables: int) -> None:
    load = Load(241, 3, tables, 20)
    partitions = [list(load.records(number)) for number in range(load.partitions)]
    for records in partitions:
        assert [each.offset for each in records] == list(range(len(records)))
    ddl = [each for each in partitions[0] if b'"isDdl":true' in (each.value or b"")]
    assert len(statements(ddl, b"ALTER")) == 20
    rows_of = [each for records in partitions for each in records if b'"isDdl":false' in (each.value or b"")]
    watermarks = statements(rows_of, b"TIDB_WATERMARK")
    assert len(rows_of) - len(watermarks) + 20 == load.messages
    assert not any(b'"isDdl":true' in (each.value or b"") for records in partitions[1:] for each in records)


def test_each_of_many_tables_has_its_definition_and_as_many_rows() -> None:
    """Even where ALTERs come as often as a table."""
    records = list(Load(240, 1, 12, 20).records())
    names = {f"t{number:04}".encode() for number in range(12)}
    created = {
        re.findall(rb"CREATE TABLE `(\w+)`", each.value or b"")[0] for each in statements(records, b"CREATE")
    }
    assert created == names
    found = Counter(
        name
        for each in records
        if b'"isDdl":false' in (each.value or b"")
        for name in re.findall(rb'"table":"(\w+)"', each.value or b"")
    )
    assert found.keys() == names
    assert max(found.values()) - min(found.values()) <= 1


def test_no_alters() -> None:
    assert not statements([*Load(50, alters=0).records()], b"ALTER")
    assert len(statements([*Load(59, alters=20).records()], b"ALTER")) == 20


def speed(*ratios: float, case: Case = CASE, run: Run = RUN) -> Speed:
    identity = [Run(10.0, 12.0, 100.0, 100.0)] * len(ratios)
    job = [Run(10 * each, 15.0, run.worker_mb, run.driver_mb) for each in ratios]
    return Speed(case, job, identity)


def test_a_figure_within_its_limit_is_met() -> None:
    found = results(speed(1.1, 1.3, 1.15))
    figure, worker, driver = lines_with(f" {CASE}", found)
    assert (
        "| 1.15 × identity; 11.5 s and 10.0 s; rounds: 1.10, 1.30, 1.15; processor time 1.25 × | ≤ 1.20 × identity | met |"
        in figure
    )
    assert worker.endswith("Python worker | 200 MB | ≤ 250 MB | met |")
    assert driver.endswith("driver's Python | 150 MB | ≤ 400 MB | met |")
    assert not any(row.is_missed for row in rows(found))


def test_a_missed_limit_is_reported_as_missed() -> None:
    found = results(speed(1.3, 1.4, 1.1, run=Run(0, 0, 251, 401)))
    verdicts = [line.rsplit("| ", 1)[1] for line in lines_with(f" {CASE}", found)]
    assert verdicts == ["**MISSED** |"] * 3
    assert sum(row.is_missed for row in rows(found)) == 3
    assert "figures: 3 missed or failed" in report(found)


def test_many_tables_have_another_limit() -> None:
    case = CASE._replace(tables=1000)
    assert "| ≤ 1.50 × identity | met |" in lines_with(f" {case}", results(speed(1.5, case=case)))[0]
    assert "**MISSED**" in lines_with(f" {case}", results(speed(1.51, case=case)))[0]


def test_a_missed_value_does_not_look_like_the_bound() -> None:
    limit = Limit(1.2, "× identity", 2)
    assert [limit.shown(each) for each in (1.2, 1.2001, 1.201)] == [
        "1.20 × identity",
        "1.2001 × identity",
        "1.201 × identity",
    ]
    assert Limit(1.6, "× one core", 2, is_least=True).shown(1.5999) == "1.5999 × one core"


def test_what_was_not_measured_is_shown_as_unknown() -> None:
    found = results()
    table = [line for line in report(found).splitlines() if line.startswith("| ")][2:]
    assert len(table) == len(rows(found)) > 40
    assert all("| unknown |" in line and line.endswith("| not measured |") for line in table)
    assert {line.split(" | ")[0].removeprefix("| ") for line in table} == {*PARTS}
    assert not any(row.is_missed for row in rows(found))


def test_two_cores_must_be_faster_by_the_limit() -> None:
    def cores(seconds: float, *numbers: int) -> Results:
        runs: dict[int, Sequence[Run]] = {
            number: [Run(seconds if number > 1 else 16.0, 20.0, 100, 100)] * 3 for number in numbers
        }
        return results(Cores(1_000_000, runs))

    (line,) = lines_with("2 cores", cores(10.0, 1, 2))
    assert "| 1.60 × one core; by cores: 1: 16.0 s; 2: 10.0 s | ≥ 1.60 × one core | met |" in line
    assert "**MISSED**" in lines_with("2 cores", cores(10.1, 1, 2))[0]
    assert "not measured" in lines_with("2 cores", cores(10.0, 1))[0]
    assert lines_with("4 cores", cores(8.0, 1, 4))[0].endswith("| 2.00 × one core | – | no limit |")


@pytest.mark.parametrize(
    ("text", "within", "beyond"),
    [
        ("simulated", Simulated(5000, 1000, 90, 400, 30), Simulated(5000, 1000, 90, 401, 30)),
        ("150 tasks: Python worker", ManyTables(CASE, 150, RUN), ManyTables(CASE, 150, Run(1, 1, 251, 1))),
        (
            "as rows: Java",
            TablesWritten(1500, "rows", 9, 1024, RUN),
            TablesWritten(1500, "rows", 9, 2048, RUN),
        ),
        (
            "as records: Python worker",
            TablesWritten(1500, "records", 9, 1024, RUN),
            TablesWritten(1500, "records", 9, 1024, Run(1, 1, 251, 1)),
        ),
        ("files: Parquet", Listing(20_000, "Parquet", RUN), Listing(20_000, "Parquet", Run(30.1, 9, 0, 100))),
        (
            str(FULL.compared[0]),
            Same(FULL.compared[0], 9, 3, 1.0, RUN, ""),
            Same(FULL.compared[0], 9, 3, 1.0, RUN, "records 0 to 999 differ"),
        ),
    ],
)
def test_each_part_has_a_limit(text: str, within: Result, beyond: Result) -> None:
    assert lines_with(text, results(within))[0].endswith("| met |")
    assert re.search(r"\*\*(MISSED|FAILED)\*\* \|$", lines_with(text, results(beyond))[0])
    assert any(row.is_missed for row in rows(results(beyond)))


def test_smaller_sizes_do_not_stand_for_the_required_ones() -> None:
    lines = lines_with("files: Parquet", results(Listing(200, "Parquet", RUN)))
    assert [line.rsplit(" | ", 1)[1] for line in lines] == ["met |", "not measured |"]


def test_a_failed_part_is_reported_beside_its_results() -> None:
    found = results(speed(1.1), speed="Py4JError: a | b\nc")
    (line,) = lines_with("the part", found)
    assert line == "| speed | the part | Py4JError: a \\| b c | – | **FAILED** |"
    assert any(row.is_missed for row in rows(found))
    assert lines_with(f" {CASE}", found)[0].endswith("| met |")


def test_the_documentation_has_the_limits() -> None:
    text = (DATA.parents[1] / "docs/performance.md").read_text(encoding="utf-8")
    section = text.partition("\n## Spark job\n")[2].partition("\n## ")[0]
    cells = [line.split("|") for line in section.splitlines() if line.startswith("|")]
    limits = {(part.strip(" `"), limit.strip()) for _, part, _, limit, _ in cells}
    assert limits >= {
        ("speed", f"{RATIO}"),
        ("speed", f"{RATIO_OF_MANY_TABLES}"),
        ("cores", f"at least {TWO_CORES}"),
        ("memory", f"{DRIVER_MB} MB"),
        ("tables-to-parquet", f"heap of {HEAP_MB // 1024} GB"),
        ("listing", f"{LISTING_SECONDS} s"),
        ("all", f"{WORKER_MB} MB"),
        ("all", f"{DRIVER_MB} MB"),
    }
    assert {part for part, _ in limits} >= set(PARTS)


def test_a_busy_machine_is_named() -> None:
    assert "not idle" in report(results(load=3.0))
    assert "not idle" not in report(results())
