"""Nothing is lost silently: what a reader of the target does not find has been counted.

Captured records go from every protocol to every other one and are read back. Each field of each event that
the reader finds otherwise needs a kind of loss that was counted, or an excuse of `losses_support.EXCUSES`.
A part of the routes is tried here; `RELAY_ALL_ROUTES=1` tries all of them, and then every excuse has a use.
"""

from __future__ import annotations

import os
import zlib
from collections import Counter
from typing import Final

import msgspec
import pytest
from losses_support import EXCUSES, Case, silent_losses
from output_digests import OPTION_SETS
from support import CAPTURED

from relay import CodecError, ConsumerRecord, Translator
from relay.codecs import BUILT_IN
from relay.model import Source

ALL: Final = os.environ.get("RELAY_ALL_ROUTES") == "1"
FILES: Final = [
    file for file in CAPTURED if file.startswith(("ticdc/", "mysql/")) and not file.endswith(".schemas")
]
TARGETS: Final = [name for name, codec in BUILT_IN.items() if codec.is_readable]
#: Of how many routes one is tried, by the set of options.
SHARES: Final = {"default": 5, "full": 12, "reduced": 12}


def cases(target: str) -> list[Case]:
    """The cases of a target that are tried."""
    return [
        Case(file, target, OPTION_SETS[options][1][target])
        for options, share in SHARES.items()
        for file in FILES
        if ALL or zlib.crc32(f"{file} {target} {options}".encode()) % share == 0
    ]


@pytest.mark.parametrize("target", TARGETS)
def test_what_a_reader_does_not_find_was_counted(target: str) -> None:
    found, uses = [], Counter[str]()
    for case in cases(target):
        try:
            found += list(silent_losses(case, uses))
        except CodecError as error:
            pytest.fail(f"{case.name}: relay does not read what it writes: {error}")
    assert not found, (len(found), found[:3])
    USES.update(uses)


#: How often each excuse was used, by its reason.
USES: Final = Counter[str]()


@pytest.mark.skipif(not ALL, reason="only the routes that use all of them, RELAY_ALL_ROUTES=1, can tell")
def test_every_excuse_has_a_use() -> None:
    assert [each.why for each in EXCUSES if not USES[each.why]] == []


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
    wheres = {each.difference.where for each in silent_losses(case, Counter())}
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
    wheres = {each.difference.where for each in silent_losses(case, Counter())}
    assert "after.decimal" in wheres


@pytest.mark.parametrize("target", ["ticdc-simple-json", "ticdc-simple-avro", "ticdc-open-protocol"])
def test_the_id_of_a_physical_partition_is_read_back_or_counted(target: str) -> None:
    found = list(silent_losses(Case("ticdc/open-protocol/10_ddl", target, {}), Counter()))
    assert not found, (len(found), found[:3])
