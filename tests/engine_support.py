"""Engines for tests: the interpreter, and the kernel where it is installed."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from reference_engine import Interpreter

from relay.io import kernel
from relay.templates.engine import Engine
from relay.templates.ops import Condition, Marker, SourceOp, TargetOp, Template

KERNEL = kernel.installed().engine
needs_kernel = pytest.mark.skipif(
    KERNEL is None, reason="the native kernel is not installed; `make setup` builds it where there is Rust"
)
#: The kernel, or the reference engine where it is not installed.
ENGINE = KERNEL or Interpreter
#: For parametrize: a test that takes an engine is run with each.
ENGINES = [
    pytest.param(Interpreter, id="interpreter"),
    pytest.param(KERNEL, id="kernel", marks=needs_kernel),
]
#: A marker that all messages have.
ANYWHERE = Marker("value", b"", b"")
NO_LIMIT = 1 << 40


def template(
    source: Iterable[SourceOp],
    target: Iterable[TargetOp],
    conditions: Iterable[Condition] = (),
    most_bytes: int = NO_LIMIT,
) -> Template:
    """A template of values without keys."""
    return Template(None, tuple(source), tuple(conditions), None, tuple(target), most_bytes)


def filled(engine: Engine, value: bytes, offset: int = 7, time_ms: int = 1_700_000_000_123) -> bytes | None:
    """The target's value for a message without a key; None if it fits no template."""
    translated = engine.translate(None, value, offset, time_ms, b"")
    if translated is None:
        return None
    _number, key, filled_value, _mark = translated
    assert key is None
    return filled_value
