"""A session: one route, one sample of records and a position in it. Many cases start from the same state; now
and then good records follow, and must give the same output as without the cases.

A session is derived from the seed and its number, and a case from these and its own number.
"""

from __future__ import annotations

import ctypes
import gc
import random
import re
import signal
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Final

import msgspec
from output_digests import OPTION_SETS

from fuzz.corpus import Sample, chosen_sample, with_storage
from fuzz.findings import BrokenError, Finding, Setting, smaller
from fuzz.json_tree import spliced
from fuzz.mutations import changed_bytes, document, mutated
from fuzz.oracle import Bench, Outcome, resident_bytes, same
from fuzz.unknown import extended
from relay import ConfigError, ConsumerRecord, Translator
from relay.codecs import BUILT_IN, PROTOCOLS
from relay.codecs.given_options import parse_options
from relay.codecs.losses import Keys
from relay.codecs.row_keys import keys_of
from relay.model.records import size_of
from relay.routing import TopicRule
from relay.routing.partitioning import Partitioning
from relay.testing.option_sets import OptionTexts, fits, option_sets, other_choices

Case = tuple[ConsumerRecord, ...]

_BATCHES: Final = 20
BATCH: Final = 16
_GOOD: Final = 3
#: Cases with a member that no protocol defines.
_UNKNOWN: Final = 0.08
#: Processor time after which a case is given up.
PATIENCE_SECONDS: Final = 10
#: Shares of all sessions.
_SCALING: Final = 0.05
_ENTRY_POINTS: Final = 0.04
#: Memory that translators may keep of some hundred records that were taken back.
MAX_CACHES: Final = 150 << 20
#: Checks whose findings are not made smaller.
_ALONE: Final = frozenset({"time", "memory", "crash", "entry point", "unknown member"})
_SMALLER_SECONDS: Final = 3.0


class OvertimeError(BaseException):
    """A case takes too long; nothing that relay catches."""


def watch() -> None:
    """Let `patience` end what takes too long, in this process."""
    signal.signal(signal.SIGPROF, _give_up)


def _give_up(_number: int, _frame: FrameType | None) -> None:
    raise OvertimeError


def patience(seconds: float = PATIENCE_SECONDS) -> None:
    """Begin to wait anew; 0 for ever."""
    signal.setitimer(signal.ITIMER_PROF, seconds)


def grown_bytes(since: int) -> int:
    """How much more memory is in use; what is free, but was not given back, does not count."""
    if resident_bytes() - since > MAX_CACHES:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
    return resident_bytes() - since


class Session:
    """The session of a number: its route, options, sample and position."""

    def __init__(self, seed: int, number: int, routes: Sequence[tuple[str, str]]) -> None:
        self.seed, self.number = seed, number
        chance = self._chance(-1)
        #: Some sessions test how time grows, and some the other entry points.
        roll = chance.random()
        self.is_scaling, self.is_of_entry_points = (
            roll < _SCALING,
            _SCALING <= roll < _SCALING + _ENTRY_POINTS,
        )
        source, target = routes[number % len(routes)]
        self.sample = chosen_sample(source, chance)
        records = self.sample.records
        start = chance.choice((0, chance.randrange(len(records)), chance.randrange(len(records))))
        partitions, options = target_options(target, chance)
        topic, spread_by = spread(target, partitions, options, chance)
        plain = Setting(
            source,
            target,
            self.sample.options,
            options,
            partitions,
            records[:start],
            self.sample.objects,
            topic,
            spread_by,
        )
        self.setting = with_tables(plain, chance)
        self._start = start
        self._near = records[start : start + 8] or records
        self.statements = [each for each in records if has_statement(each)]
        self.good = records[start : start + _GOOD]

    def _chance(self, case: int) -> random.Random:
        return random.Random((self.seed << 48) ^ (self.number << 16) ^ (case + 1))

    def case(self, number: int) -> tuple[Case, dict[str, bytes]]:
        """The records of a case, and objects that they refer to."""
        chance, records = self._chance(number), self.sample.records
        if chance.random() < _UNKNOWN and (found := self._extended(chance)) is not None:
            return (found,) * chance.choice((1, 3)), {}  # the third one may have a template
        roll = chance.random()
        first = chance.choice(self._near if chance.random() < 0.6 else records)
        if roll < 0.22 and self.statements:
            first = chance.choice(self.statements)
        case = [mutated(first, records, chance)]
        if roll < 0.35:
            for _ in range(chance.choice((1, 2, 3))):
                other = chance.choice(self._near if chance.random() < 0.7 else records)
                case.append(mutated(other, records, chance) if chance.random() < 0.4 else other)
        return _with_other_objects(case, self.setting.objects, chance)

    def _extended(self, chance: random.Random) -> ConsumerRecord | None:
        """A good record with an unknown member."""
        count = len(self.sample.records)
        at = self._start + chance.randrange(8) if chance.random() < 0.6 else chance.randrange(count)
        return extended(self.sample, at % count, chance)


def has_statement(record: ConsumerRecord) -> bool:
    """Whether a record seems to have a statement."""
    value = record.value or b""
    found = document(value if value[:1] == b"{" else value[8:])
    return _STATEMENT(value) is not None if found is None else bool(found.statements)


#: In values that are no JSON; looking closely takes long.
_STATEMENT: Final = re.compile(rb"(?i)\b(?:CREATE|ALTER|DROP|RENAME|TRUNCATE)\s+[A-Z]").search


def _with_other_objects(
    case: list[ConsumerRecord], objects: Mapping[str, bytes], chance: random.Random
) -> tuple[Case, dict[str, bytes]]:
    """The case with some of its claim checks referring to damaged objects, which have names of their own."""
    added: dict[str, bytes] = {}
    for name, data in objects.items():
        for at, value in enumerate(record.value or b"" for record in tuple(case)):
            if name.encode() in value and chance.random() < 0.6:
                other = f"{uuid.UUID(int=chance.getrandbits(128))}.json"
                added[other] = changed_object(data, chance)
                changed = value.replace(name.encode(), other.encode())
                case[at] = msgspec.structs.replace(case[at], value=changed)
    return tuple(case), added


def changed_object(data: bytes, chance: random.Random) -> bytes:
    """Another content of a claim-check object."""
    whole = ConsumerRecord("storage", 0, 0, 0, None, data)
    return (
        mutated(whole, [whole], chance).value or b"" if chance.random() < 0.7 else changed_bytes(data, chance)
    )


def target_options(target: str, chance: random.Random) -> tuple[int | None, OptionTexts]:
    """How many partitions a target has, and a set of its options: one that is known, or any that go together."""
    known = [(partitions, sets[target]) for partitions, sets in OPTION_SETS.values() if target in sets]
    roll = chance.random()
    if known and roll < 0.35:
        partitions, options = chance.choice(known)
    else:
        partitions = chance.choice((None, None, 1, 3))
        options = chance.choice(_sets(target)) if roll < 0.65 else mixed_options(target, chance)
    return partitions, with_storage(target, options)


def mixed_options(target: str, chance: random.Random) -> OptionTexts:
    """Some options that go together, a reader's profile and a time zone among them."""
    codec = PROTOCOLS[target]
    choices = [*other_choices(codec), ("timezone", "Asia/Shanghai")]
    wanted = chance.sample(choices, min(len(choices), chance.choice((1, 2, 4, 8, 100))))
    if codec.profiles and chance.random() < 0.5:
        wanted.insert(0, ("profile", chance.choice(sorted(codec.profiles))))
    given: OptionTexts = {}
    for name, value in wanted:
        if name not in given and fits(codec, given | {name: value}):
            given[name] = value
    return given


def spread(
    target: str, partitions: int | None, options: OptionTexts, chance: random.Random
) -> tuple[str, str | None]:
    """The template of the target's topics, and how rows are spread over the partitions, if they are."""
    topic = chance.choice((*["{topic}"] * 5, "{database}.{table}", "{topic}.{table}"))
    codec = PROTOCOLS[target]
    has_keys = keys_of(codec, parse_options(codec, options, "to")) is Keys.ROW
    spread_by = chance.choice((None, "table", "index-value", *(["key"] if has_keys else [])))
    return topic, None if partitions is None else spread_by


#: Globs for tables: of every one, of many, of one, of none.
_GLOBS: Final = ("*.*", "*.*s", "*.*e*", "*_db.*", "*.t*", "*.users", "[a-n]*.*", "d.t", "*.?", "none.none")


def with_tables(setting: Setting, chance: random.Random) -> Setting:
    """The setting, some of them with topics for some tables, or with tables that are left out."""
    if chance.random() < 0.2:
        found = setting._replace(rules=tuple(_rule(chance) for _ in range(chance.choice((1, 1, 2)))))
        try:
            found.translator(Translator, found.target_options)
        except ConfigError:
            found = setting
        setting = found
    if chance.random() < 0.1:
        setting = setting._replace(include=tuple(chance.sample(_GLOBS, chance.choice((1, 2)))))
    if chance.random() < 0.1:
        setting = setting._replace(exclude=(chance.choice(_GLOBS[1:]),))
    return setting


def _rule(chance: random.Random) -> TopicRule:
    topic = chance.choice(("", "own", "{topic}.own", "{database}.{table}", "{topic}_{table}"))
    by = chance.choice((None, None, *Partitioning))
    partitions = None if by in {None, Partitioning.SOURCE} else chance.choice((1, 3))
    key = chance.choice(((), (), (), ("id",), ("name", "id")))
    return TopicRule(chance.choice(_GLOBS), topic, partitions, by, key)


_SETS: dict[str, list[OptionTexts]] = {}


def _sets(target: str) -> list[OptionTexts]:
    if target not in _SETS:
        _SETS[target] = option_sets(PROTOCOLS[target])
    return _SETS[target]


Tell = Callable[[Finding], bool]


class Run:
    """Work through a session. `tell` gets each finding, and returns whether it is new; `at` gets each case's number."""

    def __init__(self, session: Session, tell: Tell, at: Callable[[int], None]) -> None:
        self._session, self._tell, self.at = session, tell, at
        #: What the bench at work has seen before the case at hand.
        self._seen: list[Case] = []
        self.cases = self.records = 0

    def work(self, deadline: float, *, batches: int = _BATCHES) -> None:
        """Try all cases, or as many as there is time for (`time.monotonic`)."""
        patience(3 * PATIENCE_SECONDS)
        try:
            bench = self._bench()
            expected = self._expected(bench)
        except (BrokenError, OvertimeError) as error:
            route = f"{self._session.setting.source} -> {self._session.setting.target}"
            slow = BrokenError("time", "good records do not end", route)
            self._report(error if isinstance(error, BrokenError) else slow, (), self._session.good, {}, -1)
            return
        finally:
            patience(0)
        resident = resident_bytes()
        for batch in range(batches):
            # The records that were tried are kept, to be tried again: they are no cache of relay's.
            kept = sum(size_of(case) for case in self._seen)
            if (grown := grown_bytes(resident) - kept) > MAX_CACHES:
                detail = f"{grown >> 20} MB after {self.records} records"
                grows = BrokenError("memory", "caches grow", self._session.setting.source, detail)
                self._report(grows, (), (), {}, -1)
                return
            if time.monotonic() > deadline:
                return
            numbers = range(batch * BATCH, (batch + 1) * BATCH)
            start = bench.mark()
            cases = []
            for number in numbers:
                self.at(number)
                case, objects = self._session.case(number)
                bench.objects |= objects
                cases.append(case)
                self.cases += 1
                self.records += len(case)
                if not self._try(bench, case, objects, number):
                    bench = self._bench()
                    start = bench.mark()
                    cases.clear()
                else:
                    self._seen.append(case)
                bench.back(start)
            if not self._is_clean(bench, expected, cases):
                bench = self._bench()

    def _bench(self) -> Bench:
        self._seen = []
        bench = Bench(self._session.setting)
        bench.prime(self._session.setting.prefix)
        return bench

    def _expected(self, bench: Bench) -> list[Outcome]:
        """What the good records give if nothing else was seen."""
        cold = bench.cold(bench.used.state)
        return bench.outcomes(cold, self._session.good)

    def _try(self, bench: Bench, case: Case, objects: dict[str, bytes], number: int) -> bool:
        """Try a case; False if the bench must not be used any more."""
        patience()
        done = 0
        try:
            for record in case:
                done += 1
                bench.step(record)
        except BrokenError as error:
            self._report(error, (case[:done],), (), objects, number)
        except OvertimeError:
            route = f"{self._session.setting.source} -> {self._session.setting.target}"
            self._report(BrokenError("time", "does not end", route), (case[:done],), (), objects, number)
        else:
            return True
        finally:
            patience(0)
        return False

    def _is_clean(self, bench: Bench, expected: list[Outcome], cases: list[Case]) -> bool:
        """Whether good records still give what they should; if not, the case that is to blame is looked for."""
        error = spoilt(bench, self._session.good, expected)
        if error is None:
            return True
        alone = [case for case in cases if self._spoils([case], expected)]
        self._report(error, tuple(alone[:1]) or tuple(cases), self._session.good, {}, -1)
        return False

    def _spoils(self, cases: Sequence[Case], expected: list[Outcome]) -> bool:
        bench = self._bench()
        for case in cases:
            start = bench.mark()
            bench.outcomes(bench.used, case)
            bench.back(start)
        return spoilt(bench, self._session.good, expected) is not None

    def _report(
        self,
        error: BrokenError,
        cases: tuple[Case, ...],
        good: Sequence[ConsumerRecord],
        objects: dict[str, bytes],
        number: int,
    ) -> None:
        setting = self._session.setting._replace(objects={**self._session.setting.objects, **objects})
        session = self._session
        origin = f"seed {session.seed} session {session.number} case {number}, {session.sample.name}"
        found = Finding(
            error.check, error.kind, error.location, error.detail, setting, cases, tuple(good), origin
        )
        if number >= 0 and found.check not in _ALONE and not _shows(found, found):
            # What it needs came before, and was taken back.
            found = found._replace(cases=(*self._seen, *cases))
        self._tell(found)


def spoilt(bench: Bench, good: Sequence[ConsumerRecord], expected: list[Outcome]) -> BrokenError | None:
    """What is wrong with good records after all that was taken back."""
    start = bench.mark()
    route = f"{bench.setting.source} -> {bench.setting.target}"
    try:
        for found, wanted in zip(bench.outcomes(bench.used, good), expected, strict=True):
            same(found, wanted, "good records after bad ones", route)
    except BrokenError as error:
        return error
    finally:
        bench.back(start)
    return None


# ---------------------------------------------------------------- again, and smaller


def reproduce(finding: Finding) -> BrokenError | None:
    """Try the records of a finding again, with every check for every record; None if all is well."""
    patience(3 * PATIENCE_SECONDS)
    try:
        return _reproduced(finding)
    except BrokenError as error:
        return error  # a good record is not taken
    except OvertimeError:
        route = f"{finding.setting.source} -> {finding.setting.target}"
        return BrokenError("time", "does not end", route)
    finally:
        patience(0)


def _reproduced(finding: Finding) -> BrokenError | None:
    bench = Bench(finding.setting, is_thorough=True)
    bench.prime(finding.setting.prefix)
    expected = bench.outcomes(bench.cold(bench.used.state), finding.good)
    others: list[BrokenError] = []
    for case in finding.cases:
        start = bench.mark()
        try:
            for record in case:
                bench.step(record)
        except BrokenError as error:
            if error.identity == finding.identity:
                return error
            others.append(error)
        bench.back(start)
    return spoilt(bench, finding.good, expected) or next(iter(others), None)


def reduced(finding: Finding) -> Finding:
    """The finding with as little as shows it, as far as there is time."""
    deadline = time.monotonic() + _SMALLER_SECONDS
    if finding.check in _ALONE or not _shows(finding, finding):
        return finding
    finding = _with_fewer_cases(_with_less_before(finding, deadline), deadline)
    if len(finding.cases) == 1:
        for at in reversed(range(len(finding.cases[0]))):
            records = (*finding.cases[0][:at], *finding.cases[0][at + 1 :])
            less = finding._replace(cases=(records,))
            if records and time.monotonic() < deadline and _shows(less, finding):
                finding = less
        finding = _with_less_text(finding, deadline)
    return finding


def _shows(less: Finding, finding: Finding) -> bool:
    error = reproduce(less)
    return error is not None and error.identity == finding.identity


def _with_less_before(finding: Finding, deadline: float) -> Finding:
    is_changed = True
    while is_changed and time.monotonic() < deadline:
        is_changed = False
        for prefix in smaller(finding.setting.prefix):
            less = finding._replace(setting=finding.setting._replace(prefix=tuple(prefix)))
            if time.monotonic() < deadline and _shows(less, finding):
                finding, is_changed = less, True
                break
    return finding


def _with_fewer_cases(finding: Finding, deadline: float) -> Finding:
    *before, last = finding.cases or ((),)
    is_changed = True
    while is_changed and time.monotonic() < deadline:
        is_changed = False
        for fewer in smaller(before):
            less = finding._replace(cases=(*fewer, last))
            if time.monotonic() < deadline and _shows(less, finding):
                finding, before, is_changed = less, list(fewer), True
                break
    return finding


def _with_less_text(finding: Finding, deadline: float) -> Finding:
    """Without members and elements of the last record that do not matter."""
    *head, last = finding.cases[0]
    at = 0
    while time.monotonic() < deadline:
        found = document(last.value or b"")
        nodes = [] if found is None else [node for node in found.nodes if node.parent is not None]
        if found is None or at >= len(nodes):
            break
        node = nodes[at]
        siblings = node.parent.children if node.parent else []
        index = siblings.index(node)
        start = siblings[index - 1].end if index else node.member_start
        end = node.end if index or len(siblings) == 1 else siblings[1].member_start
        value = spliced(found.text, [(start, end, b"")])
        shorter = msgspec.structs.replace(last, value=value)
        less = finding._replace(cases=((*head, shorter),))
        if _shows(less, finding):
            finding, last = less, shorter
        else:
            at += 1
    return finding


def sample_routes(only: Callable[[str, str], bool]) -> list[tuple[str, str]]:
    """All routes that are wanted: relay's own protocols, each into each and into those of other packages.

    What other packages read of damaged records is theirs.
    """
    sources = [name for name, codec in BUILT_IN.items() if codec.is_readable]
    targets = [name for name, codec in PROTOCOLS.items() if codec.is_writable]
    return [(source, target) for source in sources for target in targets if only(source, target)]


__all__ = ["OvertimeError", "Run", "Sample", "Session", "reduced", "reproduce", "sample_routes", "watch"]
