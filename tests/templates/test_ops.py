"""Each op, with every engine: which messages fit, and what becomes of them."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

import pytest
from engine_support import ANYWHERE, ENGINES, filled, template

from relay.templates.avro_ops import Branch, Fixed, Map, Nullable, Plain, Record, Union
from relay.templates.engine import Engine
from relay.templates.ops import (
    LOSS,
    OFFSET,
    TIME_MS,
    Above,
    Among,
    Avro,
    AvroValue,
    Below,
    Changed,
    Choice,
    Condition,
    Constant,
    Enter,
    Equal,
    Filled,
    Fits,
    Kinds,
    Leave,
    Length,
    Members,
    Number,
    OneOf,
    Put,
    Same,
    Sized,
    SourceOp,
    Take,
    TargetOp,
    Text,
    Unordered,
    Varint,
)

ANY: Kinds = ("integer", "number", "string", "null", "boolean")
INTEGER = Take(("integer",))
TOKEN = Take(ANY)
COMMA = Constant(b",")
#: As many members as TiCDC's messages have in a random order, and names that begin alike.
MANY = tuple(b'"column_%d":"int"' % number for number in range(40))


class Case(NamedTuple):
    source: tuple[SourceOp, ...]
    target: tuple[TargetOp, ...]
    messages: Mapping[bytes, bytes | None]
    conditions: tuple[Condition, ...] = ()


#: A nullable text, a branch with a record, and a number.
AVRO = Record(
    (
        (b'"a":', Union((Plain("null"), Plain("string")))),
        (b'"b":', Branch(1, Record(((b'"c":', Plain("long")), (b'"d":', Plain("double")))))),
        (b'"e":', Fixed(1)),
    )
)
HALF = struct.pack("<d", 0.5)
#: Two nullable values: the one in the second branch of a union, the other in the third, after a field that is `u`.
ENTRIES = Map(((b"a", Nullable(b"\2", Plain("long"))), (b"b", Nullable(b"\4u", Plain("string")))))
ZONED = Nullable(b"\6", Record(((b'"location":', Plain("string")), (b'"value":', Plain("string")))))

#: The second HMAC of RFC 4231, section 4.3: the key is "Jefe".
WANTED, HMAC = (
    b'"what do ya want for nothing?"',
    b"5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
)
CASES = {
    "a hash": Case(
        (TOKEN,),
        (Put((0,), ("hash", b"Jefe", 64)), COMMA, Put((0,), ("hash", b"Jefe", 5))),
        {
            WANTED: b'"' + HMAC + b'","5bdcc"',
            WANTED.replace(b"w", b"\\u0077"): b'"' + HMAC + b'","5bdcc"',
            b"null": b"null,null",
            b"1.5": None,
            b"true": None,
        },
    ),
    "a hash of a value that is read": Case(
        (TOKEN,),
        (Put((0,), ("hash", b"Jefe", 64, "base64")),),
        {b'"d2hhdCBkbyB5YSB3YW50IGZvciBub3RoaW5nPw=="': b'"' + HMAC + b'"', b'"d2hhd"': None, b"1": None},
    ),
    "a masked value": Case(
        (TOKEN,),
        (Put((0,), ("mask", 1, 2)), COMMA, Put((0,), ("mask", 0, 0))),
        {
            b'"abcde"': b'"a**de","*****"',
            '"é€😀b"'.encode(): '"é*😀b","****"'.encode(),
            b'"abc"': b'"***","***"',
            b'""': b'"",""',
            b"-1234": b'"-**34","*****"',
            b"1.5": None,
        },
    ),
    "a value that is cut off": Case(
        (TOKEN,),
        (Put((0,), ("truncate", 2)), COMMA, Put((0,), ("truncate", 2, "utf8"), ("hex",))),
        {
            b'"abc"': b'"ab","6162"',
            '"é€"'.encode(): '"é€","c3a9"'.encode(),
            b'"a"': b'"a","61"',
            b"123": None,
        },
    ),
    "scalar values of Avro": Case(
        (Constant(b"\0\0"), AvroValue(AVRO)),
        (Put((0,)), COMMA, Put((1,)), COMMA, Put((2,)), COMMA, Put((3,))),
        {
            b'\0\0\2\6a\n"\2\1' + HALF + b"\xff": b'"a\\n\\"",-1,0.5,"/w=="',
            b"\0\0\2\6\x08\xc3\xa9\2\1" + HALF + b"\xff": '"\\bé",-1,0.5,"/w=="'.encode(),
            b"\0\0\0\2\4" + HALF + b"a": b'null,2,0.5,"YQ=="',
            b"\0\1\0\2\4" + HALF + b"a": None,
            b"\0\0\0\0\4" + HALF + b"a": None,
            b"\0\0\4\2\4" + HALF + b"a": None,
            b"\0\0\0\2\4" + HALF + b"aa": None,
            b"\0\0\0\2\4" + HALF: None,
            b'\0\0\2\6a\xc3"\2\1' + HALF + b"\xff": None,
            b"\0\0\2\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\0\2\1" + HALF + b"\xff": None,
            b"": None,
        },
    ),
    "a map in Avro, and a text after it": Case(
        (Constant(b"<"), AvroValue(ENTRIES), Constant(b">"), AvroValue(Plain("string"))),
        (Put((0,)), COMMA, Put((1,)), COMMA, Put((2,))),
        {
            b"<\4\2a\2\4\2b\4u\4vw\0>\2x": b'2,"vw","x"',
            b"<\4\2b\4u\2w\2a\0\0>\2x": b'null,"w","x"',
            b"<\2\2b\0\2\2a\2\3\0>\0": b'-2,null,""',
            b"<\4\2a\2\4\2b\4u\4vw\0": None,
            b"<\4\2a\2\4\2b\4u\4vw\0>": None,
            b"<\4\2a\2\4\2b\4u\4vw\0>\2xy": None,
            b"<\4\2a\2\4\2b\4w\4vw\0>\2x": None,
            b"<\4\2a\2\4\2b\2>\2x": None,
            b"<\4\2a\2\4\2a\2\4\0>\2x": None,
            b"<\4\2a\2\4\2c\2\4\0>\2x": None,
            b"<\2\2a\2\4\0>\2x": None,
            b"<\6\2a\2\4\2b\0\2a\0\0>\2x": None,
            b"<\2\2a\2\4\4\2b\0\2a\0\0>\2x": None,
            b"<\1\6\2a\2\4\2\2b\0\0>\2x": None,
            b"<\0>\2x": None,
            b"<\xff" + b"\xff" * 8 + b"\1>": None,
        },
    ),
    "nullable output in Avro": Case(
        (TOKEN,),
        (
            Avro(Nullable(b"\4", Plain("string")), Put((0,))),
            Avro(ZONED, Put((0,), None, ("zoned-text", "UTC"))),
        ),
        {
            b'"a"': b"\4\2a\6\6UTC\2a",
            b"null": b"\0\0",
            b"1": None,
        },
    ),
    "numbers up to one": Case(
        (TOKEN,),
        (Put((0,), ("natural", 3), ("natural", 2)), COMMA, Put((0,), ("natural",), ("natural",))),
        {
            b"0": b"0,0",
            b"2": b"2,2",
            b"3": None,
            b"4": None,
            b"-1": None,
            b"null": b"null,null",
            b'"1"': None,
        },
    ),
    "numbers of Protocol Buffers": Case(
        (Constant(b"\x08"), Varint(), Constant(b"\x10")),
        (Put((0,)),),
        {
            b"\x08\0\x10": b"0",
            b"\x08\x7f\x10": b"127",
            b"\x08\xac\x02\x10": b"300",
            b"\x08" + b"\xff" * 8 + b"\x7f\x10": b"9223372036854775807",
            b"\x08" + b"\x80" * 9 + b"\x01\x10": b"-9223372036854775808",
            b"\x08" + b"\xff" * 9 + b"\x01\x10": b"-1",
            b"\x08" + b"\xff" * 9 + b"\x02\x10": None,
            b"\x08" + b"\xff" * 9 + b"\x81\0\x10": None,
            b"\x08\x80\0\x10": None,
            b"\x08" + b"\xff" * 9 + b"\0\x10": None,
            b"\x08\x80\x10": None,
            b"\x08": None,
        },
    ),
    "texts of Protocol Buffers": Case(
        (Text(b"\1\2", null=b"\0", empty=b"\1"), COMMA),
        (Put((0,)),),
        {
            b'\1\2\4a"\nb,': b'"a\\"\\nb"',
            "\1\2\2é,".encode(): '"é"'.encode(),
            b"\1\2\0,": b'""',
            b"\1,": b'""',
            b"\0,": b"null",
            b"\1\2\1\xff,": None,
            b"\1\2\2\xc3,": None,
            b"\1\2\x81\0a,": None,
            b"\1\2\5abc,": None,
            b"\1\2\xff\xff\xff\xff\xff\xff\xff\xff\xff\1a,": None,
            b",": None,
            b"\1": None,
        },
    ),
    "a text of Protocol Buffers alone": Case(
        (Text(b"\2"),), (Put((0,)),), {b"\2\1a": b'"a"', b"\2\0": b'""', b"": None, b"\0": None}
    ),
    "messages of Protocol Buffers": Case(
        (Constant(b"a"), Enter(), Text(b"b"), Enter(), Varint(), Leave(), Leave(), Constant(b"c")),
        (Put((0,)), COMMA, Put((1,))),
        {
            b"a\5b\1x\1\1c": b'"x",1',
            b"a\6b\1x\2\xac\x02c": b'"x",300',
            b"a\4b\1x\1\1c": None,
            b"a\6b\1x\1\1c": None,
            b"a\5b\1x\0\1c": None,
            b"a\5b\1x\2\1c": None,
            b"a\5b\2x\1\1c": None,
            b"a\x85\0b\1x\1\1c": None,
            b"a\5b\1x\1\1": None,
            b"a\x7fb\1x\1\1c": None,
        },
    ),
    "bytes that are not left": Case((Enter(), Constant(b"a")), (), {b"\1a": None}),
    "bytes that are not entered": Case((Constant(b"a"), Leave()), (), {b"a": None}),
    "output in Avro": Case(
        (TOKEN,),
        (
            Constant(b"\0"),
            Avro(Union((Plain("null"), Plain("string"))), Put((0,), null=b"null")),
            Avro(Plain("string"), Put((0,), null=b'"none"')),
        ),
        {
            b'"a\\u0041"': b"\0\2\4aA\4aA",
            b"null": b"\0\0\x08none",
            b"1": None,
        },
    ),
    "numbers in Avro": Case(
        (INTEGER,),
        (
            Avro(Plain("long"), Number(0, (("*", 2),))),
            Avro(Plain("uint64"), Number(0)),
            Avro(Plain("int"), Choice((0,), b"0", b"1", b"2", least=10)),
            Avro(Plain("int"), Put((0,), ("int64",), ("int32",))),
        ),
        {
            b"1": b"\4" + b"\0" * 7 + b"\1\2\2",
            b"10": b"\x28" + b"\0" * 7 + b"\x0a\4\x14",
            b"-1": None,
            b"2147483648": None,
        },
    ),
    "equal numbers": Case(
        (INTEGER, COMMA, INTEGER),
        (Put((0,)),),
        {b"1000,1": b"1000", b"1999,1": b"1999", b"2000,1": None, b"18446744073709551615,1": None},
        (Equal(Number(0, (("//", 1000),)), Number(1), is_equal=True),),
    ),
    "other numbers": Case(
        (INTEGER, COMMA, INTEGER),
        (Put((0,)),),
        {b"1,2": b"1", b"2,1": b"2", b"1,1": None},
        (Equal(Number(0), Number(1), is_equal=False),),
    ),
    "constant": Case(
        (Constant(b"a"), Constant(b"\xff")),
        (Constant(b"\x00b"),),
        {b"a\xff": b"\x00b", b"a": None, b"a\xfe": None, b"a\xff ": None, b"": None},
    ),
    "nothing": Case((), (), {b"": b"", b" ": None}),
    "integer": Case(
        (INTEGER,),
        (Put((0,)),),
        {
            b"0": b"0",
            b"-1": b"-1",
            b"18446744073709551615": b"18446744073709551615",
            b"-9223372036854775808": b"-9223372036854775808",
            b"18446744073709551616": None,
            b"-9223372036854775809": None,
            b"99999999999999999999": None,
            b"1" * 5000: None,
            b"-0": None,
            b"01": None,
            b"-": None,
            b"+1": None,
            b"1.0": None,
            b"1e2": None,
            b"1-": None,
            b"1 ": None,
            b" 1": None,
            b'"1"': None,
            b"null": None,
            b"\xd9\xa1": None,
            b"": None,
        },
    ),
    "number": Case(
        (Take(("number",)),),
        (Put((0,)),),
        {
            b"1.50": b"1.50",
            b"-0.0": b"-0.0",
            b"1E+3": b"1E+3",
            b"1.7976931348623157e308": b"1.7976931348623157e308",
            b"1e400": None,
            b"-1e999999999999": None,
            b"1.": None,
            b".5": None,
            b"1e": None,
            b"1e+": None,
            b"00.5": None,
            b"1.5.5": None,
            b"1": None,
            b"-0": None,
            b"18446744073709551616": None,
            b"NaN": None,
        },
    ),
    "string": Case(
        (Take(("string",)),),
        (Put((0,)),),
        {
            b'""': b'""',
            b'"a b"': b'"a b"',
            '"é€😀\x7f\u2028"'.encode(): '"é€😀\x7f\u2028"'.encode(),
            rb'"\"\\\b\f\n\r\t\u0000\u001f"': rb'"\"\\\b\f\n\r\t\u0000\u001f"',
            rb'"\/\u0041\u000A\u0022\u005c\u001F\u007f"': b'"/A\\n\\"\\\\\\u001f\x7f"',
            rb'"\u00e9\uD83D\uDE00\uffff"': '"é😀\uffff"'.encode(),
            rb'"\ud83d"': None,
            rb'"\ud83d\ud83d"': None,
            rb'"\ud83d\u0041"': None,
            rb'"\ud83dxxxxxx"': None,
            rb'"\ude00"': None,
            rb'"\x"': None,
            rb'"\u12"': None,
            rb'"\u12g4"': None,
            rb'"\u+123"': None,
            b'"a': None,
            b'"a\\': None,
            b'"a\\"': None,
            b'"': None,
            b'"\n"': None,
            b'"a\x00"': None,
            b'"\xff"': None,
            b'"\xc3"': None,
            b'"\xed\xa0\x80"': None,
            b'"\xc0\xaf"': None,
            b'"\xf4\x90\x80\x80"': None,
            b'"aaaaaaaaaaaaaaaa\x1f"': None,
            b'"a" ': None,
            b"'a'": None,
            b"1": None,
        },
    ),
    "long escapes": Case(
        (Take(("string",)),),
        (Put((0,), long_escapes=True),),
        {
            rb'"\b\f\n\\b\\f\\\b"': rb'"\u0008\u000c\n\\b\\f\\\u0008"',
            rb'"\u0008\/"': rb'"\u0008/"',
            rb'"\t\u0001"': rb'"\t\u0001"',
        },
    ),
    "uint64": Case(
        (Take(("null", "boolean")),),
        (Put((0,)),),
        {b"null": b"null", b"true": b"true", b"false": b"false", b"nul": None, b"True": None, b"nulll": None},
    ),
    "no kind": Case((Take(()),), (), {b"1": None, b"null": None}),
    "null for another": Case(
        (TOKEN,), (Put((0,), null=b'"none"'),), {b"null": b'"none"', b"1": b"1", b'"null"': b'"null"'}
    ),
    "no null": Case((TOKEN,), (Put((0,), null=None),), {b"null": None, b"1": b"1"}),
    "one of": Case(
        (OneOf((b"[]", b"{}", b"null")), TOKEN),
        (Put((0,)),),
        {b"[]1": b"1", b"null1": b"1", b"[]": None, b"[1": None, b"1": None},
    ),
    "members that may be missing": Case(
        (
            INTEGER,
            Constant(b"{"),
            Members(((b'"a":', ("integer",)), (b'"b":', ANY), (b'"a2":', ("integer",)))),
            Constant(b"}"),
        ),
        (Put((1, 0)), COMMA, Put((2, 0)), COMMA, Put((3, 0))),
        {
            b"0{}": b"0,0,0",
            b'0{"a":1,"b":2,"a2":3}': b"1,2,3",
            b'0{"a":1}': b"1,0,0",
            b'0{"b":"x","a2":3}': b'0,"x",3',
            b'0{"a2":3}': b"0,0,3",
            b'0{"b":2,"a":1}': None,
            b'0{"a":1,"a":1}': None,
            b'0{"a":"1"}': None,
            b'0{,"a":1}': None,
            b'0{"a":1,}': None,
            b'0{"a":1"b":2}': None,
            b'0{"a":1,,"b":2}': None,
            b'0{"a": 1}': None,
            b'0{"d":1}': None,
            b'0{"a":': None,
            b"0{": None,
        },
    ),
    "members that end alike": Case(
        (
            INTEGER,
            Constant(b"{"),
            Members(((b'"a":{"v":', ("integer",)), (b'"b":{"t":1,"v":', ANY)), b"}"),
            Constant(b"}"),
        ),
        (Put((1, 0)), COMMA, Put((2, 0))),
        {
            b"0{}": b"0,0",
            b'0{"a":{"v":1},"b":{"t":1,"v":2}}': b"1,2",
            b'0{"b":{"t":1,"v":2}}': b"0,2",
            b'0{"a":{"v":1},"b":{"t":2,"v":2}}': None,
            b'0{"a":{"v":1}': None,
            b'0{"a":{"v":1,"b":{"t":1,"v":2}}}': None,
            b'0{"a":{"v":1}"b":{"t":1,"v":2}}': None,
            b'0{"a":{"v":1},}': None,
        },
    ),
    "an absent slot": Case(
        (Members(((b'"a":', ANY),)),), (Put((0,)),), {b'"a":1': b"1", b'"a":null': b"null", b"": None}
    ),
    "unordered": Case(
        (
            Constant(b"{"),
            Unordered((b'"a":"int"', b'"b":"int"', b'"a:":"int"', rb'"a\":":"int"')),
            Constant(b"}"),
        ),
        (),
        {
            rb'{"a":"int","b":"int","a:":"int","a\":":"int"}': b"",
            rb'{"a\":":"int","a:":"int","b":"int","a":"int"}': b"",
            rb'{"a":"int","a":"int","a:":"int","a\":":"int"}': None,
            rb'{"a":"int","b":"int","a:":"int"}': None,
            rb'{"a":"int","b":"int","a:":"int","a\":":"int",}': None,
            rb'{"a":"int","b":"int","a:":"int","a\":":"int","c":"int"}': None,
            rb'{"a":"int" "b":"int","a:":"int","a\":":"int"}': None,
            rb'{"a":"text","b":"int","a:":"int","a\":":"int"}': None,
            b"{}": None,
            b"{": None,
        },
    ),
    "unordered, many": Case(
        (Unordered(MANY),),
        (),
        {
            b",".join(MANY): b"",
            b",".join(MANY[::-1]): b"",
            b",".join(MANY[17:] + MANY[:17]): b"",
            b",".join(MANY[1:]): None,
            b",".join((*MANY[1:], MANY[1])): None,
            b",".join((*MANY, MANY[1])): None,
            b",".join((*MANY[1:], b'"column_0":"text"')): None,
        },
    ),
    "unordered, none": Case((Unordered(()),), (), {b"": b"", b",": None}),
    "length": Case(
        (Length(2), INTEGER),
        (Number(0),),
        {b"\x00\x011": b"1", b"\x00\x0212": b"12", b"\x00\x02123": None, b"\x00\x0312": None, b"\x00": None},
    ),
    "length of zero": Case((Length(8),), (), {bytes(8): b"", bytes(7): None, bytes(9): None}),
    "length beyond the message": Case((Length(8), TOKEN), (), {b"\xff" * 8 + b"1": None}),
    "length in bytes that are no UTF-8": Case(
        (Length(1), Take(("string",))),
        (Put((0,)),),
        {b"\xc8" + b'"' + b"x" * 198 + b'"': b'"' + b"x" * 198 + b'"'},
    ),
    "numbers of the record": Case(
        (), (Number(OFFSET), COMMA, Number(TIME_MS, (("//", 1000),))), {b"": b"7,1700000000"}
    ),
    "steps": Case(
        (INTEGER,),
        (
            Number(0, (("//", 1000),)),
            COMMA,
            Number(0, ((">>", 18),)),
            COMMA,
            Number(0, (("%", 1000), ("-", 1))),
            COMMA,
            Number(0, (("//", -7), ("%", -7), ("+", 3))),
        ),
        {
            b"443852055297589249": b"443852055297589,1693161221685,248,-2",
            b"-1": b"-1,-1,998,3",
            b"999": b"0,0,998,0",
            b"0": b"0,0,-1,3",
        },
    ),
    "steps within bounds": Case(
        (INTEGER,),
        (Number(0, (("<<", 62), (">>", 62))),),
        {
            b"18446744073709551615": b"18446744073709551615",
            b"-9223372036854775808": b"-9223372036854775808",
        },
    ),
    "steps out of bounds": Case(
        (INTEGER,),
        (Number(0, (("<<", 127), (">>", 127))),),
        {b"0": b"0", b"-1": b"-1", b"1": None, b"-2": None},
    ),
    "wall clocks": Case(
        (Constant(b'"'), INTEGER, Constant(b'"')),
        (
            Number(0, (("clock", 0),)),
            COMMA,
            Number(0, (("clock", 28_800), ("*", 1_000_000_000), ("//", 1_000_000))),
            COMMA,
            Number(0, (("clock", -12_600), ("//", 60))),
        ),
        {
            b'"19700101080000"': b"28800,0,690",
            b'"20160610120000"': b"1465560000,1465531200000,24426210",
            b'"20240229235959"': b"1709251199,1709222399000,28487729",
            b'"20001231000000"': b"978220800,978192000000,16303890",
            b'"10000101000000"': b"-30610224000,-30610252800000,-510170190",
            b'"99991231235959"': b"253402300799,253402271999000,4223371889",
            b'"20230229000000"': None,
            b'"19000229000000"': None,
            b'"20161310000000"': None,
            b'"20160010000000"': None,
            b'"20160600000000"': None,
            b'"20160631000000"': None,
            b'"20160610240000"': None,
            b'"20160610006000"': None,
            b'"20160610000060"': None,
            b'"9991231235959"': None,
            b'"09991231235959"': None,
            b'"100000101000000"': None,
            b'"-20160610120000"': None,
            b'"18446744073709551615"': None,
        },
    ),
    "dates and times as text": Case(
        (Take(("string", "null")),),
        (
            Number(0, (("datetime", 0),)),
            COMMA,
            Number(0, (("datetime", 28_800), ("*", 1_000), ("//", 1_000_000))),
            COMMA,
            Number(0, (("datetime", -12_600), ("//", 60_000_000))),
        ),
        {
            b'"1970-01-01 08:00:00"': b"28800000000,0,690",
            b'"1970-01-01T08:00:00.5"': b"28800500000,500,690",
            b'"2016-06-10 12:00:00.000001"': b"1465560000000001,1465531200000,24426210",
            b'"1969-12-31 23:59:59.999999"': b"-1,-28800001,209",
            b'"0001-01-01 00:00:00"': b"-62135596800000000,-62135625600000,-1035593070",
            b'"9999-12-31T23:59:59.999999"': b"253402300799999999,253402271999999,4223371889",
            b'"2023-02-29 00:00:00"': None,
            b'"2016-13-10 00:00:00"': None,
            b'"2016-00-10 00:00:00"': None,
            b'"2016-06-00 00:00:00"': None,
            b'"0000-01-01 00:00:00"': None,
            b'"2016-06-10 24:00:00"': None,
            b'"2016-06-10 00:60:00"': None,
            b'"2016-06-10 00:00:60"': None,
            b'"2016-06-10 12:00:00."': None,
            b'"2016-06-10 12:00:00.1234567"': None,
            b'"2016-06-10 12:00:00Z"': None,
            b'"2016-06-10  12:00:00"': None,
            b'"2016-06-10t12:00:00"': None,
            b'"2016-06-10"': None,
            b'"\\u0032016-06-10 12:00:00"': None,
            b'""': None,
            b"null": None,
        },
    ),
    "products out of bounds": Case(
        (INTEGER,),
        (Number(0, (("*", 1 << 63), ("//", 1 << 63))),),
        {b"18446744073709551615": b"18446744073709551615", b"1": b"1"},
    ),
    "results out of bounds": Case(
        (INTEGER,),
        (Number(0, (("*", 2),)),),
        {
            b"9223372036854775807": b"18446744073709551614",
            b"9223372036854775808": None,
            b"-4611686018427387904": b"-9223372036854775808",
            b"-4611686018427387905": None,
        },
    ),
    "sums": Case(
        (INTEGER, COMMA, TOKEN),
        (Number(0, (("*", 1000),), ((1, (("//", 1000),)), (OFFSET, ()))),),
        {b"1,2500": b"1009", b"-1,-1": b"-994", b'1,"2"': None, b"1,null": None},
    ),
    "a number that is none": Case(
        (TOKEN,), (Number(0),), {b"1": b"1", b"1.0": None, b'"1"': None, b"null": None}
    ),
    "changed": Case(
        (TOKEN, COMMA, TOKEN, COMMA, TOKEN, COMMA, TOKEN),
        (
            Constant(b"{"),
            Changed(
                ((b'"a":', Put((0,)), Put((1,))), (b'"b":', Put((2,), null=b'""'), Put((3,), null=b'""')))
            ),
            Constant(b"}"),
        ),
        {
            b"1,1,1,1": b"{}",
            b"1,2,1,1": b'{"a":1}',
            b"1,1,1,2": b'{"b":1}',
            b"1,2,3,4": b'{"a":1,"b":3}',
            b"null,1,null,1": b'{"a":null,"b":""}',
            rb'"\/","/","",null': b"{}",
            rb'"\u000","/",1,1': None,
        },
    ),
    "changed, from what may be missing": Case(
        (TOKEN, COMMA, Members(((b'"a":', ANY),))),
        (Changed(((b"a:", Put((1, 0)), Put((0,))),)),),
        {b"1,": b"", b'1,"a":1': b"", b'1,"a":2': b"a:2"},
    ),
    "changed, after a conversion": Case(
        (TOKEN, COMMA, TOKEN),
        (
            Changed(
                ((b"a:", Put((0,), ("int",)), Put((1,))),),
            ),
        ),
        {b'"1",1': b"", b'"2",1': b"a:2", b'"x",1': None, b"null,null": b""},
    ),
    "changed, not read where the tokens are the same": Case(
        (TOKEN, COMMA, TOKEN),
        (Changed(((b"a:", Put((0,), ("int",)), Put((1,), ("int",))),)),),
        {b'"x","x"': b"", b'"1","2"': b"a:1", b'"x","1"': None},
    ),
    "choice": Case(
        (Members(((b"a:", ANY),)), COMMA, TOKEN),
        (Choice((0, 1), b"N", b"S", b"L", 128),),
        {
            b",null": b"N",
            b",127": b"S",
            b",128": b"L",
            b"a:-1,128": b"S",
            b',"128"': b"L",
            rb',"\u0031"': b"S",
            b',"-0"': None,
            b',"0128"': None,
            b',"x"': None,
            b',""': None,
            b',"18446744073709551616"': None,
            b",128.0": None,
            b",true": None,
        },
    ),
    "choice of two": Case(
        (TOKEN,),
        (Choice((0,), b"N", b"S"),),
        {b"null": b"N", b"1.5": b"S", b"true": b"S", b'"x"': b"S"},
    ),
    "sized": Case(
        (Take(("string",)),),
        (Sized(1, (Put((0,)), Constant(b"!"))), Constant(b".")),
        {
            b'""': b'\x03""!.',
            b'"' + b"x" * 252 + b'"': b'\xff"' + b"x" * 252 + b'"!.',
            b'"' + b"x" * 253 + b'"': None,
        },
    ),
    "above and below": Case(
        (INTEGER,),
        (),
        {b"10": None, b"11": b"", b"19": b"", b"20": None},
        (Above(0, 10), Below(0, 10, (("//", 2),)), Above(OFFSET, 6), Below(TIME_MS, 1 << 70)),
    ),
    "above, of what is no integer": Case(
        (TOKEN,), (), {b"11": b"", b'"11"': None, b"null": None}, (Above(0, 10),)
    ),
    "same": Case(
        (Members(((b"a:", ANY),)), COMMA, Members(((b"b:", ANY),))),
        (),
        {b"a:1,b:1": b"", b",b:1": b"", b",": b"", b"a:1,": None, b"a:1,b:2": None, b'a:"1",b:1': None},
        (Same(0, 1),),
    ),
    "filled": Case(
        (Members(((b"a:", ANY),)),),
        (),
        {b"a:0": b"", b'a:" "': b"", b'a:""': None, b"a:null": None, b"": None},
        (Filled(0),),
    ),
    "among": Case(
        (TOKEN,),
        (),
        {
            b"0": b"",
            b"10": None,
            b"-0": None,
            b"0.0": None,
            b"null": None,
            b'"0"': None,
            b'"a\\n"': b"",
            b'"\\u0061\\u000A"': b"",
            b'"b\\n"': None,
            '"\U0001f600"'.encode(): b"",
            b'"\\uD83D\\uDE00"': b"",
            b'"\\uD83D\\uDE01"': None,
        },
        (Among(0, (b"0", b"1", b'"a\\n"', '"\U0001f600"'.encode())),),
    ),
    "among none": Case(
        (Members(((b"a:", ANY),)),),
        (),
        {
            b"a:0": None,
            b"a:10": b"",
            b"a:null": b"",
            b"": b"",
            b'a:"a\\n"': None,
            b'a:"a\\u000a"': None,
            b'a:"a\\b"': b"",
            b'a:"\\/"': b"",
            b'a:"\\uD83D\\uDE00"': b"",
            b'a:"' + b"\\/" * 50 + b'"': b"",
        },
        (Among(0, (b"0", b'"a\\n"'), is_one=False),),
    ),
    "fits": Case(
        (Members(((b"a:", ANY), (b"b:", ANY))),),
        (),
        {
            b'a:"12"': b"",
            b'a:"x"': None,
            b"a:12": None,
            b"a:null": b"",
            b'a:"12",b:"x"': b"",
            b'b:"x"': None,
            b"": b"",
        },
        (Fits(Put((0, 1), ("int",), null=None)),),
    ),
    "conversions": Case(
        (TOKEN,),
        (Put((0,), ("int",), None), COMMA, Put((0,), ("int",), ("digits",))),
        {
            b'"12"': b'12,"12"',
            b'"x"': None,
            b"12": None,
            b"null": b"null,null",
            b"true": None,
        },
    ),
    "written as msgspec does": Case(
        (TOKEN,), (Put((0,), None, ("digits",)),), {b"12": b'"12"', b"null": b"null"}
    ),
}


class LosingCase(NamedTuple):
    """`messages`: what is added to the template's number, and the target's value."""

    source: tuple[SourceOp, ...]
    target: tuple[TargetOp, ...]
    messages: Mapping[bytes, tuple[int, bytes] | None]
    conditions: tuple[Condition, ...] = ()


DECIMAL = Put((0,), ("decimal",), ("decimal-double",), losses=("rounded-double",), adds=LOSS)
SILENT = DECIMAL._replace(adds=0)
OTHER = DECIMAL._replace(slots=(1,))
EXACT, ROUNDED = b'"1.5"', b'"1.2345678901234567890"'
LOSING_CASES = {
    "a value": LosingCase(
        (TOKEN,),
        (DECIMAL, COMMA, SILENT),
        {
            EXACT: (0, b"1.5,1.5"),
            ROUNDED: (LOSS, b"1.2345678901234567,1.2345678901234567"),
            b"null": (0, b"null,null"),
            b'"x"': None,
            b"1": None,
        },
    ),
    "several values": LosingCase(
        (TOKEN, COMMA, TOKEN),
        (DECIMAL, COMMA, OTHER),
        {
            EXACT + b"," + ROUNDED: (LOSS, b"1.5,1.2345678901234567"),
            ROUNDED + b"," + ROUNDED: (2 * LOSS, b"1.2345678901234567,1.2345678901234567"),
            ROUNDED + b',"x"': None,
        },
    ),
    "a null": LosingCase(
        (TOKEN,),
        (Put((0,), null=b"7", null_adds=LOSS << 10),),
        {b"null": (LOSS << 10, b"7"), b"1": (0, b"1")},
    ),
    "neighbors that are nulls": LosingCase(
        (TOKEN, COMMA, TOKEN),
        (Put((0,), null_adds=LOSS), COMMA, Put((1,))),
        {b"null,null": (LOSS, b"null,null"), b"1,null": (0, b"1,null")},
    ),
    "what is left out": LosingCase(
        (Members(((b"a:", ANY),)),),
        (),
        {
            b"a:" + EXACT: (0, b""),
            b"a:" + ROUNDED: (LOSS, b""),
            b"a:null": (LOSS << 1, b""),
            b'a:"x"': None,
            b"": (0, b""),
        },
        (Fits(DECIMAL._replace(null=None, null_adds=LOSS << 1)),),
    ),
    "changed": LosingCase(
        (TOKEN, COMMA, TOKEN),
        (Changed(((b"a:", SILENT, SILENT._replace(slots=(1,))),)),),
        {
            ROUNDED + b"," + ROUNDED: (LOSS, b""),
            ROUNDED + b"," + EXACT: (LOSS, b"a:1.2345678901234567"),
            EXACT + b"," + ROUNDED: (0, b"a:1.5"),
        },
        (Fits(DECIMAL),),
    ),
    "a date that is none": LosingCase(
        (TOKEN,),
        (Put((0,), ("date",), ("date-days",), losses=("no-date", b"0", 10, 10), adds=LOSS),),
        {
            b'"1970-01-02"': (0, b"1"),
            b'"0000-00-00"': (LOSS, b"0"),
            b'"2020-05-00"': (LOSS, b"0"),
            b'"2020-02-30"': None,
        },
    ),
}


@pytest.mark.parametrize("make", ENGINES)
@pytest.mark.parametrize("case", LOSING_CASES.values(), ids=LOSING_CASES)
def test_what_is_lost_is_added_to_the_number(make: type[Engine], case: LosingCase) -> None:
    engine = make(ANYWHERE)
    engine.add(template((Constant(b"other"),), ()))
    number = engine.add(template(case.source, case.target, case.conditions))
    for message, expected in case.messages.items():
        found = engine.translate(None, message, 0, 0, b"t/3/")
        given = None if expected is None else (number + expected[0], None, expected[1], b"t/3/0/0")
        assert found == given, message


@pytest.mark.parametrize("make", ENGINES)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_op(make: type[Engine], case: Case) -> None:
    engine = make(ANYWHERE)
    engine.add(template(case.source, case.target, case.conditions))
    assert {message: filled(engine, message) for message in case.messages} == case.messages
