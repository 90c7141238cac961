"""Thousands of messages inside the shapes of good ones: templates and the pipeline must agree on each.

    make fuzz-templates                          # a minute, two processes; the seed is printed
    make fuzz-templates MESSAGES=1000000 SEED=7  # until so many were tried; the same ones every time
    cd tests && ../.venv/bin/python -m fuzz.shapes --seed 7 --session 31   # one session again

A session is a route with options (`fuzz.session`) and one sample of records. They are translated in order, by a
translator that compares each template with the pipeline (`relay.core.verification`). Where a record has a template,
it is changed inside its shape: values become edges of their own kind and of others (`fuzz.dictionary`), several at
once or wherever the same value stands; members go, come twice or in another order; lengths of frames are wrong;
times and offsets are extreme. Now and then the interpreter must give what the kernel gave.

A finding is reported once for each route, and its records are kept like those of `make fuzz`, which repeats it:
`make fuzz RECORD=artifacts/fuzz/NAME`. The exit status is 1 if there is any.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from engine_support import ENGINE
from reference_engine import Interpreter

from fuzz import binary
from fuzz.corpus import Sample
from fuzz.dictionary import Look, look_of, nearly, other_token
from fuzz.findings import BrokenError, Finding, Setting, write
from fuzz.mutations import changed_bytes
from fuzz.oracle import Bench
from fuzz.session import Session, sample_routes
from relay import ConsumerRecord
from relay.templates.avro_ops import AvroOp
from relay.templates.engine import AvroReader, AvroWriter, Engine, Message, Run, Translation
from relay.templates.ops import LOSS, Framing, Marker, Template
from relay.templates.scanning import JsonToken, parsed
from relay.templates.tracing import NotTemplatable

ROOT = Path(__file__).parents[2]
#: Changed messages of a session, and of one record of it.
MESSAGES: Final = 8000
_MESSAGES_OF_RECORD: Final = 600
#: Of so many messages that the kernel takes the interpreter sees one.
INTERPRETED: Final = 16
#: How often a record is translated as it is, until its shape has a template.
_SIGHTS: Final = 3
_STRICT: Final = 0.1
#: Share of sessions without the statements that define tables: their rows' types are inferred.
_INFERRED: Final = 0.2
#: What replaces each value of a record in turn, before values are changed at random.
PROBES: Final = (b"null", b"0", b"1", b'""', b'"x"')
#: Maximum of such records of one record.
_MOST_PROBES: Final = 120
#: Bytes of a zero and the id of a schema.
_PREFIX: Final = 5
#: Share of sessions whose rows are not spread: rows that are spread by their values have no templates.
_UNSPREAD: Final = 0.6
#: How often the kernel alone is asked first; what it does not take is then not translated.
_ASKED: Final = 0.9
#: A record of more is not changed.
_MOST_BYTES: Final = 20_000
_TIMES: Final = (0, 1, -1, -(1 << 46), (1 << 46) - 1, 1 << 46, (1 << 63) - 1, -(1 << 63), 253402300800000)
_OFFSETS: Final = (0, 1, (1 << 53) + 1, (1 << 63) - 1)


class ScalarValue(NamedTuple):
    """A scalar value in a record: its document's number, its offsets there, its member's name."""

    document: int
    start: int
    end: int
    name: str
    token: bytes
    look: Look


Edit = tuple[int, int, bytes]


class Parts:
    """A record cut into what stands around documents, and documents; some have their length before them."""

    def __init__(self, record: ConsumerRecord) -> None:
        self.record = record
        #: The part of the record, the bytes before the document, the document, and whether it has a length field.
        self._documents: list[tuple[str, bytes, bytes, bool]] = []
        for part, text in (("key", record.key), ("value", record.value)):
            self._documents += _documents(part, text or b"")
        self.values: list[ScalarValue] = []
        self._objects: list[tuple[int, list[JsonToken]]] = []
        for number, (_, _, text, _) in enumerate(self._documents):
            self._find(number, text)

    def _find(self, number: int, text: bytes) -> None:
        try:
            todo = [("", parsed(text))]
        except NotTemplatable:
            return
        for name, token in todo:
            if token.members is not None:
                todo += token.members.items()
                self._objects.append((number, list(token.members.values())))
            elif token.items is not None:
                todo += [(name, item) for item in token.items]
            else:
                raw = text[token.start : token.end]
                self.values.append(ScalarValue(number, token.start, token.end, name, raw, look_of(raw)))

    def changed(self, changes: Sequence[tuple[ScalarValue, bytes]]) -> ConsumerRecord:
        """The record with some values replaced."""
        edits = {(value.document, value.start): (value.start, value.end, new) for value, new in changes}
        by_document: dict[int, list[Edit]] = {}
        for (number, _), edit in sorted(edits.items()):
            by_document.setdefault(number, []).append(edit)
        return self._made({at: _edited(self._documents[at][2], each) for at, each in by_document.items()})

    def _made(self, documents: dict[int, bytes], off: int = 0) -> ConsumerRecord:
        """The record with other documents; `off`: by how much the first length is wrong."""
        parts = {"key": b"", "value": b""}
        for number, (part, before, text, has_length) in enumerate(self._documents):
            made = documents.get(number, text)
            length = (max(0, len(made) + off)).to_bytes(8, "big") if has_length else b""
            parts[part] += before + length + made
            off = 0 if has_length else off
        key = parts["key"] if self.record.key is not None else None
        return msgspec.structs.replace(self.record, key=key, value=parts["value"])

    def bent(self, chance: random.Random) -> ConsumerRecord:
        """The record with another structure: members, white space, lengths, the ends of its parts."""
        roll, record = chance.random(), self.record
        if roll < 0.08:
            return self._made({}, chance.choice((-1, 1)))
        if roll < 0.14:
            part = chance.choice(("key", "value"))
            return msgspec.structs.replace(record, **{part: chance.choice((None, b"", b"null"))})
        if roll < 0.2:
            value = record.value or b""
            return msgspec.structs.replace(
                record, value=chance.choice((value[:-1], value + b" ", value + b"{}"))
            )
        number, members = chance.choice(self._objects or [(0, [])])
        if not members:
            return record
        text = self._documents[number][2]
        return self._made({number: _with_other_members(text, members, chance)})


def _documents(part: str, text: bytes) -> list[tuple[str, bytes, bytes, bool]]:
    at = 8 if text[:8] == b"\x00\x00\x00\x00\x00\x00\x00\x01" else 0
    found, before = [], text[:at]
    while at + 8 <= len(text) and text[at] == 0:
        end = at + 8 + int.from_bytes(text[at : at + 8], "big")
        if end > len(text):
            break
        found.append((part, before, text[at + 8 : end], True))
        at, before = end, b""
    return found if found and at == len(text) else [(part, b"", text, False)]


def _edited(text: bytes, edits: Sequence[Edit]) -> bytes:
    pieces, at = [], 0
    for start, end, new in edits:
        pieces += [text[at:start], new]
        at = end
    return b"".join([*pieces, text[at:]])


def _with_other_members(text: bytes, members: list[JsonToken], chance: random.Random) -> bytes:
    """The text with an object's members changed: gone, twice, in another order, with white space."""
    texts = [text[member.name_start : member.end] for member in members]
    roll, at = chance.random(), chance.randrange(len(texts))
    between = b","
    if roll < 0.4:
        for _ in range(chance.choice((1, 1, 2, len(texts)))):
            if texts:
                del texts[chance.randrange(len(texts))]
    elif roll < 0.55:
        texts.insert(chance.randrange(len(texts) + 1), texts[at])
    elif roll < 0.75:
        chance.shuffle(texts)
    elif roll < 0.9:
        texts[at] = texts[at].replace(b":", chance.choice((b" :", b": ", b":\n", b":\x0b")), 1)
    else:
        between = chance.choice((b", ", b" ,", b",\t", b",,"))
    return text[: members[0].name_start] + between.join(texts) + text[members[-1].end :]


# ---------------------------------------------------------------- engines


class _Tally:
    """What the engine of a session has taken, and what the interpreter did not take in the same way."""

    def __init__(self) -> None:
        self.taken = self.interpreted = self.added = 0
        self.last: _Counting | None = None
        self.wrong = ""


class _Counting:
    """The kernel, of which some of what it takes is compared with the interpreter's."""

    tally: _Tally

    def __init__(self, marker: Marker, framing: Framing | None = None) -> None:
        self._marker, self._framing, self.kernel = marker, framing, ENGINE(marker, framing)
        self._templates: dict[int, Template] = {}
        self._interpreters: dict[int, Interpreter] = {}

    @staticmethod
    def avro_reader(head: bytes, op: AvroOp, end: bytes) -> AvroReader:
        return ENGINE.avro_reader(head, op, end)

    @staticmethod
    def avro_writer(head: bytes, op: AvroOp, end: bytes) -> AvroWriter:
        return ENGINE.avro_writer(head, op, end)

    def add(self, template: Template) -> int:
        number = self.kernel.add(template)
        self._templates[number] = template
        self.tally.added += 1
        self._interpreters.pop(number, None)
        return number

    def remove(self, number: int) -> None:
        self.kernel.remove(number)

    def clear(self) -> None:
        self.kernel.clear()

    def translate(
        self, key: bytes | None, value: bytes | None, offset: int, time_ms: int, mark_prefix: bytes
    ) -> Translation | None:
        found = self.kernel.translate(key, value, offset, time_ms, mark_prefix)
        if found is not None:
            tally = self.tally
            tally.taken += 1
            tally.last = self
            if tally.taken % INTERPRETED == 0:
                self._compare(found, key, value, offset, time_ms, mark_prefix)
        return found

    def translate_rows(
        self,
        key: bytes | None,
        value: bytes | None,
        offset: int,
        time_ms: int,
        max_output_bytes: int,
        shared: int,
    ) -> list[Run] | int:
        found = self.kernel.translate_rows(key, value, offset, time_ms, max_output_bytes, shared)
        if isinstance(found, list):
            tally = self.tally
            tally.taken += 1
            tally.last = self
            if tally.taken % INTERPRETED == 0:
                self._compare_rows(found, key, value, offset, time_ms)
        return found

    def translate_groups(
        self,
        key: bytes | None,
        value: bytes | None,
        offset: int,
        time_ms: int,
        max_output_bytes: int,
        shared: int,
    ) -> list[Run | bytes]:
        found = self.kernel.translate_groups(key, value, offset, time_ms, max_output_bytes, shared)
        tally = self.tally
        tally.taken += 1
        tally.last = self
        if tally.taken % INTERPRETED == 0:
            self._compare_groups(found, key, value, offset, time_ms)
        return found

    def _compare_groups(
        self, found: list[Run | bytes], key: bytes | None, value: bytes | None, offset: int, time_ms: int
    ) -> None:
        """Compare the pieces with the interpreter's, which may take more groups."""
        runs = [piece for piece in found if not isinstance(piece, bytes)]
        interpreter = Interpreter(self._marker, self._framing)
        numbers = {interpreter.add(self._templates[at]): at for at in {number % LOSS for number, _ in runs}}
        self.tally.interpreted += 1
        pieces = interpreter.translate_groups(key, value, offset, time_ms, 1 << 60, 0)
        given = [piece for piece in pieces if not isinstance(piece, bytes)]
        rests = [[piece for piece in each if isinstance(piece, bytes)] for each in (found, pieces)]
        if rests[0] == rests[1] and not _are_same(_messages(runs, {}), _messages(given, numbers)):
            self.tally.wrong = f"kernel {found!r:.400} / interpreter {pieces!r:.400}"

    def _compare_rows(
        self, found: list[Run], key: bytes | None, value: bytes | None, offset: int, time_ms: int
    ) -> None:
        interpreter = Interpreter(self._marker, self._framing)
        numbers = {interpreter.add(self._templates[at]): at for at in {number % LOSS for number, _ in found}}
        self.tally.interpreted += 1
        given = interpreter.translate_rows(key, value, offset, time_ms, 1 << 60, 0)
        if isinstance(given, int) or not _are_same(_messages(found, {}), _messages(given, numbers)):
            self.tally.wrong = f"kernel {found!r:.400} / interpreter {given!r:.400}"

    def _compare(
        self,
        found: Translation,
        key: bytes | None,
        value: bytes | None,
        offset: int,
        time_ms: int,
        mark_prefix: bytes,
    ) -> None:
        lost, number = divmod(found[0], LOSS)
        if number not in self._interpreters:
            interpreter = self._interpreters[number] = Interpreter(self._marker)
            interpreter.add(self._templates[number])
        self.tally.interpreted += 1
        given = self._interpreters[number].translate(key, value, offset, time_ms, mark_prefix)
        expected = lost * LOSS, *found[1:]
        if given != expected:  # the only template of its interpreter has the number 0
            self.tally.wrong = f"kernel {expected!r:.400} / interpreter {given!r:.400}"


def _messages(runs: list[Run], numbers: Mapping[int, int]) -> list[tuple[int, int, Message]]:
    """Return the messages, each with its template, by the numbers of another engine, and what was added."""
    found = []
    for number, messages in runs:
        added, template = divmod(number, LOSS)
        found += [(numbers.get(template, template), added, message) for message in messages]
    return found


def _are_same(ones: list[tuple[int, int, Message]], others: list[tuple[int, int, Message]]) -> bool:
    """Whether messages are the same; what was added, too, where they have the same template."""
    return len(ones) == len(others) and all(
        message == other and (template != its_template or added == its_added)
        for (template, added, message), (its_template, its_added, other) in zip(ones, others, strict=True)
    )


def _counting(tally: _Tally) -> type[Engine]:
    """An engine that tells `tally` what it takes."""
    return type("_CountingOfSession", (_Counting,), {"tally": tally})


# ---------------------------------------------------------------- sessions


class Done(NamedTuple):
    """What came of a session."""

    route: tuple[str, str]
    messages: int
    fitted: int
    interpreted: int
    seconds: float
    findings: tuple[Finding, ...]


def work(seed: int, number: int, routes: Sequence[tuple[str, str]]) -> Done:
    """Work through a session; all of it follows from its seed, its number and the routes."""
    chance = random.Random((seed << 32) ^ number ^ 0x5A5A)
    session = Session(seed, number, routes)
    setting, records = session.setting, session.sample.records
    if chance.random() < _STRICT:
        setting = setting._replace(target_options={**setting.target_options, "strict": "true"})
    if chance.random() < _UNSPREAD:
        setting = setting._replace(partitions=None, spread_by=None, rules=())
    if chance.random() < _INFERRED:
        defining = set(map(id, session.statements))
        records = tuple([record for record in records if id(record) not in defining]) or records
    origin = f"seed {seed} session {number}, {session.sample.name}"
    return _Run(setting._replace(prefix=()), records, chance, origin, Sizes(MESSAGES)).done()


class Sizes(NamedTuple):
    """How many messages are tried: of all records, of one record at random, and with one value replaced."""

    messages: int
    of_record: int = _MESSAGES_OF_RECORD
    probes: int = _MOST_PROBES


def try_sample(sample: Sample, target: str, seed: int, sizes: Sizes) -> Done:
    """Change the records of a sample, on a route without options."""
    setting = Setting(sample.protocol, target, sample.options, {}, None, (), sample.objects)
    return _Run(setting, sample.records, random.Random(seed), sample.name, sizes).done()


class _Run:
    def __init__(
        self,
        setting: Setting,
        records: Sequence[ConsumerRecord],
        chance: random.Random,
        origin: str,
        sizes: Sizes,
    ) -> None:
        self._setting, self._records, self._chance = setting, tuple(records), chance
        self._origin, self._sizes = origin, sizes
        self._tally = _Tally()
        self._bench = Bench(self._setting, engine=_counting(self._tally))
        self._messages = self._fitted = 0
        self._found: list[Finding] = []
        #: The changed records of the record at hand from which templates were derived.
        self._taught: list[ConsumerRecord] = []

    def done(self) -> Done:
        began = time.process_time()
        first = self._chance.randrange(len(self._records))
        for at, record in enumerate(self._records):
            if self._messages >= self._sizes.messages or self._found:
                break
            size = len(record.value or b"") + len(record.key or b"")
            for _ in range(_SIGHTS if at >= first or self._chance.random() < 0.3 else 1):
                taken = self._tally.taken
                self._attempt(record, record, at)
            if self._tally.taken > taken and size < _MOST_BYTES:
                self._change(record, at)
        seconds = time.process_time() - began
        route = self._setting.source, self._setting.target
        return Done(route, self._messages, self._fitted, self._tally.interpreted, seconds, tuple(self._found))

    def _change(self, record: ConsumerRecord, at: int) -> None:
        used, chance, parts = self._bench.used, self._chance, Parts(record)
        state = used.state
        self._taught.clear()
        fits = self._fits(record)
        free = self._free(parts, fits)
        sizes = self._sizes
        probes = ((each, True) for each in one_value_probes(parts, chance, sizes.probes))
        others = ((changed_inside(parts, free, chance), False) for _ in range(sizes.of_record))
        for changed, is_probe in itertools.chain(probes, others):
            self._messages += 1
            is_asked = is_probe or chance.random() < _ASKED
            if fits is not None and is_asked and not _takes(fits, changed):
                continue
            taken = self._tally.taken
            self._attempt(changed, record, at)
            self._fitted += self._tally.taken > taken
            if used.catalog is not state.catalog:
                used.restore(state)
            if self._found:
                return

    def _fits(self, record: ConsumerRecord) -> _Counting | None:
        """The engine that takes a whole record; None if it takes its rows one by one."""
        engine = self._tally.last
        return engine if engine is not None and _takes(engine, record) else None

    def _free(self, parts: Parts, engine: _Counting | None) -> list[ScalarValue]:
        """The values that a template of the record takes others of."""
        if engine is None:
            return parts.values
        found = []
        for value in parts.values:
            alike = _alike(parts.values, value)
            others = [_tame(value.token), *[nearly(value.token, self._chance) for _ in range(3)]]
            is_word = value.look == "word" or value.token == b'""'
            if is_word or any(
                _takes(engine, parts.changed([(each, other) for each in alike])) for other in others
            ):
                found.append(value)
        return found

    def _attempt(self, record: ConsumerRecord, origin: ConsumerRecord, at: int) -> None:
        bench, added = self._bench, self._tally.added
        try:
            bench.attempt(bench.used, bench.used.translate, record)
            if self._tally.added > added:
                self._taught.append(record)
        except BrokenError as error:
            self._tell(error, record, origin, at)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            self._tell(BrokenError("panic", type(error).__name__, "kernel", str(error)), record, origin, at)
        if self._tally.wrong:
            route = f"{self._setting.source} -> {self._setting.target}"
            self._tell(BrokenError("engines", "differ", route, self._tally.wrong), record, origin, at)
            self._tally.wrong = ""

    def _tell(self, error: BrokenError, record: ConsumerRecord, origin: ConsumerRecord, at: int) -> None:
        detail = error.detail
        if error.check == "templates":
            detail = f"{detail}; {self._outcomes(record)}"
        setting = self._setting._replace(prefix=self._records[:at])
        learned = [each for taught in (origin, *self._taught) for each in [taught] * _SIGHTS]
        case = (*learned, record)
        self._found.append(
            Finding(error.check, error.kind, error.location, detail, setting, (case,), (), self._origin)
        )

    def _outcomes(self, record: ConsumerRecord) -> str:
        """What the pipeline makes of a record, and a template."""
        bench = self._bench
        cold = bench.cold(bench.used.state)
        try:
            straight = bench.attempt(cold, cold.translate, record)
        except BrokenError as error:
            return str(error)
        engine = self._tally.last
        given = engine and engine.kernel.translate(
            record.key, record.value, record.offset, record.timestamp_ms, b""
        )
        one, other = repr(straight), repr(given and given[1:3])
        return f"pipeline: {one:.1500} / template: {other:.1500}"


def _takes(engine: _Counting, record: ConsumerRecord) -> bool:
    """Whether the kernel takes a record, or panics."""
    try:
        found = engine.kernel.translate(record.key, record.value, record.offset, record.timestamp_ms, b"")
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        return True
    return found is not None


def _alike(values: Sequence[ScalarValue], value: ScalarValue) -> list[ScalarValue]:
    """Return the values with the same name and text."""
    return [each for each in values if each.name == value.name and each.token == value.token]


def _tame(token: bytes) -> bytes:
    """A token of the same kind that hardly any reader refuses."""
    digit = re.search(rb"[1-8](?=[^0-9]*$)", token)
    if digit is None:
        return b'"0"' if token[:1] == b'"' else b"0"
    return token[: digit.start()] + bytes([digit[0][0] + 1]) + token[digit.end() :]


def one_value_probes(
    parts: Parts, chance: random.Random, most: int = _MOST_PROBES
) -> Iterator[ConsumerRecord]:
    """Yield the record with one value replaced: by null, a number or another text. This exposes a slot that
    the pipeline interprets but a template only copies.
    """
    pairs = [(value, probe) for value in parts.values for probe in PROBES if probe != value.token]
    for value, probe in chance.sample(pairs, min(len(pairs), most)):
        yield parts.changed([(value, probe)])


def changed_inside(parts: Parts, free: Sequence[ScalarValue], chance: random.Random) -> ConsumerRecord:
    """A message of the same shape, or nearly: some values, rarely the structure, the offset or the time."""
    roll = chance.random()
    if roll < 0.06:
        record = parts.bent(chance)
    elif parts.values:
        record = _with_other_values(parts, free, chance)
    else:
        record = _changed_binary(parts.record, chance)
    if chance.random() < 0.04:
        record = msgspec.structs.replace(record, timestamp_ms=chance.choice(_TIMES))
    if chance.random() < 0.04:
        record = msgspec.structs.replace(record, offset=chance.choice((*_OFFSETS, max(0, record.offset - 2))))
    return record


def _changed_binary(record: ConsumerRecord, chance: random.Random) -> ConsumerRecord:
    """A message in Avro with other values, or with other bytes after the id of its schema."""
    found = binary.changed(record, chance) if chance.random() < 0.8 else None
    if found is not None:
        return found
    part = chance.choice(("key", "value"))
    data = getattr(record, part) or b""
    return msgspec.structs.replace(record, **{part: data[:_PREFIX] + changed_bytes(data[_PREFIX:], chance)})


def _with_other_values(parts: Parts, free: Sequence[ScalarValue], chance: random.Random) -> ConsumerRecord:
    changes: list[tuple[ScalarValue, bytes]] = []
    for count in range(chance.choice((1, 1, 1, 1, 1, 2, 3))):
        any_value = chance.random() < 0.03 or not free
        value = chance.choice(parts.values if any_value else free)
        alike = _alike(parts.values, value) if chance.random() < 0.6 else [value]
        is_near = count > 0 and chance.random() < 0.7
        other = nearly(value.token, chance) if is_near else other_token(value.token, value.look, chance)
        changes += [(each, other) for each in alike]
    return parts.changed(changes)


# ---------------------------------------------------------------- all of it


def main() -> int:
    """Parse the command line and run what it names."""
    parser = argparse.ArgumentParser(
        prog="python -m fuzz.shapes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, help="how long (default 60, if no --messages are given)")
    parser.add_argument("--messages", type=int, help="how many messages")
    parser.add_argument("--seed", type=int, help="what decides everything (default: a new one)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--session", type=int, help="this session of the seed alone")
    parser.add_argument("--only", default="", help="routes from or into this protocol alone")
    parser.add_argument("--output", type=Path, default=ROOT / "artifacts" / "fuzz", help="where findings go")
    given = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if given.seed is None else given.seed
    routes = sample_routes(lambda source, target: not given.only or given.only in {source, target})
    seconds = 60.0 if given.seconds is None and given.messages is None else given.seconds
    deadline = time.monotonic() + (seconds or float("inf"))
    _say(f"seed {seed}, {len(routes)} routes, {given.jobs} processes")
    shape_run = _ShapeRun(given.output)
    numbers = itertools.count() if given.session is None else iter([given.session])
    try:
        shape_run.run(seed, numbers, routes, given.jobs, deadline, given.messages or sys.maxsize)
    except BrokenProcessPool:
        _say(f"FINDING a process has died in one of the sessions {sorted(shape_run.at_work)}")
        shape_run.findings["died"] += 1
    except KeyboardInterrupt:
        _say("interrupted")
    return shape_run.close(seed)


class _ShapeRun:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.findings: Counter[str] = Counter()
        self.at_work: set[int] = set()
        self._by_route: dict[tuple[str, str], Counter[str]] = {}
        self._all: Counter[str] = Counter()
        self._seconds = 0.0

    def run(
        self,
        seed: int,
        numbers: Iterator[int],
        routes: Sequence[tuple[str, str]],
        jobs: int,
        deadline: float,
        messages: int,
    ) -> None:
        """Work through sessions until the time is over or so many messages were tried."""
        self._began = time.monotonic()
        sessions: dict[Future[Done], int] = {}
        with ProcessPoolExecutor(jobs, multiprocessing.get_context("fork")) as pool:
            while True:
                while (
                    len(sessions) < jobs and time.monotonic() < deadline and self._all["messages"] < messages
                ):
                    number = next(numbers, None)
                    if number is None:
                        break
                    sessions[pool.submit(work, seed, number, routes)] = number
                self.at_work = set(sessions.values())
                if not sessions:
                    return
                for done in wait(sessions, return_when=FIRST_COMPLETED).done:
                    number = sessions.pop(done)
                    self._take(done.result())

    def _take(self, done: Done) -> None:
        counted = {"messages": done.messages, "fitted": done.fitted, "interpreted": done.interpreted}
        self._all.update(counted)
        self._by_route.setdefault(done.route, Counter()).update(counted)
        self._seconds += done.seconds
        for finding in done.findings:
            name = " | ".join(finding.identity)
            self.findings[name] += 1
            if self.findings[name] == 1:
                folder = write(finding, self._folder)
                _say(finding.text(folder))

    def close(self, seed: int) -> int:
        """Say what was done; 1 if something was found."""
        messages, fitted = self._all["messages"], self._all["fitted"]
        rate = messages / self._seconds if self._seconds else 0
        elapsed = time.monotonic() - self._began
        for route, counted in sorted(self._by_route.items()):
            share = 100 * counted["fitted"] // max(1, counted["messages"])
            _say(f"  {' -> '.join(route):42} {counted['messages']:8} messages, {share:3} % by template")
        _say(
            f"{messages} messages, {100 * fitted // max(1, messages)} % by template, "
            f"{self._all['interpreted']} compared with the interpreter, {messages / elapsed:.0f} a second "
            f"({rate:.0f} of processor time of one core), {sum(self.findings.values())} findings, seed {seed}"
        )
        for name, count in self.findings.most_common():
            _say(f"  {count:5} x {name}")
        return 1 if self.findings else 0


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
