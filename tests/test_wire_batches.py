"""Record batches: parsed and written by the native kernel as aiokafka does; damaged ones are refused."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from typing import Any

import cramjam
import pytest
from aiokafka import codec
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch, _DefaultRecordBatchBuilderPy
from aiokafka.record.util import calc_crc32c
from engine_support import needs_kernel
from hypothesis import given
from hypothesis import strategies as st
from wire_support import HEADER_BYTES, batch_types, encoded, parsed, records_of

from relay import ConsumerRecord
from relay.io.kafka.unpacking import Unpacker
from relay.model.errors import TopicUnusable
from relay.model.records import Header

TIMES = st.integers(-1, 2**50)
HEADERS = st.lists(st.tuples(st.text(max_size=20), st.none() | st.binary(max_size=20)), max_size=3).map(tuple)
PARTS = st.none() | st.binary(max_size=200)
RECORDS = st.lists(st.tuples(TIMES, PARTS, PARTS, HEADERS), min_size=1, max_size=20)
#: Mutated batches of a seed.
MUTATIONS = 20_000
CODECS: dict[int, Callable[[bytes], bytes]] = {
    1: codec.gzip_encode,
    2: codec.snappy_encode,
    3: codec.lz4_encode,
    4: codec.zstd_encode,
}

pytestmark = needs_kernel


def source(offset: int, time_ms: int, key: bytes | None, value: bytes | None, headers: Any) -> ConsumerRecord:
    return ConsumerRecord("", 0, offset, time_ms, key, value, headers)


@given(RECORDS, st.integers(0, 2**40))
def test_parsed_records_have_all_that_was_sent(rows: list[Any], base: int) -> None:
    if rows[0][0] == -1:  # aiokafka would give it the first time that is known
        rows = [(-1, *others) for _, *others in rows]
    records = [source(base + 3 * at, *row) for at, row in enumerate(rows)]
    batch = parsed(encoded(records, base))
    assert records_of(batch) == records
    assert [batch.offset_of(at) for at in range(len(batch))] == [record.offset for record in records]
    sizes = [len(record.key or b"") + len(record.value or b"") for record in records]
    for first, end in ((0, len(rows)), (0, 1), (len(rows) // 2, len(rows))):
        assert batch.size_bytes(first, end) == sum(sizes[first:end])
        newest = max((record.timestamp_ms for record in records[first:end]), default=None)
        assert batch.newest_ms(first, end) == newest


def test_records_before_the_position_are_left_out() -> None:
    records = [source(at, at, None, b"%d" % at, ()) for at in (5, 7, 8)]
    for begin in (0, 5, 6, 8, 9):
        batch = parsed(encoded(records, 5), begin)
        assert records_of(batch) == [record for record in records if record.offset >= begin]
    with pytest.raises(IndexError):
        batch.offset_of(0)


def test_the_time_of_appending_is_that_of_all_records() -> None:
    data = bytearray(encoded([source(at, 10 * at, None, b"v", ()) for at in range(3)]))
    data[22] |= 0x08  # the type of times
    assert [record.timestamp_ms for record in records_of(parsed(bytes(data)))] == [20, 20, 20]


def test_names_of_headers_that_are_not_utf_8_have_replacements() -> None:
    for name in (b"\xff\xfe", b"a\xf0\x9f\x98b", b"\xe2\x82", b"\xed\xa0\x80"):
        data = encoded([source(0, 0, None, b"v", (("Q" * len(name), b"1"),))])
        (record,) = records_of(parsed(data.replace(b"Q" * len(name), name)))
        assert record.headers == ((name.decode(errors="replace"), b"1"),)


@given(RECORDS, st.integers(61, 1_000), st.booleans())
def test_written_batches_are_those_of_aiokafka(
    rows: list[Any], most_bytes: int, is_transactional: bool
) -> None:
    target = batch_types().target(most_bytes, False)
    # The compiled one takes a few bytes less where headers are null or not ASCII.
    theirs = _DefaultRecordBatchBuilderPy(2, 0, is_transactional, 5, 6, 7, most_bytes)
    is_untimed = rows[0][0] == -1
    for time_ms, key, value, headers in rows:
        if is_untimed and time_ms != -1:
            assert not target.append(time_ms, key, value, headers)
            continue
        taken = theirs.append(len(target), time_ms, key, value, list(headers)) is not None
        assert target.append(time_ms, key, value, headers) == taken
        assert target.size == theirs.size()
    assert target.build(0x10 if is_transactional else 0, None, 5, 6, 7) == bytes(theirs.build())


def test_a_batch_for_a_compacted_topic_takes_records_with_keys_and_a_first_one_without() -> None:
    header: tuple[Header, ...] = ()
    target = batch_types().target(1_000, True)
    found = [target.append(0, key, b"v", header) for key in (None, None, b"k", None, b"")]
    assert (found, len(target)) == ([True, False, True, False, True], 3)


def theirs(data: bytes) -> list[ConsumerRecord] | None:
    """What aiokafka makes of a batch; None if it refuses it."""
    try:
        return [
            source(each.offset, each.timestamp, each.key, each.value, tuple(each.headers))
            for each in DefaultRecordBatch(data)
        ]
    except (CorruptRecordException, UnicodeDecodeError, ValueError, IndexError):
        return None


def ours(data: bytes) -> list[ConsumerRecord] | None:
    try:
        return records_of(parsed(data, -(1 << 63)))
    except ValueError:
        return None


def test_mutated_batches_are_refused_or_read_as_aiokafka_reads_them() -> None:
    rng = random.Random(7)
    headers: tuple[Header, ...] = (("h", b"1"), ("n", None))
    base = encoded([source(at, at, b"k%d" % at, b"v" * at, headers[: at % 3]) for at in range(20)])
    refused = 0
    for _ in range(MUTATIONS):
        data = bytearray(base)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(HEADER_BYTES - 4, len(data))
            data[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, data[at] ^ 1, rng.randrange(256)])
        if rng.random() < 0.3:
            del data[rng.randrange(HEADER_BYTES, len(data)) :]
        found, expected = ours(bytes(data)), theirs(bytes(data))
        refused += found is None
        if expected is not None:
            assert found == expected
        elif found is not None:
            # aiokafka refuses names that are not UTF-8.
            assert any("\ufffd" in name for record in found for name, _ in record.headers)
    assert 0 < refused < MUTATIONS


def test_a_number_of_records_beyond_the_bytes_takes_no_memory() -> None:
    types = batch_types()
    with pytest.raises(ValueError, match="damaged"):
        types.source(b"\x00" * 100, 0, 100, 2**31 - 1, 0, 0, False, 0)
    with pytest.raises(ValueError, match="damaged"):
        types.source(b"", 5, 10, 1, 0, 0, False, 0)
    assert len(types.source(b"", 0, 0, -1, 0, 0, False, 0)) == 0


def test_a_wrong_checksum_is_seen() -> None:
    data = encoded([source(0, 0, None, b"value", ())])
    assert calc_crc32c(data[21:]) == int.from_bytes(data[17:21], "big")
    for at in range(17, len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1
        assert not batch_types().source.is_intact(bytes(damaged), 0, len(data))
    assert batch_types().source.is_intact(b"xx" + data + b"y", 2, 2 + len(data))
    assert not batch_types().source.is_intact(data[:20], 0, 20)


# ------------------------------------------------------------ decompression

TEXT = b"some text " * 1_000


@pytest.mark.parametrize("number", CODECS)
def test_records_are_decompressed(number: int) -> None:
    unpacker = Unpacker(len(TEXT))
    for _ in range(2):
        assert unpacker.unpack(number, CODECS[number](TEXT), "t/0") == TEXT
    assert unpacker.unpack(number, CODECS[number](b""), "t/0") == b""


def test_snappy_without_blocks_is_decompressed() -> None:
    assert Unpacker().unpack(2, bytes(cramjam.snappy.compress_raw(TEXT)), "t/0") == TEXT


def test_gzip_of_several_members_is_decompressed() -> None:
    assert Unpacker().unpack(1, gzip.compress(b"a") + gzip.compress(b"b"), "t/0") == b"ab"


@pytest.mark.parametrize("number", CODECS)
def test_a_batch_that_decompresses_to_too_many_bytes_is_refused(number: int) -> None:
    with pytest.raises(TopicUnusable, match=r"t/0 at offset 7: .* decompresses to more than the 9999 bytes"):
        Unpacker(len(TEXT) - 1).unpack(number, CODECS[number](TEXT), "t/0 at offset 7")


@pytest.mark.parametrize("number", CODECS)
def test_larger_buffers_are_found(number: int) -> None:
    text = bytes(5_000_000)
    assert Unpacker(10_000_000).unpack(number, CODECS[number](text), "t/0") == text


@pytest.mark.parametrize("number", [*CODECS, 5])
def test_damaged_text_is_a_corrupt_record(number: int) -> None:
    packed = CODECS.get(number, bytes)(TEXT)
    for damaged in (packed[: len(packed) // 2], b"\x01\x02\x03" + packed, b"x"):
        with pytest.raises(CorruptRecordException):
            Unpacker().unpack(number, damaged, "t/0")
