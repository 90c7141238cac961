"""Rows of a record in an engine: rounds of a message, frames, and rows that become several messages."""

from __future__ import annotations

import pytest
from engine_support import ANYWHERE, ENGINES, NO_LIMIT, template

from relay.templates.engine import Engine, Run
from relay.templates.ops import (
    LOSS,
    Above,
    Below,
    Constant,
    Differ,
    Enter,
    Fits,
    Frames,
    Leave,
    Length,
    Marker,
    Members,
    MessageFields,
    Number,
    Put,
    Repeated,
    SourceOp,
    Take,
    TargetMessage,
    Template,
    Text,
    Varint,
)

pytestmark = pytest.mark.parametrize("make", ENGINES)

INTEGER = Take(("integer",))
#: `{"a":[1,2],"t":"x","b":[3,4]}`: a row has one of `a` and one of `b`, and `t` is of all.
SOURCE = (
    Constant(b'{"a":['),
    Repeated((INTEGER,), b","),
    Constant(b'],"t":'),
    Take(("string",)),
    Constant(b',"b":['),
    Repeated((Take(("integer", "null")),), b","),
    Constant(b"]}"),
)
TARGET = (Put((0,)), Put((1,)), Put((2,)))


def rows(engine: Engine, value: bytes, max_output_bytes: int = NO_LIMIT, shared: int = 0) -> list[Run] | int:
    return engine.translate_rows(None, value, 7, 8, max_output_bytes, shared)


def test_rounds(make: type[Engine]) -> None:
    engine = make(ANYWHERE)
    engine.add(template(SOURCE, TARGET))
    three = b'{"a":[1,2,3],"t":"x","b":[4,null,6]}'
    assert rows(engine, three) == [(0, [(None, b'1"x"4'), (None, b'2"x"null'), (None, b'3"x"6')])]
    assert engine.translate(None, three, 7, 8, b"t/3/") is None
    assert rows(engine, b'{"a":[1],"t":"x","b":[4]}') == [(0, [(None, b'1"x"4')])]
    assert engine.translate(None, b'{"a":[1],"t":"x","b":[4]}', 7, 8, b"t/3/") == (
        0,
        None,
        b'1"x"4',
        b"t/3/7/0",
    )


@pytest.mark.parametrize(
    "value",
    [
        b'{"a":[1,2],"t":"x","b":[4]}',
        b'{"a":[1],"t":"x","b":[4,5]}',
        b'{"a":[1,2,],"t":"x","b":[4,5]}',
        b'{"a":[1,"2"],"t":"x","b":[4,5]}',
        b'{"a":[],"t":"x","b":[]}',
        b'{"a":[1,2],"t":"x","b":[4,5]',
        b'{"a":[1, 2],"t":"x","b":[4,5]}',
    ],
)
def test_rounds_that_do_not_fit(make: type[Engine], value: bytes) -> None:
    engine = make(ANYWHERE)
    engine.add(template(SOURCE, TARGET))
    assert rows(engine, value) == 0


def test_rows_have_templates_of_one_source(make: type[Engine]) -> None:
    engine = make(ANYWHERE)
    small = engine.add(template(SOURCE, (Constant(b"small "), *TARGET), [Differ(((Put((0,)), Put((2,))),))]))
    same = engine.add(template(SOURCE, (Constant(b"same "), *TARGET), [Above(0, 10)]))
    found = rows(engine, b'{"a":[1,2,99,3],"t":"x","b":[2,3,99,4]}')
    assert found == [
        (small, [(None, b'small 1"x"2'), (None, b'small 2"x"3')]),
        (same, [(None, b'same 99"x"99')]),
        (small, [(None, b'small 3"x"4')]),
    ]
    assert rows(engine, b'{"a":[1,2,9,3],"t":"x","b":[2,3,9,4]}') == 2, "9 and 9 fit nothing"


def test_a_row_that_becomes_several_messages(make: type[Engine]) -> None:
    engine = make(ANYWHERE)
    more = (TargetMessage((Number(0),), None), TargetMessage(None, ()))
    engine.add(Template(None, SOURCE, (), (Put((2,), null=None),), TARGET, NO_LIMIT, more))
    assert engine.translate(None, b'{"a":[1],"t":"x","b":[4]}', 7, 8, b"t/3/") is None
    assert rows(engine, b'{"a":[1,2],"t":"x","b":[4,5]}') == [
        (0, [(b"4", b'1"x"4'), (b"1", None), (None, b""), (b"5", b'2"x"5'), (b"2", None), (None, b"")])
    ]
    assert rows(engine, b'{"a":[1,2],"t":"x","b":[4,null]}') == 1


def test_what_rows_lose_is_added_to_their_number(make: type[Engine]) -> None:
    engine = make(ANYWHERE)
    plain = engine.add(template(SOURCE, (Constant(b"plain"),), [Above(0, 10)]))
    losing = Put((2,), null_adds=LOSS)
    number = engine.add(template(SOURCE, (Put((0,)), losing), [Below(0, 10)]))
    assert rows(engine, b'{"a":[1,2,3,99,4],"t":"x","b":[null,null,6,null,5]}') == [
        (number + LOSS, [(None, b"1null"), (None, b"2null")]),
        (number, [(None, b"36")]),
        (plain, [(None, b"plain")]),
        (number, [(None, b"45")]),
    ]


def test_what_the_messages_of_a_row_lose_adds_up(make: type[Engine]) -> None:
    engine = make(ANYWHERE)
    losing = Put((2,), null_adds=LOSS)
    more = (TargetMessage((losing,), None), TargetMessage(None, (losing._replace(null_adds=5 * LOSS),)))
    engine.add(Template(None, SOURCE, (Fits(losing),), (losing,), None, NO_LIMIT, more))
    null, four = (
        [(b"null", None), (b"null", None), (None, b"null")],
        [(b"4", None), (b"4", None), (None, b"4")],
    )
    assert rows(engine, b'{"a":[1,2,3,4],"t":"x","b":[null,null,4,null]}') == [
        (8 * LOSS, null * 2),
        (0, four),
        (8 * LOSS, null),
    ]


def test_what_does_not_fit_adds_nothing(make: type[Engine]) -> None:
    engine = make(ANYWHERE)
    losing = Put((2,), null_adds=LOSS)
    number = engine.add(template(SOURCE, (losing,)))
    engine.add(template(SOURCE, (losing,), [Fits(losing), Above(0, 10)]))
    engine.add(Template(None, SOURCE, (), (losing,), None, 3, ()))
    assert rows(engine, b'{"a":[1],"t":"x","b":[null]}') == [(number + LOSS, [(None, b"null")])]


def test_the_output_limit(make: type[Engine]) -> None:
    engine = make(ANYWHERE)
    engine.add(template(SOURCE, TARGET))
    two = b'{"a":[1,2],"t":"x","b":[4,5]}'
    assert isinstance(rows(engine, two, max_output_bytes=30, shared=10), list)
    assert rows(engine, two, max_output_bytes=29, shared=10) == 0


def test_optional_members_in_rounds(make: type[Engine]) -> None:
    engine = make(ANYWHERE)
    members = Members(((b'"x":', ("integer",)), (b'"y":', ("integer",))))
    source = (Constant(b"["), Repeated((Constant(b"{"), members, Constant(b"}")), b","), Constant(b"]"))
    engine.add(template(source, (Put((0, 1)),)))
    assert rows(engine, b'[{"x":1},{"y":2},{"x":3,"y":4}]') == [
        (0, [(None, b"1"), (None, b"2"), (None, b"3")])
    ]
    assert rows(engine, b'[{"x":1},{}]') == 1


@pytest.mark.parametrize(
    "source",
    [
        (Repeated((INTEGER,), b""),),
        (Repeated((Length(1),), b","),),  # type: ignore[arg-type]  # what no round may have
        (Repeated((Repeated((INTEGER,), b","),), b";"),),  # type: ignore[arg-type]  # what no round may have
    ],
)
def test_rounds_that_mean_nothing(make: type[Engine], source: tuple[SourceOp, ...]) -> None:
    with pytest.raises(ValueError, match="round"):
        make(ANYWHERE).add(template(source, ()))


def test_differ(make: type[Engine]) -> None:
    engine = make(ANYWHERE)
    old = Members(((b'"x":', ("string", "null")), (b'"y":', ("integer",))))
    source = (old, Constant(b";"), Take(("string", "null")), INTEGER)
    pairs = ((Put((0, 2)), Put((2,))), (Put((1, 3)), Put((3,))))
    engine.add(template(source, (Constant(b"!"),), [Differ(pairs)]))
    for value in (b'"x":"a";"b"1', b'"x":null;"null"1', b'"x":"a","y":2;"a"1', b'"y":2;null1'):
        assert isinstance(rows(engine, value), list)
    for value in (b';"b"1', b'"x":"a";"a"1', b'"x":"\\u0061";"a"1', b'"y":1;null1'):
        assert rows(engine, value) == 0


FRAMED = Template(
    (Constant(b"h"), Length(1), Constant(b"k:"), INTEGER, Constant(b";")),
    (Length(1), INTEGER),
    (),
    (Put((0,)),),
    (Put((1,)),),
    NO_LIMIT,
)
FRAMES = Frames(b"h", 1)


def framed(*texts: bytes) -> bytes:
    return b"".join(bytes([len(text)]) + text for text in texts)


def test_frames(make: type[Engine]) -> None:
    engine = make(Marker("key", b"k", b":"), FRAMES)
    engine.add(FRAMED)
    key, value = b"h" + framed(b"k:1;", b"k:22;"), framed(b"5", b"666")
    assert engine.translate_rows(key, value, 0, 0, NO_LIMIT, 0) == [(0, [(b"1", b"5"), (b"22", b"666")])]
    assert engine.translate_rows(key, framed(b"5", b"x"), 0, 0, NO_LIMIT, 0) == 1
    assert engine.translate_rows(key, value, 0, 0, 7, 0) == [(0, [(b"1", b"5"), (b"22", b"666")])]
    assert engine.translate_rows(key, value, 0, 0, 6, 0) == 0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"h", b""),
        (b"", b""),
        (None, framed(b"5")),
        (b"h" + framed(b"k:1;"), None),
        (b"x" + framed(b"k:1;"), framed(b"5")),
        (b"h" + framed(b"k:1;"), framed(b"5", b"6")),
        (b"h" + framed(b"k:1;", b"k:1;"), framed(b"5")),
        (b"h" + framed(b"k:1;") + b"\x05k:1;", framed(b"5", b"6")),
        (b"h" + framed(b"k:1;"), b"\x01"),
    ],
)
def test_broken_frames(make: type[Engine], key: bytes | None, value: bytes | None) -> None:
    engine = make(Marker("key", b"k", b":"), FRAMES)
    engine.add(FRAMED)
    assert engine.translate_rows(key, value, 0, 0, NO_LIMIT, 0) == 0


#: A message of a text, after its kind.
IN_FIELDS = template(
    (
        *(Constant(b"\x2a"), Enter(), Constant(b"\x08"), Varint(), Constant(b"\x12"), Enter()),
        *(Constant(b"\x10\x02"), Text(b"\x1a"), Leave(), Leave()),
    ),
    (Put((1,)),),
)
#: The same between a begin and an end, and these two alone.
BETWEEN = template(
    (
        *(
            Constant(b"\x2a"),
            Enter(),
            Constant(b"\x08"),
            Varint(),
            Constant(b"\x12\x02\x10\x01\x12"),
            Enter(),
        ),
        *(Constant(b"\x10\x02"), Text(b"\x1a"), Leave(), Constant(b"\x12\x02\x10\x03"), Leave()),
    ),
    (Constant(b"in "), Put((1,))),
)
MARKS = template(
    (
        *(Constant(b"\x2a"), Enter(), Constant(b"\x08"), Varint()),
        *(Constant(b"\x12\x02\x10\x01\x12\x02\x10\x03"), Leave()),
    ),
    (),
)
FIELDS = MessageFields(0x2A, 0x12, 0x10, 1, 3)


def in_fields(*messages: bytes, numbers: bytes = b"\x08\x05") -> bytes:
    body = numbers + b"".join([b"\x12" + bytes([len(message)]) + message for message in messages])
    return b"\x2a" + bytes([len(body)]) + body


BEGIN, END = b"\x10\x01", b"\x10\x03"


def test_fields(make: type[Engine]) -> None:
    engine = make(ANYWHERE, FIELDS)
    numbers = [engine.add(each) for each in (IN_FIELDS, BETWEEN, MARKS)]

    def of(*messages: bytes, limit: int = NO_LIMIT) -> list[tuple[int, list[bytes | None]]] | int:
        found = engine.translate_rows(None, in_fields(*messages), 0, 0, limit, 0)
        if isinstance(found, int):
            return found
        return [(numbers.index(number), [value for _, value in its]) for number, its in found]

    one, other = b"\x10\x02\x1a\x01a", b"\x10\x02\x1a\x02bc"
    assert of(one) == [(0, [b'"a"'])]
    assert of(one, other) == [(0, [b'"a"', b'"bc"'])]
    assert of(BEGIN, one, other, END) == [(2, [b""]), (1, [b'in "a"', b'in "bc"'])]
    assert of(one, BEGIN, END, other) == [(0, [b'"a"']), (2, [b""]), (0, [b'"bc"'])]
    assert of(one, BEGIN, other, END, one, limit=20) == [
        (0, [b'"a"']),
        (2, [b""]),
        (1, [b'in "bc"']),
        (0, [b'"a"']),
    ]
    assert of(one, BEGIN, other, END, one, limit=12) == 0
    # A begin or an end alone is another record than both.
    assert of(one, BEGIN, other) == 1
    assert of(one, other, END) == 0
    assert of(BEGIN, one, BEGIN, other, END) == 0
    assert of(one, b"\x10\x02\x1a\x01") == 1


def test_groups_of_fields(make: type[Engine]) -> None:
    engine = make(ANYWHERE, FIELDS)
    numbers = [engine.add(each) for each in (IN_FIELDS, BETWEEN, MARKS)]

    def of(*messages: bytes, limit: int = NO_LIMIT) -> list[tuple[int, list[bytes | None]] | bytes]:
        found = engine.translate_groups(None, in_fields(*messages), 0, 0, limit, 0)
        return [
            piece if isinstance(piece, bytes) else (numbers.index(piece[0]), [value for _, value in piece[1]])
            for piece in found
        ]

    one, other, odd = b"\x10\x02\x1a\x01a", b"\x10\x02\x1a\x02bc", b"\x10\x04"
    assert of(one) == [(0, [b'"a"'])]
    assert of(one, odd, other) == [(0, [b'"a"']), in_fields(odd), (0, [b'"bc"'])]
    assert of(odd, odd, one, other, odd) == [in_fields(odd, odd), (0, [b'"a"', b'"bc"']), in_fields(odd)]
    # What belongs together is not divided.
    assert of(one, BEGIN, one, odd, END, BEGIN, other, END) == [
        (0, [b'"a"']),
        in_fields(BEGIN, one, odd, END),
        (2, [b""]),
        (1, [b'in "bc"']),
    ]
    assert of(BEGIN, one, BEGIN, one, END) == [in_fields(BEGIN, one), (2, [b""]), (1, [b'in "a"'])]
    assert of(one, other, END, one) == [in_fields(one, other, END), (0, [b'"a"'])]
    assert of(odd) == [in_fields(odd)]
    assert of(odd, one, limit=3) == [in_fields(odd), (0, [b'"a"'])]
    assert of(odd, one, limit=2) == []


def test_only_one_message_is_translated_alone(make: type[Engine]) -> None:
    engine = make(ANYWHERE, FIELDS)
    for each in (IN_FIELDS, BETWEEN, MARKS):
        engine.add(each)
    one = b"\x10\x02\x1a\x01a"
    found = engine.translate(None, in_fields(one), 0, 0, b"")
    assert found is not None
    assert found[2] == b'"a"'
    for value in (in_fields(BEGIN, one, END), in_fields(BEGIN, END), in_fields(one, one), b"\x2a\x00", b""):
        assert engine.translate(None, value, 0, 0, b"") is None


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"\x2a\x00",
        in_fields(),
        in_fields(b"\x10\x02\x1a\x01a")[:-1],
        in_fields(b"\x10\x02\x1a\x01a") + b"\x08\x01",
        in_fields(b"\x10\x02\x1a\x01a", numbers=b"\x0a\x00"),
        in_fields(b"\x10\x02\x1a\x01a", numbers=b"\x08\x80\x00"),
        in_fields(b"\x10\x02\x1a\x01a\x12\x00"),
        b"\x2a\x0a\x08\x05\x12\x85\x00\x10\x02\x1a\x01a",
        b"\x2a\x89\x00\x08\x05\x12\x05\x10\x02\x1a\x01a",
        b"\x2a\x0b\x08\x05\x12\x05\x10\x02\x1a\x01a\x08\x01",
        b"\x2a\x09\x08\x05\x12\x06\x10\x02\x1a\x01a",
    ],
)
def test_broken_fields(make: type[Engine], value: bytes | None) -> None:
    engine = make(ANYWHERE, FIELDS)
    engine.add(IN_FIELDS)
    assert engine.translate_rows(None, value, 0, 0, NO_LIMIT, 0) == 0
    assert engine.translate_groups(None, value, 0, 0, NO_LIMIT, 0) in ([], [value])
    assert engine.translate(None, value, 0, 0, b"") is None
