"""Faults of templates that are planted in the engine are found, and a session does the same every time."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from engine_support import ENGINE

from fuzz import shapes
from fuzz.dictionary import TEXTS, look_of
from fuzz.findings import read, write
from fuzz.session import reproduce, sample_routes, watch
from relay import ConsumerRecord
from relay.templates.avro_ops import AvroOp
from relay.templates.engine import AvroReader, AvroWriter, Engine, Run, Translation
from relay.templates.ops import Frames, Marker, Template

ROUTES = sample_routes(lambda source, target: (source, target) == ("ticdc-canal-json", "flat-json"))
SEED = 1
TOKENS = (b"1", b'"x"', b"null", b"true")
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

        def __init__(self, marker: Marker, frames: Frames | None = None) -> None:
            self._engine = made(marker, frames)

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

    return Planted


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
