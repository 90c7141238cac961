"""Open Protocol's edge cases of values, DDL, large messages, the encoder, and the order of events."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from typing import Any

import pytest
from edge_cases.open_protocol import BATCH, CASES
from open_support import (
    OPEN,
    V1,
    cell,
    change,
    counted,
    ddl,
    framed,
    raw,
    read,
    records,
    resolved,
    row,
    schema_change,
    segment,
    unframed,
    values,
    written,
)
from support import CANAL, record, row_message

from relay import (
    ConsumerRecord,
    DdlKind,
    Lossy,
    Malformed,
    TableId,
    Translator,
    UnsupportedMessage,
)
from relay.codecs._json import go_number
from relay.codecs._large_messages import Compression, compressed
from relay.codecs._open_values import quoted, read_quoted
from relay.errors import MessageTooLarge
from relay.needs import ClaimCheck

TEXT, BYTES, INT = 64, 65, 65
SHANGHAI = {"timezone": "Asia/Shanghai"}
PNG = b"\x89PNG\r\n\x1a\n"


def value(given: Any, options: dict[str, str] | None = None) -> Any:
    """The canonical value of a column; the first row of a shape and the next ones are read on different ways."""
    message = row({"u": {"c": given}})
    first, second = change(message, options=options).after, change(message, message, options=options).after
    assert first is not None
    assert repr(first) == repr(second)
    return first[0]


def again(given: Any) -> Any:
    """The text of the column's value when it is written again."""
    message = written(records(row('{"u":{"c":%s}}' % (given if isinstance(given, str) else json.dumps(given)))))
    return message[0][0][1].decode().partition('"v":')[2].removesuffix("}}}")


# ---------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        CASES.param("V01", cell(8, 18446744073709551615, 193), 18446744073709551615),
        CASES.param("V02", cell(8, 9007199254740993), 9007199254740993),
        CASES.param("V03", cell(8, -9223372036854775808), -9223372036854775808),
        CASES.param("V04", cell(8, 18446744073709551615), 18446744073709551615),
        CASES.param("V07", cell(5, 100000), 100000.0),
        CASES.param("V10", cell(4, 153.123), 153.123),
        CASES.param("V10", cell(4, 153.12300109863281), 153.123),
        CASES.param("V13", cell(15, "", TEXT), ""),
        CASES.param("V13", cell(15, None, TEXT), None),
        CASES.param("V14", cell(15, r"C:\new", TEXT), r"C:\new"),
        CASES.param("V15", cell(15, r"C:\\new", BYTES), rb"C:\new"),
        CASES.param("V16", cell(254, r"\x89PNG\r\n\x1a\n", BYTES), PNG),
        CASES.param("V17", cell(254, r"a\x00\x00", BYTES), b"a\0\0"),
        CASES.param("V18", cell(15, r"\u00e9", BYTES), b"\xc3\xa9"),
        CASES.param("V18", cell(15, r"\xe9", BYTES), b"\xe9"),
        CASES.param("V18", cell(15, "é", BYTES), b"\xc3\xa9"),
        CASES.param("V19", cell(253, r"\U0001f600", BYTES), b"\xf0\x9f\x98\x80"),
        CASES.param("V19", cell(253, r"\101", BYTES), b"A"),
        CASES.param("V24", cell(252, "5rWL6K+VdGV4dA==", TEXT), "测试text"),
        CASES.param("V25", cell(252, "5rWL6K+VdGV4dA==", BYTES), "测试text".encode()),
        CASES.param("V28", cell(15, "YWE=", None), "aa"),
        CASES.param("V29", cell(15, "aa?", None), "aa?"),
        CASES.param("V31", cell(16, 18446744073709551615, 193), 18446744073709551615),
        CASES.param("V32", cell(247, 0, TEXT), 0),
        CASES.param("V32", cell(248, 0, TEXT), 0),
        CASES.param("V36", cell(12, "2024-02-30 00:00:00"), "2024-02-30 00:00:00"),
        CASES.param("V36", cell(12, "2024-00-10 00:00:00"), "2024-00-10 00:00:00"),
        CASES.param("V37", cell(11, "-838:59:59.000001"), "-838:59:59.000001"),
        CASES.param("V38", cell(11, "-00:00:01.500000"), "-00:00:01.500000"),
        CASES.param("V39", cell(10, "2000-01-01"), "2000-01-01"),
        CASES.param("V39", cell(14, "2000-01-01"), "2000-01-01"),
        CASES.param("V39", cell(14, "2000-01-01 00:00:00"), "2000-01-01"),
        CASES.param("V40", cell(13, 0, 193), 0),
        CASES.param("V40", cell(13, 1970, 193), 1970),
        CASES.param("V40", cell(13, 2155, 193), 2155),
        CASES.param("V41", cell(245, "null"), "null"),
        CASES.param("V41", cell(245, None), None),
        CASES.param("V43", cell(246, "-0.00"), Decimal("-0.00")),
        CASES.param("V43", cell(246, "9" * 35 + "." + "1" * 30), Decimal("9" * 35 + "." + "1" * 30)),
        CASES.param("V45", cell(225, "[1,-2.5]"), "[1,-2.5]"),
        CASES.param("V45", cell(225, "[1, -2.5]"), "[1,-2.5]"),
        CASES.param("V45", cell(225, "[]"), "[]"),
        CASES.param("V47", cell(6, None), None),
        CASES.param("V50", cell(3, 1, 0x141), 1),
    ],
)
def test_values(given: dict[str, Any], expected: Any) -> None:
    found = value(given)
    assert (repr(found), type(found)) == (repr(expected), type(expected))


@pytest.mark.parametrize(
    ("given", "good", "reason"),
    [
        CASES.param("V05", cell(8, 18446744073709551616), 1, "a number beyond 64 bits"),
        CASES.param("V06", cell(3, 1.0), 1, "not an integer"),
        CASES.param("V06", cell(3, "1"), 1, "not an integer"),
        CASES.param("V06", cell(3, True), 1, "not an integer"),
        *(
            CASES.param("V20", cell(15, text, BYTES), "a", reason)
            for text, reason in (
                (r"\q", "an escape that Go does not write, at byte 0"),
                (r"ab\x4", "an escape that Go does not write, at byte 2"),
                (r"\'", "an escape that Go does not write, at byte 0"),
                (r"\ud800", "no character, at byte 0"),
                (r"\U00110000", "no character, at byte 0"),
                ("abc\\", "an escape that Go does not write, at byte 3"),
            )
        ),
        CASES.param("V21", cell(15, 'a"b', BYTES), "a", "an escape that Go does not write, at byte 1"),
        CASES.param("V26", cell(252, "!!!", TEXT), "", "not base64"),
        CASES.param("V26", cell(252, "5rWL6K+VdGV4dA", BYTES), "", "not base64"),
        CASES.param("V40", cell(13, "1970"), 1, "not an integer"),
        CASES.param("V42", cell(245, {"a": 1}), "{}", "not a string"),
        CASES.param("V44", cell(246, 12.5), "12.5", "not a string"),
        CASES.param("V47", cell(6, 1), None, "not null"),
        CASES.param("V47", cell(6, "1"), None, "not null"),
        CASES.param("V48", {"t": 3, "f": 65}, 1, "Object missing required field `v`"),
    ],
)
def test_what_is_no_value_is_told_by_column_and_without_the_value(given: dict[str, Any], good: Any, reason: str) -> None:
    bad = row({"u": {"a": cell(3, 1), "c": given}})
    for earlier in ([], [row({"u": {"a": cell(3, 1), "c": given | {"v": good}}})]):
        with pytest.raises(Malformed, match=rf"^ticdc-open-protocol: u\.c[^:]*: {reason}"):
            _ = change(*earlier, bad).after
        with pytest.raises(Malformed, match=rf"u\.c[^:]*: {reason}"):
            written(records(*earlier, bad))


@CASES.covers("V46")
@pytest.mark.parametrize(("code", "reason"), [(255, "GEOMETRY"), (200, "type code 200"), (0, "type code 0"), (-1, "type code -1")])
def test_types_that_no_column_has(code: int, reason: str) -> None:
    for given in (cell(code, None), cell(code, "x")):
        with pytest.raises(UnsupportedMessage, match=rf"value\.c\.t: {reason}"):
            read(row({"u": {"c": given}}))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        CASES.param("V08", '{"t":5,"f":65,"v":-0}', "-0"),
        CASES.param("V08", '{"t":4,"f":65,"v": -0 }', "-0"),
        CASES.param("V09", '{"t":5,"f":65,"v":1e-07}', "1e-07"),
        CASES.param("V09", '{"t":5,"f":65,"v":1e-7}', "1e-07"),
        CASES.param("V10", '{"t":4,"f":65,"v":153.123}', "153.123"),
        *(
            CASES.param("V11", f'{{"t":{code},"f":65,"v":{given}}}', text)
            for code in (4, 5)
            for given, text in (
                ("1e20", "100000000000000000000"), ("1e21", "1e+21"), ("1e-6", "0.000001"), ("9.9e-7", "9.9e-07"),
                ("0.00001234", "0.00001234"), ("100000.0", "100000"), ("1.5e16", "15000000000000000"),
            )
        ),
        CASES.param("V43", cell(246, "-0.00"), '"-0.00"'),
    ],
)  # fmt: skip
def test_values_as_they_are_written(given: Any, expected: str) -> None:
    assert again(given) == expected


@CASES.covers("V12")
@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_json_has_no_word_for_what_is_no_number(number: float) -> None:
    with pytest.raises(ValueError, match="not a finite number"):
        go_number(number)


@CASES.covers("V22", "V23")
def test_bytes_are_written_as_go_quotes_them() -> None:
    named = {7: r"\a", 8: r"\b", 9: r"\t", 10: r"\n", 11: r"\v", 12: r"\f", 13: r"\r", 34: r"\"", 92: r"\\"}
    for code in range(256):
        text = named.get(code) or (chr(code) if 0x20 <= code < 0x7F else f"\\x{code:02x}")
        assert quoted(bytes((code,))) == text
        assert read_quoted(text) == bytes((code,))
    assert quoted(b"\xe6\xb5\x8b\xff\xe6\xb5") == r"测\xff\xe6\xb5"
    assert quoted("\u00a0é\ufeff\U0001f600\U000e0001".encode()) == r"\u00a0é\ufeff" + "\U0001f600" + r"\U000e0001"
    assert again(cell(15, r"\x89PNG\r\n", BYTES)) == r'"\\x89PNG\\r\\n"'


@CASES.covers("V30")
@pytest.mark.parametrize("part", ['{"u":{"a":%s,"c":%s}}', '{"u":{"a":%s},"p":{"a":{"t":3,"f":65,"v":2},"c":%s}}'])
def test_bytes_that_are_no_text_are_replaced_and_counted(part: str) -> None:
    message = row((part % ('{"t":3,"f":65,"v":1}', '{"t":15,"f":64,"v":"a~b"}')).encode().replace(b"~", b"\xff"))
    for earlier in ([], [row(part % ('{"t":3,"f":65,"v":1}', '{"t":15,"f":64,"v":"ab"}'))]):
        found = change(*earlier, message)
        assert "a\ufffdb" in (found.before or found.after or ())
        assert 1 in (found.after or ())
        assert counted(records(*earlier, message))["invalid-text"] == 1


@CASES.covers("V34")
def test_the_bits_of_a_set_are_its_members_in_the_order_of_the_definition() -> None:
    found = change(ddl("CREATE TABLE t (s SET('a','b','c'))"), row({"u": {"s": cell(248, 5, TEXT)}}))
    (bits,), members = found.after or (), found.schema.columns[0].type.members or ()
    assert isinstance(bits, int)
    assert [member for at, member in enumerate(members) if bits >> at & 1] == ["a", "c"]


@CASES.covers("V35")
def test_the_zero_timestamp_is_in_no_zone() -> None:
    zero = cell(7, "0000-00-00 00:00:00.000")
    assert value(zero, SHANGHAI) == value(zero) == "0000-00-00 00:00:00.000"
    assert value(cell(7, "2024-01-01 08:00:00.000"), SHANGHAI) == "2024-01-01 00:00:00.000"


@CASES.covers("V49")
def test_null_keeps_type_and_flags() -> None:
    codes = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 225, 245, 246, 247, 248, 249, 250, 251, 252, 254)
    texts, unsigned = {247, 248}, {13, 16}
    row_ = {f"c{code}": cell(code, None, 64 if code in texts else 193 if code in unsigned else 65) for code in codes}
    row_ |= {f"t{code}": cell(code, None, 64) for code in (15, 249, 250, 251, 252, 254)}
    row_ |= {f"u{code}": cell(code, None, 193) for code in (1, 2, 3, 8, 9, 246, 4, 5)}
    assert set(change(row({"u": row_})).after or ()) == {None}
    assert values(records(row({"u": row_}), row({"u": row_}))) == [{"u": row_}] * 2


@CASES.covers("V51")
def test_the_flag_says_what_the_handle_key_is() -> None:
    found = change(row({"u": {"a": cell(3, 1, 1, h=True), "b": cell(3, 2, 3)}}))
    assert found.schema.handle_key() == ("b",)


@CASES.covers("V52")
def test_rows_without_a_key_stay_together() -> None:
    rows = [framed(row({"u": {"a": cell(3, at)}}), offset=at) for at in range(20)]
    translator = Translator(OPEN, OPEN, partitions=16)
    assert len({out.partition for one in rows for out in translator.translate(one)}) == 1
    assert change(row({"u": {"a": cell(3, 1)}})).schema.handle_key() == ()


# ---------------------------------------------------------------- DDL


@CASES.covers("D01")
def test_an_unknown_number_passes() -> None:
    unknown = ddl("FROBNICATE TABLE t", 200)
    found = schema_change(unknown)
    assert (found.kinds, found.wire_kind) == ((), "200")
    assert values(records(unknown)) == [{"q": "FROBNICATE TABLE t", "t": 200}]
    assert counted(records(unknown)) == {"ddl-not-understood": 1}
    (canal,) = Translator(OPEN, CANAL).translate(framed(unknown))
    assert json.loads(canal.value or b"")["type"] == "QUERY"


@CASES.covers("D02")
def test_an_empty_statement_changes_nothing() -> None:
    create, rows = ddl("CREATE TABLE t (a INT)"), row({"u": {"a": cell(3, 1)}})
    assert change(create, ddl("", 3, ts=4), rows).schema == change(create, rows).schema
    assert schema_change(ddl("", 3)).kinds == (DdlKind.CREATE_TABLE,)
    assert counted(records(ddl("", 3))) == {"ddl-not-understood": 1}


@CASES.covers("D03")
@pytest.mark.parametrize("given", ['{"t":3}', '{"q":"x"}', '{"q":"x","t":"3"}', '{"q":null,"t":3}', "[]", "", "{"])
def test_what_is_no_statement(given: str) -> None:
    with pytest.raises(Malformed, match="value: not a DDL statement `q` with its number `t`"):
        read(({"ts": 4, "scm": "d", "tbl": "t", "t": 2}, given))


@CASES.covers("D05")
def test_two_statements_of_one_timestamp_both_count() -> None:
    create = ddl("CREATE TABLE t (a INT PRIMARY KEY)", ts=2)
    parts = [ddl(f"RENAME TABLE `d`.`{old}` TO `d`.`{new}`;", 14, tbl=new) for old, new in (("t", "s"), ("s", "r"))]
    assert change(create, *parts, row({"u": {"a": cell(3, 1)}}, tbl="r")).schema.primary_key == ("a",)
    assert [found["q"] for found in values(records(*parts))] == [
        f"RENAME TABLE `d`.`{one}`;" for one in ("t` TO `d`.`s", "s` TO `d`.`r")
    ]


@CASES.covers("D07")
def test_a_table_moves_to_another_database() -> None:
    create = ddl("CREATE TABLE x (a INT PRIMARY KEY)", ts=2, scm="a", tbl="x")
    rename = ddl("RENAME TABLE `a`.`x` TO `b`.`y`", 14, scm="b", tbl="y")
    assert schema_change(create, rename).table == TableId("b", "y")
    assert change(create, rename, row({"u": {"a": cell(3, 1)}}, scm="b", tbl="y")).schema.complete
    assert not change(create, rename, row({"u": {"a": cell(3, 1)}}, scm="a", tbl="x")).schema.complete


@CASES.covers("D08")
def test_a_row_with_the_statements_timestamp_is_older() -> None:
    create, alter = ddl("CREATE TABLE t (a INT)", ts=2), ddl("ALTER TABLE t ADD COLUMN b INT NOT NULL FIRST", 5)
    found = change(create, alter, row({"u": {"a": cell(3, 1)}}, ts=4))
    assert [column.name for column in found.schema.columns] == ["a"]
    found = change(create, alter, row({"u": {"a": cell(3, 1), "b": cell(3, 1, 1)}}))
    assert [column.name for column in found.schema.columns] == ["b", "a"]


@CASES.covers("D09")
def test_a_bare_alter_is_a_ttl_that_was_switched_off() -> None:
    create, bare = ddl("CREATE TABLE t (a INT)", ts=2), ddl("ALTER TABLE `t`", 65)
    found = schema_change(create, bare)
    assert (found.kinds, found.wire_kind) == ((DdlKind.ALTER_TABLE_OPTION,), "65")
    assert change(create, bare, row({"u": {"a": cell(3, 1)}})).schema == change(create, row({"u": {"a": cell(3, 1)}})).schema
    assert values(records(bare)) == [{"q": "ALTER TABLE `t`", "t": 65}]


@CASES.covers("D10")
def test_comments_of_tidb_are_read() -> None:
    create = ddl("CREATE TABLE `t` (`a` BIGINT PRIMARY KEY /*T![clustered_index] CLUSTERED */ /*T![auto_rand] AUTO_RANDOM(5) */)")
    assert schema_change(create).kinds == (DdlKind.CREATE_TABLE,)
    assert change(create, row({"u": {"a": cell(8, 1, 11)}})).schema.primary_key == ("a",)


# ---------------------------------------------------------------- large messages

INSERT = {"u": {"id": cell(3, 5, 11, h=True)}}
OBJECT = "3f2b8c1e-0000-4000-8000-000000000001.json"


def reading(setting: str) -> dict[str, str]:
    return {"large-message-handle-compression": setting}


@CASES.covers("L01", "L02")
def test_the_wrong_compression_is_an_error() -> None:
    for setting in ("snappy", "lz4"):
        with pytest.raises(Malformed, match=rf"value: not an? .*{setting.upper() if setting == 'lz4' else setting}"):
            change(row(INSERT), options=reading(setting))
    assert change(row(INSERT), options=reading("auto")) == change(row(INSERT), options=reading("none")) == change(row(INSERT))
    without_size = bytes.fromhex(
        "04224d186470b9310000807b2271223a22414c544552205441424c4520607431602041444420434f4c554d4e2060636020494e54222c2274223a357d"
        "00000000b3e10db3"
    )
    key = {"ts": 4, "scm": "d", "tbl": "t1", "t": 2}
    assert schema_change((key, without_size)).ddl == "ALTER TABLE `t1` ADD COLUMN `c` INT"
    with pytest.raises(Malformed, match="value: a damaged LZ4 frame"):
        schema_change((key, without_size[:-1] + b"\0"))


@CASES.covers("L03")
def test_a_block_that_says_it_is_huge() -> None:
    with pytest.raises(Malformed, match="value: decompresses to more than 134217728 bytes"):
        change(row(b"\xff\xff\xff\xff\x0f\x00a"), options=reading("snappy"))


@CASES.covers("L04")
@pytest.mark.parametrize("setting", ["lz4", "snappy"])
def test_every_value_of_a_batch_is_compressed_by_itself(setting: str) -> None:
    small = [(key, compressed(json.dumps(given).encode(), Compression(setting))) for key, given in BATCH]
    assert written([framed(*small)], reading={}) == written([framed(*BATCH)])
    assert written([framed(*small)], reading=reading(setting)) == written([framed(*BATCH)])
    (out,) = Translator(OPEN, OPEN, None, reading(setting) | {"max-batch-size": "3"}).translate(framed(*BATCH))
    assert [compressed(one, Compression.NONE)[:1] == b"{" for _, one in unframed(out)] == [False] * 3
    assert written([raw(out.key, out.value)]) == written([framed(*BATCH)])


def claimed(location: str = f"s3://bkt/cc/{OBJECT}") -> ConsumerRecord:
    return framed(row(INSERT, ohk=False, ccl=location))


def stored(*messages: Any) -> bytes:
    inner = framed(*messages)
    return json.dumps(
        {name: base64.b64encode(part or b"").decode() for name, part in (("key", inner.key), ("value", inner.value))}
    ).encode()


@CASES.covers("L05")
def test_an_object_is_asked_for_and_never_replaced() -> None:
    translator = Translator(OPEN, OPEN, {"claim-check-storage-uri": "s3://bkt/cc"})
    whole = row({"u": {"id": cell(3, 5, 11, h=True), "doc": cell(15, "long", TEXT)}})
    for _ in range(3):
        with pytest.raises(ClaimCheck) as need:
            translator.translate(claimed())
        assert need.value.name == OBJECT
    translator.provide(need.value, stored(whole))
    (out,) = translator.translate(claimed())
    assert raw(out.key, out.value) == framed(whole)


@CASES.covers("L06")
@pytest.mark.parametrize("location", ["s3://x/../../etc/passwd", f"s3://x/..%2F{OBJECT}", f"s3://x\\{OBJECT}", "", "/"])
def test_only_names_of_objects_are_read(location: str) -> None:
    with pytest.raises(Malformed, match=r"key\.ccl: does not end in the name of a claim-check object"):
        Translator(OPEN, OPEN, {"claim-check-storage-uri": "s3://bkt"}).translate(claimed(location or "x"))


@CASES.covers("L07")
@pytest.mark.parametrize(
    ("inside", "reason"),
    [
        (stored(row(INSERT, ts=6)), "another event"),
        (stored(row(INSERT, tbl="other")), "another event"),
        (stored(row(INSERT, ptn=1)), "another event"),
        (stored(row(INSERT), row(INSERT)), "2 events instead of one"),
        (stored(), "0 events instead of one"),
        (b"{}", "no claim-check document"),
    ],
)
def test_the_object_must_hold_the_same_event(inside: bytes, reason: str) -> None:
    translator = Translator(OPEN, OPEN, {"claim-check-storage-uri": "s3://bkt"})
    with pytest.raises(ClaimCheck) as need:
        translator.translate(claimed())
    translator.provide(need.value, inside)
    with pytest.raises(Malformed, match=rf"key\.ccl: the object in storage .*{reason}"):
        translator.translate(claimed())


# ---------------------------------------------------------------- encoder


@CASES.covers("E01")
def test_the_seventeenth_row_begins_a_message() -> None:
    batch = framed(*[row({"u": {"a": cell(3, at)}}) for at in range(17)])
    assert [len(message) for message in written([batch], {"max-batch-size": "16"})] == [16, 1]


@CASES.covers("E02")
def test_a_row_fits_up_to_the_last_byte() -> None:
    ((key, given),) = written([framed(row(INSERT))])[0]
    size = len(key) + len(given) + 36 + 16 + 8
    assert len(written([framed(row(INSERT))], {"max-message-bytes": str(size)})) == 1
    with pytest.raises(MessageTooLarge, match=f"{size} bytes where max-message-bytes is {size - 1}"):
        written([framed(row(INSERT))], {"max-message-bytes": str(size - 1)})
    two = size + len(key) + len(given) + 16
    for limit, rows in ((two, [2]), (two - 1, [1, 1])):
        options = {"max-message-bytes": str(limit), "max-batch-size": "9"}
        assert [len(message) for message in written([framed(row(INSERT), row(INSERT))], options)] == rows


@CASES.covers("E03")
def test_a_watermark_has_eight_zero_bytes() -> None:
    (out,) = Translator(OPEN, OPEN).translate(framed(resolved(7)))
    assert out.value == bytes(8)
    assert out.key == V1 + segment('{"ts":7,"t":3}')


@CASES.covers("E04")
def test_what_is_written_is_read_by_the_strict_rules_of_the_java_example() -> None:
    mixed = (*BATCH, ddl("DROP TABLE t", 4), resolved(9))
    (batch, statement, mark) = written([framed(*mixed)], {"max-batch-size": "16"})
    assert [json.loads(key)["t"] for key, _ in (*batch, *statement, *mark)] == [1, 1, 1, 2, 3]
    found = Translator(OPEN, OPEN).inspect(framed(*batch, *statement, *mark))
    assert found == Translator(OPEN, OPEN).inspect(framed(*mixed))


@CASES.covers("E07")
def test_an_update_whose_old_row_nobody_knows() -> None:
    update = record(row_message({"a": "int"}, {"a": "1"}, op="UPDATE", old=None, table="t"))
    assert values([update], source=CANAL) == [{"u": {"a": cell(3, 1)}}]
    translator = Translator(CANAL, OPEN)
    translator.translate(update)
    assert translator.lossy[Lossy.BEFORE_UNKNOWN] == 1


@CASES.covers("E08")
def test_rows_before_a_statement_are_written_before_it() -> None:
    rows = [row({"u": {"id": cell(3, at, 11, h=True)}}) for at in range(9)]
    translator = Translator(OPEN, OPEN, None, {"max-batch-size": "16"}, partitions=3)
    out = translator.translate(framed(*rows, ddl("ALTER TABLE t COMMENT 'x'", 17, ts=6), row(INSERT, ts=7)))
    kinds = [[json.loads(key)["t"] for key, _ in unframed(one)] for one in out]
    at = kinds.index([2])
    assert sum(map(len, kinds[:at])) == 9
    assert kinds[at:] == [[2], [2], [2], [1]]
    assert [one.partition for one in out[at : at + 3]] == [0, 1, 2]


# ---------------------------------------------------------------- the order of events


def passed(*given: ConsumerRecord, partitions: int | None = 3) -> list[tuple[int, int]]:
    """What is written: type and timestamp of every event; what goes to all partitions is told once."""
    translator = Translator(OPEN, OPEN, partitions=partitions)
    found = [
        json.loads(key)
        for one in given
        for out in translator.translate(one)
        if out.partition == 0 or b'"t":1' in (out.key or b"")
        for key, _ in unframed(out)
    ]
    return [(key["t"], key["ts"]) for key in found]


def partition(number: int, *messages: Any, offset: int = 0) -> ConsumerRecord:
    return framed(*messages, partition=number, offset=offset)


@CASES.covers("C02", "C03", "C07")
def test_rows_are_never_dropped_by_their_timestamp() -> None:
    b, a = row(INSERT, ts=2), row(INSERT, ts=1)
    assert passed(*records(b, a, b), partitions=None) == [(1, 2), (1, 1), (1, 2)]
    assert passed(*records(resolved(2), b, b, a), partitions=None) == [(3, 2), (1, 2), (1, 2), (1, 1)]


@CASES.covers("C04")
def test_a_watermark_that_falls_back_is_not_believed() -> None:
    assert passed(*records(resolved(10), resolved(7), resolved(11))) == [(3, 10), (3, 11)]


@CASES.covers("C05")
def test_the_least_watermark_holds_for_all_partitions() -> None:
    rows = [partition(at, row(INSERT)) for at in range(3)]
    marks = [partition(at, resolved(ts)) for at, ts in enumerate((10, 12, 8))]
    assert passed(*rows, *marks) == [(1, 5)] * 3 + [(3, 8)]


@CASES.covers("C06")
def test_a_partition_without_a_watermark_holds_back_all_others() -> None:
    assert (
        passed(partition(0, row(INSERT)), partition(1, row(INSERT)), partition(0, resolved(9)), partition(0, row(INSERT)))
        == [(1, 5)] * 3
    )


@CASES.covers("C08")
def test_partitions_of_one_table_do_not_disturb_each_other() -> None:
    rows = [row(INSERT, ts=ts, ptn=ptn) for ts, ptn in ((5, 111), (3, 112), (6, 111), (4, 112))]
    assert [ts for _, ts in passed(*records(*rows), partitions=None)] == [5, 3, 6, 4]


@CASES.covers("C09")
def test_rows_of_a_table_that_is_new_below_the_watermark_pass() -> None:
    assert passed(*records(resolved(9), row(INSERT, ts=5, tbl="new")), partitions=None) == [(3, 9), (1, 5)]
