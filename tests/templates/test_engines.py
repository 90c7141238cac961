"""What engines do around the ops: finding templates by the marker, keys and values, what they refuse."""

from __future__ import annotations

import random

import pytest
from engine_support import ANYWHERE, ENGINES, NO_LIMIT, filled, template

from relay import ConsumerRecord
from relay.templates.engine import CREDIT_PER_MATCH, MAX_CREDIT, MAX_TRIED, TRY_INTERVAL, Engine
from relay.templates.ops import (
    TIME_MS,
    Above,
    Below,
    Changed,
    Choice,
    Constant,
    Length,
    Marker,
    Members,
    Number,
    OneOf,
    Put,
    Same,
    Sized,
    SourceOp,
    Take,
    TargetOp,
    Template,
    Unordered,
)
from relay.templates.route.markers import marked_text

pytestmark = pytest.mark.parametrize("make", ENGINES)

TAKE = Take(("integer", "string"))
#: The mark of what is at offset 0 of partition 3.
MARK = b"t/3/0/0"


def numbered(number: int, kind: str = "integer") -> Template:
    """A template of messages such as `{"t":1,"v":5}`, by the number of their t."""
    source = (Constant(b'{"t":%d,"v":' % number), Take((kind,)), Constant(b"}"))  # type: ignore[arg-type]  # names that are not there, too
    return template(source, (Constant(b"%s %d " % (kind.encode(), number)), Put((0,))))


MARKER = Marker("value", b"", b',"v":')


def test_templates_are_found_by_the_marker(make: type[Engine]) -> None:
    engine = make(MARKER)
    numbers = [engine.add(numbered(number)) for number in range(100)]
    assert sorted(numbers) == list(range(100))
    for number in random.Random(1).sample(range(100), 20):
        translated = engine.translate(None, b'{"t":%d,"v":5}' % number, 0, 0, b"t/3/")
        assert translated == (numbers[number], None, b"integer %d 5" % number, MARK)
    assert filled(engine, b'{"t":100,"v":5}') is None
    assert filled(engine, b'{"t":1}') is None
    assert filled(engine, b"") is None
    assert engine.translate(b"{}", None, 0, 0, b"t/3/") is None
    assert engine.translate(None, None, 0, 0, b"t/3/") is None


def test_values_of_avro_are_in_the_marker(make: type[Engine]) -> None:
    marker = Marker("value", size=1, values=("string", "long"))
    engine = make(marker)
    texts = [b"a\4xy\2", b"a\4xz\2", b"a\4xy\x80\1"]
    numbers = {text: engine.add(template((Constant(text + b";"), TAKE), (Put((0,)),))) for text in texts}
    for text, number in numbers.items():
        record = ConsumerRecord("t", 3, 0, 0, None, text + b";5")
        assert engine.translate(None, record.value, 0, 0, b"t/3/") == (number, None, b"5", MARK)
        assert marked_text(marker, record) == text
    for odd in (
        b"",
        b"a",
        b"a\4x",
        b"a\4xy",
        b"a\3xy\2;5",
        b"a\4xy\x80",
        b"a" + b"\x80" * 10 + b"\1",
        b"a\xff\x7f",
    ):
        assert filled(engine, odd) is None
        assert marked_text(marker, ConsumerRecord("t", 3, 0, 0, None, odd)) not in numbers


@pytest.mark.parametrize(
    ("marker", "source"),
    [
        (Marker("value", b"", b"x"), (Constant(b"a"), TAKE, Constant(b"x"))),
        (Marker("value", b"", b"x"), (TAKE, Constant(b"x"))),
        (Marker("value", b"s", b"e"), (Constant(b"s"), TAKE, Constant(b"e"))),
        (Marker("value", b"s", b"e"), (Constant(b"e"), TAKE, Constant(b"s"))),
        (Marker("value", b"s", b"e"), ()),
        (Marker("key", b"", b"x"), (Constant(b"x"),)),
        (Marker("value", size=1, values=("string",)), (Constant(b"a\2"), TAKE)),
        (Marker("value", size=1, values=("long",)), (Constant(b"a\x80"), TAKE)),
    ],
)
def test_the_marker_is_in_the_constants(
    make: type[Engine], marker: Marker, source: tuple[SourceOp, ...]
) -> None:
    with pytest.raises(ValueError, match="marker"):
        make(marker).add(template(source, ()))


def test_a_marker_in_the_middle_of_a_key(make: type[Engine]) -> None:
    engine = make(Marker("key", b',"scm":', b"}"))
    key = (
        Constant(bytes(8)),
        Length(8),
        Constant(b'{"ts":'),
        TAKE,
        Constant(b',"scm":"a","tbl":'),
        Constant(b'"b"}'),
    )
    value = (Constant(b"v"), TAKE)
    number = engine.add(Template(key, value, (), (Put((1,)),), (Put((0,)),), NO_LIMIT))
    text = b'{"ts":12,"scm":"a","tbl":"b"}'
    framed = bytes(8) + len(text).to_bytes(8, "big") + text
    assert engine.translate(framed, b'v"x"', 0, 0, b"t/3/") == (number, b'"x"', b"12", MARK)
    assert engine.translate(framed, None, 0, 0, b"t/3/") is None
    assert engine.translate(framed.replace(b'"b"', b'"c"'), b'v"x"', 0, 0, b"t/3/") is None
    assert engine.translate(None, b'v"x"', 0, 0, b"t/3/") is None


@pytest.mark.parametrize("has_key", [True, False])
@pytest.mark.parametrize("has_value", [True, False])
def test_parts_that_are_not_there(make: type[Engine], has_key: bool, has_value: bool) -> None:
    """An empty part is not one that is missing, neither in the source nor in the target."""
    engine = make(Marker("key", b"", b""))
    source_value, value = (((), b""), (None, None))[not has_value]
    target_key, key = (((), b""), (None, None))[not has_key]
    number = engine.add(Template((Constant(b"k"),), source_value, (), target_key, None, NO_LIMIT))
    assert engine.translate(b"k", value, 0, 0, b"t/3/") == (number, key, None, MARK)
    assert engine.translate(b"k", b"" if value is None else None, 0, 0, b"t/3/") is None


def test_key_and_value_together_have_a_limit(make: type[Engine]) -> None:
    engine = make(ANYWHERE)
    engine.add(Template(None, (TAKE,), (), (Constant(b"k"),), (Put((0,)),), 5))
    assert engine.translate(None, b"1234", 0, 0, b"t/3/") == (0, b"k", b"1234", MARK)
    assert engine.translate(None, b"12345", 0, 0, b"t/3/") is None


def test_the_one_that_fitted_last_is_tried_first(make: type[Engine]) -> None:
    """Both fit, and the number says which was taken."""
    engine = make(ANYWHERE)
    integers = engine.add(template((Take(("integer",)),), (Constant(b"integer"),)))
    anything = engine.add(template((Take(("integer", "string")),), (Constant(b"anything"),)))
    assert filled(engine, b"1") == b"anything", "the new one is tried first"
    engine.remove(anything)
    assert filled(engine, b"1") == b"integer"
    anything = engine.add(template((Take(("string",)),), (Constant(b"text"),)))
    again = engine.add(template((Take(("integer", "number")),), (Constant(b"number"),)))
    assert filled(engine, b'"x"') == b"text"
    assert filled(engine, b"1") == b"number"
    engine.remove(again)
    assert filled(engine, b"1") == b"integer"
    assert filled(engine, b'"x"') == b"text"
    assert len({integers, anything, again}) == 3


def just(value: int) -> Template:
    """A template of `{"t":1,"v":value}` alone."""
    return numbered(1)._replace(conditions=(Above(0, value - 1), Below(0, value + 1)))


def test_only_so_many_have_the_same_marker(make: type[Engine]) -> None:
    engine = make(MARKER)
    other = engine.add(numbered(2))
    numbers = [engine.add(just(value)) for value in range(MAX_TRIED)]
    assert filled(engine, b'{"t":1,"v":0}') == b"integer 1 0"
    assert engine.add(just(MAX_TRIED)) == numbers[1], "the one that waits for longest gives its number"
    assert filled(engine, b'{"t":1,"v":1}') is None
    assert engine.translate(None, b'{"t":1,"v":0}', 0, 0, b"t/3/") == (numbers[0], None, b"integer 1 0", MARK)
    assert engine.translate(None, b'{"t":1,"v":%d}' % MAX_TRIED, 0, 0, b"t/3/") == (
        numbers[1],
        None,
        b"integer 1 %d" % MAX_TRIED,
        MARK,
    )
    assert engine.translate(None, b'{"t":2,"v":7}', 0, 0, b"t/3/") == (other, None, b"integer 2 7", MARK)


def test_where_hardly_any_message_fits_few_are_tried(make: type[Engine]) -> None:
    engine = make(MARKER)
    engine.add(numbered(1))
    engine.add(numbered(2))
    odd, good = b'{"t":1,"v":"x"}', b'{"t":1,"v":7}'
    for _ in range(MAX_CREDIT):
        assert filled(engine, odd) is None
    assert filled(engine, b'{"t":2,"v":7}') == b"integer 2 7", "those of another marker are tried"
    tried = [filled(engine, good) is not None for _ in range(TRY_INTERVAL)]
    assert tried == [False] * (TRY_INTERVAL - 1) + [True]
    for _ in range(CREDIT_PER_MATCH):
        assert filled(engine, odd) is None
    assert filled(engine, good) is None, "one that fitted has paid for no more"


def test_a_new_template_is_tried(make: type[Engine]) -> None:
    engine = make(MARKER)
    engine.add(numbered(1))
    for _ in range(MAX_CREDIT):
        assert filled(engine, b'{"t":1,"v":"x"}') is None
    engine.add(just(5))
    assert filled(engine, b'{"t":1,"v":5}') == b"integer 1 5"


def test_a_template_that_is_there_already_keeps_its_number(make: type[Engine]) -> None:
    engine = make(MARKER)
    numbers = [engine.add(just(value)) for value in range(MAX_TRIED)]
    assert [engine.add(just(value)) for value in range(MAX_TRIED)] == numbers
    assert [filled(engine, b'{"t":1,"v":%d}' % value) for value in (0, 5)] == [b"integer 1 0", b"integer 1 5"]


def test_eight_templates_of_which_half_the_messages_fit_one_are_tried(make: type[Engine]) -> None:
    engine = make(MARKER)
    for value in range(MAX_TRIED):
        engine.add(just(value))
    found = [filled(engine, b'{"t":1,"v":%s}' % text) for _ in range(100) for text in (b"7", b'"x"')]
    assert len(found) - found.count(None) == 100


def test_templates_are_forgotten(make: type[Engine]) -> None:
    engine = make(MARKER)
    one, two = engine.add(numbered(1)), engine.add(numbered(2))
    engine.remove(one)
    engine.remove(one)
    engine.remove(77)
    engine.remove(-1)
    assert filled(engine, b'{"t":1,"v":7}') is None
    assert filled(engine, b'{"t":2,"v":7}') == b"integer 2 7"
    assert engine.add(numbered(3)) != two
    engine.clear()
    assert filled(engine, b'{"t":2,"v":7}') is None
    engine.add(numbered(2))
    assert filled(engine, b'{"t":2,"v":7}') == b"integer 2 7"


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ((), (Put((0,)),)),
        ((TAKE,), (Put((1,)),)),
        ((TAKE,), (Put((-1,)),)),
        ((TAKE,), (Choice((1,), b"", b""),)),
        ((TAKE,), (Number(-3),)),
        ((TAKE,), (Number(1),)),
        ((TAKE,), (Number(0, (), ((1, ()),)),)),
        ((TAKE,), (Changed(((b"", Put((0,)), Put((1,))),)),)),
        ((TAKE,), (Sized(8, (Put((1,)),)),)),
        ((TAKE,), (Sized(0, ()),)),
        ((TAKE,), (Sized(9, ()),)),
        ((Length(0), TAKE), ()),
        ((TAKE,), (Number(0, (("//", 0),)),)),
        ((TAKE,), (Number(0, (("%", 0),)),)),
        ((TAKE,), (Number(0, (("<<", 128),)),)),
        ((TAKE,), (Number(0, ((">>", -1),)),)),
        ((TAKE,), (Number(0, (("+", 1 << 127),)),)),
        ((TAKE,), (Number(0, (("clock", 86_400),)),)),
        ((TAKE,), (Number(0, (("clock", -86_400),)),)),
        ((TAKE,), (Number(0, (("clock", -(1 << 63)),)),)),
        ((TAKE,), (Number(0, (("datetime", 86_400),)),)),
        ((TAKE,), (Number(0, (("+", 1), ("datetime", 0))),)),
        ((TAKE,), (Number(TIME_MS, (("datetime", 0),)),)),
        ((TAKE,), (Number(0, (("**", 2),)),)),  # type: ignore[arg-type]  # names that are not there, too
        ((TAKE,), (Put((0,), ("no such name",)),)),
        ((TAKE,), (Put((0,), None, ("no such name",)),)),
        ((TAKE,), (Changed(((b"", Put((0,)), Put((0,), ("no such name",))),)),)),
        ((OneOf((b"a", b"ab")),), ()),
        ((Unordered((b'"a":1', b'"a":1')),), ()),
        ((Unordered((b"a",)),), ()),
    ],
)
def test_what_means_nothing_is_refused(
    make: type[Engine], source: tuple[SourceOp, ...], target: tuple[TargetOp, ...]
) -> None:
    with pytest.raises(ValueError, match=r"."):
        make(ANYWHERE).add(template(source, target))


@pytest.mark.parametrize("condition", [Above(1, 0), Above(0, 0, (("//", 0),)), Same(0, 1), Same(-1, 0)])
def test_conditions_that_mean_nothing_are_refused(make: type[Engine], condition: Above | Same) -> None:
    with pytest.raises(ValueError, match=r"."):
        make(ANYWHERE).add(template((TAKE,), (), (condition,)))


def test_a_template_that_is_refused_leaves_nothing(make: type[Engine]) -> None:
    engine = make(MARKER)
    for number in range(2 * MAX_TRIED):
        engine.add(numbered(number % MAX_TRIED))
        with pytest.raises(ValueError, match="slot"):
            engine.add(numbered(1)._replace(target_value=(Put((1,)),)))
    assert filled(engine, b'{"t":1,"v":7}') == b"integer 1 7"


def test_members_of_many_columns_in_any_number(make: type[Engine]) -> None:
    """Slots are counted on behind members."""
    names = [b'"c%d":' % number for number in range(300)]
    engine = make(ANYWHERE)
    members = Members(tuple((name, ("integer",)) for name in names))
    source = (Constant(b"{"), members, Constant(b"},"), TAKE)
    engine.add(template(source, (Put((300,)), *(Put((slot, 300)) for slot in range(300)))))
    some = random.Random(2).sample(range(300), 150)
    there = b",".join(names[slot] + b"1" for slot in sorted(some))
    expected = b"0" + b"".join(b"1" if slot in some else b"0" for slot in range(300))
    assert filled(engine, b"{" + there + b"},0") == expected


def unordered(names: list[bytes]) -> tuple[SourceOp, ...]:
    return Constant(b"{"), Unordered(tuple(b'"%s":1' % name for name in names)), Constant(b"}")


def test_members_whose_names_begin_alike(make: type[Engine]) -> None:
    """The text up to the first colon is the same for many, as a name may have a colon."""
    engine, names = make(ANYWHERE), [b"a:%d" % number for number in range(8)]
    engine.add(template(unordered(names), (Constant(b"ok"),)))
    random.Random(3).shuffle(names)
    assert filled(engine, b"{" + b",".join(b'"%s":1' % name for name in names) + b"}") == b"ok"
    assert (
        filled(engine, b"{" + b",".join(b'"%s":1' % name for name in [names[1], *names[1:]]) + b"}") is None
    )
