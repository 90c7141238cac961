"""Traced values: placeholders for the values of a message while its template is derived.

A decoder returns a change in which the message's own values are `TracedNumber`s and columns are
`TracedCell`s. An encoder writes it like any other change; each traced value becomes a mark in the JSON
(`mark_of`, for `msgspec.json.Encoder(enc_hook=…)`). `Trace.target_ops` splits the text at its marks. An
operation on a traced value that no op can express raises `NotTemplatable`: then there is no template.
Comparisons of numbers are decided by the message's own values, and recorded as conditions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, NoReturn, cast

import msgspec

from relay.model.records import ConsumerRecord
from relay.mysql.conversion_names import READ_INTEGER, ConversionLoss
from relay.templates.avro_ops import AvroOp
from relay.templates.ops import (
    LOSS,
    OFFSET,
    TIME_MS,
    Above,
    Avro,
    Below,
    Changed,
    Choice,
    Condition,
    Constant,
    Conversion,
    Differ,
    Equal,
    Filled,
    Fits,
    Number,
    Put,
    Same,
    Sized,
    Steps,
    TargetOp,
)

#: A mark begins with a control character in the short form of its escape, which encoders that print like
#: TiCDC replace with the long form. It contains the derivation's name and the mark's index.
_MARK: Final = re.compile(rb'"(\\b|\\u0008)relay:traced:([0-9a-f]*):(\d+)"')
_LONG_ESCAPE: Final = rb"\u0008"
_OPEN: Final = Constant(b"{")
_CLOSE: Final = Constant(b"}")
_check_json: Final = msgspec.json.Decoder(msgspec.Raw).decode
#: The bytes of a length field.
_LENGTH_BYTES: Final = 8

#: The conversion that prints a number as text.
_AS_DIGITS: Final[Conversion] = ("digits",)

#: Maximum lossy values in a template and maximum loss kinds, so that a template's number with its additions
#: has 64 bits.
_MOST_LOSSES: Final = 1 << 10
_MOST_LOSS_KINDS: Final = 3

#: The ops of marks and of texts without a length field.
_UnframedOp = Constant | Put | Number | Changed | Choice | Avro


class NotTemplatable(Exception):
    """A template cannot express an operation on a traced value."""


def refuse_traced(value: object) -> None:
    """Raise NotTemplatable for a traced value: the next operation treats rows of a shape differently."""
    if isinstance(value, Traced):
        raise NotTemplatable


class Written(NamedTuple):
    """How an encoder writes a column's cells, as in `Put`.

    `null_loss`: loss kind of a NULL. `loss`: the lossy conversion of values that `write` refuses. `avro`: the
    Avro that the target has for the printed value; None for JSON.
    """

    read: Conversion | None
    write: Conversion | None
    null: bytes | None = b"null"
    null_loss: str | None = None
    loss: ConversionLoss | None = None
    avro: AvroOp | None = None


def _lost(losses: Mapping[str, int], added: int) -> list[str]:
    return [loss for loss, adds in losses.items() for _ in range(added // adds % _MOST_LOSSES)]


class Trace:
    """One derivation: the marks that were printed, and the conditions that were recorded.

    refused: Loss kinds of which values do not fit, because the pipeline refuses them.
    name: Hexadecimal digits that no text of the message contains.
    negative: Slots whose numbers are below 0 in all messages.
    losses: Loss kinds of values, with the addition of each to the template's number.
    """

    def __init__(self, refused: Collection[str] = (), name: str = "") -> None:
        self._name = name.encode()
        self.conditions: list[Condition] = []
        self.negative: set[int] = set()
        self.losses: dict[str, int] = {}
        self._refused = refused
        #: The ops of marks, in order; equal ops have the same mark.
        self._marked: dict[_UnframedOp, int] = {}
        self._ops: list[_UnframedOp] = []
        #: The marks that were found.
        self._found: set[int] = set()
        self._looked_at: list[Put] = []
        self._converted: dict[Put, None] = {}
        #: Ops whose losses an output already counts.
        self._counted: set[Put] = set()

    def same(self, slot: int, other: int) -> None:
        """Record that two slots must have the same token."""
        self.conditions.append(Same(slot, other))

    def differ(self, pairs: Iterable[tuple[Put, Put]]) -> None:
        """Record that at least one of these pairs must be printed with a difference."""
        self.conditions.append(Differ(tuple([(_silent(one), _silent(other)) for one, other in pairs])))

    def mark(self, op: _UnframedOp) -> msgspec.Raw:
        """Return a mark in the text for the output of an op."""
        number = self._marked.setdefault(op, len(self._ops))
        if number == len(self._ops):
            self._ops.append(op)
        return msgspec.Raw(b'"\\brelay:traced:%b:%d"' % (self._name, number))

    def refused(self) -> Any:  # noqa: ANN401 - of any type
        """Return a placeholder that supports no operation, because the template applies to all its values."""
        return Traced(self)

    def target_ops(self, text: bytes, length_at: int | None = None) -> tuple[TargetOp, ...]:
        """Return the ops that print a text with marks.

        `length_at`: offset of a length field for the rest. Raises NotTemplatable if it has another value.
        """
        if length_at is None:
            return self.unframed_ops(text)
        rest = text[length_at + _LENGTH_BYTES :]
        if text[length_at : length_at + _LENGTH_BYTES] != len(rest).to_bytes(_LENGTH_BYTES, "big"):
            raise NotTemplatable
        sized = Sized(_LENGTH_BYTES, self.unframed_ops(rest))
        return (Constant(text[:length_at]), sized) if length_at else (sized,)

    def ops_beside(self, texts: Callable[[], Sequence[bytes]]) -> list[tuple[_UnframedOp, ...]]:
        """Return the ops of texts that are printed beside the message, and are no output of its marks.

        `texts`: makes them. Raises NotTemplatable.
        """
        known, found = len(self._ops), set(self._found)
        ops = [self.unframed_ops(text) for text in texts()]
        self._found = found | set(range(known, len(self._ops)))
        return ops

    def check_marks(self, others: Iterable[bytes | None]) -> None:
        """Raise NotTemplatable if the op of a mark was found in no text, because the mark was changed after
        it was printed. An omitted text is no error if other texts contain its ops.

        `others`: texts without ops, which must not contain marks.
        """
        if len(self._found) < len(self._ops) or any(any(self._marks(text or b"")) for text in others):
            raise NotTemplatable

    def _marks(self, text: bytes) -> Iterator[re.Match[bytes]]:
        """Find this derivation's marks; a text of the message may look like another derivation's mark."""
        return (found for found in _MARK.finditer(text) if found[2] == self._name)

    def put(self, slots: tuple[int, ...], written: Written) -> Put:
        """Return the op that prints a cell, and record that it is converted, even if it is never printed."""
        read, write, null, null_loss, loss, _ = written
        put = Put(slots, read, write, null)
        if null_loss in self._refused:
            put = put._replace(null=None)
        elif null_loss is not None:
            put = put._replace(null_adds=self._adds(null_loss))
        if loss is not None and loss.kind not in self._refused:
            put = put._replace(losses=loss.write, adds=self._adds(loss.kind))
        if read is not None or write is not None or put.null_adds:
            self._converted[put] = None
        return put

    def look_at(self, slots: tuple[int, ...], read: Conversion, write: Conversion) -> None:
        """Record that a cell is read, and refused if it cannot be, even if nothing is written from it."""
        self._looked_at.append(Put(slots, read, write, null=None))

    def _adds(self, loss: str) -> int:
        """Return a loss kind's addition to the template's number. Raises NotTemplatable at the limit."""
        if len(self._converted) >= _MOST_LOSSES:
            raise NotTemplatable
        adds = self.losses.setdefault(loss, LOSS * _MOST_LOSSES ** len(self.losses))
        if len(self.losses) > _MOST_LOSS_KINDS:
            raise NotTemplatable
        return adds

    @property
    def lost(self) -> Callable[[int], list[str]]:
        """A function from additions to loss kinds that does not keep the trace alive."""
        return partial(_lost, self.losses)

    def left_out(self) -> list[Fits]:
        """Return conditions for values that were read or converted and are in no text, and for values whose
        losses no text counts.
        """
        if not self._looked_at and not self._converted:
            return []
        printed = [
            (put.slots, put.read, put.write) for mark in self._found for put in _printed(self._ops[mark])
        ]
        read = {(put.slots, put.read) for put in self._converted}
        read.update((slots, reading) for slots, reading, _ in printed)
        unread = [Fits(put) for put in self._looked_at if (put.slots, put.read) not in read]
        return unread + [
            Fits(put)
            for put in self._converted
            if put not in self._counted
            and (
                _loses(put)
                or not any(
                    slots[: len(put.slots)] == put.slots and (reading, write) == (put.read, put.write)
                    for slots, reading, write in printed
                )
            )
        ]

    def avro_mark(self, avro: AvroOp, value: Traced) -> bytes:
        """Return a mark in Avro for the output of a traced value. Raises NotTemplatable."""
        op = value.op()
        if not isinstance(op, Put | Number | Choice):
            raise NotTemplatable
        return bytes(self.mark(Avro(avro, op)))

    def _is_avro(self, text: bytes) -> bool:
        return any(isinstance(self._ops[int(found[3])], Avro) for found in self._marks(text))

    def unframed_ops(self, text: bytes) -> tuple[_UnframedOp, ...]:
        """Return the ops that print a text without a length field. Raises NotTemplatable."""
        try:
            if not self._is_avro(text):
                _check_json(text)
        except msgspec.DecodeError:  # it is compressed, or was otherwise changed after it was printed
            raise NotTemplatable from None
        ops: list[_UnframedOp] = []
        at = 0
        for found in self._marks(text):
            start, end = found.span()
            if start > at:
                ops.append(Constant(text[at:start]))
            mark = int(found[3])
            self._found.add(mark)
            op = self._counting_once(self._ops[mark])
            if found[1] == _LONG_ESCAPE:
                op = _with_long_escapes(op)
            ops += (_OPEN, op, _CLOSE) if isinstance(op, Changed) else (op,)
            at = end
        if at < len(text):
            ops.append(Constant(text[at:]))
        return tuple(ops)

    def _counting_once(self, op: _UnframedOp) -> _UnframedOp:
        """Return the op, such that only the first output of a value counts its loss."""
        if isinstance(op, Changed):
            return Changed(tuple([(name, _silent(old), _silent(new)) for name, old, new in op.members]))
        if isinstance(op, Avro) and isinstance(op.op, Put):
            return op._replace(op=self._counting_put_once(op.op))
        return self._counting_put_once(op) if isinstance(op, Put) else op

    def _counting_put_once(self, op: Put) -> Put:
        if not _loses(op):
            return op
        if op not in self._converted or op in self._counted:
            return _silent(op)
        self._counted.add(op)
        return op


def _loses(put: Put) -> bool:
    return put.losses is not None or put.null_adds > 0


def _silent(put: Put) -> Put:
    """Return the same op, but without counting losses."""
    return put._replace(adds=0, null_adds=0) if _loses(put) else put


def _printed(op: _UnframedOp) -> list[Put]:
    """Return the ops whose conversion is certain: for a change the old value, or an equal new one."""
    if isinstance(op, Changed):
        return [old for _, old, _ in op.members]
    if isinstance(op, Avro):
        return _printed(op.op)
    return [op] if isinstance(op, Put) else []


def _with_long_escapes(op: _UnframedOp) -> _UnframedOp:
    if isinstance(op, Put):
        return op._replace(long_escapes=True)
    if isinstance(op, Changed):
        members = [
            (name, old._replace(long_escapes=True), new._replace(long_escapes=True))
            for name, old, new in op.members
        ]
        return Changed(tuple(members))
    return op


class Traced:
    """A value of which an encoder prints a mark. `trace`: its derivation."""

    __slots__ = ("trace",)

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    def op(self) -> _UnframedOp:
        """Return the op that prints the value."""
        raise NotTemplatable

    def _untraceable(self, *_: object) -> NoReturn:
        raise NotTemplatable

    def __bool__(self) -> bool:
        raise NotTemplatable

    __len__ = __iter__ = __hash__ = __str__ = __bytes__ = __format__ = _untraceable
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _untraceable
    __index__ = __int__ = __float__ = __contains__ = __getitem__ = _untraceable


class TracedNumber(Traced):
    """An integer of a slot, with the arithmetic applied to it, and its value in the present message."""

    __slots__ = ("_plus", "_slot", "_steps", "_value")

    def __init__(
        self,
        trace: Trace,
        slot: int,
        value: int,
        steps: Steps = (),
        plus: tuple[tuple[int, Steps], ...] = (),
    ) -> None:
        self.trace = trace
        self._slot, self._value, self._steps, self._plus = slot, value, steps, plus

    def op(self) -> Number:
        """Return the op that prints the number."""
        return Number(self._slot, self._steps, self._plus)

    def _then(self, sign: Any, operand: Any, value: int) -> TracedNumber:  # noqa: ANN401 - one of Steps'; a number
        if self._plus or isinstance(operand, Traced):
            raise NotTemplatable
        steps = _simplified((*self._steps, (sign, operand.__index__())))
        return TracedNumber(self.trace, self._slot, value, steps)

    def __bool__(self) -> bool:
        """Whether it is not 0."""
        return self > 0 or self < 0

    def __mul__(self, factor: int) -> TracedNumber:
        return self._then("*", factor, self._value * factor)

    __rmul__ = __mul__

    def __floordiv__(self, divisor: int) -> TracedNumber:
        return self._then("//", divisor, self._value // divisor)

    def __mod__(self, divisor: int) -> TracedNumber | int:
        if not self._plus and self._steps and self._steps[-1][0] == "*" and not self._steps[-1][1] % divisor:
            return 0
        return self._then("%", divisor, self._value % divisor)

    def __divmod__(self, divisor: int) -> tuple[TracedNumber, TracedNumber | int]:
        return self // divisor, self % divisor

    def __lshift__(self, bits: int) -> TracedNumber:
        return self._then("<<", bits, self._value << bits)

    def __rshift__(self, bits: int) -> TracedNumber:
        return self._then(">>", bits, self._value >> bits)

    def __and__(self, mask: int) -> TracedNumber | int:
        if mask & (mask + 1):
            raise NotTemplatable
        return self % (mask + 1)

    def __add__(self, other: int | TracedNumber) -> TracedNumber:
        if isinstance(other, TracedNumber):
            plus = (*self._plus, (other._slot, other._steps), *other._plus)
            return TracedNumber(self.trace, self._slot, self._value + other._value, self._steps, plus)
        return self._then("+", other, self._value + other)

    __radd__ = __add__

    def __sub__(self, other: int) -> TracedNumber:
        return self._then("-", other, self._value - other)

    @staticmethod
    def of_datetime(trace: Trace, slot: int, offset_seconds: int, micros: int) -> TracedNumber:
        """Return the number of microseconds since 1970 for a slot with a local date and time as text.

        `offset_seconds`: the clock's offset from UTC. `micros`: the number in the captured message.
        """
        return TracedNumber(trace, slot, micros, (("datetime", offset_seconds),))

    @staticmethod
    def of_clock(trace: Trace, slot: int, offset_seconds: int, seconds: int) -> TracedNumber:
        """Return the number of seconds since 1970 for a slot with the digits of a wall-clock time; see
        `of_datetime`.
        """
        return TracedNumber(trace, slot, seconds, (("clock", offset_seconds),))

    def digits(self) -> TracedDigits:
        """Return the decimal text of the number. Raises NotTemplatable after arithmetic."""
        if self._steps or self._plus:
            raise NotTemplatable
        return TracedDigits(self.trace, self._slot, self._value)

    def clock_text(self, offset_seconds: int) -> TracedOp | None:
        """Return a value that prints seconds since 1970 as their original wall-clock time, in quotes; None if
        they were not converted from one.
        """
        if not self._steps or self._steps[0][0] != "clock":
            return None
        if self._plus or self._steps != (("clock", offset_seconds),):
            raise NotTemplatable
        return TracedOp(self.trace, Put((self._slot,), READ_INTEGER, _AS_DIGITS, null=None))

    def as_text(self, read: Callable[[int], Conversion]) -> TracedOp:
        """Return a value that prints the number as text.

        `read`: returns, for a divisor, the conversion from the slot's integer to the quotient, rounded down.
        """
        if self._plus or self._slot < 0:
            raise NotTemplatable
        return TracedOp(self.trace, Put((self._slot,), read(_divisor(self._steps)), null=None))

    def _compared(self, is_so: bool, above: int, below: int) -> bool:
        """Record the condition of a comparison's result: above one number, or below the other."""
        if self._plus:
            raise NotTemplatable
        is_certain = above < _MIN_INTEGER if is_so else below > _MAX_INTEGER
        if is_certain and not self._steps and self._slot >= 0:
            return is_so
        condition = Above(self._slot, above, self._steps) if is_so else Below(self._slot, below, self._steps)
        self.trace.conditions.append(condition)
        return is_so

    def __eq__(self, other: object) -> bool:  # type: ignore[override]  # `Traced` refuses every comparison
        """Return whether two traced numbers are equal, and record it. Other values raise NotTemplatable."""
        if not isinstance(other, TracedNumber):
            raise NotTemplatable
        if self.op() == other.op():
            return True
        is_equal = self._value == other._value
        self.trace.conditions.append(Equal(self.op(), other.op(), is_equal))
        return is_equal

    def __ne__(self, other: object) -> bool:  # type: ignore[override]  # `Traced` refuses every comparison
        return not self == other

    def __hash__(self) -> NoReturn:  # type: ignore[override]  # typed as the method of `Traced`
        """Refuse, as other traced values do."""
        raise NotTemplatable

    def __gt__(self, other: int) -> bool:  # type: ignore[override]  # `Traced` refuses every comparison
        return self._compared(self._value > other, other, other + 1)

    def __ge__(self, other: int) -> bool:  # type: ignore[override]  # `Traced` refuses every comparison
        return self._compared(self._value >= other, other - 1, other)

    def __lt__(self, other: int) -> bool:  # type: ignore[override]  # `Traced` refuses every comparison
        return not self >= other

    def __le__(self, other: int) -> bool:  # type: ignore[override]  # `Traced` refuses every comparison
        return not self > other


#: The integers that a slot of a message can contain (`relay.templates.ops.Kind`).
_MIN_INTEGER, _MAX_INTEGER = -(1 << 63), (1 << 64) - 1


def _simplified(steps: Steps) -> Steps:
    """Cancel a division after a multiplication by a multiple of the divisor: times are nanoseconds inside."""
    if len(steps) > 1 and steps[-2][0] == "*" and steps[-1][0] == "//":
        factor, divisor = steps[-2][1], steps[-1][1]
        if divisor > 0 and factor % divisor == 0:
            rest = factor // divisor
            return steps[:-2] if rest == 1 else (*steps[:-2], ("*", rest))
    return steps


def _divisor(steps: Steps) -> int:
    """Return the divisor equivalent to these steps, rounding down. Raises NotTemplatable if there is none."""
    factor, divisor = 1, 1
    for sign, operand in steps:
        if sign == ">>" and factor == 1:
            divisor <<= operand
        elif sign == "*" and operand > 0:
            factor *= operand
        elif sign == "//" and operand > 0 and operand % factor == 0:
            factor, divisor = 1, divisor * (operand // factor)
        else:
            raise NotTemplatable
    if factor != 1:
        raise NotTemplatable
    return divisor


class TracedDigits(Traced):
    """The decimal text of an integer of a slot."""

    __slots__ = ("_number", "_slot")

    def __init__(self, trace: Trace, slot: int, value: int) -> None:
        super().__init__(trace)
        self._slot, self._number = slot, TracedNumber(trace, slot, value)

    def op(self) -> Put:
        """Return the op that prints the text."""
        return Put((self._slot,), READ_INTEGER, _AS_DIGITS, null=None)

    def within(self, least: int, end: int) -> TracedNumber | None:
        """Return the number if it is within bounds, else None."""
        return self._number if self._number >= least and self._number < end else None

    def __eq__(self, other: object) -> bool:  # type: ignore[override]  # `Traced` refuses every comparison
        """Return whether it is the text of the same slot. Raises NotTemplatable for any other value."""
        if not isinstance(other, TracedDigits) or other._slot != self._slot:
            raise NotTemplatable
        return True

    def __hash__(self) -> NoReturn:  # type: ignore[override]  # typed as the method of `Traced`
        """Refuse, as other traced values do."""
        raise NotTemplatable


def decimal_digits(number: int) -> str:
    """Return the decimal text of an integer, which may be traced."""
    traced: Any = number
    return cast("str", traced.digits()) if isinstance(traced, TracedNumber) else str(number)


class TracedSeconds(Traced):
    """A time in nanoseconds from a slot of seconds with a fraction, or its quotient by a number.

    Matches only times whose nanoseconds fit in a signed 64-bit integer.
    """

    __slots__ = ("_divisor", "_slot")

    def __init__(self, trace: Trace, slot: int, divisor: int = 1) -> None:
        super().__init__(trace)
        self._slot, self._divisor = slot, divisor
        trace.put((slot,), self._written)

    @property
    def _written(self) -> Written:
        return Written(("seconds", self._divisor), ("int64",), null=None)

    def op(self) -> Put:
        """Return the op that prints the number."""
        return self.trace.put((self._slot,), self._written)

    def __floordiv__(self, divisor: int) -> TracedSeconds:
        return TracedSeconds(self.trace, self._slot, self._divisor * divisor)

    def _is_above(self, other: int) -> bool:
        """Return whether all of them are above a number. Raises NotTemplatable if only some are."""
        if other < 0:
            return True
        if other >= _MAX_SIGNED:
            return False
        raise NotTemplatable

    def __gt__(self, other: int) -> bool:  # type: ignore[override]  # `Traced` refuses every comparison
        return self._is_above(other)

    def __ge__(self, other: int) -> bool:  # type: ignore[override]  # `Traced` refuses every comparison
        return self._is_above(other - 1)

    def __lt__(self, other: int) -> bool:  # type: ignore[override]  # `Traced` refuses every comparison
        return not self >= other

    def __le__(self, other: int) -> bool:  # type: ignore[override]  # `Traced` refuses every comparison
        return not self > other


_MAX_SIGNED: Final = (1 << 63) - 1


class TracedText(Traced):
    """A nonempty text of a slot, which describes the message rather than a column."""

    __slots__ = ("_slot",)

    def __init__(self, trace: Trace, slot: int) -> None:
        super().__init__(trace)
        self._slot = slot
        trace.conditions.append(Filled(slot))

    def __bool__(self) -> bool:
        return True

    def op(self) -> Put:
        """Return the op that prints the text."""
        return Put((self._slot,), null=None)


class TracedCell(Traced):
    """A column's cell in the message. `slots`: the first that is not absent contains it."""

    __slots__ = ("_op", "slots")

    def __init__(self, trace: Trace, slots: tuple[int, ...]) -> None:
        self.trace, self.slots, self._op = trace, slots, Put(slots)

    def op(self) -> Put:
        """Return the op that prints the cell unchanged."""
        return self._op

    def written(self, read: Conversion | None, write: Conversion | None) -> TracedOp:
        """Return the cell as written by an encoder with these conversions."""
        return self.written_as(Written(read, write))

    def written_as(self, written: Written) -> TracedOp:
        """Return the cell as written by an encoder."""
        put = self.trace.put(self.slots, written)
        return TracedOp(self.trace, put if written.avro is None else Avro(written.avro, put))


class TracedOp(Traced):
    """The output of an op, at any position where an encoder writes it."""

    __slots__ = ("_op",)

    def __init__(self, trace: Trace, op: Put | Changed | Choice | Avro) -> None:
        self.trace, self._op = trace, op

    def op(self) -> Put | Changed | Choice | Avro:
        """Return the op that prints the value."""
        return self._op

    def put(self) -> Put:
        """Return the op that prints the value. Raises NotTemplatable if it is not a cell."""
        if not isinstance(self._op, Put):
            raise NotTemplatable
        return self._op


def mark_of(value: object) -> msgspec.Raw:
    """Print a traced value: the `enc_hook` of encoders. Raises TypeError for other values, like msgspec."""
    if not isinstance(value, Traced):
        raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")
    return value.trace.mark(value.op())


def traced_numbers(record: ConsumerRecord, trace: Trace) -> ConsumerRecord:
    """Return a record with a traced offset and time, and without a partition."""
    return msgspec.structs.replace(
        record,
        partition=trace.refused(),
        offset=TracedNumber(trace, OFFSET, record.offset),
        timestamp_ms=TracedNumber(trace, TIME_MS, record.timestamp_ms),
    )
