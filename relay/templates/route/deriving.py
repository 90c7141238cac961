"""Derives the template of a message of one row.

The message takes the slow path once more with marks in place of its values (`Trace`). The positions of the
marks in the target's messages determine how these are built. Then the template is tested with the same
message.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from relay.catalog import Catalog
from relay.codecs.codec import Encode, EncodedRecord, MarkTracingDecoder, Seal, TracingDecoder
from relay.codecs.losses import Loss
from relay.model.events import Event, RowChange, Rows, TableId, TransactionMark
from relay.model.records import TIME_END_MS, ConsumerRecord, ProducerRecord
from relay.templates.engine import Engine, Message, Run
from relay.templates.ops import LOSS, TIME_MS, Below, Condition, Sized, TargetMessage, TargetOp, Template
from relay.templates.route.known import TemplateInfo
from relay.templates.tracing import NotTemplatable, Trace, traced_numbers


class TracedLine(NamedTuple):
    """The parts of a route's pipeline that messages are traced through.

    prepared: Rewrites decoded events before they are encoded.
    for_topic: Returns the function that encodes for a topic, in place of `encode`; None if messages do not
        depend on their topic.
    refused: Losses for which a record is refused.
    writes_ends: Whether the end of a transaction has a topic; otherwise it is counted.
    seal: Converts the output of `encode` to messages for a topic; None if it already consists of messages.
    write_cells: Returns the cells that decide whether a row is written, which a template prints before its
        value; None for a row that is written in any case.
    """

    decoder: TracingDecoder
    prepared: Callable[[list[Event]], list[Event]]
    encode: Encode
    for_topic: Callable[[str], Encode] | None
    refused: frozenset[Loss]
    writes_ends: bool
    seal: Seal | None
    write_cells: Callable[[RowChange, ConsumerRecord], list[bytes] | None] | None = None


class MessageFormat(NamedTuple):
    """The target's messages.

    `most_bytes`: maximum bytes of key and value together. `lengths_at`: offsets of length fields in key and
    value, from the codec.
    """

    most_bytes: int
    lengths_at: tuple[int, int] | None


class Deriver:
    """Derives the templates of a route. `form`: the target's messages. `trial`: an engine for testing, which
    takes each record as one message.
    """

    def __init__(self, line: TracedLine, form: MessageFormat, trial: Engine) -> None:
        self._line, self._form, self._trial = line, form, trial

    def derive(
        self,
        record: ConsumerRecord,
        change: RowChange,
        catalog: Catalog,
        out: Sequence[ProducerRecord] | Sequence[EncodedRecord],
        losses: list[Loss],
    ) -> tuple[Template, TemplateInfo]:
        """Return the template of a record with the row `change`, and the facts known of it.

        `out` and `losses`: the slow path's result for the record. Raises NotTemplatable, and any exception of
        an encoder or an engine.
        """
        template, known, beside = self._traced(record, change, catalog, self._topic_of(out))
        if not _has_headers(known, out):
            raise NotTemplatable
        losses = _without(losses, beside)
        number = self._tried(template)
        if not _fits(self._trial, record, number, known, out, losses, self._line.seal):
            raise NotTemplatable
        return template, known

    def derive_marks(
        self, record: ConsumerRecord, marks: list[Event], catalog: Catalog, losses: list[Loss]
    ) -> tuple[Template, TemplateInfo]:
        """Return the template of a record without rows, and the facts known of it.

        `marks`, `losses`: the slow path's events and losses. The marks become no message. Raises the same as
        `derive`.
        """
        line = self._line
        if not isinstance(line.decoder, MarkTracingDecoder):
            raise NotTemplatable
        trace = Trace(line.refused, _digest(record))
        message = line.decoder.traced_marks(record, trace)
        lost: list[Loss] = []
        if len(line.prepared(list(message.events))) < len(message.events):
            raise NotTemplatable  # not selected
        events = self._written(list(message.events), lost)
        line.decoder.decode(record, catalog, lost)
        if list(line.encode(events, traced_numbers(record, trace), lost)):
            raise NotTemplatable
        known = TemplateInfo(
            marks if events else [],
            lost,
            (),
            None,
            trace.lost,
            table=_NO_TABLE,
            more=[],
            has_tombstone=False,
            is_of_marks=True,
        )
        template = Template(None, message.value, _conditions(trace), None, None, self._form.most_bytes)
        _set_size(template, known)
        number = self._tried(template)
        found = _translated(self._trial, record, known)
        if found != (number, [(None, None)]) or sorted(lost) != sorted(losses):
            raise NotTemplatable
        return template, known

    def _tried(self, template: Template) -> int:
        """Add a template to an engine of its own, and return its number.

        In the route's engine, it could replace another one, or equal one that would be removed with it.
        """
        self._trial.clear()
        return self._trial.add(template)

    def _topic_of(self, out: Sequence[ProducerRecord] | Sequence[EncodedRecord]) -> str | None:
        """Return the topic for which a record's messages were written; None if they do not depend on it."""
        if self._line.for_topic is None:
            return None
        first = out[0]
        if not isinstance(first, ProducerRecord):
            raise NotTemplatable
        return first.topic

    def _traced(
        self, record: ConsumerRecord, change: RowChange, catalog: Catalog, topic: str | None
    ) -> tuple[Template, TemplateInfo, Sequence[Loss]]:
        """Return the untested template of a record, its facts, and the losses of marks beside its row.

        `topic`: The topic of its messages, if they depend on it.
        """
        line = self._line
        trace = Trace(line.refused, _digest(record))
        message = line.decoder.traced(record, change, catalog, trace)
        traced: list[Event] = [message.change]
        if message.end is not None:
            traced.append(message.end)
        lost: list[Loss] = []
        events = self._written(traced, lost)
        numbered = traced_numbers(record, trace)
        line.decoder.decode(record, catalog, lost)
        lost = _without(lost, message.beside)
        read_losses = list(lost)
        first, *others = payloads = self._payloads(events, numbered, lost, topic)
        allows = None if message.after is None else message.after.check(record.topic)
        is_one_row = only_row(events) is not None
        has_tombstone = others == [EncodedRecord(first.key, None)] and first.key is not None and is_one_row
        if has_tombstone:
            others = []
        known = TemplateInfo(
            [_without_values(event, change) for event in events],
            lost,
            first.headers,
            allows,
            trace.lost,
            table=change.table,
            more=[payload.headers for payload in others],
            has_tombstone=has_tombstone,
            written_for=topic,
        )
        cells = self._condition_cells(message.change, numbered, trace)
        if cells:
            ops = [event.op for event in events if isinstance(event, RowChange)]
            if others or first.value is None or ops != [message.change.op]:
                raise NotTemplatable
            known.condition_cell_parts, known.read_losses = len(cells), read_losses
        (key, value), *more = [self._target(payload, trace) for payload in (first, *others)]
        if value is not None:
            value = (*cells, *value)
        trace.check_marks(text for payload in payloads for _, text in payload.headers)
        template = Template(
            message.key,
            message.value,
            _conditions(trace),
            key,
            value,
            self._form.most_bytes,
            tuple(more),
        )
        _set_size(template, known)
        return template, known, message.beside

    def _payloads(
        self, events: list[Event], record: ConsumerRecord, lost: list[Loss], topic: str | None
    ) -> list[EncodedRecord]:
        """Return the encoded events of a traced record. Raises NotTemplatable for objects beside messages."""
        line = self._line
        encode = line.encode if topic is None or line.for_topic is None else line.for_topic(topic)
        payloads = list(encode(events, record, lost))
        if any(payload.blobs for payload in payloads):
            raise NotTemplatable
        return payloads

    def _condition_cells(
        self, change: RowChange, record: ConsumerRecord, trace: Trace
    ) -> tuple[TargetOp, ...]:
        """Return the ops that print the cells that decide whether a row is written; () if none do.

        Raises NotTemplatable if printing them loses something.
        """
        write = self._line.write_cells
        if write is None:
            return ()
        before = dict(trace.losses)
        ops = trace.ops_beside(lambda: write(change, record) or ())
        if trace.losses != before:
            raise NotTemplatable
        return tuple([Sized(CELLS_LENGTH_BYTES, each) for each in ops])

    def _written(self, events: list[Event], lost: list[Loss]) -> list[Event]:
        """Return the events that the pipeline encodes."""
        events = self._line.prepared(events)
        if self._line.writes_ends:
            return events
        lost += [Loss.TRANSACTION_MARK for event in events if isinstance(event, TransactionMark)]
        return [event for event in events if not isinstance(event, TransactionMark)]

    def _target(self, payload: EncodedRecord, trace: Trace) -> TargetMessage:
        """Return the ops of a traced payload. Raises NotTemplatable."""
        lengths_at = self._form.lengths_at or (None, None)
        parts = zip((payload.key, payload.value), lengths_at, strict=True)
        return TargetMessage(*[None if text is None else trace.target_ops(text, at) for text, at in parts])


def _conditions(trace: Trace) -> tuple[Condition, ...]:
    """Return the conditions of a template."""
    return (*dict.fromkeys(trace.conditions), *trace.left_out(), Below(TIME_MS, TIME_END_MS))


def _without(losses: Sequence[Loss], others: Iterable[Loss]) -> list[Loss]:
    """Return the losses, less one for each of `others`. Raises ValueError if one of `others` is missing."""
    found = list(losses)
    for other in others:
        found.remove(other)
    return found


def _set_size(template: Template, known: TemplateInfo) -> None:
    """Set a template's size and fingerprint."""
    serialized = _serialized(template)
    known.size, known.fingerprint = _FOR_A_PACKED_BYTE * len(serialized), hash(serialized)


def only_row(events: Sequence[Event]) -> RowChange | None:
    """Return the change of a single row, also with the end of its transaction; None for other events."""
    first, *others = events
    is_alone = not others or (len(others) == 1 and isinstance(others[0], TransactionMark))
    return first if is_alone and isinstance(first, RowChange) else None


def _without_values(event: Event, change: RowChange) -> Event:
    """Return a row change or a transaction mark without values. Raises NotTemplatable for other events."""
    if isinstance(event, TransactionMark):
        return TransactionMark(event.is_begin, "", change.source, change.emitted_at_ns)
    if not isinstance(event, RowChange):
        raise NotTemplatable
    return msgspec.structs.replace(change, op=event.op, images=_NO_ROWS)


def _has_headers(known: TemplateInfo, out: Sequence[ProducerRecord] | Sequence[EncodedRecord]) -> bool:
    """Return whether the messages' headers begin with those of the payloads."""
    headers = [known.headers, *known.more, *[()] * known.has_tombstone]
    given = [message.headers for message in out]
    return len(headers) == len(given) and all(
        found[: len(its)] == its for found, its in zip(given, headers, strict=True)
    )


def _fits(  # noqa: PLR0913, PLR0917 - a template's result, and the expected one
    engine: Engine,
    record: ConsumerRecord,
    number: int,
    known: TemplateInfo,
    out: Sequence[ProducerRecord] | Sequence[EncodedRecord],
    losses: list[Loss],
    seal: Seal | None,
) -> bool:
    """Return whether a template yields these messages and losses for a record; a tombstone is no message."""
    messages = [(message.key, message.value) for message in out]
    if known.has_tombstone:
        *messages, tombstone = messages
        if tombstone != (messages[0][0], None):
            return False
    found = _translated(engine, record, known)
    if found is not None and known.condition_cell_parts:
        parts = known.condition_cell_parts
        found = found[0], [(key, split_condition_cells(value or b"", parts)[1]) for key, value in found[1]]
    if found is None or _sealed(found[1], out[0], seal) != messages:
        return False
    added, fitting = divmod(found[0], LOSS)
    return fitting == number and sorted(known.with_losses(added * LOSS).losses) == sorted(losses)


def split_condition_cells(value: bytes, parts: int) -> tuple[list[bytes], bytes]:
    """Return the parts that a template prints before a value, each after its length, and the value."""
    found, at = [], 0
    for _ in range(parts):
        begin = at + CELLS_LENGTH_BYTES
        at = begin + int.from_bytes(value[at:begin], "big")
        found.append(value[begin:at])
    return found, value[at:]


def _sealed(
    messages: list[Message], first: ProducerRecord | EncodedRecord, seal: Seal | None
) -> list[Message]:
    """Return the messages of a template in their final form, for the topic of the first of them."""
    if seal is None or isinstance(first, EncodedRecord):
        return messages
    return [seal(first.topic, key, value) for key, value in messages]


def _translated(engine: Engine, record: ConsumerRecord, known: TemplateInfo) -> Run | None:
    """Return an engine's result for a record of one row; None if it fits no template."""
    of_record = record.key, record.value, record.offset, record.timestamp_ms
    if known.more:
        runs = engine.translate_rows(*of_record, _NO_LIMIT, 0)
        return None if isinstance(runs, int) or len(runs) != 1 else runs[0]
    found = engine.translate(*of_record, b"")
    return None if found is None else (found[0], [found[1:3]])


#: Bytes of the length before the cells of an image.
CELLS_LENGTH_BYTES: Final = 8
#: More bytes than any record's messages have.
_NO_LIMIT: Final = 1 << 60


def _digest(record: ConsumerRecord) -> str:
    """Return hexadecimal digits that a message cannot contain."""
    return hashlib.blake2b((record.key or b"") + (record.value or b""), digest_size=8).hexdigest()


#: `HashKey` is the only type that MessagePack does not know; its repr hides the key.
_packed: Final = msgspec.msgpack.Encoder(enc_hook=repr).encode
#: Bytes that a template takes in an engine per byte of its MessagePack form, measured with the kernel.
_FOR_A_PACKED_BYTE: Final = 2


def _serialized(template: Template) -> bytes | str:
    """Return a serialized form, which is equal for equal templates."""
    try:
        return _packed(template)
    except OverflowError:  # MessagePack has no integers of more than 64 bits
        return str(template)


_NO_ROWS: Final = Rows(None, None)
#: The table of marks: no table has this name.
_NO_TABLE: Final = TableId("", "")
