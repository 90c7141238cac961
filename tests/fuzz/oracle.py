"""A route under test: records go in, and everything that must hold of what comes out is examined.

Cheap checks are made for every record, dear ones for one in a few, in turns that the record's number decides.
"""

from __future__ import annotations

import json
import re
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final, NamedTuple

from engine_support import ENGINE

from fuzz.corpus import answer, reading_options
from fuzz.events import VALUES_LOST, VALUES_REFUSED, Target, are_sound, compare, lacks_digits
from fuzz.findings import BrokenError, Setting, location_of
from fuzz.unknown import is_carried, without_member
from fuzz.words import CANARY_SPELLINGS
from relay import (
    CodecError,
    ConsumerRecord,
    DecodeError,
    Event,
    Loss,
    Need,
    NotRepresentable,
    ProducerRecord,
    RelayError,
    RowChange,
    Translator,
)
from relay.codecs import PROTOCOLS
from relay.codecs.losses import INFORMATIONAL
from relay.codecs.simple.definitions import table_entry
from relay.core.pipeline import State
from relay.core.verification import ShadowTranslator, TemplatesDiffer
from relay.model.errors import DefinitionMissing, ServiceError
from relay.model.events import ColumnType, TableSchema
from relay.model.lookups import ClaimCheck
from relay.templates.engine import Engine

#: Processor time of a record of up to a megabyte, and of each megabyte more.
MAX_SECONDS: Final = 2.0
#: Memory of a record of up to a megabyte, and of each megabyte more, beyond what any record may take.
MAX_GROWTH: Final = 300 << 20
_FREE_GROWTH: Final = 100 << 20
_MEGABYTE: Final = 1 << 20
#: Most characters of an error's text. Names are cut where errors are shown; what is longer holds a document.
MAX_ERROR_TEXT: Final = 20_000
_MAX_NEEDS: Final = 50
_SECOND_NS: Final = 1_000_000_000

#: How often the dear checks are made, by the names of what they find.
_TURNS: Final = {"compare": 3, "strict": 8, "determinism": 16, "entry points": 16}


#: Options that leave out what is counted, and what that is: no loss for `strict`.
_LEFT_OUT: Final = {
    "ddl": {Loss.DDL, Loss.TRUNCATE_OR_DROP, Loss.BOOTSTRAP},
    "watermarks": {Loss.WATERMARK},
}


#: What is counted where a definition is not written, or not with this copy of its statement.
_UNDECLARED: Final = frozenset({Loss.TABLE_DEFINITION, Loss.TABLES_FILTERED, Loss.NO_TOPIC, Loss.DDL_COPIES})


class Refused(NamedTuple):
    """An error of relay's own."""

    kind: str
    code: str
    text: str


Outcome = list[ProducerRecord] | Refused


def codes() -> frozenset[str]:
    """The codes that errors may have: those of the tree, which docs/operations/troubleshooting.md lists."""

    def of(kind: type[RelayError]) -> set[str]:
        return {kind.code}.union(*(of(each) for each in kind.__subclasses__()))

    return frozenset(of(RelayError))


_CODES: Final = codes()
_SHOWS_CANARY: Final = re.compile("|".join(map(re.escape, CANARY_SPELLINGS)), re.IGNORECASE).search


class Bench:
    """A translator that is fed, with a reader of what it writes, and twins to compare it with."""

    def __init__(
        self, setting: Setting, *, is_thorough: bool = False, engine: type[Engine] | None = ENGINE
    ) -> None:
        self.setting, self._is_thorough = setting, is_thorough
        self.objects = dict(setting.objects)
        self.used = self._translator(setting.target_options, engine)
        self.strict = self._translator({**setting.target_options, "strict": "true"})
        self.viewer = Translator.reader(setting.source, setting.source_options)
        #: Reads what is written, where the target can be read: else what the source says, which is compared
        #: with nothing.
        self._has_reader = PROTOCOLS[setting.target].is_readable
        self.reader = self._new_reader()
        self._target = Target.of(setting)
        options = self.used.route.target_options  # a profile may have set them
        dropped = [what for name, what in _LEFT_OUT.items() if getattr(options, name) == "drop"]
        self._left_out = set[Loss]().union(*dropped)
        self._chosen = setting.chosen()
        self._offsets: Counter[tuple[str, int]] = Counter()
        self._written: dict[str, bytes] = {}
        self._steps = 0

    def _translator(
        self, target_options: Mapping[str, str], engine: type[Engine] | None = None
    ) -> Translator:
        return self.setting.translator(ShadowTranslator, target_options, engine)

    def _new_reader(self) -> Translator:
        setting = self.setting
        if not self._has_reader:
            return Translator.reader(setting.source, setting.source_options)
        options = reading_options(setting.target, dict(setting.target_options))
        return Translator(setting.target, setting.target, options)

    def cold(self, state: State) -> Translator:
        """Another translator that has seen nothing and knows the same."""
        translator = self._translator(self.setting.target_options)
        translator.restore(state)
        return translator

    def prime(self, records: Sequence[ConsumerRecord]) -> None:
        """Translate good records, of which nothing is demanded."""
        for record in records:
            outcome = self.attempt(self.used, self.used.translate, record)
            if isinstance(outcome, list):
                self.read(outcome)

    # ------------------------------------------------------------ one record

    def step(self, record: ConsumerRecord) -> Outcome:
        """Translate a record and look at everything. Raises BrokenError."""
        self._steps += 1
        used = self.used
        before, counted = used.state, (used.events, used.losses)
        resident = peak_bytes()
        began = time.process_time()
        outcome = self.attempt(used, used.translate, record)
        self._measure(record, time.process_time() - began, peak_bytes() - resident)
        if isinstance(outcome, Refused):
            self._is_as_before(before, counted)
        losses = used.losses - counted[1]
        if (plain := without_member(record)) is not None:
            self._tells_unknown_member(record, plain, outcome, before, losses)
        if self._is_turn_of("determinism"):
            self._is_repeatable(record, outcome, before, losses)
        if self._is_turn_of("strict"):
            self.strict_agrees(record, outcome, before, losses)
        if self._is_turn_of("entry points"):
            self._other_doors(record, before)
        if isinstance(outcome, list):
            self._is_readable(record, outcome, before, losses, compared=self._is_turn_of("compare"))
        return outcome

    def _is_turn_of(self, check: str) -> bool:
        return self._is_thorough or self._steps % _TURNS[check] == 0

    def attempt(
        self,
        translator: Translator,
        call: Callable[[ConsumerRecord], list[ProducerRecord]],
        record: ConsumerRecord,
    ) -> Outcome:
        """What a call makes of a record, with its needs answered. Raises BrokenError for any other error."""
        for _ in range(_MAX_NEEDS):
            try:
                return call(record)
            except Need as need:
                try:
                    translator.provide(need, self._answer(need))
                except ServiceError as error:
                    return Refused("ServiceError", error.code, "")
            except TemplatesDiffer as error:
                route = f"{self.setting.source} -> {self.setting.target}"
                raise BrokenError("templates", "differ", route, str(error)) from error
            except RelayError as error:
                check_error(error)
                return Refused(type(error).__name__, error.code, str(error))
            except Exception as error:
                raise BrokenError(
                    "exception", type(error).__name__, location_of(error), str(error)
                ) from error
        return Refused("Need", "", "")

    def _answer(self, need: Need[object]) -> object:
        if isinstance(need, ClaimCheck) and need.name in self._written:
            return self._written[need.name]
        return answer(need, self.objects)

    def _measure(self, record: ConsumerRecord, seconds: float, grown: int) -> None:
        size = max(1.0, (len(record.value or b"") + len(record.key or b"")) / _MEGABYTE)
        route = f"{self.setting.source} -> {self.setting.target}"
        if seconds > MAX_SECONDS * size:
            raise BrokenError("time", "slow", route, f"{seconds:.1f} s for {size:.2f} MB")
        if grown > _FREE_GROWTH + MAX_GROWTH * size:
            raise BrokenError("memory", "peak", route, f"{grown >> 20} MB for {size:.2f} MB")

    def _is_as_before(self, before: State, counted: tuple[Counter[str], Counter[Loss]]) -> None:
        after, route = self.used.state, f"{self.setting.source} -> {self.setting.target}"
        if after.catalog is not before.catalog or after.gate is not before.gate or after.seen != before.seen:
            raise BrokenError("all or nothing", "state", route, "the state changed although it was refused")
        if (self.used.events, self.used.losses) != counted:
            raise BrokenError("all or nothing", "counters", route, "counted although it was refused")

    # ------------------------------------------------------------ twins

    def strict_agrees(
        self, record: ConsumerRecord, outcome: Outcome, before: State, losses: Counter[Loss]
    ) -> None:
        self.strict.restore(before)
        found = self.attempt(self.strict, self.strict.translate, record)
        route = f"{self.setting.source} -> {self.setting.target}"
        lost = sorted(set(losses) - INFORMATIONAL - self._left_out)
        if isinstance(outcome, Refused) and isinstance(found, Refused):
            return
        if isinstance(found, Refused) != (isinstance(outcome, Refused) or bool(lost)):
            # A twin that has seen less may have another opinion for that reason alone.
            self._is_repeatable(record, outcome, before, losses)
        if isinstance(outcome, Refused) or not lost:
            same(outcome, found, "strict", route)
        elif not isinstance(found, Refused):
            raise BrokenError("strict", f"passes {', '.join(lost)}", route)
        elif found.kind != NotRepresentable.__name__:
            raise BrokenError("strict", f"{found.kind} instead of a refusal", route, found.text)

    def _tells_unknown_member(
        self,
        record: ConsumerRecord,
        plain: ConsumerRecord,
        outcome: Outcome,
        before: State,
        losses: Counter[Loss],
    ) -> None:
        """Whether a member that no protocol defines is carried and counted, and changes nothing else."""
        cold, route = self.cold(before), f"{self.setting.source} -> {self.setting.target}"
        same(outcome, self.attempt(cold, cold.translate, plain), "unknown member", route)
        self.strict_agrees(record, outcome, before, losses)
        events = self.inspected(record, before)
        if isinstance(outcome, Refused) or isinstance(events, Refused) or self._chosen is not None:
            return
        if events and not is_carried(events):
            raise BrokenError("unknown member", "not carried", self.setting.source)
        # Of several events, the target may not be able to represent the one that has the member.
        if outcome and all(is_carried([event]) for event in events) and not losses[Loss.UNKNOWN_FIELDS]:
            raise BrokenError("unknown member", "not counted", route)
        if losses - Counter({Loss.UNKNOWN_FIELDS: losses[Loss.UNKNOWN_FIELDS]}) != cold.losses:
            differing = sorted({*(cold.losses - losses), *(losses - cold.losses)} - {Loss.UNKNOWN_FIELDS})
            raise BrokenError("unknown member", f"counts {', '.join(differing)} or not", route)

    def _is_repeatable(
        self, record: ConsumerRecord, outcome: Outcome, before: State, losses: Counter[Loss]
    ) -> None:
        """Whether a translator that has seen nothing else, but knows the same, gives the same."""
        cold, route = self.cold(before), f"{self.setting.source} -> {self.setting.target}"
        same(outcome, self.attempt(cold, cold.translate, record), "determinism", route)
        if cold.losses != losses:
            differing = sorted({*(cold.losses - losses), *(losses - cold.losses)})
            raise BrokenError("determinism", f"counts {', '.join(differing)} or not", route)

    def _other_doors(self, record: ConsumerRecord, before: State) -> None:
        """`tables_of` changes nothing; `learn` and `inspect` raise what they say."""
        viewer = self.viewer
        for name in ("tables_of", "learn", "inspect"):
            viewer.restore(State(before.catalog, None))
            state = viewer.state
            try:
                getattr(viewer, name)(record)
            except (DecodeError, Need) as error:
                if isinstance(error, DecodeError):
                    check_error(error)
                if viewer.state != state:
                    raise BrokenError("all or nothing", name, self.setting.source) from error
            except Exception as error:
                raise BrokenError(
                    "exception", f"{name} {type(error).__name__}", location_of(error)
                ) from error
            if name == "tables_of" and viewer.state != state:
                raise BrokenError("all or nothing", name, self.setting.source)

    def inspected(self, record: ConsumerRecord, state: State) -> list[Event] | Refused:
        """The source's events of a record."""
        viewer = self.viewer
        viewer.restore(State(state.catalog, None))
        for _ in range(_MAX_NEEDS):
            try:
                return viewer.inspect(record)
            except Need as need:
                try:
                    viewer.provide(need, self._answer(need))
                except ServiceError as error:
                    return Refused("ServiceError", error.code, "")
            except DecodeError as error:
                return Refused(type(error).__name__, error.code, str(error))
        return Refused("Need", "", "")

    # ------------------------------------------------------------ what was written

    def read(self, produced: Sequence[ProducerRecord]) -> list[Event] | DecodeError:
        """What the target's own decoder finds in what was written; the error if it refuses."""
        found: list[Event] = []
        if not self._has_reader:
            for part in (part for out in produced for part in (out.key, out.value)):
                _is_whole(part, self.setting.target)
            return found
        for out in produced:
            target = out.topic, out.partition
            for blob in out.blobs:
                self._written[blob.name] = blob.data
            record = ConsumerRecord(
                out.topic,
                out.partition,
                self._offsets[target],
                out.timestamp_ms,
                out.key,
                out.value,
                out.headers,
            )
            self._offsets[target] += 1
            for _ in range(_MAX_NEEDS):
                try:
                    found += self.reader.inspect(record)
                    break
                except Need as need:
                    try:
                        self.reader.provide(need, self._answer(need))
                    except ServiceError:
                        break
                except DecodeError as error:
                    return error
                except Exception as error:
                    raise BrokenError(
                        "read back", type(error).__name__, location_of(error), str(error)
                    ) from error
        return found

    def _is_readable(
        self,
        record: ConsumerRecord,
        produced: list[ProducerRecord],
        before: State,
        losses: Counter[Loss],
        *,
        compared: bool,
    ) -> None:
        counted, route = self.reader.losses, f"{self.setting.source} -> {self.setting.target}"
        found = self.read(produced)
        if not self._has_reader or (not compared and not isinstance(found, DecodeError)):
            return
        given = self.inspected(record, before)
        if isinstance(given, Refused):
            self._is_repeatable(record, produced, before, losses)
            raise BrokenError("inspect", "refuses what is translated", route, given.text)
        if self._chosen is not None:
            given, _ = self._chosen.filter(given)
        if isinstance(found, DefinitionMissing) and self._is_undeclared(given):
            return
        if not isinstance(found, DecodeError):
            self._compare(given, found, set(losses) | set(self.reader.losses - counted), produced)
        elif "its checksum is not" in found.reason and self._has_another_checksum(given, set(losses)):
            return
        elif self._knows_other_types(given) and self._is_readable_alone(produced):
            # The source's message contradicts the DDL that the reader has seen: in a target whose messages
            # tell no types, or less of them, the reader cannot know that.
            return
        elif are_sound(given):
            location = f"{self.setting.target} {location_of(found)}"
            raise BrokenError("read back", f"refused: {_general(found.reason)}", location, str(found))

    def _compare(
        self,
        given: Sequence[Event],
        found: Sequence[Event],
        losses: AbstractSet[Loss],
        produced: Sequence[ProducerRecord],
    ) -> None:
        try:
            compare(self._target, given, found, losses)
        except BrokenError as error:
            if error.kind == VALUES_REFUSED and not are_sound(given):
                return
            is_of_types = error.kind == VALUES_REFUSED and self._knows_other_types(given)
            if not is_of_types or not self._is_readable_alone(produced):
                raise

    def _has_another_checksum(self, given: Sequence[Event], losses: AbstractSet[Loss]) -> bool:
        """Whether a reader may find another checksum: the source had other values, or fewer digits of DECIMAL
        than its column has; or no statement tells that a column has moved, or one tells another order than
        the definition beside it.
        """
        rows = [event for event in given if isinstance(event, RowChange)]
        return (
            not VALUES_LOST.isdisjoint(losses)
            or self.setting.target_options.get("ddl") == "drop"
            or any(map(lacks_digits, rows))
            or any(map(self._knows_other_order, rows))
        )

    def _knows_other_order(self, change: RowChange) -> bool:
        """Whether the reader may have a definition of a row's table with its columns in another order."""
        names = [column.name for column in change.schema.columns]
        known = ([column.name for column in each.columns] for each in self._possible(change))
        return any(each != names and sorted(each) == sorted(names) for each in known)

    def _is_undeclared(self, given: Sequence[Event]) -> bool:
        """Return whether the reader lacks the definitions of the rows for a valid reason: none was known that the
        target can represent, it was counted as lost, or it came late, so that the source's later definitions
        were derived again.
        """
        rows = [event for event in given if isinstance(event, RowChange)]
        if not PROTOCOLS[self.setting.target].rows_need_definitions:
            return not any(any(self.reader.catalog.definitions(change.table)) for change in rows)
        return any(map(self._was_never_declared, rows))  # which of them is refused is not known

    def _was_never_declared(self, change: RowChange) -> bool:
        if change.schema not in self.used.catalog.definitions(change.table):
            return False  # it is of the row's own making, and comes with it
        definitions = list(self.reader.catalog.definitions(change.table))
        if not definitions:
            return not _UNDECLARED.isdisjoint(self.used.losses)
        return _content(change.schema) not in map(_content, definitions)

    def _knows_other_types(self, given: Sequence[Event]) -> bool:
        """Whether the reader may have a definition of a row's table with other types than the row was read
        with: it has one, at present or as of this position, or the row's types were inferred from what it says.
        """
        for event in given:
            if not isinstance(event, RowChange):
                continue
            if not event.schema.complete:
                return True
            for known in self._possible(event):
                types = {column.name: _spelling(column.type) for column in known.columns}
                if any(types.get(column.name) != _spelling(column.type) for column in event.schema.columns):
                    return True
        return False

    def _possible(self, change: RowChange) -> Iterator[TableSchema]:
        """The definitions that the reader may take for a row: the newest, and those before it as long as their
        statements are not of an earlier second. CKafka tells no more, and a row and a statement of one second
        may stand in two topics.
        """
        table, second = change.table, change.source.event_time_ns // _SECOND_NS
        tables = self.reader.catalog.histories.get(table.database)
        for version in () if tables is None else tables.get(table.table, ()):
            if version.schema is not None:
                yield version.schema
            if version.at.event_time_ns // _SECOND_NS < second:
                return

    def _is_readable_alone(self, produced: Sequence[ProducerRecord]) -> bool:
        """Whether readers that have seen nothing before read these records, values and all: one of them all
        together, or one of each, as a packet's rows may contradict a statement in it.
        """
        return self._read_anew(produced) or all(self._read_anew([each]) for each in produced)

    def _read_anew(self, produced: Sequence[ProducerRecord]) -> bool:
        reader, offsets = self.reader, self._offsets.copy()
        self.reader = self._new_reader()
        try:
            found = self.read(produced)
        finally:
            self.reader, self._offsets = reader, offsets
        return not isinstance(found, DecodeError) and are_sound(found)

    # ------------------------------------------------------------ sequences

    def mark(self) -> tuple[State, State, Counter[tuple[str, int]]]:
        """What `back` goes back to."""
        return self.used.state, self.reader.state, self._offsets.copy()

    def back(self, mark: tuple[State, State, Counter[tuple[str, int]]]) -> None:
        """Forget what came since then."""
        self.used.restore(mark[0])
        self.reader.restore(mark[1])
        self._offsets = mark[2].copy()
        self._written.clear()

    def outcomes(self, translator: Translator, records: Sequence[ConsumerRecord]) -> list[Outcome]:
        """What a translator makes of records, one after the other."""
        return [self.attempt(translator, translator.translate, record) for record in records]


def _is_whole(part: bytes | None, target: str) -> None:
    """Raise BrokenError for what looks like JSON and is none, or has a member twice: of such readers take one.

    What is in a member may be a document of the source's, as it came.
    """
    if part is None or part[:1] != b"{":
        return
    try:
        # As text: Python takes no number of more than 4300 digits, which readers do.
        members = json.loads(part, object_pairs_hook=tuple, parse_constant=_no_number, parse_int=str)
    except ValueError as error:
        raise BrokenError("read back", "not JSON", target, str(error)) from error
    names = [name for name, _ in members]
    if len(names) != len(set(names)):
        raise BrokenError("read back", "a member twice", target, f"{sorted(names)!r:.300}")


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _content(schema: TableSchema) -> object:
    """What a definition says on the wires on which rows refer to one."""
    shown = table_entry(schema)
    return shown.columns, shown.indexes


def _spelling(column_type: ColumnType) -> tuple[object, ...]:
    """What of a type decides how its values are spelled."""
    of = column_type
    return of.base, of.unsigned, of.length, of.scale, of.members


def same(one: Outcome, other: Outcome, check: str, route: str) -> None:
    """Raise BrokenError if the outcomes differ."""
    if one != other:
        kind, detail = _difference(one, other)
        raise BrokenError(check, kind, route, detail)


def _general(reason: str) -> str:
    """A reason without numbers and names, which differ from record to record."""
    return re.sub(r"`[^`]*`|'[^']*'|\d+", "…", reason)[:100]


def _difference(one: Outcome, other: Outcome) -> tuple[str, str]:
    if isinstance(one, Refused) and isinstance(other, Refused):
        return "another error", f"{_shown(one)} / {_shown(other)}"
    if isinstance(one, Refused) or isinstance(other, Refused):
        return "refused or not", f"{_shown(one)} / {_shown(other)}"
    if len(one) != len(other):
        return "number of records", f"{len(one)} / {len(other)}"
    left, right = next((a, b) for a, b in zip(one, other, strict=True) if a != b)
    part = next(name for name in left.__struct_fields__ if getattr(left, name) != getattr(right, name))
    return f"another {part}", f"{getattr(left, part)!r:.300} / {getattr(right, part)!r:.300}"


def _shown(outcome: Outcome) -> str:
    return (
        f"{outcome.kind} {outcome.text:.200}" if isinstance(outcome, Refused) else f"{len(outcome)} records"
    )


def check_error(error: RelayError) -> None:
    """Raise BrokenError for an error that does not say what it must, or says what it must not."""
    text = str(error)
    if error.code not in _CODES:
        raise BrokenError("error text", "unknown code", location_of(error), error.code)
    if not isinstance(error, CodecError):
        raise BrokenError("exception", type(error).__name__, location_of(error), text)
    if len(text) > MAX_ERROR_TEXT:
        raise BrokenError("error text", "long", location_of(error), f"{len(text)} characters: {text[:200]}")
    if not error.reason or not text.startswith(f"{error.protocol}: {error.path or 'message'}: "):
        raise BrokenError("error text", "without protocol, path or reason", location_of(error), text)
    # In a packet, a changed tag makes a column's name of its value, and paths show names.
    if _SHOWS_CANARY(error.reason if error.protocol == "canal-protobuf" else text):
        raise BrokenError("error text", "shows a value", location_of(error), text)


def resident_bytes() -> int:
    """The memory that this process has now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def peak_bytes() -> int:
    """The most memory that the process had since `reset_peak`."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
