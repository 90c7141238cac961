"""Options of targets that shape what readers see: each alone, and as profiles."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from ckafka_support import CKAFKA
from debezium_support import DEBEZIUM
from support import CANAL, OPEN, TICDC, WRITABLE, captured, record, row_message, translated_records

from relay import (
    ABSENT,
    ConfigError,
    ConsumerRecord,
    EncodeError,
    Loss,
    Op,
    Resolver,
    RowChange,
    Rows,
    Source,
    Translator,
)
from relay.codecs import BUILT_IN
from relay.codecs.given_options import reading_options
from relay.codecs.shared.caches import CachePool
from relay.codecs.shared.shaped import RowKeys
from relay.core.selection import Selection
from relay.model.events import TSO_LOGICAL_BITS
from relay.model.records import ProducerRecord
from relay.routing import TopicRule
from relay.testing.strategies import creation

FLAT = "flat-json"
TIME_MS = 1_795_254_680_000
TYPES = {
    "id": "int",
    "grade": "enum('low','high, or so','')",
    "flags": "set('a','b','c')",
    "photo": "blob",
    "code": "binary(4)",
    "born": "date",
    "since": "datetime(3)",
    "seen": "timestamp",
    "credit": "decimal(14,4)",
}
ROW: dict[str, Any] = {
    "id": "7",
    "grade": "2",
    "flags": "5",
    "photo": "\x00\xffA",
    "code": "ab",
    "born": "1958-03-07",
    "since": "2021-07-04 03:02:01.987",
    "seen": "2021-07-04 03:02:01",
    "credit": "4.3900",
}


def canal_row(*rows: dict[str, Any], op: str = "INSERT", old: Any = None, **more: Any) -> dict[str, Any]:
    return row_message(TYPES, *rows, op=op, old=old, **{"pkNames": ["id"]} | more)


def written(
    message: Mapping[str, Any], options: Mapping[str, str], target: str = CANAL, source: str = CANAL
) -> tuple[list[dict[str, Any]], Translator]:
    translator = Translator(source, target, None, options)
    out = translator.translate(record(dict(message), timestamp_ms=TIME_MS))
    return [json.loads(one.value or b"null") for one in out], translator


def values(row: Mapping[str, Any], options: Mapping[str, str], target: str = CANAL) -> dict[str, Any]:
    """What becomes of a row's values, where it is another text."""
    (message,), _ = written(canal_row(dict(row)), options, target)
    found: dict[str, Any] = message["data"][0]
    (producers,), _ = written(canal_row(dict(row)), {}, target)
    return {name: value for name, value in found.items() if value != producers["data"][0][name]}


# ---------------------------------------------------------------- values of text


def test_members_are_labels() -> None:
    assert values(ROW, {"enum": "label"}) == {"grade": "high, or so", "flags": "a,c"}
    assert values(ROW, {"enum": "label"}, TICDC) == {"grade": "high, or so", "flags": "a,c"}
    assert values(ROW | {"grade": "0", "flags": "0"}, {"enum": "label"}) == {"grade": "", "flags": ""}
    assert values(ROW | {"grade": None, "flags": None}, {"enum": "label"}) == {}


@pytest.mark.parametrize(("grade", "flags"), [("4", "8"), ("9", "16")])
def test_a_number_without_a_label_stays_one_and_is_counted(grade: str, flags: str) -> None:
    (message,), translator = written(canal_row(ROW | {"grade": grade, "flags": flags}), {"enum": "label"})
    assert (message["data"][0]["grade"], message["data"][0]["flags"]) == (grade, flags)
    assert translator.losses[Loss.ENUM_INDEX] == 2


@pytest.mark.parametrize("target", [CANAL, "flat-json"])
@pytest.mark.parametrize(("index", "count"), [("0", 1), ("1", 0)])
def test_no_label_is_counted_where_the_empty_text_is_a_members(target: str, index: str, count: int) -> None:
    message = row_message({"id": "int", "grade": "enum('','x')"}, {"id": "1", "grade": index})
    options = {} if target == "flat-json" else {"enum": "label"}
    (found,), translator = written(message, options, target)
    assert (found["data"][0] if "data" in found else found)["grade"] == ""
    assert translator.losses[Loss.ENUM_INDEX] == count


def test_without_members_numbers_stay_and_are_counted_each() -> None:
    message = row_message({"id": "int", "grade": "enum"}, {"id": "1", "grade": "2"}, op="UPDATE")
    message |= {"old": [{"grade": "1"}]}
    (found,), translator = written(message, {"enum": "label"}, source=TICDC)
    assert (found["data"][0]["grade"], found["old"]) == ("2", [{"grade": "1"}])
    assert found["sqlType"]["grade"] == 4
    assert translator.losses[Loss.ENUM_INDEX] == 2


@pytest.mark.parametrize(
    ("form", "photo", "code"), [("base64", "AP9B", "YWIAAA=="), ("hex", "00ff41", "61620000")]
)
@pytest.mark.parametrize("target", [CANAL, TICDC])
def test_binary_values_are_text_of_all_their_bytes(target: str, form: str, photo: str, code: str) -> None:
    assert values(ROW, {"binary": form}, target) == {"photo": photo, "code": code}
    assert values(ROW | {"photo": "", "code": None}, {"binary": form}, target) == {}


def test_text_that_happens_to_be_base64_is_not_passed_on() -> None:
    assert values(ROW | {"photo": "QUJD", "code": "QUJD"}, {"binary": "base64"}) == {
        "photo": "UVVKRA==",
        "code": "UVVKRA==",
    }


def test_types_follow_what_the_text_is() -> None:
    (plain,), _ = written(canal_row(ROW), {})
    (shaped,), _ = written(canal_row(ROW), {"enum": "label", "binary": "base64"})
    assert shaped["mysqlType"] == plain["mysqlType"]
    changed = {name for name, number in shaped["sqlType"].items() if number != plain["sqlType"][name]}
    assert changed == {"grade", "flags", "photo", "code"}
    assert {shaped["sqlType"][name] for name in changed} == {12}
    (nulls,), _ = written(canal_row(ROW | {"flags": None}), {"enum": "label"})
    assert nulls["sqlType"]["flags"] == 12


ZERO = {"born": "0000-00-00", "since": "0000-00-00 00:00:00.000", "seen": "0000-00-00 00:00:00"}


@pytest.mark.parametrize("target", [CANAL, TICDC])
@pytest.mark.parametrize(
    "dates",
    [ZERO, {"born": "2009-11-31"}, {"since": "2020-02-00 10:00:00.000"}, {"born": "0000-01-01"}],
)
def test_dates_outside_the_calendar_are_null_and_counted(target: str, dates: dict[str, str]) -> None:
    (message,), translator = written(canal_row(ROW | dates), {"zero-dates": "null"}, target)
    assert {name: message["data"][0][name] for name in dates} == dict.fromkeys(dates)
    assert translator.losses[Loss.ZERO_DATE] == len(dates)
    with pytest.raises(EncodeError, match="zero-date"):
        written(canal_row(ROW | dates), {"zero-dates": "null", "strict": "true"}, target)
    for kept in ("keep", "text"):
        assert values(ROW | dates, {"zero-dates": kept}, target) == {}


@pytest.mark.parametrize("target", [CANAL, TICDC, CKAFKA, FLAT])
@pytest.mark.parametrize("source", [CANAL, TICDC, OPEN, CKAFKA])
def test_dates_of_the_key_are_never_null(source: str, target: str) -> None:
    """Two rows whose keys differ in such dates alone stay two, in the key and in the row."""
    create = ddl("CREATE TABLE t (born DATE, seen DATETIME, since DATE, PRIMARY KEY (born, seen))")
    types = {"born": "date", "seen": "datetime", "since": "date"}
    row = {"born": "0000-00-00", "seen": "2009-11-31 00:00:00", "since": "0000-00-00"}
    message = row_message(types, row, pkNames=["born", "seen"])
    before = Translator(TICDC, source).translate
    records = [*before(record(create)), *before(record(message, offset=1))]
    options = {"zero-dates": "null", **({} if target == FLAT else {"key": "primary-key"})}
    translator = Translator(source, target, None, options)
    (found,) = [out for each in as_read(records) for out in translator.translate(each) if _is_row(out)]
    key = {name: row[name] for name in ("born", "seen")}
    assert json.loads(found.key or b"null") == key
    value = json.loads(found.value or b"null")
    written_row = value["data"][0] if "data" in value else value.get("NEW_VALUES", value)
    assert {name: written_row[name] for name in row} == key | {"since": None}
    assert translator.losses[Loss.ZERO_DATE] == 1


def test_dates_of_a_key_that_a_rule_chooses_are_never_null() -> None:
    rules = [TopicRule("*.*", key=("since",))]
    translator = Translator(CANAL, FLAT, None, {"zero-dates": "null"}, rules=rules)
    row = {"id": "1", "since": "0000-00-00", "born": "0000-00-00"}
    (out,) = translator.translate(record(row_message({"id": "int", "since": "date", "born": "date"}, row)))
    assert json.loads(out.key or b"null") == {"since": "0000-00-00"}
    found = json.loads(out.value or b"null")
    assert (found["since"], found["born"]) == ("0000-00-00", None)


def _is_row(out: ProducerRecord) -> bool:
    return b"2009-11-31" in (out.value or b"")


def test_dates_of_the_calendar_stay() -> None:
    first = {"born": "0001-01-01", "since": "9999-12-31 23:59:59.999"}
    assert values(ROW | first, {"zero-dates": "null"}) == {}


def test_an_iso_timestamp_has_a_t_and_its_zone() -> None:
    options = {"timestamp-format": "iso", "timezone": "Asia/Shanghai"}
    (message,), _ = written(canal_row(ROW), options)
    found = message["data"][0]
    assert (found["born"], found["since"]) == (ROW["born"], "2021-07-04T03:02:01.987")
    assert found["seen"] == "2021-07-04T11:02:01"
    null = {"since": "0000-00-00 00:00:00.000"}
    (message,), _ = written(canal_row(ROW | null), options | {"zero-dates": "null"})
    assert message["data"][0]["since"] is None


def test_old_values_are_compared_as_they_are_written() -> None:
    old = {"born": "0000-00-00", "grade": "1", "code": "ab\0", "flags": None}
    message = canal_row(ROW | {"born": "2009-11-31"}, op="UPDATE", old=[old])
    options = {"zero-dates": "null", "enum": "label", "binary": "base64"}
    (found,), _ = written(message, options)
    assert found["old"] == [{"grade": "low", "flags": None}]


def test_ckafka_has_the_forms_that_make_sense_there() -> None:
    (message,), translator = written(
        canal_row(ROW | ZERO), {"binary": "base64", "zero-dates": "null"}, CKAFKA
    )
    row = message["NEW_VALUES"]
    assert (row["photo"], row["code"], row["born"]) == ("AP9B", "YWIAAA==", None)
    assert translator.losses[Loss.ZERO_DATE] == 3


def test_ckafka_reads_binary_values_as_configured() -> None:
    for style in ("auto", "mysql", "debezium"):
        (out,) = Translator(CANAL, CKAFKA, None, {"binary": "base64"}).translate(record(canal_row(ROW)))
        read = Translator(CKAFKA, CANAL, {"binary": "base64", "value-style": style}, {"binary": "hex"})
        read.translate(record(ddl("CREATE TABLE t (id INT, photo BLOB, code BINARY(4))")))
        (message,) = read.translate(msgspec.structs.replace(as_read([out])[0], offset=1))
        row = json.loads(message.value or b"")["data"][0]
        assert (row["photo"], row["code"]) == ("00ff41", "61620000")


SHAPES = [
    {"enum": "label"},
    {"binary": "base64"},
    {"binary": "hex"},
    {"timestamp-format": "iso"},
    {"timestamp-format": "iso", "timezone": "America/New_York"},
    {"enum": "label", "binary": "base64", "timestamp-format": "iso"},
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("target", [CANAL, TICDC])
@pytest.mark.parametrize(
    ("source", "file"),
    [(OPEN, "ticdc/open-protocol/01_all_types"), (CANAL, "mysql/canal-json/01_all_types"),
     (TICDC, "ticdc/canal-json/01_all_types"), (DEBEZIUM, "ticdc/debezium.no-schema/01_all_types")],
)  # fmt: skip
def test_a_source_with_the_same_options_is_read_back(
    source: str, file: str, target: str, shape: dict[str, str]
) -> None:
    if target == TICDC and "timestamp-format" in shape:
        pytest.skip("only upstream Canal's JSON has it")
    records = captured(file)
    plain, shaped = (translated_records(Translator(source, target, None, to), records) for to in ({}, shape))
    assert [one.value for one in plain] != [one.value for one in shaped]
    plainly, back = (
        translated_records(Translator(target, CANAL, options), as_read(made))
        for options, made in (({}, plain), (shape, shaped))
    )
    assert [one.value for one in plainly] == [one.value for one in back]


def as_read(made: list[ProducerRecord]) -> list[ConsumerRecord]:
    return [
        ConsumerRecord(one.topic, one.partition, at, one.timestamp_ms, one.key, one.value)
        for at, one in enumerate(made)
    ]


def test_a_source_has_one_form_of_binary_values() -> None:
    with pytest.raises(ConfigError, match="contradicts binary=base64"):
        Translator(CANAL, CANAL, {"hex-binary": "true", "binary": "base64"})
    Translator(CANAL, CANAL, {"hex-binary": "true", "binary": "hex"})


# ---------------------------------------------------------------- left out

CREATE = "CREATE TABLE t (id INT PRIMARY KEY, grade ENUM('low','high'))"


def ddl(text: str, **more: Any) -> dict[str, Any]:
    return row_message({}, isDdl=True, type="CREATE", sql=text, data=None, mysqlType=None, **more)


SIMPLE = {"ticdc-simple-json", "ticdc-simple-avro"}


@pytest.mark.parametrize("target", sorted(WRITABLE))
def test_ddl_is_left_out_counted_no_loss_and_learned(target: str) -> None:
    """Rows of Simple refer to definitions, which a BOOTSTRAP has instead."""
    options = {"ddl": "drop", "strict": str(target == CANAL).lower()}
    translator = Translator(CANAL, target, None, options)
    assert len(translator.translate(record(ddl(CREATE)))) == (target in SIMPLE)
    assert translator.losses == {Loss.DDL: 1}
    assert translator.events == ({"bootstrap": 1} if target in SIMPLE else {})
    row = row_message({"id": "int", "grade": "enum('low','high')"}, {"id": "1", "grade": "2"}, pkNames=["id"])
    assert len(Resolver().translate(translator, record(row, offset=1))) == 1
    assert translator.losses[Loss.SCHEMA_INFERRED] == 0


@pytest.mark.parametrize("target", sorted(SIMPLE))
def test_definitions_replace_statements_that_are_filtered_by_kind(target: str) -> None:
    selection = Selection(left_out_kinds=frozenset({"schema-change"}))
    translator = Translator(CANAL, target, selection=selection)
    assert len(translator.translate(record(ddl(CREATE)))) == 1
    assert translator.losses == {Loss.EVENTS_FILTERED: 1}


@pytest.mark.parametrize("target", sorted(WRITABLE))
def test_watermarks_are_left_out_and_counted(target: str) -> None:
    mark = row_message({}, type="TIDB_WATERMARK", data=None, mysqlType=None, sqlType=None)
    mark |= {"_tidb": {"watermarkTs": TIME_MS << TSO_LOGICAL_BITS}}
    options = {"watermarks": "drop", "strict": "true"}
    if target in {TICDC, DEBEZIUM}:
        options |= {"enable-tidb-extension": "true"}
    for partitions in (None, 2):
        translator = Translator(TICDC, target, None, options, partitions=partitions)
        assert translator.translate(record(mark)) == []
        assert translator.losses == {Loss.WATERMARK: 1}
        assert not translator.needs_all_partitions
        assert not translator.route.passes_watermarks


@pytest.mark.parametrize(("selected", "option"), [(True, "drop"), (False, "keep"), (False, "drop")])
def test_either_selection_or_option_leaves_watermarks_out(selected: bool, option: str) -> None:
    """`[target] watermarks` of the configuration is the selection."""
    translator = Translator(
        TICDC, OPEN, None, {"watermarks": option}, selection=Selection(watermarks=selected)
    )
    assert not translator.route.passes_watermarks


def test_statements_that_are_not_written_need_no_copies() -> None:
    assert Translator(CANAL, OPEN).copies_ddl
    assert not Translator(CANAL, OPEN, None, {"ddl": "drop"}).copies_ddl


def test_rows_before_1970_are_not_left_out_with_the_statements() -> None:
    translator = Translator(CANAL, CANAL, None, {"ddl": "drop"})
    assert len(translator.translate(record(canal_row(ROW, es=-62_135_596_800_001)))) == 1


def test_nothing_is_selected_where_nothing_is_left_out() -> None:
    assert Translator(TICDC, CANAL).route.selection is None


# ---------------------------------------------------------------- keys and tombstones

KEYED = [TICDC, CANAL, CKAFKA, DEBEZIUM]
KEY_TYPES = {"b": "varbinary(4)", "a": "bigint unsigned", "d": "decimal(9,2)", "at": "timestamp", "v": "int"}
KEY_ROW = {"b": "\x00\xff", "a": "18446744073709551615", "d": "1.20", "at": "2021-07-04 11:02:01", "v": "1"}


def keyed(
    op: str, row: Mapping[str, Any], old: Any = None, pk: Any = ("at", "a", "b", "d")
) -> dict[str, Any]:
    return row_message(KEY_TYPES, dict(row), op=op, old=old, pkNames=None if pk is None else list(pk))


def sent(target: str, options: Mapping[str, str], *messages: dict[str, Any]) -> list[ProducerRecord]:
    translator = Translator(CANAL, target, {"timezone": "Asia/Shanghai"}, options)
    return translated_records(translator, [record(one, at) for at, one in enumerate(messages)])


@pytest.mark.parametrize("target", KEYED)
def test_a_key_is_an_object_of_the_keys_columns_in_table_order(target: str) -> None:
    expected = b'{"b":"AP8=","a":18446744073709551615,"d":"1.20","at":"2021-07-04 03:02:01"}'
    changed = KEY_ROW | {"v": "2"}
    out = sent(
        target,
        {"key": "primary-key"},
        keyed("INSERT", KEY_ROW),
        keyed("UPDATE", changed, old=[{"v": "1"}]),
        keyed("DELETE", changed),
    )
    assert [one.key for one in out] == [expected] * 3
    assert None not in [one.value for one in out]


@pytest.mark.parametrize("target", KEYED)
def test_no_key_without_one(target: str) -> None:
    for pk in ((), None):
        out = sent(
            target,
            {"key": "primary-key", "tombstones": "true"},
            keyed("INSERT", KEY_ROW, pk=pk),
            keyed("DELETE", KEY_ROW, pk=pk),
        )
        assert [(one.key, one.value is None) for one in out] == [(None, False)] * 2


def test_a_row_that_lacks_its_key_has_none() -> None:
    partial = {"a": "1", "v": "2"}
    (out,) = sent(CANAL, {"key": "primary-key"}, keyed("INSERT", partial, pk=["a", "b"]))
    assert out.key is None


def test_a_unique_key_stands_for_a_primary_key() -> None:
    statement = "CREATE TABLE t (v INT, u VARCHAR(9) NOT NULL UNIQUE, n INT UNIQUE)"
    row = row_message({"v": "int", "u": "varchar(9)", "n": "int"}, {"v": "1", "u": "ü", "n": None})
    *_, out = sent(CANAL, {"key": "primary-key"}, ddl(statement), row)
    assert out.key == '{"u":"ü"}'.encode()


@pytest.mark.parametrize("target", KEYED)
def test_what_is_no_row_keeps_the_producers_key(target: str) -> None:
    plain, shaped = (sent(target, options, ddl(CREATE)) for options in ({}, {"key": "primary-key"}))
    assert plain == shaped


@pytest.mark.parametrize("target", KEYED)
def test_a_tombstone_follows_a_delete(target: str) -> None:
    options = {"key": "primary-key", "tombstones": "true"}
    out = sent(target, options, keyed("INSERT", KEY_ROW), keyed("DELETE", KEY_ROW))
    assert [one.value is None for one in out] == [False, False, True]
    assert len({one.key for one in out}) == 1
    assert [dict(one.headers)["relay.source"] for one in out] == [
        b"topic/0/0/0", b"topic/0/1/0", b"topic/0/1/1",
    ]  # fmt: skip


def test_the_producers_own_keys_do_for_tombstones() -> None:
    out = sent(DEBEZIUM, {"tombstones": "true"}, keyed("DELETE", KEY_ROW, pk=["a"]))
    assert [one.value is None for one in out] == [False, True]
    assert out[0].key == out[1].key
    (out_of_no_key,) = sent(DEBEZIUM, {"tombstones": "true"}, keyed("DELETE", KEY_ROW, pk=[]))
    assert out_of_no_key.value is not None


@pytest.mark.parametrize("target", KEYED)
def test_a_change_of_the_key_is_a_delete_and_an_insert(target: str) -> None:
    message = keyed("UPDATE", KEY_ROW | {"a": "2"}, old=[{"a": "1"}], pk=["a"])
    options = {"key": "primary-key", "tombstones": "true"}
    out = sent(target, options, message)
    assert [(one.key, one.value is None) for one in out] == [
        (b'{"a":1}', False), (b'{"a":1}', True), (b'{"a":2}', False),
    ]  # fmt: skip
    if target in {TICDC, DEBEZIUM}:
        assert sent(target, options | {"output-raw-change-event": "true"}, message) == out


def test_a_change_of_another_unique_key_stays_an_update_where_the_producer_keeps_it() -> None:
    statement = "CREATE TABLE t (id INT PRIMARY KEY, u INT UNIQUE)"
    row = row_message({"id": "int", "u": "int"}, {"id": "1", "u": "2"}, op="UPDATE", old=[{"u": "1"}])
    *_, out = sent(CANAL, {"key": "primary-key"}, ddl(statement), row)
    assert json.loads(out.value or b"")["type"] == "UPDATE"


@pytest.mark.parametrize("target", KEYED)
def test_keyed_output_is_read_like_any_other(target: str) -> None:
    options = {"key": "primary-key", "tombstones": "true"}
    messages = [keyed("INSERT", KEY_ROW), keyed("DELETE", KEY_ROW)]
    reader = Translator(target, target)
    found = [event for one in as_read(sent(target, options, *messages)) for event in reader.inspect(one)]
    assert [event.op for event in found if isinstance(event, RowChange)] == [Op.INSERT, Op.DELETE]
    assert reader.losses[Loss.TOMBSTONE] == 1


def test_compressed_values_have_plain_keys_that_are_read() -> None:
    options = {"key": "primary-key", "large-message-handle-compression": "lz4"}
    for target in (TICDC, DEBEZIUM):
        out = sent(target, options, keyed("INSERT", KEY_ROW, pk=["a"]))
        assert out[0].key == b'{"a":18446744073709551615}'
        reader = Translator(target, target, {"large-message-handle-compression": "lz4"})
        (event,) = reader.inspect(as_read(out)[0])
        assert isinstance(event, RowChange)


def test_a_row_that_the_key_makes_too_large_is_reduced() -> None:
    row = row_message({"id": "varchar(90)", "v": "text"}, {"id": "k" * 80, "v": "x" * 900}, pkNames=["id"])
    large = {"enable-tidb-extension": "true", "large-message-handle-option": "handle-key-only"}
    (plain,) = sent(TICDC, large, row)
    size = len(plain.value or b"") + 36
    for more, is_reduced in ((0, True), (88, True), (89, False)):
        options = large | {"key": "primary-key", "max-message-bytes": str(size + more)}
        (out,) = sent(TICDC, options, row)
        assert len(out.key or b"") == len('{"id":""}') + 80
        assert (b"onlyHandleKey" in (out.value or b"")) is is_reduced


def test_a_key_that_json_cannot_hold_is_refused() -> None:
    schema = creation("CREATE TABLE t (id VARCHAR(9) PRIMARY KEY)", Source("x", 0), 0).after
    assert schema is not None
    keys = RowKeys("made-up", CachePool(1_000))
    change = RowChange(Op.INSERT, schema, Rows(None, ("\ud800",)), Source("x", 0), 0)
    with pytest.raises(EncodeError, match="cannot be represented in JSON"):
        keys.key_of(change)
    assert keys.key_of(msgspec.structs.replace(change, images=Rows(None, (ABSENT,)))) is None


@pytest.mark.parametrize(
    ("target", "options", "expected"),
    [
        (CANAL, {"tombstones": "true"}, "to.option.tombstones: canal-json has no keys of rows"),
        (
            CANAL,
            {"key": "primary-key", "max-batch-size": "2"},
            "to.option.key: a message of several rows has no key of one row (set max-batch-size=1)",
        ),
        (
            CANAL,
            {"key": "primary-key", "tombstones": "true", "max-batch-size": "2"},
            "to.option.tombstones: a message of several rows has no key of one row",
        ),
        (OPEN, {"key": "primary-key"}, "to.option.key: ticdc-open-protocol has no option 'key'"),
        (OPEN, {"tombstones": "true"}, "to.option.tombstones: ticdc-open-protocol has no option"),
    ],
)
def test_what_makes_no_sense_is_refused(target: str, options: dict[str, str], expected: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Translator(CANAL, target, None, options)
    assert any(str(problem).startswith(expected) for problem in raised.value.problems)


# ---------------------------------------------------------------- profiles


def test_flink_reads_rows_alone() -> None:
    """A message as Flink's `canal-json` format has to have it."""
    translator = Translator(CANAL, CANAL, None, {"profile": "flink"})
    assert translator.translate(record(ddl(CREATE))) == []
    before = {"credit": "12.3400", "flags": "3", "born": None}
    update = canal_row(ROW, ROW | {"id": "8"}, op="UPDATE", old=[before, None], table="u")
    first, second = translator.translate(record(update, 1))
    message = json.loads(first.value or b"")
    assert message["data"] == [
        {
            "id": "7", "grade": "high, or so", "flags": "a,c", "photo": "AP9B", "code": "YWIAAA==",
            "born": "1958-03-07", "since": "2021-07-04 03:02:01.987", "seen": "2021-07-04 03:02:01",
            "credit": "4.3900",
        }
    ]  # fmt: skip
    assert message["old"] == [{"credit": "12.3400", "flags": "a,b", "born": None}]
    assert (message["type"], message["isDdl"], message["pkNames"]) == ("UPDATE", False, ["id"])
    unknown = json.loads(second.value or b"")
    assert (unknown["type"], unknown["old"]) == ("INSERT", None)
    assert first.key is second.key is None


def test_canal_adapter_is_what_canal_writes() -> None:
    for file in ("mysql/canal-json/01_all_types", "mysql/canal-json/10_ddl"):
        plain, shaped = Translator(CANAL, CANAL), Translator(CANAL, CANAL, None, {"profile": "canal-adapter"})
        for one in captured(file):
            assert plain.translate(one) == shaped.translate(one)


def test_an_option_besides_a_profile_wins() -> None:
    (message,), translator = written(
        canal_row(ROW | {"born": "0000-00-00"}),
        {"enum": "index", "profile": "flink", "zero-dates": "null"},
    )
    row = message["data"][0]
    assert (row["grade"], row["photo"], row["born"]) == ("2", "AP9B", None)
    assert translator.route.target_options.ddl == "drop"


@pytest.mark.parametrize(
    ("side", "protocol", "expected"),
    [
        ("to", CANAL, "to.option.profile: canal-json has no profile 'fl' (did you mean flink?)"),
        ("to", OPEN, "to.option.profile: ticdc-open-protocol has no profile 'fl' (it has none)"),
        ("from", CANAL, "from.option.profile: applies to the target side"),
    ],
)
def test_profiles_that_are_not_there(side: str, protocol: str, expected: str) -> None:
    profile = {"profile": "fl"}
    route = (CANAL, protocol, {}, profile) if side == "to" else (protocol, CANAL, profile, {})
    with pytest.raises(ConfigError) as raised:
        Translator(*route)
    (problem,) = raised.value.problems
    assert str(problem).startswith(expected)


@pytest.mark.parametrize("codec", BUILT_IN.values(), ids=lambda codec: codec.name)
def test_every_profile_can_be_used_and_says_why(codec: Any) -> None:
    for name, options in codec.profiles.items():
        assert Translator(CANAL, codec.name, None, {"profile": name}).route.target is codec
        assert codec.profile_reasons.get(name, {}).keys() <= options.keys()


def test_what_a_profile_writes_is_read_with_its_options_of_both_sides() -> None:
    options = {"profile": "flink", "binary": "hex", "timezone": "+08:00", "key": "primary-key"}
    assert reading_options(BUILT_IN[CANAL], options) == {
        "enum": "label", "binary": "hex", "timestamp-format": "sql", "timezone": "+08:00",
    }  # fmt: skip
    assert reading_options(BUILT_IN[OPEN], {"max-batch-size": "5"}) == {"max-batch-size": "5"}
