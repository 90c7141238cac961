"""Members of a JSON message that its protocol does not define.

A codec declares its messages as structs and parses them with a `MessageParser`. It refuses other members in
every object of a message, at no cost. A message that has some is parsed again without them, and carries them
in `unknown`, by path, for `Source.unknown_fields`. A member that a producer sends and relay does not use is
declared as `Any`.
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Generic,
    NamedTuple,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)

import msgspec
from msgspec import inspect

from relay.codecs.shared.lenient_json import REFUSED
from relay.model.events import Source

#: Unknown members by path, such as `payload.source.region`.
Unknown = Mapping[str, Any]


class OpenMessage(msgspec.Struct, gc=False):
    """A message, or a part that is parsed separately. `unknown`: members that its structs do not define."""

    unknown: ClassVar[Unknown | None] = None


T = TypeVar("T", bound=OpenMessage)


class MessageParser(Generic[T]):
    """Parses messages of one type.

    `exact`: the type with unknown members forbidden, in itself and in its parts. `decode` parses it and
    raises msgspec.ValidationError for a message with other members.
    """

    def __init__(self, message: type[T]) -> None:
        self.exact = exact_type(message)
        self.decode: Callable[[bytes | msgspec.Raw], T] = msgspec.json.Decoder(self.exact).decode
        self._open: Any = msgspec.defstruct(
            message.__name__, [("unknown", Any, None)], bases=(message,), namespace=_EQUALITY, kw_only=True
        )
        self._decode_open = msgspec.json.Decoder(self._open).decode
        self._node = _node_of(inspect.type_info(message))

    def parse(self, data: bytes | msgspec.Raw) -> T:
        """Parse a message. Raises msgspec's errors."""
        try:
            return self.decode(data)
        except msgspec.ValidationError:
            return self.parse_open(data)

    def parse_open(self, data: bytes | msgspec.Raw, beside: Unknown | None = None) -> T:
        """Parse a message that `decode` may have refused; `beside`: unknown members of its record's other
        parts. Raises msgspec's errors.
        """
        return self._with_unknown(self._decode_open(data), msgspec.Raw(data), beside)

    def convert(self, document: Mapping[str, Any], *, strict: bool = False) -> T:
        """Return the message of a parsed document; its numbers may be text unless `strict`. Raises
        msgspec.ValidationError.
        """
        return self._with_unknown(msgspec.convert(document, self._open, strict=strict), document)

    def _with_unknown(self, message: Any, document: object, beside: Unknown | None = None) -> T:  # noqa: ANN401 - a class made at run time
        found: dict[str, Any] = dict(beside or {})
        _find(document, self._node, "", found)
        message.unknown = found or None
        return cast("T", message)

    @staticmethod
    def set_unknown(message: Any, unknown: Unknown | None) -> None:  # noqa: ANN401 - a class made at run time
        """Set the unknown members of a message that `decode` has refused."""
        message.unknown = unknown or None


@functools.cache
def parser_of(message: type[T]) -> MessageParser[T]:
    """Return the parser of a type. It has no state, and making one takes milliseconds."""
    return MessageParser(message)


def merged(*found: Unknown | None) -> Unknown | None:
    """Return the unknown members of several parts of a message; None if there are none."""
    present = [each for each in found if each]
    if len(present) < 2:
        return present[0] if present else None
    return functools.reduce(operator.or_, map(dict, present))


def unknown_in(members: Mapping[str, Any], known: AbstractSet[str]) -> Unknown | None:
    """Return the members of an object that are not among these."""
    return {name: value for name, value in members.items() if name not in known} or None


def with_unknown(source: Source, unknown: Unknown | None) -> Source:
    """Return a source that has these unknown members besides its own."""
    if unknown is None:
        return source
    return msgspec.structs.replace(source, unknown_fields=merged(source.unknown_fields, unknown))


def below(path: str, found: Unknown | None) -> Unknown | None:
    """Return the unknown members of a part of a message that is parsed separately; `path`: its path."""
    if found is None:
        return None
    return {_joined(path, name): value for name, value in found.items()}


# ---------------------------------------------------------------- exact types


def _equal(one: Any, other: Any) -> bool:  # noqa: ANN401 - classes made at run time
    """Compare parsed structs with those that relay makes: structs of two types are never equal to msgspec."""
    if isinstance(one, type(other)):
        fields = type(other).__struct_fields__
    elif isinstance(other, type(one)):
        fields = type(one).__struct_fields__
    else:
        return False
    return bool(all(getattr(one, name) == getattr(other, name) for name in fields))


_EQUALITY: Final = {"__eq__": _equal, "__hash__": None}


@functools.cache
def exact_type(message: type[Any]) -> Any:  # noqa: ANN401 - a class made at run time
    """Return a type that refuses messages with members that `message` and its parts do not define."""
    declared: Any = msgspec.field  # its overloads take a default or a factory, not either
    fields = [
        (
            each.name,
            _exact(each.type),
            declared(name=each.encode_name, default=each.default, default_factory=each.default_factory),
        )
        for each in msgspec.structs.fields(message)
    ]
    return msgspec.defstruct(
        message.__name__,
        fields,
        bases=(message,),
        namespace=_EQUALITY,
        kw_only=True,
        forbid_unknown_fields=True,
    )


def _exact(annotation: Any) -> Any:  # noqa: ANN401 - any type that msgspec has
    """Return a type with its structs replaced by exact ones."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return exact_type(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return Annotated[(_exact(arguments[0]), *arguments[1:])]
    if origin in {Union, types.UnionType}:
        return Union[tuple(map(_exact, arguments))]  # noqa: UP007 - made at run time
    if origin in {list, dict, tuple}:
        return origin[tuple(map(_exact, arguments))]
    return annotation


# ---------------------------------------------------------------- finding


class DefinedObject:
    """An object with these members. The value of each describes its own members, None if it has none."""

    def __init__(self, members: dict[str, Defined | None]) -> None:
        self.members = members


class DefinedItems(NamedTuple):
    """A list of such values, or an object that has them under any names."""

    node: Defined


Defined = DefinedObject | DefinedItems


def find_unknown(data: bytes, node: Defined, path: str) -> Unknown | None:
    """Return the undefined members of JSON text, by path; None if there are none, or if it is not JSON.

    Bytes that are not UTF-8 become U+FFFD in their values.
    """
    found: dict[str, Any] = {}
    try:
        _find(msgspec.Raw(data), node, path, found)
    except UnicodeDecodeError:
        return find_unknown(data.decode("utf-8", "replace").encode(), node, path)
    return found or None


def _node_of(type_: inspect.Type) -> Defined | None:
    """Return the node that defines member names in values of a type; None if nothing does."""
    match type_:
        case inspect.StructType(fields=fields):
            return DefinedObject({field.encode_name: _node_of(field.type) for field in fields})
        case inspect.ListType(item_type=item) | inspect.DictType(value_type=item):
            node = _node_of(item)
            return None if node is None else DefinedItems(node)
        case inspect.UnionType(types=choices):
            return next((node for node in map(_node_of, choices) if node is not None), None)
        case _:
            return None


def _find(value: object, node: Defined | None, path: str, found: dict[str, Any]) -> None:
    """Find the undefined members of a value, JSON or parsed."""
    if node is None:
        return
    part = _parts(value)
    if isinstance(node, DefinedObject):
        for name, member in part.items() if isinstance(part, dict) else ():
            if name not in node.members:
                found[_joined(path, name)] = _plain(member)
            elif (inner := node.members[name]) is not None:
                _find(member, inner, _joined(path, name), found)
    elif isinstance(part, dict):
        for name, member in part.items():
            _find(member, node.node, _joined(path, name), found)
    elif isinstance(part, list):
        for at, item in enumerate(part):
            _find(item, node.node, f"{path}[{at}]", found)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


_decode_parts: Final = msgspec.json.Decoder(dict[str, msgspec.Raw] | list[msgspec.Raw]).decode
_decode_value: Final = msgspec.json.Decoder().decode


def _parts(value: object) -> object:
    """Return the members or the items of a value; any other object for a value without parts."""
    if not isinstance(value, msgspec.Raw):
        return value
    try:
        return _decode_parts(value)
    except REFUSED:
        return None


def _plain(value: object) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value of an unknown member; its text if it is not valid JSON. Raises UnicodeDecodeError."""
    if not isinstance(value, msgspec.Raw):
        return value
    try:
        return _decode_value(value)
    except REFUSED:
        return bytes(value).decode()
