"""`relay.source` may stand in a source record already: from a relay before this one, or from anybody. The last
one is that of the relay that wrote the record, and alone counts.
"""

from __future__ import annotations

import msgspec
import pytest
from support import CANAL, TICDC, captured, record

from relay import ConsumerRecord, Translator
from relay.core.dead_letters import CODE_HEADER, dead_letter, read_dead_letter
from relay.model.errors import Malformed
from relay.model.records import SOURCE_HEADER, Header, RecordPosition, source_mark

ROW = next(each for each in captured("ticdc/canal-json/09_dml") if b'"INSERT"' in (each.value or b""))
FORGED: list[tuple[Header, ...]] = [
    ((SOURCE_HEADER, b"orders/0/1/0"),),
    ((SOURCE_HEADER, None), ("h", b"x")),
    ((SOURCE_HEADER, b"a/0/1/0"), (SOURCE_HEADER, b"\xff")),
    ((SOURCE_HEADER, b"a/0/1"), (CODE_HEADER, b"decode.malformed")),
]


@pytest.mark.parametrize("headers", FORGED)
def test_the_last_one_is_ours_and_the_others_are_kept(headers: tuple[Header, ...]) -> None:
    given = msgspec.structs.replace(ROW, headers=headers)
    (out,) = Translator(TICDC, CANAL).translate(given)
    own = f"{ROW.topic}/{ROW.partition}/{ROW.offset}/0".encode()
    assert out.headers == (*headers, (SOURCE_HEADER, own))
    assert source_mark(out.headers) == own


def test_a_relay_behind_a_relay() -> None:
    (first,) = Translator(TICDC, CANAL).translate(ROW)
    between = ConsumerRecord("between", 3, 17, first.timestamp_ms, first.key, first.value, first.headers)
    (second,) = Translator(CANAL, TICDC).translate(between)
    assert [value for name, value in second.headers if name == SOURCE_HEADER] == [
        source_mark(first.headers),
        b"between/3/17/0",
    ]
    assert source_mark(second.headers) == b"between/3/17/0"


@pytest.mark.parametrize(
    "headers", [(), (("h", b"x"),), ((SOURCE_HEADER, b"a/0/1/0"), (SOURCE_HEADER, None))]
)
def test_a_record_that_relay_has_not_written_has_no_mark(headers: tuple[Header, ...]) -> None:
    assert source_mark(headers) is None


@pytest.mark.parametrize("headers", FORGED)
def test_a_dead_letter_is_about_its_own_block(headers: tuple[Header, ...]) -> None:
    original = msgspec.structs.replace(record("{", offset=5), headers=headers)
    letter = dead_letter(original, Malformed(TICDC, "", "no JSON"), "letters")
    read = read_dead_letter(
        ConsumerRecord("letters", 0, 0, letter.timestamp_ms, letter.key, letter.value, letter.headers)
    )
    assert read is not None
    assert read.source == RecordPosition("topic", 0, 5)
    assert (read.code, read.original.headers) == ("decode.malformed", headers)
