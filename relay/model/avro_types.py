"""Parses Avro schemas into types that codecs map to values.

`parse_types` returns the type of a schema's text with every name resolved, or raises ValueError with the
reason. It refuses schemas that let a message expand without bound: recursive ones, deeply nested ones, and
those that turn few bytes into very many values. Attributes unknown to Avro (`connect.name`) are kept on their
type or field. Source: Apache Avro 1.11 specification.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
#: Minimum encoded bytes of a value; 1 for types not listed.
_LEAST_BYTES: Final = {"null": 0, "float": 4, "double": 8}
_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
#: Members of a type or a field that are not attributes.
_STRUCTURE: Final = frozenset({"type", "name", "namespace", "fields", "items", "values", "symbols", "size"})
_DEEPEST: Final = 64
#: Maximum values of a schema, with each reference counted in full, and maximum values per byte of a list.
_MOST_VALUES: Final = 100_000
_MOST_VALUES_OF_A_BYTE: Final = 256


class AvroField(msgspec.Struct, frozen=True, gc=False):
    """A field of a record. `attributes`: `default` and all members unknown to Avro."""

    name: str
    type: AvroType
    attributes: Mapping[str, Any]


class AvroType(msgspec.Struct, frozen=True, eq=False):
    """A type. `kind`: a primitive, or `record`, `error`, `enum`, `fixed`, `array`, `map`, `union`.

    name: Full name of a named type.
    attributes: Logical types and all members unknown to Avro.
    items: Type of the elements of an array or the values of a map.
    least_bytes: Minimum encoded bytes of a value.
    values: Maximum values in one value, without the elements of lists.
    """

    kind: str
    name: str = ""
    attributes: Mapping[str, Any] = msgspec.field(default_factory=dict)
    fields: tuple[AvroField, ...] = ()
    items: AvroType | None = None
    branches: tuple[AvroType, ...] = ()
    symbols: tuple[str, ...] = ()
    size: int = 0
    least_bytes: int = 1
    values: int = 1

    @property
    def is_optional(self) -> bool:
        """Whether this is a union of null and one other type."""
        return len(self.branches) == 2 and any(branch.kind == "null" for branch in self.branches)

    @property
    def present(self) -> AvroType:
        """The other type of an optional one; otherwise the type itself."""
        if not self.is_optional:
            return self
        first, second = self.branches
        return second if first.kind == "null" else first


def parse_types(text: str, references: Sequence[tuple[str, str]] = ()) -> AvroType:
    """Parse a schema. `references`: names and texts of schemas that it may refer to.

    Raises ValueError.
    """
    reading = _Reading()
    for _, other in references:
        reading.announce(_document(other), "", 0)
    return reading.type(_document(text), "", 0)


def _document(text: str) -> Any:  # noqa: ANN401 - any JSON
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        raise ValueError("is not JSON") from None


class _Reading:
    """The state of parsing one schema: the named types so far, by full name."""

    def __init__(self) -> None:
        self._types: dict[str, AvroType] = {}
        self._open: set[str] = set()
        #: Definitions in referenced schemas, each with its enclosing namespace.
        self._elsewhere: dict[str, tuple[Any, str]] = {}

    def announce(self, node: Any, namespace: str, depth: int) -> None:  # noqa: ANN401 - any JSON
        """Record the named types of a referenced schema."""
        _check_depth(depth)
        if isinstance(node, list):
            for branch in node:
                self.announce(branch, namespace, depth + 1)
        if not isinstance(node, dict):
            return
        kind = node.get("type")
        if isinstance(kind, str) and kind in _NAMED:
            name, namespace = _full_name(node, namespace)
            self._elsewhere.setdefault(name, (node, namespace))
        for field in node.get("fields") or ():
            if isinstance(field, dict):
                self.announce(field.get("type"), namespace, depth + 1)
        for part in (kind, node.get("items"), node.get("values")):
            self.announce(part, namespace, depth + 1)

    def type(self, node: Any, namespace: str, depth: int) -> AvroType:  # noqa: ANN401 - any JSON
        """Return the type of a node. Raises ValueError."""
        _check_depth(depth)
        if isinstance(node, str):
            return self._primitive(node, {}) if node in PRIMITIVES else self._named(node, namespace, depth)
        if isinstance(node, list):
            return self._union(node, namespace, depth)
        if not isinstance(node, dict):
            raise ValueError("has something that is not a type")  # noqa: TRY004 - of a text, not of an argument
        kind = node.get("type")
        if not isinstance(kind, str):
            return self.type(kind, namespace, depth + 1)
        attributes = {name: value for name, value in node.items() if name not in _STRUCTURE}
        if kind in PRIMITIVES:
            return self._primitive(kind, attributes)
        if kind in _NAMED:
            return self._definition(node, kind, attributes, namespace, depth)
        if kind in {"array", "map"}:
            return self._list(node, kind, attributes, namespace, depth)
        return self._named(kind, namespace, depth)

    def _primitive(self, kind: str, attributes: Mapping[str, Any]) -> AvroType:
        return AvroType(kind, attributes=attributes, least_bytes=_LEAST_BYTES.get(kind, 1))

    def _named(self, name: str, namespace: str, depth: int) -> AvroType:
        """Resolve a name in this namespace."""
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        for each in (full, name):
            if each in self._open:
                raise ValueError("contains itself, which relay does not read")
            if each in self._types:
                return self._types[each]
            if each in self._elsewhere:
                node, around = self._elsewhere[each]
                return self.type(node, around, depth + 1)
        raise ValueError("names a type that it does not have")

    def _union(self, node: list[Any], namespace: str, depth: int) -> AvroType:
        branches = tuple([self.type(branch, namespace, depth + 1) for branch in node])
        if not branches or any(branch.kind == "union" for branch in branches):
            raise ValueError("has a union of nothing, or of unions")
        least = 1 + min(branch.least_bytes for branch in branches)
        return AvroType(
            "union",
            branches=branches,
            least_bytes=least,
            values=_bounded(max(branch.values for branch in branches)),
        )

    def _list(
        self, node: dict[str, Any], kind: str, attributes: Mapping[str, Any], namespace: str, depth: int
    ) -> AvroType:
        items = self.type(node.get("items" if kind == "array" else "values"), namespace, depth + 1)
        least = items.least_bytes + (kind == "map")
        if items.values > _MOST_VALUES_OF_A_BYTE * least:
            raise ValueError("has a list in which few bytes could become very many values")
        return AvroType(kind, attributes=attributes, items=items, values=items.values)

    def _definition(
        self, node: dict[str, Any], kind: str, attributes: Mapping[str, Any], namespace: str, depth: int
    ) -> AvroType:
        name, namespace = _full_name(node, namespace)
        if name in self._types or name in self._open:
            raise ValueError("defines a name twice")
        if kind == "enum":
            found = AvroType(kind, name, attributes, symbols=_symbols(node))
        elif kind == "fixed":
            size = node.get("size")
            if type(size) is not int or not 0 <= size <= _MOST_FIXED:
                raise ValueError("has a fixed without a size")
            found = AvroType(kind, name, attributes, size=size, least_bytes=size)
        else:
            self._open.add(name)
            fields = self._fields(node.get("fields"), namespace, depth)
            self._open.discard(name)
            least = sum(field.type.least_bytes for field in fields)
            values = _bounded(1 + sum(field.type.values for field in fields))
            found = AvroType("record", name, attributes, fields, least_bytes=least, values=values)
        self._types[name] = found
        return found

    def _fields(self, nodes: Any, namespace: str, depth: int) -> tuple[AvroField, ...]:  # noqa: ANN401 - any JSON
        if not isinstance(nodes, list):
            raise ValueError("has a record without fields")  # noqa: TRY004 - of a text, not of an argument
        fields = []
        for node in nodes:
            if not isinstance(node, dict) or not isinstance(node.get("name"), str) or "type" not in node:
                raise ValueError("has a field without a name or a type")
            attributes = {name: value for name, value in node.items() if name not in _STRUCTURE}
            fields.append(AvroField(node["name"], self.type(node["type"], namespace, depth + 1), attributes))
        if len({field.name for field in fields}) < len(fields):
            raise ValueError("has two fields of one name")
        return tuple(fields)


_MOST_FIXED: Final = 1 << 20
_SYMBOL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII).fullmatch


def _symbols(node: Mapping[str, Any]) -> tuple[str, ...]:
    found = node.get("symbols")
    if not isinstance(found, list) or not all(isinstance(symbol, str) for symbol in found):
        raise ValueError("has an enum without symbols")
    if not all(map(_SYMBOL, found)) or len(set(found)) < len(found):
        raise ValueError("has an enum with an invalid or duplicate symbol")
    return tuple(found)


def _bounded(values: int) -> int:
    if values > _MOST_VALUES:
        raise ValueError("has more values than relay reads")
    return values


def _check_depth(depth: int) -> None:
    if depth > _DEEPEST:
        raise ValueError(f"is nested more than {_DEEPEST} deep")


def _full_name(node: Mapping[str, Any], around: str) -> tuple[str, str]:
    """Return the full name of a definition, and the namespace that applies inside it."""
    name, namespace = node.get("name"), node.get("namespace")
    if not isinstance(name, str) or not name:
        raise ValueError("has a named type without a name")
    if "." in name:
        return name, name.rpartition(".")[0]
    if not isinstance(namespace, str):
        namespace = around
    return (f"{namespace}.{name}" if namespace else name), namespace
