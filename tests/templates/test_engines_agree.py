"""The kernel does what the interpreter does, with templates and messages made at random."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest
from engine_support import ANYWHERE, KERNEL, filled, needs_kernel, template
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_templates import Made, changed_message, made
from reference_engine import Interpreter

from relay.templates.engine import Engine
from relay.templates.ops import Constant, Marker, Put, Repeated, Take, Template, Unordered

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
        record = (None, message, random.choice(OFFSETS), random.choice(OFFSETS), b"t/3/")
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
def test_they_agree_with_more_templates_than_caches_hold() -> None:
    """The kernel fetches the memory of those that it has not used for a while."""
    assert KERNEL is not None
    random, marker = Random(8), Marker("value", b"", b":")
    python, native = Interpreter(marker), KERNEL(marker)
    rows = template((Repeated((Take(("integer",)),), b","),), (Put((0,)),))
    sources = [Made(rows, lambda: b"12") if at % 9 == 0 else made(random) for at in range(2_000)]
    for number, source in enumerate(sources):
        own = source.template._replace(value=(Constant(b"%d:" % number), *(source.template.value or ())))
        assert python.add(own) == native.add(own) == number
    fitted = 0
    for number in random.choices(range(len(sources)), k=4_000):
        record = (None, b"%d:%b" % (number, sources[number].message()), 0, 0, b"t/3/")
        expected = python.translate(*record)
        assert native.translate(*record) == expected
        fitted += expected is not None
    assert fitted > 1_000


@needs_kernel
def test_garbage_fits_nothing_and_raises_nothing() -> None:
    random = Random(5)
    python, native = engines()
    for _ in range(6):
        one = made(random).template._replace(key=None)
        python.add(one)
        native.add(one)
    for size in (*range(40), 1000, 100_000):
        for text in (
            random.randbytes(size),
            b"[" * size,
            b'"' * size,
            b"\\" * size,
            b"1" * size,
            b'{"":' * size,
        ):
            record = (None, text, 0, 0, b"")
            assert native.translate(*record) == python.translate(*record)


def unordered(names: Iterable[bytes]) -> Template:
    """A template of an object with these members, each of them 1."""
    members = Unordered(tuple(b'"%s":1' % name for name in names))
    return template((Constant(b"{"), members, Constant(b"}")), (Constant(b"ok"),))


@needs_kernel
def test_members_that_are_found_too_slowly_have_no_template() -> None:
    """So that names chosen for it cannot make a message take the square of the time."""
    _, native = engines()
    native.add(unordered(b"c%d:%d" % (number, number) for number in range(4000)))
    native.add(unordered(b"%d" % number for number in range(4000)))
    with pytest.raises(ValueError, match="found too slowly"):
        native.add(unordered(b"a:%d" % number for number in range(4000)))


def first_slot(name: bytes, slots: int) -> int:
    """Where the kernel looks for a name of up to 6 bytes at first, in its first table (`names.rs`)."""
    product = int.from_bytes(b'"%s"' % name, "little") * 0x9E3779B97F4A7C15
    return (product ^ product >> 64) % slots


@needs_kernel
def test_names_chosen_for_the_same_place_are_found() -> None:
    _, native = engines()
    numbers = (b"%d" % number for number in range(100_000))
    names = [name for name in numbers if first_slot(name, 128) == 7][:60]
    assert len(names) == 60
    native.add(unordered(names))
    Random(4).shuffle(names)
    message = b"{" + b",".join(b'"%s":1' % name for name in names) + b"}"
    assert filled(native, message) == b"ok"
