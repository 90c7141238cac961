"""Records in runs become what they become one by one: messages, events, losses, and how many by template."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from engine_support import ENGINES
from reference_engine import Interpreter
from reference_engine.batches import SourceRows, TargetRows
from support import CANAL, OPEN, TICDC, captured, captured_files, protocol_of, reading_options
from templates_support import outcome, translator_class
from wire_support import encoded, parsed, written

from relay import ConsumerRecord, ProducerRecord, Translator
from relay.core.verification import ShadowTranslator
from relay.io import kernel
from relay.routing.partitioning import Partitioning
from relay.templates.batches import SourceBatch, TargetBatch
from relay.templates.engine import Engine
from relay.templates.route.policy import DEFAULT_POLICY, EAGER_POLICY, TemplatePolicy

#: A third of the captured files.
FILES = [
    *captured_files("ticdc/canal-json"),
    *captured_files("ticdc/canal-json.3-partitions"),
    *captured_files("ticdc/canal-json.tidb-extension"),
    *captured_files("ticdc/open-protocol"),
    *captured_files("ticdc/debezium"),
    *captured_files("ticdc/simple.json"),
    *captured_files("mysql/debezium"),
    *captured_files("mysql/maxwell"),
    *captured_files("mysql/canal-protobuf"),
][::3]
TARGETS = [CANAL, TICDC, OPEN, "debezium-json", "ticdc-debezium", "flat-json"]
#: Few rows fit into a batch.
SMALL_BATCH = 3_000


class Runs:
    """Translates records in runs where possible, into one batch after the other, like the service."""

    def __init__(
        self, translator: Translator, engine: type[Engine], most_bytes: int, *, needs_key: bool
    ) -> None:
        self._translator, self._engine = translator, engine
        self._limits = most_bytes, needs_key
        self._open: dict[tuple[str, int], TargetBatch] = {}
        self._targets: dict[int, list[TargetBatch | None]] = {}
        self._written: dict[tuple[str, int], list[ProducerRecord]] = {}
        self.errors: list[object] = []
        self.rows = 0

    def take(self, records: Sequence[ConsumerRecord]) -> None:
        """Translate records, of any partitions."""
        for (topic, partition), group in itertools.groupby(
            records, lambda each: (each.topic, each.partition)
        ):
            stretch = list(group)
            source, row = self._source(stretch), 0
            while row < len(stretch):
                targets = self._targets.setdefault(partition, [])
                found = self._translator.translate_batch(topic, partition, source, row, len(stretch), targets)
                row, self.rows = row + found, self.rows + found
                if row < len(stretch):
                    self._take_one(stretch[row])
                    row += 1

    def _note(self, place: tuple[str, int], batch: TargetBatch | None) -> None:
        """Note the batch that takes more records."""
        topic, partition = place
        targets, at = self._targets.setdefault(partition, []), self._translator.target_index(topic)
        targets += [None] * (at + 1 - len(targets))
        targets[at] = batch

    def _source(self, records: list[ConsumerRecord]) -> SourceBatch:
        rows: Any = SourceRows(records) if self._engine is Interpreter else parsed(encoded(records))
        made: SourceBatch = rows
        return made

    def _take_one(self, record: ConsumerRecord) -> None:
        found = outcome(self._translator, record)
        if not isinstance(found, list):
            self.errors.append(found)
            return
        for out in found:
            place = out.topic, out.partition
            batch = self._open.get(place)
            if batch is None or not batch.append(out.timestamp_ms, out.key, out.value, out.headers):
                self._close(place)
                batch = self._open[place] = self._target()
                assert batch.append(out.timestamp_ms, out.key, out.value, out.headers)
                self._note(place, batch)

    def _target(self) -> TargetBatch:
        types = kernel.installed().batches
        made: Any = TargetRows if self._engine is Interpreter or types is None else types.target
        batch: TargetBatch = made(*self._limits)
        return batch

    def _close(self, place: tuple[str, int]) -> None:
        batch: Any = self._open.pop(place, None)
        if batch is not None:
            self._note(place, None)
            found = batch.rows if isinstance(batch, TargetRows) else written(batch)
            topic, partition = place
            self._written.setdefault(place, []).extend(
                msgspec.structs.replace(each, topic=topic, partition=partition) for each in found
            )

    def written(self) -> dict[tuple[str, int], list[ProducerRecord]]:
        """Close all batches, and return what is in them, by topic and partition."""
        for place in list(self._open):
            self._close(place)
        return self._written


def one_by_one(
    translator: Translator, records: Sequence[ConsumerRecord]
) -> tuple[dict[tuple[str, int], list[ProducerRecord]], list[object]]:
    found: dict[tuple[str, int], list[ProducerRecord]] = {}
    errors: list[object] = []
    for record in records:
        out = outcome(translator, record)
        if isinstance(out, list):
            for each in out:
                found.setdefault((each.topic, each.partition), []).append(each)
        else:
            errors.append(out)
    return found, errors


def counts(translator: Translator) -> list[object]:
    return [
        translator.events,
        translator.losses,
        dict(translator.inferred_tables),
        translator.counts_by_table,
    ]


def compare(  # noqa: PLR0913 - what may vary
    records: Sequence[ConsumerRecord],
    file: str,
    target: str,
    engine: type[Engine],
    policy: TemplatePolicy = EAGER_POLICY,
    *,
    most_bytes: int = 1_000_000,
    needs_key: bool = False,
    **settings: Any,
) -> int:
    """Translate records in runs, one by one with the engine, and without it, several times; return how many were in
    runs.
    """
    made = translator_class(policy)
    several, single, plain = (
        made(protocol_of(file), target, reading_options(file), engine=each, **settings)
        for each in (engine, engine, None)
    )
    for each in (several, single, plain):
        each.count_tables(100)
    runs = Runs(several, engine, most_bytes, needs_key=needs_key)
    repeated = [*records, *records, *records]
    runs.take(repeated)
    expected, errors = one_by_one(plain, repeated)
    assert one_by_one(single, repeated) == (expected, errors)
    assert runs.written() == expected
    assert runs.errors == errors
    assert counts(several) == counts(plain)
    assert several.paths == single.paths
    return runs.rows


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("file", FILES)
def test_runs_become_what_records_become(engine: type[Engine], file: str) -> None:
    at = FILES.index(file)
    policy = DEFAULT_POLICY if at % 4 == 0 else EAGER_POLICY
    most_bytes = SMALL_BATCH if at % 2 else 1_000_000
    target = TARGETS[at % len(TARGETS)]
    compare(captured(file), file, target, engine, policy, most_bytes=most_bytes)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("target", "needs_key"), [(CANAL, False), ("debezium-json", True)])
def test_most_rows_are_in_runs(engine: type[Engine], target: str, needs_key: bool) -> None:
    """Also those with a tombstone."""
    file = "ticdc/canal-json/09_dml"
    records = captured(file)
    rows = compare(records, file, target, engine, needs_key=needs_key, topic="out")
    assert rows > len(records)


@pytest.mark.parametrize("engine", ENGINES)
def test_records_with_headers_are_taken_in_their_turn(engine: type[Engine]) -> None:
    file = "ticdc/canal-json/09_dml"
    records = [
        msgspec.structs.replace(each, headers=(("h", b"1"), ("n", None))) if at % 3 == 0 else each
        for at, each in enumerate(captured(file))
    ]
    assert compare(records, file, CANAL, engine) > 0


@pytest.mark.parametrize("engine", ENGINES)
def test_records_without_a_time_are_in_batches_of_their_own(engine: type[Engine]) -> None:
    file = "ticdc/canal-json/09_dml"
    records = [
        msgspec.structs.replace(each, timestamp_ms=-1) if at // 5 % 2 else each
        for at, each in enumerate(captured(file))
    ]
    compare(records, file, CANAL, engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("target", "most_bytes"), [(CANAL, 1_000_000), (CANAL, SMALL_BATCH), ("debezium-json", 1_000_000)]
)
def test_most_rows_of_topics_by_table_are_in_runs(engine: type[Engine], target: str, most_bytes: int) -> None:
    file = "ticdc/canal-json/09_dml"
    records = captured(file)
    rows = compare(records, file, target, engine, most_bytes=most_bytes, topic="of-{table}")
    assert rows > len(records) / 2


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_that_change_their_partition_are_left_to_translate(engine: type[Engine]) -> None:
    file = "ticdc/canal-json/09_dml"
    settings: dict[str, Any] = {"partitions": 8, "partition_by": Partitioning.TABLE}
    assert compare(captured(file), file, CANAL, engine, **settings) == 0


def test_translators_that_compare_each_record_have_no_runs() -> None:
    translator = ShadowTranslator(TICDC, CANAL, engine=Interpreter)
    assert not translator.has_runs
