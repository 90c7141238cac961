"""The verifier must be seen to fail: each kind of defect, in topics that are made up."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import pytest

from chaos.messages import (
    PARTITIONS,
    Content,
    Plan,
    content_of,
    planned,
    translations,
    written,
    written_twice,
)
from chaos.verify import Defect, Fate, Seen, Topics, verify

DDL = Content(-1, 0)
# Partition 0 has the ids 0 and 4, partition 1 has the id 1; nothing is written for None.
SOURCE: list[list[Content | None]] = [
    [DDL, Content(0, 0), Content(4, 0), None, Content(0, 1), Content(4, 1)],
    [DDL, Content(1, 0), Content(1, 1)],
]


def sound() -> Topics:
    target: list[Seen] = []
    expected: dict[str, bytes] = {}
    for partition, contents in enumerate(SOURCE):
        for offset, content in enumerate(contents):
            if content is not None:
                mark = f"s/{partition}/{offset}/0"
                expected[mark] = mark.encode()
                target.append(Seen(partition, len(target), mark, content, expected[mark]))
    ends = {0: 6, 1: 3}
    fates = {(seen.partition, seen.offset): Fate.COMMITTED for seen in target}
    return Topics("s", SOURCE, target, ends, ends, fates, expected, {0: 0, 1: 0})


def at(partition: int, offset: int) -> Callable[[Seen], bool]:
    return lambda seen: seen.mark == f"s/{partition}/{offset}/0"


def without(topics: Topics, which: Callable[[Seen], bool]) -> Topics:
    return dataclasses.replace(topics, target=[seen for seen in topics.target if not which(seen)])


def with_again(
    topics: Topics, which: Callable[[Seen], bool], before: Callable[[Seen], bool] | None = None
) -> Topics:
    """A record once more: behind all others, or right before another one."""
    (again,) = filter(which, topics.target)
    target = list(topics.target)
    at = next(index for index, seen in enumerate(target) if before(seen)) if before else len(target)
    target.insert(at, again._replace(offset=100))
    return dataclasses.replace(topics, target=target)


def changed(topics: Topics, which: Callable[[Seen], bool], **members: Any) -> Topics:
    target = [seen._replace(**members) if which(seen) else seen for seen in topics.target]
    return dataclasses.replace(topics, target=target)


def moved_behind(topics: Topics, which: Callable[[Seen], bool], other: Callable[[Seen], bool]) -> Topics:
    (one,) = filter(which, topics.target)
    target = [seen for seen in topics.target if seen is not one]
    target.insert(next(index for index, seen in enumerate(target) if other(seen)) + 1, one)
    return dataclasses.replace(topics, target=target)


@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_sound_run_has_no_findings(exactly_once: bool) -> None:
    findings = verify(sound(), exactly_once=exactly_once)
    assert not findings.counts
    assert findings.repeats == 0


def test_repeats_are_counted_and_fine_in_at_least_once_only() -> None:
    # A partition's last records once more, in order: what a crash before the commit leaves behind.
    topics = with_again(with_again(sound(), at(0, 4)), at(0, 5))
    findings = verify(topics, exactly_once=False)
    assert (findings.repeats, dict(findings.counts)) == (2, {})
    assert verify(topics, exactly_once=True).counts == {Defect.DUPLICATE: 2}


DEFECTS: dict[str, tuple[Topics, dict[Defect, int]]] = {
    "a row is missing": (without(sound(), at(0, 2)), {Defect.LOST: 1}),
    "the last row is missing": (without(sound(), at(1, 2)), {Defect.LOST: 1}),
    "the DDL is missing": (without(sound(), at(1, 0)), {Defect.LOST: 1}),
    "everything is missing": (without(sound(), lambda _: True), {Defect.LOST: 8}),
    "a record of an aborted transaction is visible": (
        dataclasses.replace(sound(), fates={(0, 1): Fate.ABORTED}),
        {Defect.ABORTED: 1},
    ),
    "a record of an open transaction is visible": (
        dataclasses.replace(sound(), fates={(0, 1): Fate.OPEN}),
        {Defect.ABORTED: 1},
    ),
    "a transaction stays open": (dataclasses.replace(sound(), hidden={0: 0, 1: 7}), {Defect.HIDDEN: 7}),
    "two rows of an id are exchanged": (
        moved_behind(sound(), at(0, 1), at(0, 4)),
        {Defect.DISORDER: 1, Defect.STALE: 1},
    ),
    "two rows come late": (
        moved_behind(moved_behind(sound(), at(0, 1), at(0, 5)), at(0, 2), at(0, 1)),
        {Defect.DISORDER: 2, Defect.STALE: 2},
    ),
    "two rows of different ids are exchanged": (
        moved_behind(sound(), at(0, 1), at(0, 2)),
        {Defect.DISORDER: 1},
    ),
    "a row is in another partition": (changed(sound(), at(0, 5), partition=1), {Defect.DISORDER: 1}),
    "an old row comes late and stays the last of its id": (with_again(sound(), at(1, 1)), {Defect.STALE: 1}),
    "a value is changed": (changed(sound(), at(0, 1), value=b"{}"), {Defect.CHANGED: 1}),
    "a row has the mark of another": (
        changed(sound(), at(0, 1), content=Content(0, 1)),
        {Defect.FOREIGN: 1, Defect.LOST: 1},
    ),
    "a record has no mark": (changed(sound(), at(0, 1), mark=""), {Defect.FOREIGN: 1, Defect.LOST: 1}),
    "a record is no message": (changed(sound(), at(0, 1), content=None), {Defect.FOREIGN: 1, Defect.LOST: 1}),
    "the committed offset is short": (
        dataclasses.replace(sound(), committed={0: 5, 1: 3}),
        {Defect.UNCOMMITTED: 1},
    ),
    "the committed offset is beyond the end": (
        dataclasses.replace(sound(), committed={0: 6, 1: 4}),
        {Defect.UNCOMMITTED: 1},
    ),
    "nothing is committed": (dataclasses.replace(sound(), committed={}), {Defect.UNCOMMITTED: 2}),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_is_found_and_nothing_else(name: str) -> None:
    topics, expected = DEFECTS[name]
    findings = verify(topics, exactly_once=False)
    assert dict(findings.counts) == expected
    assert all(str(defect) in str(findings) for defect in expected)


def test_messages_count_up_per_id_and_are_distinguished_in_both_protocols() -> None:
    plan = planned(random.Random(1), 4_000)
    found = translations("s", plan)
    for partition, values in enumerate(plan.values):
        numbers: dict[int, int] = {}
        for offset, value in enumerate(values):
            content, mark = content_of(value), f"s/{partition}/{offset}/0"
            if content is None:
                assert mark not in found, "Canal has no watermarks"
                continue
            assert content_of(found[mark]) == content
            if content != DDL:
                assert content.key % PARTITIONS == partition
                assert content.number == numbers.get(content.key, -1) + 1
                numbers[content.key] = content.number
        assert max(numbers.values()) > 1
    assert len(found) == sum(content_of(value) is not None for values in plan.values for value in values)


# Brokers forget a producer whose records are old, and then write a repeated request again: the source is what
# it is.
DOUBLED = [[*SOURCE[0][:3], *SOURCE[0]], SOURCE[1]]


def doubled() -> Topics:
    contents = [
        (p, o, content)
        for p, contents in enumerate(DOUBLED)
        for o, content in enumerate(contents)
        if content is not None
    ]
    target = [Seen(p, offset, f"s/{p}/{o}/0", content) for offset, (p, o, content) in enumerate(contents)]
    ends = {0: 9, 1: 3}
    return Topics("s", DOUBLED, target, committed=ends, ends=ends)


@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_request_that_the_source_holds_twice_is_no_defect_of_relay(exactly_once: bool) -> None:
    assert not verify(doubled(), exactly_once=exactly_once).counts
    assert verify(without(doubled(), at(0, 4)), exactly_once=exactly_once).counts == {Defect.LOST: 1}
    late = moved_behind(doubled(), at(0, 1), at(0, 5))
    assert verify(late, exactly_once=exactly_once).counts == {Defect.DISORDER: 1}


def test_a_late_row_equal_to_the_newest_is_recognized_by_its_offset() -> None:
    # Ids 0 and 4 are written at offsets 1 and 2, and once more at 4 and 5: what came first must not come
    # last.
    topics = dataclasses.replace(
        doubled(), source=[DOUBLED[0][:6], DOUBLED[1]], ends={0: 6, 1: 3}, committed={0: 6, 1: 3}
    )
    topics = without(topics, lambda seen: seen.origin in {(0, 7), (0, 8)})
    assert not verify(topics, exactly_once=False).counts
    assert verify(with_again(topics, at(0, 2)), exactly_once=False).counts == {Defect.STALE: 1}


def test_requests_that_the_source_holds_twice_are_counted() -> None:
    plan = planned(random.Random(1), 40)
    first, *others = (list(values) for values in plan.values)
    assert written_twice(plan, [first, *others]) == 0
    assert written_twice(plan, [[*first[:3], *first], *others]) == 3
    assert (
        written_twice(plan, [[*first[:6], *first[4:6], *first[4:6], *first[6:], *first[-1:]], *others]) == 5
    )
    rows = sum(content_of(value) is not None for values in plan.values for value in values)
    again = translations("s", Plan([[*first[:3], *first], *others]))
    assert len(again) == rows + 3, "relay writes a row, and the DDL, as often as the source holds it"


@pytest.mark.parametrize(
    "damage",
    [
        lambda values: [values[1], values[0], *values[2:]],
        lambda values: values[:-1],
        lambda values: values[1:],
        lambda values: [*values[:4], *values[5:]],
        lambda values: [*values, b"{}"],
        lambda values: [*values, values[3]],
        lambda values: [*values[:6], values[2], *values[6:]],
        lambda values: [*values, *reversed(values)],
    ],
)
def test_a_source_that_is_not_as_planned_is_refused(damage: Callable[[list[bytes]], list[bytes]]) -> None:
    plan = planned(random.Random(1), 40)
    first, *others = (list(values) for values in plan.values)
    with pytest.raises(ValueError, match="partition 0"):
        written_twice(plan, [damage(first), *others])


@pytest.mark.parametrize(
    "value",
    [None, b"null", b"[]", b"{}", b'{"data": null}', b'{"data": []}', b'{"data": [{"id": "1"}]}', b"{"],
)
def test_what_is_no_message_is_refused(value: bytes | None) -> None:
    with pytest.raises(ValueError, match=r".+"):
        content_of(value)


def test_tables_have_topics_with_their_rows_and_their_ddl() -> None:
    plan = planned(random.Random(1), 4_000, tables=5)
    found = written("s", plan, "{topic}.{table}")
    for mark, out in found.items():
        key, content = int(out.topic.rpartition("_")[2]), content_of(out.value)
        assert content is not None
        table = -1 - content.key if content.key < 0 else content.key // PARTITIONS % 5
        assert (out.topic, mark.rsplit("/", 1)[1]) == (f"s.accounts_{key}", "0")
        assert key == table
    changes = [content_of(out.value) for out in found.values()]
    assert len({each for each in changes if each is not None and each.key < 0}) > 5
    assert len({out.topic for out in found.values()}) == 5
