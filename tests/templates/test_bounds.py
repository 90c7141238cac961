"""Numbers at the bounds of what a message may have mean the same with templates and without."""

from __future__ import annotations

import re
from typing import Final

import msgspec
import pytest
from reference_engine import Interpreter
from support import CAPTURED, captured, protocol_of

from relay import CodecError, ConsumerRecord, ProducerRecord, Translator
from relay.model.records import TIME_END_MS
from relay.mysql import numbers

NUMBERS: Final = (
    *(
        0,
        1,
        -1,
        999,
        1000,
        253_402_300_799_999,
        253_402_300_800_000,
        -62_135_596_800_000,
        -62_135_596_800_001,
    ),
    *(TIME_END_MS - 1, TIME_END_MS, -TIME_END_MS, -TIME_END_MS - 1),
    *((1 << 63) // 1_000_000, (1 << 63) // 1_000_000 + 1, -(1 << 63) // 1_000_000),
    *((1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64, -(1 << 63), -(1 << 63) - 1),
)
FILE: Final = "ticdc/canal-json.tidb-extension/12_bulk"


def outcome(translator: Translator, record: ConsumerRecord) -> list[ProducerRecord] | str:
    try:
        return translator.translate(record)
    except CodecError as error:
        return repr(error)


@pytest.mark.parametrize("member", [b'"es":', b'"ts":', b'"commitTs":'])
@pytest.mark.parametrize(
    "target",
    ["canal-json", "ckafka-json", "debezium-json", "flat-json", "ticdc-debezium", "ticdc-open-protocol"],
)
def test_numbers_at_the_bounds(target: str, member: bytes) -> None:
    (file,) = [file for file in CAPTURED if file.startswith(FILE)]
    records = captured(file)[:80]
    plain, templated = (
        Translator(protocol_of(file), target, engine=engine) for engine in (None, Interpreter)
    )
    for translator in (plain, templated, plain, templated):
        for record in records:
            outcome(translator, record)
    assert templated.paths["fast"] > 20
    row = records[-1]
    for number in NUMBERS:
        value = re.sub(member + rb"\d+", member + b"%d" % number, row.value or b"")
        changed = msgspec.structs.replace(row, value=value)
        assert outcome(templated, changed) == outcome(plain, changed), number
    assert templated.losses == plain.losses
    assert templated.events == plain.events


@pytest.mark.parametrize(
    "text", ["01", "-01.50", "0", "-0", "0.00", "00.10", "10.10", "1E-7", "0.0000000001"]
)
def test_what_only_checks_a_decimal_gives_what_reading_and_writing_it_gives(text: str) -> None:
    assert numbers.checked_decimal(text) == numbers.decimal_text(numbers.read_decimal(text))
