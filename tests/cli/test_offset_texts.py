"""Texts of `relay offsets`, and the partitions and positions that its options name."""

from __future__ import annotations

from pathlib import Path

import pytest
from config_support import MINIMAL, load

from relay.cli.offset_texts import change_object, effect_text, offsets_object, state_text
from relay.cli.source_positions import parse_partition, parse_position
from relay.io.kafka.ports import Partition
from relay.io.kafka.positions import was_added
from relay.model.errors import ConfigError
from relay.model.records import RecordPosition
from relay.service.commands.offset_changes import OffsetChange, PartitionOffsets

ORDERS = Partition("orders", 3)
REFUSES = "relay refuses to start (service.records-gone): seek --to-earliest "
RECREATED = "the committed offset 11 is above the end 10: the topic was recreated"


def offsets(committed: int | None, start: int | None = None, why_unknown: str = "") -> PartitionOffsets:
    return PartitionOffsets(
        partition=ORDERS,
        committed=committed,
        start=start,
        log_start=5,
        log_end=10,
        why_unknown=why_unknown,
    )


@pytest.mark.parametrize(
    ("current", "next_offset", "lag", "state"),
    [
        (offsets(7), 7, 3, ""),
        (offsets(10), 10, 0, ""),
        (offsets(None, start=5), 5, 5, "no committed offset"),
        (offsets(None, why_unknown="why"), None, None, "no committed offset"),
        (
            offsets(4),
            None,
            5,
            "offset 4 was deleted by retention before relay read it; " + REFUSES + "accepts the gap",
        ),
        (
            offsets(11),
            None,
            None,
            RECREATED + "; " + REFUSES + "begins with the new topic",
        ),
    ],
    ids=["usual", "at-the-end", "start", "no-start", "deleted", "recreated"],
)
def test_the_state_of_a_partition(
    current: PartitionOffsets, next_offset: int | None, lag: int | None, state: str
) -> None:
    found = offsets_object(current, shards=2)
    assert (found["next"], found["lag"], found["shard"]) == (next_offset, lag, 1)
    assert state_text(current) == state


@pytest.mark.parametrize(
    ("current", "effect"),
    [
        (offsets(7), "no change"),
        (offsets(9), "repeats at most 2 records, offsets 7 to 8"),
        (offsets(6), "skips at most 1 record, offset 6"),
        (
            offsets(2),
            "skips at most 2 records, offsets 5 to 6; passes over offsets 2 to 4, deleted by retention",
        ),
        (offsets(None, start=8), "also reads at most 1 record, offset 7"),
        (offsets(None, start=7), "stores the offset at which relay would start anyway"),
        (offsets(None, why_unknown="start_offsets is wrong"), "unknown: start_offsets is wrong"),
        (offsets(11), "unknown: " + RECREATED),
    ],
    ids=["none", "repeats", "skips", "deleted", "added", "same", "no-start", "recreated"],
)
def test_the_effect_of_a_change(current: PartitionOffsets, effect: str) -> None:
    change = OffsetChange(current=current, to=7)
    assert effect_text(change, None) == effect
    assert change_object(change, None)["effect_known"] is not effect.startswith("unknown")


def test_partitions_are_added_behind_those_of_the_group() -> None:
    committed = [Partition("orders", 1), Partition("other", 0)]
    assert was_added(Partition("orders", 2), committed)
    assert not was_added(Partition("orders", 0), committed)
    assert not was_added(Partition("third", 7), committed)


def test_the_topic_is_optional_if_there_is_one(tmp_path: Path) -> None:
    config = load(tmp_path, MINIMAL)
    for text in ("3", "orders/3"):
        assert parse_partition(text, config, "--partition") == ORDERS
    for text in ("3/4711", "orders/3/4711"):
        assert parse_position(text, config, "--to-offset") == RecordPosition("orders", 3, 4711)
    for text in ("", "/3", "-3", "3/4/5/6", "other/3", "orders/x"):
        with pytest.raises(ConfigError, match="--partition"):
            parse_partition(text, config, "--partition")


def test_the_topic_is_required_if_there_are_several(tmp_path: Path) -> None:
    config = load(tmp_path, MINIMAL.replace('["orders"]', '["orders", "other"]'))
    assert parse_partition("other/3", config, "--partition") == Partition("other", 3)
    with pytest.raises(ConfigError, match="lacks the topic"):
        parse_partition("3", config, "--partition")
    with pytest.raises(ConfigError, match="lacks the topic"):
        parse_position("3/4711", config, "--to-offset")
