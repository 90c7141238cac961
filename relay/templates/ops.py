"""The elements of a template: plain tuples, which the kernel interprets.

A source part (key or value of a Kafka record) is a sequence of source ops. Each value that they capture has a
slot, numbered from 0 through key and value in the order of the ops. A target part is a sequence of target ops
that print constants and slots. Numbers from outside the message have negative slots.

A message of several rows has rounds (`Repeated`): each round is a row, and becomes the same as a message with
only that round.

An engine returns either the target's bytes or that the message does not fit; then the pipeline translates it.
A message fits only if the ops allow all of it.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from relay.mysql import conversion_names as native
from relay.templates.avro_ops import AvroOp

#: Slots of the record's offset and of its Kafka timestamp in milliseconds, for `Number`, `Above` and `Below`.
OFFSET: Final = -1
TIME_MS: Final = -2

#: Lossy values add multiples of this to a template's number.
LOSS: Final = 1 << 32

#: Strings that begin within this many bytes of a part's end may have escapes that must be rewritten; the slow
#: path reads and prints longer texts faster.
MOST_REWRITTEN: Final = 8192

#: JSON tokens that a slot may contain. `integer`: digits without fraction and exponent, from -2^63 to 2^64 -
#: 1, not `-0`; `number`: with a fraction or an exponent, finite as a double; `string`: UTF-8, without
#: unpaired surrogates (only with msgspec's escapes if it begins far before the end, `MOST_REWRITTEN`);
#: `null`; `boolean`. Any other token has no kind.
Kind = Literal["integer", "number", "string", "null", "boolean"]
Kinds = tuple[Kind, ...]

# ---------------------------------------------------------------- source


class Constant(NamedTuple):
    """Exactly these bytes, in the source or the target."""

    text: bytes
    tag: Literal["constant"] = "constant"


class Take(NamedTuple):
    """One JSON token of these kinds; its value goes to the next slot."""

    kinds: Kinds
    tag: Literal["take"] = "take"


class OneOf(NamedTuple):
    """One of these equivalent texts. The first that fits is used; none is a prefix of another."""

    texts: tuple[bytes, ...]
    tag: Literal["one-of"] = "one-of"


class Members(NamedTuple):
    """Members of a JSON object without the braces, each at most once, in this order; any may be missing.

    Each member consists of the text before its token (a name with its colon, `"id":`, or the beginning of a
    nested object, `"id":{"v":`) and the token's kinds. It has a slot, which is absent if the member is. `end`
    follows each token, and one comma separates members.
    """

    members: tuple[tuple[bytes, Kinds], ...]
    end: bytes = b""
    tag: Literal["members"] = "members"


class Unordered(NamedTuple):
    """Exactly these members of a JSON object, without the braces, in any order, separated by one comma.

    Each is a whole member with a colon, `"id":"bigint"`; none is a prefix of another.
    """

    members: tuple[bytes, ...]
    tag: Literal["unordered"] = "unordered"


class Length(NamedTuple):
    """A big-endian number of `width` bytes: the number of bytes after it in the part."""

    width: int
    tag: Literal["length"] = "length"


class Repeated(NamedTuple):
    """A sequence of ops for each row, with `between` between the rounds.

    Another round follows if and only if `between` does. Slots of these ops have separate values in each
    round. All `Repeated` of a template have the same number of rounds, and contain neither lengths nor other
    `Repeated`.
    """

    ops: tuple[Constant | Take | OneOf | Members | Unordered | Enter | Leave | Varint | Text, ...]
    between: bytes
    tag: Literal["repeated"] = "repeated"


class AvroValue(NamedTuple):
    """A value in Avro, with a slot for each scalar value, in order.

    A slot contains the JSON token that an `AvroReader` prints for the value. `op` consists of records,
    branches of unions, maps of scalar types, and scalar types: no `Items`, no `Symbols`, and unions of scalar
    types only.
    """

    op: AvroOp
    tag: Literal["avro"] = "avro"


class Enter(NamedTuple):
    """A varint: the number of bytes up to the matching `Leave`. Both are in the same sequence of ops."""

    tag: Literal["enter"] = "enter"


class Leave(NamedTuple):
    """The end of the bytes since the matching `Enter`."""

    tag: Literal["leave"] = "leave"


class Varint(NamedTuple):
    """A varint of Protocol Buffers in its shortest form; the next slot has it as a signed 64-bit integer."""

    tag: Literal["varint"] = "varint"


class Text(NamedTuple):
    """A text of Protocol Buffers: the bytes `head`, the number of bytes of the text as a varint, and UTF-8.

    The next slot has it as a string. Where `head` does not follow, the bytes `empty` are an empty text, and
    the bytes `null` are null; None: that form does not fit.
    """

    head: bytes
    null: bytes | None = None
    empty: bytes | None = None
    tag: Literal["text"] = "text"


SourceOp = (
    Constant
    | Take
    | OneOf
    | Members
    | Unordered
    | Length
    | Repeated
    | AvroValue
    | Enter
    | Leave
    | Varint
    | Text
)

# ---------------------------------------------------------------- target

#: The name of a conversion (`reference_engine.conversions`) and its parameters.
Conversion = native.Conversion
Operator = Literal["+", "-", "*", "//", "<<", ">>", "%", "clock", "datetime"]
#: Arithmetic on unbounded integers, from left to right: `("//", 1000)`. `//` and `>>` round down; divisors
#: are not 0, and shifts are below 128 bits. A result beyond 128 bits with sign does not fit. `clock` converts
#: a wall-clock time, `20160610120000`, to seconds since 1970; its operand is the clock's offset from UTC in
#: seconds, less than a day in either direction. Years below 1000 do not fit. `datetime`, only as the first
#: step, converts text (`2016-06-10 12:00:00.5`, or with a `T`) to microseconds since 1970; its operand is the
#: same offset.
Steps = tuple[tuple[Operator, int], ...]


class Put(NamedTuple):
    """A slot's value, read and then written as one JSON token.

    slots: The first of them that is not absent is used; if all are absent, the message does not fit.
    read, write: Without both, the token is copied: a number unchanged, a string with the escapes of msgspec's
        JSON. Without `write`, msgspec prints the result of `read`; without `read`, the token's value is
        written.
    null: Output for a JSON null, which is not converted; None: a null does not fit.
    long_escapes: Strings are written with `\\u0008` and `\\u000c` instead of `\\b` and `\\f`, like in TiCDC.
    losses: Conversion for values that `write` refuses; each adds `adds` to the engine's number.
    null_adds: Addition for a null.

    The additions identify losses, and are made once per value.
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
    """An integer of a slot after arithmetic, in digits. `plus`: slots that are added to it, each after
    separate arithmetic.

    The tokens are of kind `integer`, or `string` before a step `datetime`; the printed number is within the
    bounds of `integer`.
    """

    slot: int
    steps: Steps = ()
    plus: tuple[tuple[int, Steps], ...] = ()
    tag: Literal["number"] = "number"


class Changed(NamedTuple):
    """Members of a JSON object without the braces, for columns whose old text differs from the new one.

    Each has its name with a colon, the old value and the new value. The old value is printed; commas separate
    the members. The comparison applies to the converted values; a token that is equal under equal conversions
    is not even read.
    """

    members: tuple[tuple[bytes, Put, Put], ...]
    tag: Literal["changed"] = "changed"


class Choice(NamedTuple):
    """One of three constants: for null, for an integer of at least `least`, for a smaller one.

    The token of the first slot that is not absent is null, an `integer`, or a string with such a number;
    without `least`, any token except null selects `small`.
    """

    slots: tuple[int, ...]
    null: bytes
    small: bytes
    large: bytes = b""
    least: int | None = None
    tag: Literal["choice"] = "choice"


class Avro(NamedTuple):
    """The Avro that an `AvroWriter` writes for the output of an op; output that it refuses does not fit."""

    avro: AvroOp
    op: Put | Number | Choice
    tag: Literal["avro"] = "avro"


class Sized(NamedTuple):
    """The output of these ops, preceded by its length, a big-endian number of `width` bytes."""

    width: int
    ops: tuple[Constant | Put | Number | Changed | Choice | Avro, ...]
    tag: Literal["sized"] = "sized"


TargetOp = Constant | Put | Number | Changed | Choice | Avro | Sized

# ---------------------------------------------------------------- conditions


class Above(NamedTuple):
    """An integer slot is larger than a number, after arithmetic."""

    slot: int
    floor: int
    steps: Steps = ()
    tag: Literal["above"] = "above"


class Below(NamedTuple):
    """An integer slot is smaller than a number, after arithmetic."""

    slot: int
    end: int
    steps: Steps = ()
    tag: Literal["below"] = "below"


class Equal(NamedTuple):
    """Two numbers are equal, or, with `is_equal` False, they differ."""

    one: Number
    other: Number
    is_equal: bool
    tag: Literal["equal"] = "equal"


class Same(NamedTuple):
    """Two slots have the same token, or the first one is absent."""

    slot: int
    other: int
    tag: Literal["same"] = "same"


class Fits(NamedTuple):
    """This op can print its value, or the slots are absent, or the value is null.

    It is for a value that the pipeline converts, but does not write. Its losses count nevertheless.
    """

    put: Put
    tag: Literal["fits"] = "fits"


class Filled(NamedTuple):
    """A slot contains neither null nor an empty string."""

    slot: int
    tag: Literal["filled"] = "filled"


class Among(NamedTuple):
    """A slot's token is one of these, as msgspec prints them; with `is_one` False it is not, or absent.

    Numbers are compared as texts, strings by their value.
    """

    slot: int
    tokens: tuple[bytes, ...]
    is_one: bool = True
    tag: Literal["among"] = "among"


class Differ(NamedTuple):
    """At least one of these pairs is printed with a difference, compared like in `Changed`."""

    pairs: tuple[tuple[Put, Put], ...]
    tag: Literal["differ"] = "differ"


Condition = Above | Below | Equal | Same | Fits | Filled | Among | Differ

# ---------------------------------------------------------------- the whole


class Marker(NamedTuple):
    """The bytes by which templates are looked up: in a part, from the first `start` (the part's beginning if
    it is empty) up to the next `end`. A part without these texts fits no template.

    size: If above 0, the marker is the first `size` bytes of the part and the Avro `values` after them.
    texts: If above 0, the marker is this many texts after a `start`. Each text follows its length, a byte
        below 128; one byte, the next text's tag, separates them. Of several places, the first with a text
        that is not empty counts; if there is none, the first.

    Part `any` is the key, or the value of a record without key.
    """

    part: Literal["key", "value", "any"]
    start: bytes = b""
    end: bytes = b""
    size: int = 0
    values: tuple[Literal["long", "string"], ...] = ()
    texts: int = 0


class Frames(NamedTuple):
    """The framing of several messages in one record: the key is `head` followed by a frame for each message,
    the value a frame for each.

    A frame is a big-endian number of `width` bytes, followed by that number of bytes. A single message is a
    record of the same form.
    """

    head: bytes
    width: int


class MessageFields(NamedTuple):
    """The framing of several messages as fields of Protocol Buffers, with tags of one byte.

    The record's value has number fields, and last a field `outer`. The bytes of `outer` are number fields,
    followed by one field `inner` for each message. A record of one message has the same form and key.

    The number field `kind` of a message comes first, or after one field of bytes. A message of the kind
    `begin` opens a group, and one of the kind `end` closes it; either may be in another record. The engine
    translates each other message as a record with the begin and the end of its group, as far as they are
    there. Before these, it translates a record of begin and end alone, which counts as a row.
    """

    outer: int
    inner: int
    kind: int
    begin: int
    end: int


#: The framing of a format.
Framing = Frames | MessageFields


class TargetMessage(NamedTuple):
    """One message of the target: ops of its key and its value; None for a missing one."""

    key: tuple[TargetOp, ...] | None
    value: tuple[TargetOp, ...] | None


class Template(NamedTuple):
    """The translation of messages of one shape to messages of the target.

    key, value: The parts of a source record; None for a missing part.
    most_bytes: Maximum bytes of a target message's key and value; a row with a larger message does not fit.
    more: Further messages that a row becomes, after the first one.
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
