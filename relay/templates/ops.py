"""What a template is made of: plain tuples, which the kernel reads as they are.

A source part (key or value of a Kafka record) is a sequence of source ops; each value that they take has a
slot, counted through key and value from 0 in the order of the ops. A target part is a sequence of target ops
that print constants and slots. Numbers that are not in the message have slots of their own, below 0.

A message of several rows has rounds (`Repeated`): each of them is a row, and becomes what a message with that
round alone would become.

An engine either gives the target's bytes or says that the message does not fit; then the pipeline
translates it. It never guesses: whatever an op does not allow, does not fit.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from relay.mysql import conversion_names as native

#: Slots of what the record says beside key and value: its offset, and its Kafka timestamp in milliseconds.
#: They are for `Number`, `Above` and `Below`.
OFFSET: Final = -1
TIME_MS: Final = -2

#: Values of which something is lost add multiples of this to a template's number.
LOSS: Final = 1 << 32

#: Within how many bytes of a part's end strings may have escapes that must be rewritten; strings that begin
#: earlier are read and printed faster in the slow path.
MOST_REWRITTEN: Final = 8192

#: JSON tokens that a slot may hold. `integer`: digits without fraction and exponent, from -2^63 to 2^64 - 1,
#: no `-0`; `number`: with a fraction or an exponent, finite as a double; `string`: UTF-8, without lone
#: surrogates (and with msgspec's escapes alone where it begins far before the end, `MOST_REWRITTEN`); `null`;
#: `boolean`. Any other token is of no kind.
Kind = Literal["integer", "number", "string", "null", "boolean"]
Kinds = tuple[Kind, ...]

# ---------------------------------------------------------------- source


class Constant(NamedTuple):
    """Exactly these bytes; of the source, or of the target."""

    text: bytes
    tag: Literal["constant"] = "constant"


class Take(NamedTuple):
    """One JSON token of these kinds, into the next slot."""

    kinds: Kinds
    tag: Literal["take"] = "take"


class OneOf(NamedTuple):
    """Any of these texts, which mean the same. The first that fits is taken; none begins another one."""

    texts: tuple[bytes, ...]
    tag: Literal["one-of"] = "one-of"


class Members(NamedTuple):
    """Members of a JSON object without the braces, each at most once, in this order; any may be missing.

    Each member is what stands before its token (a name with its colon, `"id":`, or the beginning of an object
    that it is in, `"id":{"v":`) and kinds, and has a slot, which is absent where the member is. Behind each
    token stands `end`. Between members stands one comma. None of them may be there.
    """

    members: tuple[tuple[bytes, Kinds], ...]
    end: bytes = b""
    tag: Literal["members"] = "members"


class Unordered(NamedTuple):
    """Exactly these members of a JSON object, without the braces, in any order, with one comma between them.

    Each is a whole member, `"id":"bigint"`, with a colon; none begins another one.
    """

    members: tuple[bytes, ...]
    tag: Literal["unordered"] = "unordered"


class Length(NamedTuple):
    """A big-endian number of this many bytes: how many bytes of the part follow it."""

    width: int
    tag: Literal["length"] = "length"


class Repeated(NamedTuple):
    """These ops, once for each row, with `between` between the rounds; after a round another one follows
    exactly where `between` does. Slots inside have values of their own in each round. All `Repeated` of a
    template have the same number of rounds. There are no lengths and no others inside.
    """

    ops: tuple[Constant | Take | OneOf | Members | Unordered, ...]
    between: bytes
    tag: Literal["repeated"] = "repeated"


SourceOp = Constant | Take | OneOf | Members | Unordered | Length | Repeated

# ---------------------------------------------------------------- target

#: The name of a conversion (`reference_engine.conversions`), with its parameters.
Conversion = native.Conversion
Operator = Literal["+", "-", "*", "//", "<<", ">>", "%", "clock"]
#: Arithmetic on integers without bounds, from left to right: `("//", 1000)`. `//` and `>>` round down; none
#: is given 0 to divide by, or 128 bits or more to shift by. A result that has no place in 128 bits with sign
#: does not fit. `clock` makes seconds since 1970 of a wall clock, `20160610120000`, that is so many seconds
#: ahead of UTC, less than a day or as much behind it; years below 1000 do not fit.
Steps = tuple[tuple[Operator, int], ...]


class Put(NamedTuple):
    """A slot's value: read, and written as one JSON token.

    The first of `slots` that is not absent; if all are, the message does not fit. `null`: what JSON's null
    becomes, which is given to no conversion; None: a null does not fit. Without `read` and `write` the token
    is passed on: a number as it is, a string with the escapes of msgspec's JSON. Without `write`
    msgspec prints what `read` gives, without `read` the token's value is what is written. `long_escapes`:
    strings are written with `\\u0008` and `\\u000c` instead of `\\b` and `\\f`, as TiCDC does.

    `losses`: how values are written that `write` does not take; each adds `adds` to the number that the
    engine gives. `null_adds`: what a null adds. They tell what is lost, and are printed once for each
    value.
    """

    slots: tuple[int, ...]
    read: Conversion | None = None
    write: Conversion | None = None
    null: bytes | None = b"null"
    long_escapes: bool = False
    losses: Conversion | None = None
    adds: int = 0
    null_adds: int = 0
    tag: Literal["put"] = "put"


class Number(NamedTuple):
    """An integer of a slot, after some arithmetic, in digits; `plus`: slots that are added to it, each after
    arithmetic of its own. The tokens are of kind `integer`, and what is printed is within the same bounds.
    """

    slot: int
    steps: Steps = ()
    plus: tuple[tuple[int, Steps], ...] = ()
    tag: Literal["number"] = "number"


class Changed(NamedTuple):
    """Members of a JSON object without the braces, for the columns whose old text differs from the new one:
    name with its colon, old value, new value. The old value is printed; a comma stands between members. What
    the values become is compared, not what they were; the same token with the same conversions becomes the
    same, and is not even read.
    """

    members: tuple[tuple[bytes, Put, Put], ...]
    tag: Literal["changed"] = "changed"


class Choice(NamedTuple):
    """One of three constants: for null, for an integer of at least `least`, for a smaller one.

    The token of the first slot that is not absent is null, an `integer`, or a string with such a number;
    without `least` any token but null is `small`.
    """

    slots: tuple[int, ...]
    null: bytes
    small: bytes
    large: bytes = b""
    least: int | None = None
    tag: Literal["choice"] = "choice"


class Sized(NamedTuple):
    """What these ops print, preceded by its length, a big-endian number of `width` bytes."""

    width: int
    ops: tuple[Constant | Put | Number | Changed | Choice, ...]
    tag: Literal["sized"] = "sized"


TargetOp = Constant | Put | Number | Changed | Choice | Sized

# ---------------------------------------------------------------- conditions


class Above(NamedTuple):
    """An integer slot is larger than a number, after some arithmetic."""

    slot: int
    floor: int
    steps: Steps = ()
    tag: Literal["above"] = "above"


class Below(NamedTuple):
    """An integer slot is smaller than a number, after some arithmetic."""

    slot: int
    end: int
    steps: Steps = ()
    tag: Literal["below"] = "below"


class Same(NamedTuple):
    """Two slots have the same token, or the first one is absent."""

    slot: int
    other: int
    tag: Literal["same"] = "same"


class Fits(NamedTuple):
    """What this op would print can be printed, or the slots are absent, or it is null: of a value that the
    pipeline converts and leaves out. What is lost of it counts like that of a printed one.
    """

    put: Put
    tag: Literal["fits"] = "fits"


class Filled(NamedTuple):
    """A slot has neither null nor an empty string."""

    slot: int
    tag: Literal["filled"] = "filled"


class Among(NamedTuple):
    """A slot's token is one of these, each as msgspec prints it; with `is_one` False it is none of them, or
    there is none. Numbers are compared as texts, strings as what they mean.
    """

    slot: int
    tokens: tuple[bytes, ...]
    is_one: bool = True
    tag: Literal["among"] = "among"


class Differ(NamedTuple):
    """At least one of these pairs is printed in two ways, as `Changed` compares them."""

    pairs: tuple[tuple[Put, Put], ...]
    tag: Literal["differ"] = "differ"


Condition = Above | Below | Same | Fits | Filled | Among | Differ

# ---------------------------------------------------------------- the whole


class Marker(NamedTuple):
    """By which bytes templates are looked up: those of a part between two texts, from the first `start` on
    (from the part's beginning if it is empty) up to the next `end`. A part without them fits no template.
    """

    part: Literal["key", "value"]
    start: bytes
    end: bytes


class Frames(NamedTuple):
    """How messages stand together in one record: the key is `head` and then a frame for each of them, the
    value a frame for each. A frame is a big-endian number of `width` bytes, and so many bytes. A message
    alone is a record of the same form.
    """

    head: bytes
    width: int


class TargetMessage(NamedTuple):
    """One message of the target: ops of its key and its value, None where it has none."""

    key: tuple[TargetOp, ...] | None
    value: tuple[TargetOp, ...] | None


class Template(NamedTuple):
    """How messages of one shape become messages of the target.

    `key`, `value`: what the parts of a source record are, None where it has none. `most_bytes`: what key and
    value of a message of the target may have together; with a larger one the row does not fit. `more`: the
    messages that a row becomes besides, behind the first one.
    """

    key: tuple[SourceOp, ...] | None
    value: tuple[SourceOp, ...] | None
    conditions: tuple[Condition, ...]
    target_key: tuple[TargetOp, ...] | None
    target_value: tuple[TargetOp, ...] | None
    most_bytes: int
    more: tuple[TargetMessage, ...] = ()

    @property
    def targets(self) -> tuple[TargetMessage, ...]:
        """The messages that a row becomes."""
        return TargetMessage(self.target_key, self.target_value), *self.more
