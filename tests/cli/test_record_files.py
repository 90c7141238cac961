"""Record files: exact to the byte both ways, and clear about what is wrong."""

from __future__ import annotations

import base64
import contextlib
import errno
import io
import json
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.cli.files import LineFormat
from relay.cli.record_files import RecordReader, RecordWriter
from relay.io.record_lines import format_record
from relay.model.errors import Malformed, ServiceError
from relay.model.records import ConsumerRecord, ProducerRecord

_BYTES = st.none() | st.binary() | st.text().map(str.encode)
_HEADERS = st.lists(st.tuples(st.text(), _BYTES), max_size=3).map(tuple)
_RECORDS = st.builds(
    ConsumerRecord,
    topic=st.text(),
    partition=st.integers(0, 2**31 - 1),
    offset=st.integers(0, 2**63 - 1),
    timestamp_ms=st.integers(-1, 2**63 - 1),
    key=_BYTES,
    value=_BYTES,
    headers=_HEADERS,
)


def read(data: bytes, input_format: LineFormat = LineFormat.AUTO) -> list[ConsumerRecord]:
    return list(RecordReader(io.BytesIO(data), "in.jsonl", input_format))


@given(st.lists(_RECORDS, min_size=1))
def test_round_trip_of_any_records(records: list[ConsumerRecord]) -> None:
    data = b"".join(format_record(record, record.offset) for record in records)
    assert data.count(b"\n") == len(records)
    assert read(data) == records


@given(st.binary())
def test_bytes_are_text_exactly_where_they_are_utf8(value: bytes) -> None:
    line = json.loads(format_record(ProducerRecord("t", 0, 0, None, value), 0))
    try:
        assert line["value"] == value.decode()
    except UnicodeDecodeError:
        assert line["value"] == {"base64": base64.b64encode(value).decode()}


@given(st.binary())
def test_any_input_is_read_or_refused_as_malformed(data: bytes) -> None:
    for input_format in LineFormat:
        with contextlib.suppress(Malformed):
            read(data, input_format)


def test_members_of_a_line() -> None:
    headers = b'"headers":[["h",null],["h",{"base64":"/w=="}]]'
    line = (
        b'{"kind":"row","topic":"a","partition":3,"offset":7,"timestamp":9,%b,"key":{"base64":"/w=="},"value":"v"}\n'
        % headers
    )
    assert read(line) == [ConsumerRecord("a", 3, 7, 9, b"\xff", b"v", (("h", None), ("h", b"\xff")))]


def test_left_out_members_have_defaults_and_offsets_are_counted() -> None:
    data = b'{"partition":0,"value":null}\n{"partition":0,"value":"b","headers":null}\n{"partition":1,"value":"c"}\n'
    assert read(data) == [
        ConsumerRecord("stdin", 0, 0, 0, None, None),
        ConsumerRecord("stdin", 0, 1, 0, None, b"b"),
        ConsumerRecord("stdin", 1, 0, 0, None, b"c"),
    ]


def test_values_one_a_line() -> None:
    data = b'\xef\xbb\xbf{"value":1}\r\n\n  \n{"partition":0}\n\xff'
    found = read(data)
    assert [
        (record.topic, record.partition, record.offset, record.timestamp_ms, record.key) for record in found
    ] == [
        ("stdin", 0, 0, 0, None),
        ("stdin", 0, 1, 0, None),
        ("stdin", 0, 2, 0, None),
    ]
    assert [record.value for record in found] == [b'{"value":1}', b'{"partition":0}', b"\xff"]


def test_the_first_line_decides_and_the_option_overrides() -> None:
    record = b'{"partition":0,"value":"v"}'
    assert [found.value for found in read(record + b"\n")] == [b"v"]
    assert [found.value for found in read(b"x\n" + record)] == [b"x", record]
    assert [found.value for found in read(record, LineFormat.VALUES)] == [record]
    with pytest.raises(Malformed, match="not valid JSON"):
        read(b"x", LineFormat.RECORDS)


def test_the_reader_tells_line_and_bytes() -> None:
    reader = RecordReader(io.BytesIO(b"a\n\nb\n"), "in")
    assert [(reader.line, reader.bytes_read) for _ in reader] == [(1, 2), (3, 5)]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "not valid JSON: "),
        (b"[1]", "Expected `object`, got `array`"),
        (b'{"partition":0}', "missing required field `value`"),
        (b'{"value":""}', "missing required field `partition`"),
        (b'{"partition":"0","value":""}', "Expected `int`, got `str` - at `$.partition`"),
        (b'{"partition":-1,"value":""}', ">= 0 - at `$.partition`"),
        (b'{"partition":0,"value":{"base64":"?"}}', "Invalid base64"),
        (b'{"partition":0,"value":{"hex":"00"}}', "unknown field `hex`"),
        (b'{"partition":0,"value":1}', "got `int` - at `$.value`"),
        (b'{"partition":0,"value":"\\ud800"}', "surrogate"),
        (b'{"partition":0,"value":"\xff"}', "not valid UTF-8"),
        (b'{"partition":0,"value":"\xed\xa0\x80"}', "not valid UTF-8"),
        (b'{"partition":0,"value":"","headers":[["h"]]}', "at `$.headers[0]`"),
        (b'{"partition":0,"value":"","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
    ],
)
def test_a_malformed_line_is_named_with_its_reason(line: bytes, reason: str) -> None:
    good = b'{"partition":0,"value":"secret"}\n'
    with pytest.raises(Malformed) as caught:
        read(good + line + b"\n")
    assert str(caught.value).startswith("record file: in.jsonl line 2: ")
    assert reason in str(caught.value)
    assert "secret" not in str(caught.value)
    assert caught.value.exit_status == 2


def test_offsets_are_counted_per_topic_and_partition() -> None:
    raw = io.BytesIO()
    writer = RecordWriter(raw, "out")
    for topic, partition in (("a", 0), ("a", 0), ("a", 1), ("b", 0), ("a", 0)):
        writer.write(ProducerRecord(topic, partition, 4, None, b"v", (("h", b"w"),)))
    assert raw.getvalue() == b""
    writer.flush()
    written = [json.loads(line) for line in raw.getvalue().splitlines()]
    assert [(line["topic"], line["partition"], line["offset"]) for line in written] == [
        ("a", 0, 0),
        ("a", 0, 1),
        ("a", 1, 0),
        ("b", 0, 0),
        ("a", 0, 2),
    ]
    expected = {
        "topic": "a",
        "partition": 0,
        "offset": 0,
        "timestamp": 4,
        "headers": [["h", "w"]],
        "key": None,
        "value": "v",
    }
    assert list(written[0].items()) == list(expected.items())
    assert writer.records == 5


def test_a_live_writer_does_not_wait() -> None:
    raw = io.BytesIO()
    writer = RecordWriter(raw, "out", live=True)
    writer.write_original(ConsumerRecord("t", 0, 42, 0, None, b"v", (("a", None),)), (("b", b"c"),))
    line = json.loads(raw.getvalue())
    assert line["offset"] == 42
    assert line["headers"] == [["a", None], ["b", "c"]]


class FullDisk(io.BytesIO):
    """A file that accepts a few bytes per write and is full after `capacity` bytes."""

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity = capacity

    def write(self, data: Any) -> int:
        if self.tell() >= self.capacity:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(bytes(data)[: min(7, self.capacity - self.tell())])


def test_a_full_disk_leaves_whole_lines_and_is_the_fault_of_the_environment() -> None:
    line = format_record(ProducerRecord("t", 0, 0, None, b"v"), 0)
    raw = FullDisk(2 * len(line) + 10)
    writer = RecordWriter(cast("Any", raw), "out.jsonl")
    for _ in range(3):
        writer.write(ProducerRecord("t", 0, 0, None, b"v"))
    with pytest.raises(ServiceError, match=r"cannot write out\.jsonl: No space left on device") as caught:
        writer.flush()
    assert caught.value.exit_status == 3
    assert len(raw.getvalue().splitlines()) == 2
    assert raw.getvalue().endswith(b"\n")
