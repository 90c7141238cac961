"""The functions of a template's conversions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from reference_engine.conversions import READS, WRITES
from relay.templates.ops import Avro, Changed, Conversion, Differ, Fits, Put, Sized, TargetOp, Template

Function = Callable[[object], object]


class Functions(NamedTuple):
    """The functions that read and write a template's values, by conversion."""

    reads: Mapping[Conversion, Function]
    writes: Mapping[Conversion, Function]

    @classmethod
    def for_template(cls, template: Template) -> Functions:
        """Return those of a template. Raises ValueError if a conversion has no function."""
        puts = list(_puts(template))
        reads = {put.read: _function(READS, put.read) for put in puts if put.read is not None}
        wanted = [write for put in puts for write in (put.write, put.losses) if write is not None]
        return cls(reads, {write: _function(WRITES, write) for write in wanted})


def _puts(template: Template) -> Iterator[Put]:
    """Give all values that a template writes."""
    for condition in template.conditions:
        if isinstance(condition, Fits):
            yield condition.put
        elif isinstance(condition, Differ):
            yield from itertools.chain(*condition.pairs)
    for target in template.targets:
        yield from _puts_of(target.key or ())
        yield from _puts_of(target.value or ())


def _puts_of(ops: Iterable[TargetOp]) -> Iterator[Put]:
    for op in ops:
        match op:
            case Put():
                yield op
            case Changed(members):
                for _, old, new in members:
                    yield from (old, new)
            case Avro(_, value):
                yield from _puts_of((value,))
            case Sized(_, inner):
                yield from _puts_of(inner)


def _function(table: Mapping[str, Callable[..., Function]], conversion: Conversion) -> Function:
    name, *parameters = conversion
    if not isinstance(name, str) or name not in table:
        raise ValueError(f"no conversion has the name {name!r}")
    return table[name](*parameters)
