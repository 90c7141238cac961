"""The fuzzer finds what is wrong: for every check a fault that is planted, and what it keeps of a finding."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import fields
from unknown_support import with_unknown_members

from fuzz import __main__ as command
from fuzz import entry_points, oracle, runner, scaling, session
from fuzz.corpus import captured_sample, chosen_sample
from fuzz.events import Target, compare
from fuzz.findings import BrokenError, Finding, Setting, read, write
from fuzz.json_tree import NoTreeError, content, parse_tree, spliced
from fuzz.mutations import document, mutated
from fuzz.oracle import Bench, check_error
from fuzz.scaling import measured, ways
from fuzz.session import Run, Session, reduced, reproduce, sample_routes
from fuzz.statements import mutated_statement
from fuzz.unknown import extended, without_member
from relay import (
    ConsumerRecord,
    Event,
    Loss,
    Malformed,
    Op,
    ProducerRecord,
    RelayError,
    RowChange,
    Rows,
    SchemaChange,
    Translator,
)
from relay.codecs import BUILT_IN, PROTOCOLS
from relay.codecs.codec import side_of, types_of_options
from relay.model.events import Column, ColumnType, DdlKind, Source, TableId, TableSchema
from relay.model.lookups import RegisteredSchema
from relay.routing import TopicRule
from relay.routing.partitioning import Partitioning
from relay.testing.option_sets import option_sets

SOURCE, TARGET = "ticdc-canal-json", "ticdc-open-protocol"
SAMPLE = captured_sample("ticdc/canal-json.tidb-extension/09_dml")
#: A statement that makes a table, and a row of it behind the records before it.
CREATE, ROWS = 1, next(at for at, each in enumerate(SAMPLE.records) if b'"INSERT"' in (each.value or b""))
ROW, NEXT = SAMPLE.records[ROWS : ROWS + 2]


def setting(before: int = ROWS, target: str = TARGET) -> Setting:
    return Setting(SOURCE, target, {}, {}, None, SAMPLE.records[:before], {})


def bench(before: int = ROWS, target: str = TARGET) -> Bench:
    made = Bench(setting(before, target), is_thorough=True)
    made.prime(made.setting.prefix)
    return made


Translate = Callable[[Translator, ConsumerRecord], list[ProducerRecord]]
TRANSLATE = Translator.translate


def plant(monkeypatch: pytest.MonkeyPatch, fault: Translate) -> None:
    monkeypatch.setattr(Translator, "translate", fault)


WRITABLE = [name for name, codec in PROTOCOLS.items() if codec.is_writable]


def broken(made: Bench, record: ConsumerRecord = ROW) -> tuple[str, str]:
    with pytest.raises(BrokenError) as caught:
        made.step(record)
    return caught.value.check, caught.value.kind


@pytest.mark.parametrize("target", WRITABLE)
def test_good_records_pass_every_check(target: str) -> None:
    made = bench(0, target)
    for record in SAMPLE.records:
        made.step(record)


@pytest.mark.parametrize(
    "target", [name for name in WRITABLE if name in BUILT_IN and BUILT_IN[name].is_readable]
)
def test_the_reader_has_every_option_of_the_writer_that_a_source_takes(target: str) -> None:
    kinds = types_of_options(BUILT_IN[target].options)
    shared = [
        field for field in fields(BUILT_IN[target].options) if side_of(kinds[field.encode_name]) is None
    ]
    drawn = set()
    for number in range(100):
        partitions, options = session.target_options(target, random.Random(number))
        made = Bench(setting(0, target)._replace(target_options=options, partitions=partitions))
        written, given = made.used.route.target_options, made.reader.route.source_options
        for field in shared:
            assert getattr(given, field.name) == getattr(written, field.name), (field.name, options)
            if getattr(given, field.name) != field.default:
                drawn.add(field.name)
    assert drawn == {field.name for field in shared} - {"strict"}


# ---------------------------------------------------------------- one record


def test_an_error_that_is_not_relays_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    made = bench()

    def fault(translator: Translator, record: ConsumerRecord) -> list[ProducerRecord]:
        raise KeyError(record.offset)

    plant(monkeypatch, fault)
    assert broken(made) == ("exception", "KeyError")


def test_an_error_of_another_door_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    made = bench()

    def fault(_translator: Translator, _record: ConsumerRecord) -> None:
        raise IndexError

    monkeypatch.setattr(Translator, "learn", fault)
    assert broken(made) == ("exception", "learn IndexError")


class UnknownError(RelayError):
    code = "unknown"


UnknownError.code = "undocumented"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (UnknownError("x"), "unknown code"),
        (Malformed(SOURCE, "data[0].c", "not a number: 7190283746"), "shows a value"),
        (Malformed(SOURCE, "data[0]", "c" * 30_000), "long"),
        (Malformed(SOURCE, "data[0]", ""), "without protocol, path or reason"),
    ],
)
def test_an_error_text_that_is_not_as_it_should_be_is_found(error: RelayError, kind: str) -> None:
    with pytest.raises(BrokenError) as caught:
        check_error(error)
    assert (caught.value.check, caught.value.kind) == ("error text", kind)


def test_state_and_counters_of_a_refused_record_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    state, counters = bench(0), bench(0)

    def learns(translator: Translator, record: ConsumerRecord) -> list[ProducerRecord]:
        translator.learn(record)
        raise Malformed(SOURCE, "data", "planted")

    def counts(translator: Translator, record: ConsumerRecord) -> list[ProducerRecord]:
        before = translator.state
        TRANSLATE(translator, record)
        translator.restore(before)
        raise Malformed(SOURCE, "data", "planted")

    plant(monkeypatch, learns)
    assert broken(state, SAMPLE.records[CREATE]) == ("all or nothing", "state")
    plant(monkeypatch, counts)
    assert broken(counters) == ("all or nothing", "counters")


def test_output_that_cannot_be_read_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    made = bench()

    def fault(translator: Translator, record: ConsumerRecord) -> list[ProducerRecord]:
        return [msgspec.structs.replace(out, value=b"{") for out in TRANSLATE(translator, record)]

    plant(monkeypatch, fault)
    assert broken(made) == ("read back", "refused: … bytes where a length of … bytes is expected")


@pytest.mark.parametrize(("ddl", "is_found"), [("keep", True), ("drop", False)])
def test_a_declared_definition_that_is_missing_is_a_finding(
    monkeypatch: pytest.MonkeyPatch, ddl: str, is_found: bool
) -> None:
    target = "ticdc-simple-json"
    made = Bench(setting(target=target)._replace(target_options={"ddl": ddl}), is_thorough=True)
    made.prime(made.setting.prefix)

    def fault(translator: Translator, record: ConsumerRecord) -> list[ProducerRecord]:
        made = TRANSLATE(translator, record)
        version = b'"schemaVersion":1'
        return [
            msgspec.structs.replace(out, value=(out.value or b"").replace(b'"schemaVersion":', version))
            for out in made
        ]

    if is_found:
        plant(monkeypatch, fault)
        assert broken(made)[1].startswith("refused: no BOOTSTRAP or DDL message")
    else:
        assert isinstance(made.step(ROW), list)


@pytest.mark.parametrize(
    ("value", "kind"),
    [(b"{", "not JSON"), (b'{"a":NaN}', "not JSON"), (b'{"a":1,"a":{"b":1,"b":2}}', "a member twice")],
)
def test_output_that_nobody_reads_back_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, value: bytes, kind: str
) -> None:
    made = bench(target="flat-json")

    def fault(translator: Translator, record: ConsumerRecord) -> list[ProducerRecord]:
        return [msgspec.structs.replace(out, value=value) for out in TRANSLATE(translator, record)]

    plant(monkeypatch, fault)
    assert broken(made) == ("read back", kind)


def test_values_in_keys_are_canaries_now_and_then() -> None:
    record = ConsumerRecord("t", 0, 0, 0, b'{"payload":{"id":1}}', None)
    keys = [mutated(record, [record], random.Random(at)).key or b"" for at in range(200)]
    assert any(b"CaNaRy" in key for key in keys)


def test_output_that_depends_on_records_before_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    made, times = bench(), itertools.count()

    def fault(translator: Translator, record: ConsumerRecord) -> list[ProducerRecord]:
        return [msgspec.structs.replace(out, partition=next(times)) for out in TRANSLATE(translator, record)]

    plant(monkeypatch, fault)
    monkeypatch.setattr(Bench, "strict_agrees", lambda *_: None)
    assert broken(made) == ("determinism", "another partition")


@pytest.mark.parametrize(("is_strict", "kind"), [(True, "refused or not"), (False, "passes commit-ts")])
def test_strict_that_refuses_too_much_or_too_little_is_found(
    monkeypatch: pytest.MonkeyPatch, is_strict: bool, kind: str
) -> None:
    made = bench(target=TARGET if is_strict else "canal-json")

    def fault(translator: Translator, record: ConsumerRecord) -> list[ProducerRecord]:
        if translator is made.strict and is_strict:
            raise Malformed(SOURCE, "data", "planted")
        return TRANSLATE(made.used if translator is made.strict else translator, record)

    plant(monkeypatch, fault)
    assert broken(made) == ("strict", kind)


def with_member() -> ConsumerRecord:
    found = extended(SAMPLE, ROWS, random.Random(1))
    assert found is not None
    plain = without_member(found)
    assert plain is not None
    assert (plain.key, plain.value) == (ROW.key, ROW.value) != (found.key, found.value)
    return found


def test_an_unknown_member_that_is_lost_without_a_word_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    made, record, inspect = bench(), with_member(), Translator.inspect
    made.step(record)

    def fault(translator: Translator, record: ConsumerRecord) -> list[Event]:
        found = inspect(translator, record)
        sources = [msgspec.structs.replace(event.source, unknown_fields=None) for event in found]
        return [
            msgspec.structs.replace(event, source=source)
            for event, source in zip(found, sources, strict=True)
        ]

    monkeypatch.setattr(Translator, "inspect", fault)
    assert broken(bench(), record) == ("unknown member", "not carried")


def test_no_unknown_member_is_put_among_columns_whose_names_are_adjusted() -> None:
    captured = captured_sample("ticdc/canal-json.tidb-extension/01_all_types")
    options = {"field.name.adjustment.mode": "avro_unicode"}
    writer = Translator(captured.protocol, "debezium-json", captured.options, options)
    written = [made for record in captured.records for made in writer.translate(record)]
    records = [
        ConsumerRecord(made.topic, 0, at, made.timestamp_ms, made.key, made.value, made.headers)
        for at, made in enumerate(written)
    ]
    sample = captured._replace(
        name="adjusted", protocol="debezium-json", options=options, records=tuple(records)
    )
    rows = [json.loads(record.value or b"{}").get("payload", {}).get("after") for record in records]
    (at, *_) = [at for at, row in enumerate(rows) if row and any("u005f" in name for name in row)]
    for seed in range(100):
        found = extended(sample, at, random.Random(seed))
        assert found is not None
        assert found.value is not None
        assert json.loads(found.value)["payload"]["after"] == rows[at]


def test_no_unknown_member_is_put_among_cells_without_names() -> None:
    """TiCDC leaves out the names of columns that have become NULL."""
    records = captured_sample("ticdc/open-protocol.updated-columns/06_zero_dates").records
    row = next(each for each in records if b'"p":{"t":10' in (each.value or b""))
    columns = {"id", "d", "dnn", "dt", "dtnn", "ts", "ts3", "t", "y"}
    places = [each.where for each in with_unknown_members("ticdc-open-protocol", row, columns)]
    assert any("u." in place for place in places)
    assert not any(place.endswith((".u", ".p")) for place in places)


def test_an_unknown_member_that_is_not_counted_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    made, record = bench(), with_member()

    def fault(translator: Translator, record: ConsumerRecord) -> list[ProducerRecord]:
        return TRANSLATE(translator, without_member(record) or record)

    plant(monkeypatch, fault)
    assert broken(made, record) == ("unknown member", "not counted")


def test_an_unknown_member_that_changes_what_is_written_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    made, record = bench(), with_member()

    def fault(translator: Translator, given: ConsumerRecord) -> list[ProducerRecord]:
        produced = TRANSLATE(translator, given)
        return produced if given is not record else []

    plant(monkeypatch, fault)
    assert broken(made, record) == ("unknown member", "number of records")


def test_what_a_profile_leaves_out_is_no_loss() -> None:
    wanted = setting(0, "debezium-json")._replace(target_options={"profile": "flink"})
    made = Bench(wanted, is_thorough=True)
    for record in SAMPLE.records:
        made.step(record)
    assert made.used.losses[Loss.DDL] > 0


def test_a_record_that_takes_too_long_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    made = bench()

    def fault(translator: Translator, record: ConsumerRecord) -> list[ProducerRecord]:
        until = time.process_time() + 0.05
        while time.process_time() < until:
            pass
        return TRANSLATE(translator, record)

    plant(monkeypatch, fault)
    monkeypatch.setattr(oracle, "MAX_SECONDS", 0.01)
    assert broken(made) == ("time", "slow")


def test_a_record_that_takes_too_much_memory_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    made = bench()

    def fault(translator: Translator, record: ConsumerRecord) -> list[ProducerRecord]:
        assert len(b"x" * (400 << 20)) > 0
        return TRANSLATE(translator, record)

    plant(monkeypatch, fault)
    monkeypatch.setattr(oracle, "MAX_GROWTH", 50 << 20)
    runner.reset_peak()
    assert broken(made) == ("memory", "peak")


# ---------------------------------------------------------------- events

AT = Source("mysql", 0)


def events(target: str, *, without: int = 0, again: int = 0) -> None:
    """Compare the events of two rows with those read of what was written, less some or more."""
    made = bench(target=target)
    given = [event for record in (ROW, NEXT) for event in made.viewer.inspect(record)]
    written = [out for record in (ROW, NEXT) for out in made.used.translate(record)]
    found = made.read(written[without:] + written[:again])
    assert isinstance(found, list)
    compare(Target.of(made.setting), given, found, set())


def test_rows_that_are_lost_or_doubled_are_found() -> None:
    events(TARGET)
    with pytest.raises(BrokenError, match="rows are missing"):
        events(TARGET, without=1)
    with pytest.raises(BrokenError, match="rows too many"):
        events(TARGET, again=1)


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (b'"u":', b'"d":', "insert became delete"),
        (b'"tbl":"accounts"', b'"tbl":"account"', "another table"),
        (b'"100.00"', b'"100.01"', "decimal after"),
    ],
)
def test_a_row_that_became_another_is_found(
    monkeypatch: pytest.MonkeyPatch, old: bytes, new: bytes, kind: str
) -> None:
    made = bench()

    def changed(part: bytes | None) -> bytes | None:
        if part is None or old not in part:
            return part
        head, body = (16, part[16:]) if part[:8] == (1).to_bytes(8, "big") else (8, part[8:])
        body = body.replace(old, new)
        return part[: head - 8] + len(body).to_bytes(8, "big") + body

    def fault(translator: Translator, record: ConsumerRecord) -> list[ProducerRecord]:
        return [
            msgspec.structs.replace(out, key=changed(out.key), value=changed(out.value))
            for out in TRANSLATE(translator, record)
        ]

    plant(monkeypatch, fault)
    assert broken(made)[1] == kind


def test_a_cell_that_is_not_of_its_columns_kind_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    made, inspect = bench(), Translator.inspect

    def fault(translator: Translator, record: ConsumerRecord) -> list[Event]:
        return [
            msgspec.structs.replace(event, images=Rows(None, tuple(map(str, event.after))))
            if isinstance(event, RowChange) and event.after
            else event
            for event in inspect(translator, record)
        ]

    monkeypatch.setattr(Translator, "inspect", fault)
    assert broken(made) == ("model", "str in int")


def test_a_statement_that_became_another_or_two_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for target in ("canal-json", "ckafka-json"):
        other, twice = bench(CREATE, target), bench(CREATE, target)

        def changes(translator: Translator, record: ConsumerRecord) -> list[ProducerRecord]:
            made = TRANSLATE(translator, record)
            return [
                msgspec.structs.replace(out, value=(out.value or b"").replace(b"INT", b"BIT")) for out in made
            ]

        plant(monkeypatch, changes)
        assert broken(other, SAMPLE.records[CREATE]) == ("events", "another statement")
        plant(monkeypatch, lambda translator, record: TRANSLATE(translator, record) * 2)
        assert broken(twice, SAMPLE.records[CREATE]) == ("events", "number of statements")


@pytest.mark.parametrize(("other", "is_found"), [("TRUNCATE TABLE `d`.`t`", False), ("TRUNCATE u", True)])
def test_a_truncated_table_may_get_its_database(other: str, is_found: bool) -> None:
    change = SchemaChange("truncate t", TableId("d", "t"), (DdlKind.TRUNCATE_TABLE,), "", AT, 0)
    target = Target("canal-json -> debezium-json", 1, True, True, names_dropped=True)
    with pytest.raises(BrokenError, match="another statement") if is_found else nullcontext():
        compare(target, [change], [msgspec.structs.replace(change, ddl=other)], set())


@pytest.mark.parametrize(
    ("other", "is_found"),
    [
        ("DROP TABLE IF EXISTS `d`.`t`", False),
        ("DROP TABLE IF EXISTS `d`.`u`", True),
        ("DROP TABLE `d`.`t`", True),
        ("ALTER TABLE t ADD i INT", True),
    ],
)
def test_a_dropped_table_may_get_its_database(other: str, is_found: bool) -> None:
    change = SchemaChange(
        "drop table if exists t /* c */", TableId("d", "t"), (DdlKind.DROP_TABLE,), "", AT, 0
    )
    read_back = msgspec.structs.replace(change, ddl=other)
    target = Target("canal-json -> debezium-json", 1, True, True, names_dropped=True)
    with pytest.raises(BrokenError, match="another statement") if is_found else nullcontext():
        compare(target, [change], [read_back], set())
    with pytest.raises(BrokenError, match="another statement"):
        compare(target._replace(names_dropped=False), [change], [read_back], set())


@pytest.mark.parametrize(
    ("document", "is_found"),
    [('{"a b":[1,"\\" "]}', False), ('{"ab":[1,"\\" "]}', True), ('{"a b":[1,"\\""]}', True)],
)
def test_documents_may_lose_the_space_between_their_parts(document: str, is_found: bool) -> None:
    schema = TableSchema(TableId("d", "t"), (Column("j", ColumnType("json")),))
    given, found = (
        RowChange(Op.INSERT, schema, Rows(None, (text,)), AT, 0)
        for text in ('{"a b": [1, "\\" "]}', document)
    )
    with pytest.raises(BrokenError, match="json after") if is_found else nullcontext():
        compare(Target("route", None, True, True), [given], [found], set())


# ---------------------------------------------------------------- many records


def findings(number: int = 0, routes: tuple[tuple[str, str], ...] = ((SOURCE, TARGET),)) -> list[Finding]:
    found: list[Finding] = []

    def tell(finding: Finding) -> bool:
        found.append(finding)
        return True

    Run(Session(7, number, routes), tell, lambda _: None).work(time.monotonic() + 60, batches=2)
    return found


def test_what_a_bad_record_leaves_for_good_ones_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    spoilt: set[int] = set()

    def fault(translator: Translator, record: ConsumerRecord) -> list[ProducerRecord]:
        try:
            made = TRANSLATE(translator, record)
        except RelayError:
            spoilt.add(id(translator))
            raise
        return made * 2 if id(translator) in spoilt else made

    plant(monkeypatch, fault)
    monkeypatch.setattr(
        Bench, "step", lambda made, record: made.attempt(made.used, made.used.translate, record)
    )
    found = findings()
    spoilt.clear()
    assert found[0].check == "good records after bad ones"
    assert len(found[0].cases) == 1, "the record to blame was looked for"
    error = reproduce(found[0])
    assert error is not None
    assert error.identity == found[0].identity


def test_a_case_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGPROF)

    def endless(_made: Bench, _record: ConsumerRecord) -> None:
        while True:
            pass

    session.watch()
    monkeypatch.setattr(session, "BATCH", 1)
    monkeypatch.setattr(session, "PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(session.patience, "__defaults__", (0.1,))
    monkeypatch.setattr(Bench, "step", endless)
    try:
        assert {(found.check, found.kind) for found in findings()} == {("time", "does not end")}
    finally:
        signal.signal(signal.SIGPROF, before)


def test_time_that_grows_with_the_square_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    made = bench(0)
    name, grow = next(ways(SAMPLE.records[CREATE], random.Random(1)))
    assert name
    costs = {"linear": lambda length: length / 3e6, "square": lambda length: (length / 40_000) ** 2}
    for kind, cost in costs.items():
        monkeypatch.setattr(
            scaling, "seconds_of", lambda _made, record, cost=cost: cost(len(record.value or b""))
        )
        if kind == "linear":
            measured(made, grow)
        else:
            with pytest.raises(BrokenError, match="worse than linear"):
                measured(made, grow)


def test_caches_that_grow_without_bound_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert findings() == []
    monkeypatch.setattr(session, "resident_bytes", itertools.count(0, 100 << 20).__next__)
    assert [(found.check, found.kind) for found in findings()] == [("memory", "caches grow")]


def test_memory_that_grows_over_a_run_is_found() -> None:
    megabyte = 1 << 20
    assert runner.drifted([100 * megabyte] * 100) is None
    assert runner.drifted([at * 5 * megabyte for at in range(10)]) is None, "too short to tell"
    assert runner.drifted([at * 5 * megabyte for at in range(100)]) is not None


def test_a_process_that_dies_is_a_finding(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def dies(run: Run, _deadline: float) -> None:
        run.at(3)
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(Run, "work", dies)
    reported: list[str] = []
    plan = runner.Plan(2.0, 7, 1, ((SOURCE, TARGET),), tmp_path, session=0)
    summary = runner.run(plan, reported.append)
    assert list(summary.findings) == [("crash", "signal 9", f"{SOURCE} -> {TARGET}")]
    assert "seed 7 session 0 case 3" in reported[0]


@pytest.mark.parametrize("name", entry_points.ENTRY_POINTS)
def test_an_undocumented_exception_of_an_entry_point_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def fault(*_: object, **__: object) -> None:
        raise LookupError

    behind = {
        "record lines": "parse_record",
        "dead letters": "read_dead_letter",
        "schema history": "apply_records",
        "configuration": "load_config",
    }
    if name in behind:
        monkeypatch.setattr(entry_points, behind[name], fault)
    else:
        monkeypatch.setattr(Translator, "translate", fault)
        monkeypatch.setattr(Translator, "inspect", fault)
    monkeypatch.setattr(entry_points, "ENTRY_POINTS", {name: entry_points.ENTRY_POINTS[name]})
    (found,) = entry_points.tried(Session(7, 1, ((SOURCE, TARGET),)))
    assert found.check == "entry point"


# ---------------------------------------------------------------- findings


def canaries(translator: Translator, record: ConsumerRecord) -> list[ProducerRecord]:
    if b"CaNaRy" in (record.value or b""):
        raise ZeroDivisionError
    return TRANSLATE(translator, record)


def test_a_finding_is_kept_made_smaller_and_found_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as planted:
        plant(planted, canaries)
        whole = next(found for found in findings(1) if found.kind == "ZeroDivisionError")
        small = reduced(whole)
        assert small.identity == whole.identity
        assert (len(small.setting.prefix), len(small.cases), len(small.cases[0])) == (0, 1, 1)
        assert len(small.cases[0][0].value or b"") <= len(whole.cases[0][-1].value or b"")
        folder = write(small, tmp_path)
        assert read(folder)._replace(detail="") == small._replace(detail="")
        planted.setattr(sys, "argv", ["fuzz", "--record", str(folder)])
        assert command.main() == 1
        assert "again: exception: ZeroDivisionError" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["fuzz", "--record", str(folder)])
    assert command.main() == 0
    assert "gone" in capsys.readouterr().out


def test_findings_are_reported_once_and_set_the_exit_status(tmp_path: Path) -> None:
    """In a process of its own: the fuzzer forks, and this one may have threads that hold locks."""
    script = (
        "import sys; from fuzz import __main__ as command; from fuzz import test_fuzz as planted;"
        "planted.Translator.translate = planted.canaries; sys.exit(command.main())"
    )
    arguments = ["--seconds", "2", "--seed", "7", "--jobs", "2", "--only", SOURCE, "--output", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("seed 7, ")
    assert done.stdout.count("FINDING exception: ZeroDivisionError") == 1
    assert " records a second of one core, " in done.stdout
    assert any(tmp_path.iterdir())


def test_an_unknown_protocol_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["fuzz", "--only", "nothing"])
    assert command.main() == 2


# ---------------------------------------------------------------- what is tried


def test_every_protocol_is_a_source_and_a_target() -> None:
    routes = sample_routes(lambda _source, _target: True)
    assert {source for source, _ in routes} == {name for name in BUILT_IN if PROTOCOLS[name].is_readable}
    assert {target for _, target in routes} == set(WRITABLE)


@pytest.mark.parametrize("protocol", [name for name in BUILT_IN if PROTOCOLS[name].is_readable])
def test_each_route_has_a_session(protocol: str) -> None:
    routes = sample_routes(lambda _source, _target: True)
    for number, (source, target) in enumerate(routes):
        if source == protocol:
            each = Session(1, number, routes)
            assert (each.setting.source, each.setting.target) == (source, target)
            assert each.sample.records


def test_a_session_does_the_same_every_time() -> None:
    routes = sample_routes(lambda _source, _target: True)
    one, other = Session(9, 4, routes), Session(9, 4, routes)
    assert one.setting == other.setting
    assert [one.case(number) for number in range(200)] == [other.case(number) for number in range(200)]
    assert [one.case(number) for number in range(200)] != [
        Session(10, 4, routes).case(at) for at in range(200)
    ]


@pytest.mark.parametrize("protocol", [name for name, codec in PROTOCOLS.items() if codec.is_readable])
def test_records_of_a_protocol_are_changed_in_every_part(protocol: str) -> None:
    chance = random.Random(3)
    sample = chosen_sample(protocol, chance)
    records = sample.records * max(20, 400 // len(sample.records))
    changed = [(record, mutated(record, sample.records, chance)) for record in records]
    for part in ("key", "value", "timestamp_ms", "partition", "headers"):
        assert any(getattr(one, part) != getattr(other, part) for one, other in changed), part
    assert sum(one != other for one, other in changed) > len(changed) * 0.9


def test_statements_are_changed_whatever_they_are() -> None:
    chance = random.Random(4)
    texts = ["", "(", "CREATE TABLE t (a INT, b VARCHAR(5) DEFAULT '(')", "ALTER TABLE `a`.`b` DROP c;"]
    assert {mutated_statement(text, chance) for text in texts * 400} > set(texts)


def test_places_in_json_are_those_of_the_text() -> None:
    text = b' { "a" : [1, "x\\"y", {"b":null}], "a":"\xc3\xa9" } '
    root = parse_tree(text)
    assert [(node.kind, text[node.start : node.end]) for node in root.within()][1:] == [
        ("array", b'[1, "x\\"y", {"b":null}]'),
        ("number", b"1"),
        ("string", b'"x\\"y"'),
        ("object", b'{"b":null}'),
        ("literal", b"null"),
        ("string", b'"\xc3\xa9"'),
    ]
    assert content(text, root.children[1]) == "é"
    assert root.children[0].children[2].children[0].names() == ["", "a", "", "b"]
    assert spliced(b"abcd", [(0, 2, b"x"), (1, 3, b"y"), (3, 4, b"")]) == b"xc"
    for other in (b"{", b'{"a"}', b"[1 2]", b'{"a":1}x', b"[" * 100):
        with pytest.raises(NoTreeError):
            parse_tree(other)


@pytest.mark.parametrize(
    "protocol",
    [
        name
        for name, codec in PROTOCOLS.items()
        if codec.is_readable
        and not codec.uses_registry
        and name not in {"canal-protobuf", "ticdc-simple-avro"}
    ],
)
def test_values_of_rows_are_known_in_every_wire_of_json(protocol: str) -> None:
    samples = [chosen_sample(protocol, random.Random(at)) for at in range(5)]
    records = [record for sample in samples for record in sample.records]
    texts = [value[value.find(b"{") :] for each in records if (value := each.value or b"")]
    found = [parsed for text in texts if (parsed := document(text)) is not None]
    assert any(parsed.values for parsed in found)


@pytest.mark.parametrize("protocol", WRITABLE)
def test_sets_of_options_are_those_of_the_codec(protocol: str) -> None:
    codec = PROTOCOLS[protocol]
    sets = [session.target_options(protocol, random.Random(at))[1] for at in range(500)]
    assert len({tuple(options.items()) for options in sets}) >= len(option_sets(codec))
    seen = {pair for options in sets for pair in options.items()}
    possible = {pair for options in option_sets(codec) for pair in options.items()}
    assert seen >= possible | {("profile", name) for name in codec.profiles}


def test_sessions_differ_in_topics_and_in_how_rows_are_spread() -> None:
    routes = ((SOURCE, "debezium-json"), (SOURCE, "ckafka-json"))
    settings = [Session(1, number, routes).setting for number in range(60)]
    for made in settings[:20]:
        assert Bench(made).used
    assert {made.spread_by for made in settings} == {None, "table", "key", "index-value"}
    assert len({made.topic for made in settings}) == 3


def test_some_sessions_have_topics_by_rule_and_chosen_tables() -> None:
    routes = ((SOURCE, "debezium-json"), (SOURCE, "ckafka-json"))
    settings = [Session(2, number, routes).setting for number in range(80)]
    ruled = [made for made in settings if made.rules]
    chosen = [made for made in settings if made.include or made.exclude]
    assert len(ruled) > 5
    assert len(chosen) > 5
    for made in [*ruled[:5], *chosen[:5]]:
        assert Bench(made).used


def test_what_is_not_chosen_is_missed_by_nobody() -> None:
    for exclude, rows in (("*.*", 0), ("none.*", 1)):
        made = Bench(setting()._replace(exclude=(exclude,)), is_thorough=True)
        made.prime(made.setting.prefix)
        found = made.step(ROW)
        assert isinstance(found, list)
        assert len(found) == rows


def test_a_finding_keeps_its_rules_tables_and_schemas(tmp_path: Path) -> None:
    rules = (
        TopicRule("*.*", "own", 3, Partitioning.KEY),
        TopicRule("a.b", "{topic}.own", key=("id",)),
    )
    schemas = {7: RegisteredSchema('"long"', "AVRO", (("a", '"int"'),))}
    made = setting()._replace(rules=rules, include=("a.*",), exclude=("*.b",), schemas=schemas)
    kept = Finding("check", "kind", "location", "detail", made, ((ROW,),), (NEXT,), "origin")
    assert read(write(kept, tmp_path)) == kept
    assert "topics={'match': '*.*'" in made.route
    assert "include=a.* exclude=*.b" in made.route


def test_a_row_in_the_second_of_a_statement_is_no_finding() -> None:
    """CKafka tells whole seconds: a reader may take the definition before the statement, in another topic."""
    records = captured_sample("mysql/debezium.no-schema/10_ddl").records
    at, row = next((at, each) for at, each in enumerate(records) if b'"score":1.5' in (each.value or b""))
    changed = msgspec.structs.replace(
        row, value=(row.value or b"").replace(b'"score":1.5', b'"score":1E+308')
    )
    made = Bench(Setting("debezium-json", "ckafka-json", {}, {}, None, records[:at], {}), is_thorough=True)
    made.prime(made.setting.prefix)
    assert isinstance(made.step(changed), list)


def test_a_row_of_absent_columns_and_nulls_is_missed_by_nobody() -> None:
    """Without NULLs and DDL nothing of it is in its message, and the reader counts an empty row."""
    records = captured_sample("mysql/maxwell.full/09_dml").records
    at, row = next((at, each) for at, each in enumerate(records) if b'"type":"delete"' in (each.value or b""))
    empty = b'{"database":"dml_db","table":"accounts","type":"delete","data":{}}'
    options = {"output_nulls": "false", "output_ddl": "true", "ddl": "drop"}
    made = Bench(
        Setting("maxwell-json", "maxwell-json", {}, options, None, records[:at], {}), is_thorough=True
    )
    made.prime(made.setting.prefix)
    assert isinstance(made.step(msgspec.structs.replace(row, value=empty)), list)
