"""The kernel does what the interpreter does, with templates and messages made at random."""

from __future__ import annotations

from random import Random

from engine_support import ANYWHERE, KERNEL, needs_kernel
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_templates import changed_message, made

from relay.templates.engine import Engine
from relay.templates.interpreter import Interpreter

OFFSETS = (0, 1, 4711, (1 << 63) - 1)


def engines() -> tuple[Engine, Engine]:
    assert KERNEL is not None
    return Interpreter(ANYWHERE), KERNEL(ANYWHERE)


def translations(random: Random, templates: int, messages: int) -> tuple[int, int]:
    """Compare engines with some templates; gives how many messages fitted, and how many did not."""
    python, native = engines()
    sources = [made(random) for _ in range(templates)]
    for source in sources:
        assert python.add(source.template) == native.add(source.template)
    fitted = 0
    for _ in range(messages):
        message = random.choice(sources).message()
        if random.random() < 0.5:
            message = changed_message(random, message)
        record = (None, message, random.choice(OFFSETS), random.choice(OFFSETS))
        expected, found = python.translate(*record), native.translate(*record)
        assert found == expected, (message, [source.template for source in sources])
        fitted += expected is not None
    return fitted, messages - fitted


@needs_kernel
@given(st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_they_agree(random: Random) -> None:
    translations(random, templates=2, messages=6)


@needs_kernel
def test_they_agree_on_many() -> None:
    fitted = refused = 0
    for seed in range(250):
        one, other = translations(Random(seed), templates=1 + seed % 3, messages=12)
        fitted, refused = fitted + one, refused + other
    assert fitted > 300
    assert refused > 300


@needs_kernel
def test_garbage_fits_nothing_and_raises_nothing() -> None:
    random = Random(5)
    python, native = engines()
    for _ in range(6):
        template = made(random).template._replace(key=None)
        python.add(template)
        native.add(template)
    for size in (*range(40), 1000, 100_000):
        for text in (
            random.randbytes(size),
            b"[" * size,
            b'"' * size,
            b"\\" * size,
            b"1" * size,
            b'{"":' * size,
        ):
            record = (None, text, 0, 0)
            assert native.translate(*record) == python.translate(*record)
