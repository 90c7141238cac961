"""Explain why a registry refuses a schema as incompatible with earlier ones, in terms of tables.

`explanation` compares the newest registered schema with the new one, field by field, as far as both can be
read, and returns the violations of the subject's rule and the remedy. It shows names of fields and types, no
values. Source: Apache Avro 1.11 specification, "Schema Resolution"; confluentinc schema-registry,
compatibility types.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from relay.model.avro_types import AvroType, parse_types
from relay.text.redaction import printable, quoted

#: The direction of a rule: whether new readers must read old messages, and old readers new ones.
_READS_OLD: Final = ("BACKWARD", "FULL")
_IS_READ_BY_OLD: Final = ("FORWARD", "FULL")
#: Types as which values of a type can be read (Avro 1.11, "Schema Resolution").
_PROMOTIONS: Final = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}
_MOST_SHOWN: Final = 5


def explanation(old: str | None, new: str, rule: str | None) -> str:
    """Return the incompatibilities, the rule, and the remedy. `old`: None if it is not known."""
    found = list(_differences(old, new, rule or "BACKWARD")) if old is not None else []
    shown = "; ".join(found[:_MOST_SHOWN])
    if len(found) > _MOST_SHOWN:
        shown += f"; and {len(found) - _MOST_SHOWN} more"
    name = f"its compatibility level is {printable(rule)}" if rule else "its compatibility level is not known"
    return f"{shown or 'the registry does not report the field'}; {name}. {_advice(found, rule)}"


def _advice(found: list[str], rule: str | None) -> str:
    allowed = "set the compatibility of the subject to NONE, which suits change events"
    if rule and rule.startswith("BACKWARD") and found and all(_ADDED in each for each in found):
        return f"Either give the column a default, let it be NULL, or {allowed}"
    if len(found) > 1 and any(_RENAMED in each for each in found):
        strategies = "key.subject.name.strategy and value.subject.name.strategy"
        return f"Several tables in one topic need {strategies} = TopicRecordNameStrategy; else {allowed}"
    return allowed[0].upper() + allowed[1:]


_ADDED: Final = "is new and has no default"
_RENAMED: Final = "has another name"


def _differences(old: str, new: str, rule: str) -> Iterator[str]:
    try:
        before, after = parse_types(old), parse_types(new)
    except ValueError:
        return
    yield from dict.fromkeys(_of_types(before, after, "", rule))


def _of_types(old: AvroType, new: AvroType, path: str, rule: str) -> Iterator[str]:
    """Yield the incompatibilities of two types at the same path."""
    one, other = old.present, new.present
    if one.kind == other.kind == "record":
        if one.name.rpartition(".")[2] != other.name.rpartition(".")[2]:
            yield f"record {_at(path)} {_RENAMED} ({quoted(one.name)}, now {quoted(other.name)})"
        yield from _of_fields(one, other, path, rule)
    elif one.kind == other.kind and one.items is not None and other.items is not None:
        yield from _of_types(one.items, other.items, f"{path}[]", rule)
    else:
        yield from _of_kinds(one.kind, other.kind, path, rule)
    was_null, is_null = _may_be_null(old), _may_be_null(new)
    if was_null and not is_null and rule.startswith(_READS_OLD):
        yield f"field {_at(path)} could be null, and cannot be now"
    if is_null and not was_null and rule.startswith(_IS_READ_BY_OLD):
        yield f"field {_at(path)} can be null, and could not be before"


def _of_kinds(old: str, new: str, path: str, rule: str) -> Iterator[str]:
    if old == new:
        return
    reads_old = new in _PROMOTIONS.get(old, ())
    is_read = old in _PROMOTIONS.get(new, ())
    if (rule.startswith(_READS_OLD) and not reads_old) or (rule.startswith(_IS_READ_BY_OLD) and not is_read):
        yield f"field {_at(path)} was {old} and is {new}"


def _of_fields(old: AvroType, new: AvroType, path: str, rule: str) -> Iterator[str]:
    before = {field.name: field for field in old.fields}
    after = {field.name: field for field in new.fields}
    for name, field in after.items():
        at = f"{path}.{name}" if path else name
        if name in before:
            yield from _of_types(before[name].type, field.type, at, rule)
        elif rule.startswith(_READS_OLD) and "default" not in field.attributes:
            yield f"field {_at(at)} {_ADDED}"
    for name, field in before.items():
        if name not in after and rule.startswith(_IS_READ_BY_OLD) and "default" not in field.attributes:
            yield f"field {_at(f'{path}.{name}' if path else name)} is gone and had no default"


def _may_be_null(type_: AvroType) -> bool:
    return type_.kind == "null" or any(branch.kind == "null" for branch in type_.branches)


def _at(path: str) -> str:
    return quoted(path) if path else "at the top"
