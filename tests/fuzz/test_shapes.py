"""Templates do what the pipeline does on changed messages of every source; faults that are planted in the engine
are found, and a session does the same every time.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_support import ENGINE
from golden.messages import rows_of
from packet_support import PROTOBUF, entries_alone
from support import CAPTURED, QUICK, captured_files, protocol_of

from fuzz import shapes
from fuzz.corpus import Sample, captured_sample, made_sample
from fuzz.dictionary import TEXTS, look_of
from fuzz.findings import read, write
from fuzz.session import has_statement, reproduce, sample_routes, watch
from relay import ConsumerRecord
from relay.codecs import BUILT_IN
from relay.templates.avro_ops import AvroOp
from relay.templates.batches import WrittenRun
from relay.templates.columns import WrittenColumns
from relay.templates.engine import AvroReader, AvroWriter, Engine, Run, Translation
from relay.templates.ops import Framing, Marker, Template

ROUTES = sample_routes(lambda source, target: (source, target) == ("ticdc-canal-json", "flat-json"))
SEED = 1
TOKENS = (b"1", b'"x"', b"null", b"true")
SOURCES = [name for name, codec in BUILT_IN.items() if codec.is_readable and codec.templates.marker]
#: All of them show times and the values of columns; each shows other facts of a row.
TARGETS = ("debezium-json", "maxwell-json", "ticdc-open-protocol")
#: Maximum changed messages of a sample, and how many of them have random values.
MESSAGES, RANDOM_MESSAGES = (750, 150) if QUICK else (1_500, 300)
#: A session of the seed with templates.
SESSION = 2


def planted(fault: str) -> type[Engine]:  # noqa: C901 - the methods of an engine
    """An engine that gives other bytes for the digits 99 in a value, or panics."""
    assert ENGINE is not None
    made: type[Engine] = ENGINE

    class PanicError(BaseException):
        pass

    class Planted:
        @staticmethod
        def avro_reader(head: bytes, op: AvroOp, end: bytes) -> AvroReader:
            return made.avro_reader(head, op, end)

        @staticmethod
        def avro_writer(head: bytes, op: AvroOp, end: bytes) -> AvroWriter:
            return made.avro_writer(head, op, end)

        def __init__(self, marker: Marker, framing: Framing | None = None) -> None:
            self._engine = made(marker, framing)

        def add(self, template: Template) -> int:
            return self._engine.add(template)

        def remove(self, number: int) -> None:
            self._engine.remove(number)

        def clear(self) -> None:
            self._engine.clear()

        def translate(
            self, key: bytes | None, value: bytes | None, offset: int, time_ms: int, mark_prefix: bytes
        ) -> Translation | None:
            found = self._engine.translate(key, value, offset, time_ms, mark_prefix)
            if found is None or b"99" not in (value or b""):
                return found
            if fault == "panic":
                raise PanicError("planted")
            return found[0], found[1], (found[2] or b"") + b" ", found[3]

        def translate_rows(
            self,
            key: bytes | None,
            value: bytes | None,
            offset: int,
            time_ms: int,
            max_output_bytes: int,
            shared: int,
        ) -> list[Run] | int:
            return self._engine.translate_rows(key, value, offset, time_ms, max_output_bytes, shared)

        def allow(self, number: int, has_tombstone: bool, target: int) -> None:
            raise NotImplementedError

        def disallow(self) -> None:
            raise NotImplementedError

        def translate_columns(self, *_: object) -> WrittenColumns:
            raise NotImplementedError

        def translate_batch(self, *_: object) -> WrittenRun:
            raise NotImplementedError

        def translate_groups(
            self,
            key: bytes | None,
            value: bytes | None,
            offset: int,
            time_ms: int,
            max_output_bytes: int,
            shared: int,
        ) -> list[Run | bytes]:
            return self._engine.translate_groups(key, value, offset, time_ms, max_output_bytes, shared)

    return Planted


def samples(source: str) -> Iterator[Sample]:
    """Yield captured files of a source: all of the folder with the most, one of them also without the statements
    that define tables, and one of each other folder. Where nothing is captured: what relay writes, or else
    examples.
    """
    files = [file for file in CAPTURED if protocol_of(file) == source and not file.endswith(".schemas")]
    folders = Counter(file.rpartition("/")[0] for file in files)
    for file in files:
        folder, _, name = file.rpartition("/")
        is_main = folder == folders.most_common(1)[0][0]
        if is_main or name == "09_dml":
            sample = captured_sample(file)
            # Packets of Canal with a statement, or with several transactions, have no templates there.
            yield sample._replace(records=tuple(entries_alone(file))) if source == PROTOBUF else sample
        if is_main and name == "09_dml" and source != PROTOBUF:
            rows = tuple([record for record in sample.records if not has_statement(record)])
            yield sample._replace(name=f"{file} without statements", records=rows)
    if not files and BUILT_IN[source].is_writable:
        for file in captured_files("ticdc/canal-json.tidb-extension"):
            yield made_sample(file, source, 0)
    elif not files:
        yield Sample(source, source, {}, rows_of(source))


@pytest.mark.all_cases
@pytest.mark.parametrize("source", SOURCES)
def test_changed_messages_become_the_same(source: str) -> None:
    """A decoder reads values in more places than `interpret`: what it reads must agree with the declarations
    for templates, and a function with a name (`kernel_name`) with the kernel.
    """
    fitted = 0
    for at, sample in enumerate(samples(source)):
        target = [each for each in TARGETS if each != source][at % 2]
        sizes = shapes.Sizes(MESSAGES, RANDOM_MESSAGES // len(sample.records) + 1, probes=60)
        done = shapes.try_sample(sample, target, SEED, sizes)
        assert not done.findings, f"{sample.name}: {done.findings[0].detail}"
        fitted += done.fitted
    assert fitted > 40


def test_a_session_does_the_same_every_time_by_template(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "MESSAGES", 1200)
    one, other = (shapes.work(SEED, SESSION, ROUTES)._replace(seconds=0) for _ in range(2))
    assert one == other
    assert not one.findings
    assert one.messages * 0.2 < one.fitted < one.messages
    assert one.interpreted


def test_other_bytes_are_found_and_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shapes, "ENGINE", planted("bytes"))
    found = shapes.work(SEED, SESSION, ROUTES).findings
    assert {each.check for each in found} >= {"templates"}
    kept = read(write(found[0], tmp_path))
    assert kept.cases == found[0].cases
    watch()
    assert reproduce(kept) is None  # the engine of the others has no fault


def test_other_bytes_than_the_interpreters_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "ENGINE", planted("bytes"))
    monkeypatch.setattr(shapes, "INTERPRETED", 1)
    assert "engines" in {each.check for each in shapes.work(SEED, SESSION, ROUTES).findings}


def test_a_panic_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "ENGINE", planted("panic"))
    (found,) = shapes.work(SEED, SESSION, ROUTES).findings
    assert (found.check, found.kind) == ("panic", "PanicError")


@pytest.mark.parametrize("look", ["whole", "fraction", "date", "label"])
def test_edges_have_the_look_of_what_they_stand_for(look: str) -> None:
    texts = [text for kind, each in TEXTS.items() if kind == look for text in each]
    assert any(look_of(b'"%b"' % text.encode()) == look for text in texts)


def test_each_value_is_probed_by_itself() -> None:
    record = ConsumerRecord("t", 0, 0, 0, None, b'{"a":1,"b":["x",null],"c":{"d":true}}')
    probes = {each.value for each in shapes.one_value_probes(shapes.Parts(record), random.Random(1))}
    assert probes == {
        b'{"a":%b,"b":[%b,%b],"c":{"d":%b}}'
        % tuple(probe if each == at else token for each, token in enumerate(TOKENS))
        for at in range(len(TOKENS))
        for probe in shapes.PROBES
        if probe != TOKENS[at]
    }
