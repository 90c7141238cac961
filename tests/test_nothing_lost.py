"""Nothing is lost silently: what a reader of the target does not find has been counted.

Captured records go from every protocol to every other one and are read back. Each field of each event that
the reader finds otherwise needs a kind of loss that was counted, or an excuse of `losses_support.EXCUSES`.
A part of the routes is tried here; `make losses` tries all of them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

import msgspec
import pytest
from losses_support import EXCUSES, Case, Excuse, silent_losses, uncounted
from output_digests import OPTION_SETS
from support import ALL_ROUTES, CAPTURED

from relay import CodecError, ConsumerRecord, Translator
from relay.codecs import BUILT_IN
from relay.model.events import Source

FILES: Final = [
    file for file in CAPTURED if file.startswith(("ticdc/", "mysql/")) and not file.endswith(".schemas")
]
TARGETS: Final = [name for name, codec in BUILT_IN.items() if codec.is_readable and codec.is_writable]
#: Of how many routes one is tried, by the set of options.
SHARES: Final = {"default": 8, "full": 18, "reduced": 18}


def case_of(file: str, target: str, options: str) -> Case:
    """The case of a file, a target, and a set of its options."""
    return Case(file, target, OPTION_SETS[options][1][target])


def cases(target: str, options: str) -> Iterator[Case]:
    """The cases of a target with a set of options that are tried."""
    share = 1 if ALL_ROUTES else SHARES[options]
    for file in FILES:
        if zlib.crc32(f"{file} {target} {options}".encode()) % share == 0:
            yield case_of(file, target, options)


@pytest.mark.parametrize("options", SHARES)
@pytest.mark.parametrize("target", TARGETS)
def test_what_a_reader_does_not_find_was_counted(target: str, options: str) -> None:
    found = []
    for case in cases(target, options):
        try:
            found += silent_losses(case)
        except CodecError as error:
            pytest.fail(f"{case.name}: relay does not read what it writes: {error}")
    assert not found, (len(found), found[:3])


@pytest.mark.parametrize("excuse", EXCUSES, ids=lambda excuse: excuse.why)
def test_every_excuse_has_a_use(excuse: Excuse) -> None:
    assert any(each.excuse == excuse.why for each in uncounted(case_of(*excuse.used_by)))


@pytest.mark.parametrize("field", ["gtid", "binlog_position", "thread_id", "event_time_ns"])
def test_a_fact_that_is_lost_without_a_count_is_found(monkeypatch: pytest.MonkeyPatch, field: str) -> None:
    """The reader is given messages of rows that lack a fact, and nobody counts it."""
    case = Case("mysql/debezium/09_dml", "debezium-json", {})
    inspect = Translator.inspect

    def forgetful(translator: Translator, record: ConsumerRecord) -> list[object]:
        events = inspect(translator, record)
        if translator is not case.reader:
            return list(events)
        lost = {field: 1 if field == "event_time_ns" else None}
        return [
            msgspec.structs.replace(event, source=Source(**(msgspec.structs.asdict(event.source) | lost)))
            for event in events
        ]

    monkeypatch.setattr(Translator, "inspect", forgetful)
    wheres = {each.difference.where for each in silent_losses(case)}
    assert f"source.{field}" in wheres


def test_a_column_that_disappears_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case("mysql/canal-json/09_dml", "canal-json", {})
    translate = Translator.translate

    def without(translator: Translator, record: ConsumerRecord) -> list[object]:
        return [
            msgspec.structs.replace(out, value=(out.value or b"").replace(b'"balance"', b'"other"'))
            for out in translate(translator, record)
        ]

    monkeypatch.setattr(Translator, "translate", without)
    wheres = {each.difference.where for each in silent_losses(case)}
    assert "after.decimal" in wheres


@pytest.mark.parametrize("target", ["ticdc-simple-json", "ticdc-simple-avro", "ticdc-open-protocol"])
def test_the_id_of_a_physical_partition_is_read_back_or_counted(target: str) -> None:
    found = silent_losses(Case("ticdc/open-protocol/10_ddl", target, {}))
    assert not found, (len(found), found[:3])
