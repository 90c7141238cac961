"""Derive templates from messages in Avro: the counterpart of `traced_messages` for them.

A template's source is the id of the schema and the Avro value after it. Each scalar value has a slot, null or
not; of a union with a record, the captured message's branch is part of the shape.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, get_args

import msgspec

from relay.codecs.shared.avro import NUMBER, PREFIX_BYTES
from relay.codecs.shared.avro_writing import long_bytes, value_writer, written
from relay.model.avro_types import PRIMITIVES, AvroType
from relay.templates.avro_ops import AvroOp, Branch, Fixed, Plain, PlainKind, Record, Union
from relay.templates.ops import Among, AvroValue, Constant, SourceOp
from relay.templates.tracing import NotTemplatable, Trace, Traced

#: Names of fields, from the outer record inwards.
FieldPath = tuple[str, ...]

_json: Final = msgspec.json.Encoder().encode
_PLAIN: Final[Mapping[str, AvroOp]] = {
    kind: Plain(kind) for kind in get_args(PlainKind) if kind in PRIMITIVES
}
_UNSIGNED: Final = Plain("unsigned")


class TracedAvroPart:
    """The key or the value of a record: a record in Avro after the number of its schema; None: missing.

    value: The decoded record of the captured message.
    unsigned: Names of fields whose `long` stands for the unsigned number of the same bits.
    """

    def __init__(
        self,
        data: bytes | None,
        type_: AvroType | None,
        value: Mapping[str, Any] | None,
        unsigned: Collection[str] = (),
    ) -> None:
        self.slots: dict[FieldPath, int] = {}
        self.ops: tuple[SourceOp, ...] | None = None
        self._unsigned = unsigned
        self._prefix, self._type, self._value = (data or b"")[:PREFIX_BYTES], type_, value
        if data is not None and data[:1] != bytes([NUMBER]):
            raise NotTemplatable

    def split(self, first_slot: int) -> int:
        """Make the ops and the slots, numbered from `first_slot`; return the next slot."""
        if self._type is not None:
            paths: list[FieldPath] = []
            op = self._op(self._type, self._value, (), paths)
            self.slots = {path: first_slot + at for at, path in enumerate(paths)}
            self.ops = Constant(self._prefix), AvroValue(op)
        return first_slot + len(self.slots)

    def _op(self, type_: AvroType, value: Any, path: FieldPath, paths: list[FieldPath]) -> AvroOp:  # noqa: ANN401 - any value
        """Return the op of values like this one, and append the paths of its scalar values."""
        if type_.kind == "record" and isinstance(value, dict):
            fields = [
                (
                    _json(field.name) + b":",
                    self._op(field.type, value[field.name], (*path, field.name), paths),
                )
                for field in type_.fields
            ]
            return Record(tuple(fields))
        if type_.kind == "union" and any(branch.kind == "record" for branch in type_.branches):
            number = _branch(type_, value)
            return Branch(number, self._op(type_.branches[number], value, path, paths))
        paths.append(path)
        return scalar_op(type_, is_unsigned=path[-1] in self._unsigned)

    def pin(self, trace: Trace, name: str) -> None:
        """Note that a field of the record has the captured message's value in all messages, if it has one."""
        slot = self.slots.get((name,))
        if slot is not None:
            trace.conditions.append(Among(slot, (_json((self._value or {})[name]),)))


def _branch(type_: AvroType, value: Any) -> int:  # noqa: ANN401 - any value
    """Return the index of the branch of a record or of null. Raises NotTemplatable for other values."""
    if not type_.is_optional or not (value is None or isinstance(value, dict)):
        raise NotTemplatable
    return [branch.kind == "null" for branch in type_.branches].index(value is None)


def traced_body(type_: AvroType, value: Any) -> bytes:  # noqa: ANN401 - any value
    """Return the Avro of a value with marks for its traced scalar values. Raises NotTemplatable, and the
    errors of a writer.
    """
    if isinstance(value, Traced):
        return value.trace.avro_mark(scalar_op(type_), value)
    if not isinstance(value, dict):
        return written(value_writer(type_), value)
    if type_.kind == "union":
        return long_bytes(_branch(type_, value)) + traced_body(type_.present, value)
    return b"".join([traced_body(field.type, value[field.name]) for field in type_.fields])


def scalar_op(type_: AvroType, *, is_unsigned: bool = False) -> AvroOp:
    """Return the op of a scalar type. Raises NotTemplatable for other types."""
    if is_unsigned and type_.kind == "long":
        return _UNSIGNED
    if type_.kind == "fixed":
        return Fixed(type_.size)
    if type_.kind == "union":
        return Union(tuple([scalar_op(branch, is_unsigned=is_unsigned) for branch in type_.branches]))
    found = _PLAIN.get(type_.kind)
    if found is None:
        raise NotTemplatable
    return found
