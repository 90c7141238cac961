"""The judge of a run: compares what the target holds with what the source holds. It reads no Kafka and knows
nothing of relay.

A record of the target is known by its content (an id and its running number) and by its mark, the header
`relay.source`; both must agree with the source. Whether a transaction was committed is taken from the
broker's log (`chaos.segments`), not from a client.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from chaos.messages import Content

EXAMPLES = 3


class Fate(StrEnum):
    """What became of the transaction that wrote a record."""

    PLAIN = "no transaction"
    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "still open"


class Seen(NamedTuple):
    """A record that a reader got from the target. `content` is None if it is no message of the table."""

    partition: int
    offset: int
    mark: str
    content: Content | None
    value: bytes = b""

    @property
    def origin(self) -> tuple[int, int]:
        """Partition and offset of the source, by its mark. Raises ValueError if that is no mark."""
        _, partition, offset, _ = self.mark.rsplit("/", 3)
        return int(partition), int(offset)


class Defect(StrEnum):
    """What can be wrong with a run."""

    LOST = "lost"
    DUPLICATE = "duplicate"
    ABORTED = "aborted visible"
    DISORDER = "disorder"
    STALE = "stale at the end"
    FOREIGN = "foreign"
    CHANGED = "changed"
    HIDDEN = "hidden"
    UNCOMMITTED = "offset"


@dataclass(frozen=True)
class Topics:
    """What a run has left behind.

    `source`: what is expected of every offset, by partition (None: nothing is written for it). `target`: what
    a read_committed reader got, in the order of offsets. `fates`: by partition and offset. `expected`: the
    translated bytes, by mark. `committed`, `ends`: the group's offsets and the ends of the source, by
    partition. `hidden`: how many records at the end of each target partition a read_committed reader does not
    get to see, because a transaction is open.
    """

    name: str
    source: Sequence[Sequence[Content | None]]
    target: Sequence[Seen]
    committed: Mapping[int, int]
    ends: Mapping[int, int]
    fates: Mapping[tuple[int, int], Fate] = field(default_factory=dict)
    expected: Mapping[str, bytes] | None = None
    hidden: Mapping[int, int] = field(default_factory=dict)


class Findings:
    """Counts of defects, with a few examples of each; `repeats`: records that the target holds once more."""

    def __init__(self) -> None:
        self.counts: Counter[Defect] = Counter()
        self.examples: defaultdict[Defect, list[str]] = defaultdict(list)
        self.repeats = 0

    def add(self, defect: Defect, example: str, count: int = 1) -> None:
        """Note a defect."""
        self.counts[defect] += count
        if len(self.examples[defect]) < EXAMPLES:
            self.examples[defect].append(example)

    def take(self, others: Findings) -> None:
        """Take over what was found elsewhere."""
        for defect, count in others.counts.items():
            self.add(defect, others.examples[defect][0], count)
        self.repeats += others.repeats

    def __str__(self) -> str:
        return "; ".join(
            f"{count} {defect} ({', '.join(self.examples[defect])})" for defect, count in self.counts.items()
        )


def verify(topics: Topics, *, exactly_once: bool) -> Findings:
    """Find everything that is wrong; repeats are wrong in exactly-once only."""
    findings = Findings()
    marks = {
        f"{topics.name}/{partition}/{offset}/0": content
        for partition, contents in enumerate(topics.source)
        for offset, content in enumerate(contents)
        if content is not None
    }
    known = [seen for seen in topics.target if _is_known(seen, marks, findings)]
    _check_bytes(known, topics.expected, findings)
    _check_complete(known, marks, findings)
    findings.repeats = len(known) - len({seen.mark for seen in known})
    if exactly_once:
        _check_once(known, findings)
    _check_fates(topics, findings)
    _check_order(known, findings)
    _check_last(known, findings)
    _check_offsets(topics, findings)
    return findings


def _is_known(seen: Seen, marks: Mapping[str, Content], findings: Findings) -> bool:
    """Whether the source has a record with this mark and this content, and the partition is its own."""
    expected = marks.get(seen.mark)
    if expected is None or expected != seen.content:
        findings.add(
            Defect.FOREIGN,
            f"{_position(seen)} has mark {seen.mark!r} and {_words(seen.content)}, not {_words(expected)}",
        )
        return False
    if seen.origin[0] != seen.partition:
        findings.add(Defect.DISORDER, f"{_position(seen)} comes from {seen.mark}")
    return True


def _check_bytes(known: Sequence[Seen], expected: Mapping[str, bytes] | None, findings: Findings) -> None:
    for seen in known:
        if expected is not None and seen.value != expected.get(seen.mark):
            findings.add(Defect.CHANGED, f"{_position(seen)}, {seen.mark}")


def _check_complete(known: Sequence[Seen], marks: Mapping[str, Content], findings: Findings) -> None:
    found = {seen.mark for seen in known}
    for mark in marks:
        if mark not in found:
            findings.add(Defect.LOST, mark)


def _check_once(known: Sequence[Seen], findings: Findings) -> None:
    first: dict[str, Seen] = {}
    for seen in known:
        before = first.setdefault(seen.mark, seen)
        if before is not seen:
            findings.add(Defect.DUPLICATE, f"{seen.mark} at {_position(before)} and {_position(seen)}")


def _check_fates(topics: Topics, findings: Findings) -> None:
    """No reader with read_committed may get a record that the broker's log does not call committed."""
    for seen in topics.target:
        fate = topics.fates.get((seen.partition, seen.offset), Fate.PLAIN)
        if fate in {Fate.ABORTED, Fate.OPEN}:
            findings.add(Defect.ABORTED, f"{_position(seen)} is {fate}")
    for partition, count in topics.hidden.items():
        if count:
            findings.add(Defect.HIDDEN, f"partition {partition}", count)


def _check_order(known: Sequence[Seen], findings: Findings) -> None:
    """The first appearances of a source partition's records follow their offsets, and so do those of an id,
    which lives in one.
    """
    met: set[str] = set()
    newest: dict[int, int] = {}
    for seen in known:
        if seen.mark in met:
            continue
        met.add(seen.mark)
        partition, offset = seen.origin
        if offset <= newest.get(partition, -1):
            findings.add(
                Defect.DISORDER, f"{seen.mark} at {_position(seen)} is behind offset {newest[partition]}"
            )
        newest[partition] = max(offset, newest.get(partition, -1))


def _check_last(known: Sequence[Seen], findings: Findings) -> None:
    """Whoever keeps the last record of every id must end with the newest: a late write of a former owner
    would undo it.
    """
    last: dict[tuple[int, int], Seen] = {}
    newest: dict[tuple[int, int], int] = {}
    for seen in known:
        if seen.content is not None:
            partition, offset = seen.origin
            key = partition, seen.content.key
            last[key] = seen
            newest[key] = max(offset, newest.get(key, -1))
    for key, seen in last.items():
        if seen.origin[1] < newest[key]:
            findings.add(
                Defect.STALE,
                f"{_words(seen.content)} of {seen.mark} at {_position(seen)} is behind offset {newest[key]}",
            )


def _check_offsets(topics: Topics, findings: Findings) -> None:
    for partition, end in topics.ends.items():
        committed = topics.committed.get(partition)
        if committed != end:
            findings.add(Defect.UNCOMMITTED, f"partition {partition} ends at {end}, committed is {committed}")


def _position(seen: Seen) -> str:
    return f"target {seen.partition}/{seen.offset}"


def _words(content: Content | None) -> str:
    if content is None:
        return "nothing"
    return f"id {content.key} number {content.number}" if content.key >= 0 else "the DDL"
