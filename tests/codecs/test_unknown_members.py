"""Members that a protocol does not define, in every object of every protocol's messages, are in the events, so
that targets count them and `strict` refuses them.

Messages are those of real producers and those that the codec itself writes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec
import pytest
from golden.messages import rows_of
from support import CAPTURED, captured, protocol_of, reading_options
from unknown_support import FIXED, Member, is_unknown, with_unknown_members

from relay import ConsumerRecord, DecodeError, Event, Loss, RowChange, SchemaChange
from relay.codecs import PROTOCOLS
from relay.codecs.maxwell.messages import camel_case
from relay.testing.contract import source_with
from relay.testing.wires import CREATED, OTHERS, Wire, insert, messages

READABLE = [name for name, codec in PROTOCOLS.items() if codec.is_readable and name not in FIXED]
LAST = [pytest.param(name, Member(), id=name) for name in READABLE]
#: Fields of Protocol Buffers and of Avro have a place of their own.
FIRST = [
    pytest.param(name, Member(b"null", is_first=True), id=f"{name}-first")
    for name in READABLE
    if name != "canal-protobuf" and not PROTOCOLS[name].uses_registry
]
WRITABLE = [name for name, codec in PROTOCOLS.items() if codec.encoder is not None]
MOST_RECORDS = 25


def streams(protocol: str) -> Iterator[tuple[str, Wire, list[ConsumerRecord]]]:
    """Messages of a protocol, its own and captured ones, each with a decoder that has not read them; and the
    folder that they are from.
    """
    codec = PROTOCOLS[protocol]
    if codec.encoder is not None:
        yield "", Wire(codec, {}), messages(Wire(codec, {}))
    elif examples := rows_of(protocol):
        yield "", Wire(codec, {}), list(examples)
    for file in CAPTURED:
        folder = file.rpartition("/")[0]
        if protocol_of(file) == protocol:
            yield folder, Wire(codec, {}, reading_options(file)), captured(file)[:MOST_RECORDS]


def kind_of(event: Event) -> tuple[object, ...]:
    """What messages of one kind have in common."""
    if isinstance(event, SchemaChange):
        return type(event), event.kinds[:1], len(event.table_changes)
    if isinstance(event, RowChange):
        return event.op, event.before is None, event.after is None
    return (type(event),)


def peek(wire: Wire, record: ConsumerRecord) -> tuple[list[Event], list[Loss]]:
    """What a record says, without any effect on what is read after it."""
    catalog = wire.catalog
    found = wire.read_with_losses(record)
    wire.catalog = catalog
    return found


@pytest.mark.parametrize(("protocol", "member"), [*LAST, *FIRST])
def test_unknown_members_are_in_the_events_of_their_message(protocol: str, member: Member) -> None:
    seen: set[object] = set()
    count = 0
    for folder, wire, stream in streams(protocol):
        for record in stream:
            events, _ = peek(wire, record)
            kinds = (folder, *map(kind_of, events))
            if kinds in seen:
                wire.read(record)
                continue
            seen.add(kinds)
            rows = [event for event in events if isinstance(event, RowChange)]
            columns = {column.name for row in rows for column in row.schema.columns}
            columns |= set(map(camel_case, columns))
            for changed, where in with_unknown_members(protocol, record, columns, member):
                found, losses = peek(wire, changed)
                assert len(found) == len(events), where
                unknown = {path for event in found for path in event.source.unknown_fields or ()}
                assert any(map(is_unknown, unknown)) if found else losses, where
                count += 1
            wire.read(record)
    assert count


@pytest.mark.parametrize("protocol", WRITABLE)
@pytest.mark.parametrize("event", [insert(), CREATED, *OTHERS], ids=lambda event: type(event).__name__)
def test_unknown_members_are_counted_with_every_event(protocol: str, event: Event) -> None:
    wire = Wire(PROTOCOLS[protocol], {})
    records, losses = wire.write(msgspec.structs.replace(event, source=source_with("unknown_fields")))
    assert losses.count(Loss.UNKNOWN_FIELDS) == 1 or not records


@pytest.mark.parametrize("protocol", [each.values[0] for each in FIRST])
def test_unknown_members_that_are_not_utf_8_are_read_or_refused(protocol: str) -> None:
    seen: set[object] = set()
    for folder, wire, stream in streams(protocol):
        for record in stream:
            events, _ = peek(wire, record)
            kinds = (folder, *map(kind_of, events))
            if kinds not in seen:
                seen.add(kinds)
                rows = [event for event in events if isinstance(event, RowChange)]
                columns = {column.name for row in rows for column in row.schema.columns}
                for changed, where in with_unknown_members(protocol, record, columns, Member(b'"\xff"')):
                    with contextlib.suppress(DecodeError):
                        assert len(peek(wire, changed)[0]) == len(events), where
            wire.read(record)
    assert seen
