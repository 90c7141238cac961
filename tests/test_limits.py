"""What one record may cost: every limit at its boundary and above, in every protocol, and that what a record
holds costs neither more than linear time nor hundreds of MB.
"""

from __future__ import annotations

import contextlib
import functools
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cramjam
import debezium_support
import msgspec
import pytest
from cost_support import FACTOR, assert_cheap, assert_linear, cost_of, held_by, others_kept
from open_support import cell, framed
from open_support import ddl as open_ddl
from open_support import row as open_row
from support import ALL_ROUTES, CANAL, CAPTURED, OPEN, TICDC, captured, protocol_of, reading_options, record
from toy_protocol import facts

from relay import (
    ConsumerRecord,
    Event,
    LimitExceeded,
    Limits,
    Malformed,
    OutOfMemory,
    RelayError,
    Resolver,
    Translator,
)
from relay.codecs import encoder_of, protocols
from relay.codecs.canal.ticdc.decoder import TicdcCanalDecoder
from relay.codecs.open_protocol.encoder import OpenProtocolEncoder
from relay.codecs.open_protocol.frames import framed_key, framed_value, unframe
from relay.codecs.shared.large_messages import claim_check_document, claim_check_parts
from relay.core.error_policies import ErrorPolicies, Policy
from relay.core.pipeline import State
from relay.io.storage import Storage
from relay.model.events import RowChange, TableId
from relay.model.limits import MOST_LEVELS, is_too_deep
from relay.model.lookups import ClaimCheck, LookupCache

CKAFKA, DEBEZIUM = "ckafka-json", "ticdc-debezium"
PROTOCOLS = (TICDC, CANAL, CKAFKA, OPEN, DEBEZIUM)
MB = 1_000_000


def message(**more: Any) -> dict[str, Any]:
    """A message of the Canal family."""
    row = {"id": 0, "database": "d", "table": "t", "pkNames": ["id"], "isDdl": False, "type": "INSERT"}
    types = {"sqlType": {"id": 4}, "mysqlType": {"id": "int"}, "data": [{"id": "1"}], "old": None}
    return row | {"es": 1, "ts": 1, "sql": ""} | types | more


def row_with(protocol: str, columns: int) -> ConsumerRecord:
    """A record with an INSERT of so many columns."""
    names = [f"c{number}" for number in range(columns)]
    if protocol == OPEN:
        return framed(open_row({"u": {name: cell(3, 1) for name in names}}))
    if protocol == DEBEZIUM:
        return debezium_support.record(debezium_support.message(after=dict.fromkeys(names, 1)))
    if protocol == CKAFKA:
        cells = dict.fromkeys(names, "1")
        return record({"TYPE": "I", "DATABASE": "d", "TABLE": "t", "NEW_VALUES": cells, "OLD_VALUES": None})
    return record(message(data=[dict.fromkeys(names, "1")], mysqlType=dict.fromkeys(names, "int")))


def rows(protocol: str, count: int) -> ConsumerRecord:
    """A record with so many rows."""
    if protocol == OPEN:
        return framed(*[open_row({"u": {"id": cell(3, 1)}}) for _ in range(count)])
    return record(message(data=[{"id": "1"}] * count))


def statement(protocol: str, sql: str) -> ConsumerRecord:
    """A record with this DDL text."""
    if protocol == OPEN:
        return framed(open_ddl(sql))
    if protocol == DEBEZIUM:
        return debezium_support.record(debezium_support.ddl(sql))
    return record(message(isDdl=True, type="CREATE", sql=sql, data=None))


def translator(protocol: str, limits: Limits | None = None, target: str | None = None) -> Translator:
    return Translator(protocol, target or (OPEN if protocol != OPEN else CANAL), limits=limits or Limits())


def exceeds(protocol: str, limits: Limits, given: ConsumerRecord) -> str:
    """The message of the error for a record; the translator is as it was."""
    reading = translator(protocol, limits)
    before = reading.catalog
    with pytest.raises(LimitExceeded) as raised:
        reading.translate(given)
    assert reading.catalog is before
    assert not reading.events
    assert raised.value.code == "decode.limit-exceeded"
    return str(raised.value)


# ---------------------------------------------------------------- rows, columns, statements


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_columns_of_a_row(protocol: str) -> None:
    assert translator(protocol, Limits(columns=300)).translate(row_with(protocol, 300))
    assert "more columns than the limit `columns` allows, 300" in exceeds(
        protocol, Limits(columns=300), row_with(protocol, 301)
    )


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_columns_of_a_row_as_many_as_mysql_has(protocol: str) -> None:
    assert translator(protocol).translate(row_with(protocol, 4096))
    exceeds(protocol, Limits(), row_with(protocol, 4097))


def test_columns_of_a_row_count_once_although_the_old_row_has_them_too() -> None:
    names = [f"c{number}" for number in range(300)]
    head = {"database": "d", "table": "t", "type": "update", "ts": 1}
    given = record(head | {"data": dict.fromkeys(names, 1), "old": dict.fromkeys(names, 2)})
    assert translator("maxwell-json", Limits(columns=300)).translate(given)
    exceeds("maxwell-json", Limits(columns=299), given)
    other = record(head | {"data": dict.fromkeys(names, 1), "old": {"other": 2}})
    exceeds("maxwell-json", Limits(columns=300), other)


@pytest.mark.parametrize("protocol", [TICDC, CANAL, OPEN])
def test_rows_of_a_record(protocol: str) -> None:
    assert translator(protocol, Limits(rows=20)).translate(rows(protocol, 20))
    assert "more rows than the limit `rows` allows, 20" in exceeds(
        protocol, Limits(rows=20), rows(protocol, 21)
    )


def test_rows_of_a_protocol_that_does_not_look_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A codec of another package need not know of limits."""
    events = translator(TICDC).inspect(rows(TICDC, 3))

    class Careless(facts.Decoder):
        def decode(self, _: object, catalog: Any, __: object) -> Any:
            return events, catalog

    codec = msgspec.structs.replace(facts.CODEC, name="careless", decoder=Careless)
    monkeypatch.setattr(protocols, "plugin_codecs", lambda: {"careless": codec})
    with pytest.raises(LimitExceeded, match=r"limit `rows`"):
        translator("careless", Limits(rows=2)).translate(rows(TICDC, 3))


@pytest.mark.parametrize("protocol", [TICDC, CANAL, OPEN, DEBEZIUM])
def test_bytes_of_a_statement(protocol: str) -> None:
    sql = "CREATE TABLE t (id int) COMMENT 'ä'"
    size = len(sql.encode())
    reading = translator(protocol, Limits(ddl_bytes=size))
    reading.translate(statement(protocol, sql))
    assert reading.events["schema-change"] == 1
    found = exceeds(protocol, Limits(ddl_bytes=size - 1), statement(protocol, sql))
    assert f"more bytes than the limit `ddl_bytes` allows, {size - 1}" in found
    assert "CREATE" not in found


@pytest.mark.parametrize("protocol", [TICDC, CANAL, OPEN, DEBEZIUM])
def test_statements_in_a_text(protocol: str) -> None:
    texts = ["CREATE TABLE a (id int)", "CREATE TABLE b (id int)", "CREATE TABLE c (id int)"]
    reading = translator(protocol, Limits(ddl_statements=3))
    reading.translate(statement(protocol, ";".join(texts)))
    assert reading.events["schema-change"] == 1
    assert "limit `ddl_statements`" in exceeds(
        protocol, Limits(ddl_statements=2), statement(protocol, ";".join(texts))
    )


def test_statements_of_a_record_of_several_messages() -> None:
    def given(count: int) -> ConsumerRecord:
        texts = [
            f"ALTER TABLE t ADD a{number} INT; ALTER TABLE t ADD b{number} INT" for number in range(count)
        ]
        return framed(open_ddl("not understood", 0), *map(open_ddl, texts))

    reading = translator(OPEN, Limits(ddl_statements=5))
    reading.translate(given(2))
    assert reading.events["schema-change"] == 3
    assert "more statements than the limit `ddl_statements` allows, 5" in exceeds(
        OPEN, Limits(ddl_statements=5), given(3)
    )


def test_columns_of_a_statement() -> None:
    sql = "CREATE TABLE t (" + ",".join(f"c{number} int" for number in range(11)) + ")"
    translator(TICDC, Limits(columns=11)).translate(statement(TICDC, sql))
    assert "limit `columns`" in exceeds(TICDC, Limits(columns=10), statement(TICDC, sql))


@pytest.mark.parametrize("protocol", [TICDC, CANAL, CKAFKA, DEBEZIUM])
def test_bytes_that_are_read_leniently(protocol: str) -> None:
    """A raw newline inside a text is no strict JSON."""
    strict = (row_with(protocol, 2).value or b"").replace(b"{", b'{"x":"' + b"y" * 100 + b'",', 1)
    text = strict.replace(b'"xy', b'"x\ny', 1).replace(b"yy", b"y\n", 1)
    size = len(text)
    assert translator(protocol, Limits(lenient_json_bytes=size)).translate(record(text))
    assert "limit `lenient_json_bytes`" in exceeds(
        protocol, Limits(lenient_json_bytes=size - 1), record(text)
    )


# ---------------------------------------------------------------- what a record becomes


@pytest.mark.parametrize("target", PROTOCOLS)
def test_bytes_of_the_records_that_one_becomes(target: str) -> None:
    source = TICDC if target != TICDC else CANAL
    given = rows(source, 20)
    produced = translator(source, target=target).translate(given)
    size = sum(len(one.key or b"") + len(one.value or b"") for one in produced)
    if len(produced) > 1:
        assert "more bytes of output than the limit `output_bytes` allows" in output_exceeds(
            source, target, Limits(output_bytes=size), given
        )
    # Whatever else a record takes is estimated: 500 bytes each, and its headers.
    larger = Limits(output_bytes=size + 20 * 600)
    assert translator(source, larger, target).translate(given) == produced


def output_exceeds(source: str, target: str, limits: Limits, given: ConsumerRecord) -> str:
    reading = translator(source, limits, target)
    with pytest.raises(LimitExceeded) as raised:
        reading.translate(given)
    assert not reading.events
    assert raised.value.code == "decode.limit-exceeded"
    return str(raised.value)


@pytest.mark.parametrize("target", [OPEN, DEBEZIUM])
def test_copies_for_other_partitions_share_their_bytes(target: str) -> None:
    columns = ",".join(f"c{number} varchar(100) COMMENT '{'x' * 60}'" for number in range(1000))
    given = statement(CANAL, f"CREATE TABLE t (id int, {columns})")
    produced = Translator(CANAL, target, partitions=1000).translate(given)
    assert len(produced) == 1000
    size = len(produced[0].key or b"") + len(produced[0].value or b"")
    # Each takes something.
    for most, is_enough in ((size + 1000 * 600, True), (size + 1000 * 500, False)):
        made = Translator(CANAL, target, partitions=1000, limits=Limits(output_bytes=most))
        with contextlib.nullcontext() if is_enough else pytest.raises(LimitExceeded):
            assert made.translate(given) == produced


@pytest.mark.parametrize("target", PROTOCOLS)
def test_messages_are_made_one_by_one(target: str) -> None:
    """So that the limit acts before all of them take memory."""
    events: list[Any] = translator(CANAL).inspect(statement(CANAL, "CREATE TABLE t (id int)")) * 2
    route = translator(OPEN, target=target).route
    encode = encoder_of(route.target, route.target_options, LookupCache(), None).encode
    events.append("no event")
    messages = iter(encode(events, record(message()), []))
    assert next(messages).value


def test_a_record_that_becomes_one_may_be_as_large_as_it_is() -> None:
    assert translator(TICDC, Limits(output_bytes=1), DEBEZIUM).translate(rows(TICDC, 1))


LABELS = "enum(" + ",".join(f"'{at:060}'" for at in range(4000)) + ")"


@pytest.mark.parametrize("target", [target for target in PROTOCOLS if target != CKAFKA])
@pytest.mark.parametrize("source", [TICDC, CANAL, CKAFKA])
def test_rows_do_not_repeat_their_types_without_end(source: str, target: str) -> None:
    """10,000 short rows, each with 4000 labels of an ENUM, would be 2.5 GB."""
    options = {"content-compatible": "true", "enable-tidb-extension": "true"} if target == TICDC else {}
    reading = Translator(source, target, None, options)
    reading.translate(statement(source, f"CREATE TABLE t (id int primary key, e {LABELS})"))
    given = record(
        message(mysqlType={}, sqlType={}, data=[{"id": "1", "e": None}] * 10_000, es=1_700_000_000_000)
    )

    def many() -> None:
        with contextlib.suppress(LimitExceeded):
            reading.translate(given)

    assert_cheap(many)


@pytest.mark.parametrize("target", PROTOCOLS)
def test_rows_do_not_repeat_a_long_name_without_end(target: str) -> None:
    source = TICDC if target != TICDC else CANAL
    given = record(message(table="t" * 500_000, data=[{"id": "1"}] * 9000))
    assert_cheap(lambda: output_exceeds(source, target, Limits(), given))


def test_rows_do_not_repeat_headers_without_end() -> None:
    plain = rows(TICDC, 9000)
    headers = tuple(("h", b"") for _ in range(20_000))
    given = ConsumerRecord(plain.topic, 0, 0, 0, None, plain.value, headers)
    assert_cheap(lambda: output_exceeds(TICDC, CANAL, Limits(), given))


@pytest.mark.parametrize("target", PROTOCOLS)
def test_a_statement_about_many_tables(target: str) -> None:
    """Each target has one of three texts: `…_is_written_in_linear_time` has all kinds of statements for each."""
    source = TICDC if target != TICDC else CANAL
    sql = "DROP TABLE " + ",".join(["a"] * 80_000)
    names = "DROP TABLE " + ",".join(f"a{at}" for at in range(30_000))
    texts = (sql, names, sql.replace("TABLE", "VIEW"))
    for text in texts if ALL_ROUTES else texts[PROTOCOLS.index(target) % 3 :][:1]:
        given = statement(source, text)

        def drop(given: ConsumerRecord = given) -> None:
            with contextlib.suppress(LimitExceeded):
                translator(source, Limits(), target).translate(given)

        assert_cheap(drop)


# ---------------------------------------------------------------- compression


def lz4(data: bytes) -> bytes:
    return bytes(cramjam.lz4.compress(data))


def snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


@pytest.mark.parametrize("pack", [lz4, snappy])
@pytest.mark.parametrize("setting", ["auto", "named"])
@pytest.mark.parametrize("protocol", [TICDC, OPEN, DEBEZIUM])
def test_bytes_after_decompression(protocol: str, setting: str, pack: Callable[[bytes], bytes]) -> None:
    name = pack.__name__ if setting == "named" else "auto"
    options = {"large-message-handle-compression": name}
    plain = row_with(protocol, 100)
    if protocol == OPEN:
        text = json.dumps({"u": {f"c{number}": cell(3, 1) for number in range(100)}}).encode()
        packed, size = framed(open_row(pack(text))), len(text)
    else:
        packed, size = record(pack(plain.value or b"")), len(plain.value or b"")
    target = CANAL if protocol != CANAL else OPEN
    for most, is_read in ((size, True), (size - 1, False)):
        reading = Translator(protocol, target, options, limits=Limits(decompressed_bytes=most))
        if is_read:
            assert reading.translate(packed)
        else:
            with pytest.raises(LimitExceeded, match=rf"limit `decompressed_bytes` allows, {most}"):
                reading.translate(packed)


def test_all_segments_of_a_batch_share_what_they_may_become() -> None:
    """4 MB of LZ4 segments were 6 GB."""
    one = lz4(json.dumps({"u": {"a": cell(15, "x" * 200_000)}}).encode())
    many = framed(*[open_row(one) for _ in range(200)])
    peak, error = peak_of(lambda: translator(OPEN).translate(many))
    assert "limit `decompressed_bytes`" in str(error)
    assert peak < 100 * MB


@pytest.mark.parametrize("protocol", [TICDC, OPEN, DEBEZIUM])
def test_a_bomb_takes_no_more_memory_than_the_limit_says(protocol: str) -> None:
    """132 KB of LZ4 were 784 MB."""
    for bomb in (lz4(bytes(200 * MB)), snappy(b"a" * 20 * MB)):
        given = framed(open_row(bomb)) if protocol == OPEN else record(bomb)
        peak, error = peak_of(functools.partial(translator(protocol).translate, given))
        assert isinstance(error, LimitExceeded)
        assert peak < 60 * MB


@pytest.mark.parametrize(
    "text",
    [
        b'{"data":[' + b"{}," * 4_000_000 + b"{}]}",
        b'{"type":"INSERT","data":[' + b'{"":""},' * 1_500_000 + b"{}]}",
        b'{"pkNames":[' + b'"ab",' * 3_000_000 + b'"a"]}',
        b'{"_tidb":{"a":[' + b"[]," * 4_000_000 + b"1]}}",
        b'{"data":[{"a":[' + b"1," * 7_000_000 + b"1]}]}",
    ],
    ids=["objects", "rows", "keys", "arrays", "numbers"],
)
def test_what_json_becomes_is_bounded_too(text: bytes) -> None:
    """An empty object is two bytes, and many times that in Python."""
    given = record(lz4(text))
    with pytest.raises(RelayError):
        translator(TICDC).translate(given)
    assert_cheap(lambda: attempt(TICDC, Limits(), given))


#: JSON that takes many times as much in Python, before and after what is repeated; `%` becomes a number.
_ROW = '"payload":{"source":{"connector":"TiCDC","ts_ms":1,"db":"d","table":"t"},"op":"c","ts_ms":1,"after":'
_BLOCK = '{"schema":{"fields":[{"field":"after","fields":['
_ENUM = _BLOCK + '{"type":"string","name":"io.debezium.data.Enum","parameters":{"allowed":"'
_LIST = (
    '{"payload":{"source":{"connector":"TiCDC","ts_ms":1},"ddl":"","tableChanges":[{"type":"ALTER","id":"t",'
)
_CANAL = json.dumps(message())[:-1]
VALUES: dict[str, tuple[str, str, str, str]] = {
    "fields": (DEBEZIUM, _BLOCK, "1,", "1]}]}," + _ROW + '{"a":1}}}'),
    "members": (DEBEZIUM, _ENUM, "%,", 'z"},"field":"a"}]}]},' + _ROW + '{"a":"z"}}}'),
    "set-members": (
        DEBEZIUM,
        _ENUM.replace("Enum", "EnumSet"),
        "%,",
        'z"},"field":"a"}]}]},' + _ROW + '{"a":"z"}}}',
    ),
    "parameters": (DEBEZIUM, _ENUM[:-11], '"%":"",', '"z":""},"field":"a"}]}]},' + _ROW + '{"a":"z"}}}'),
    "cells": (DEBEZIUM, "{" + _ROW + "{", '"%":1,', '"z":1}}}'),
    "key-columns": (DEBEZIUM, _LIST + '"table":{"columns":[],"primaryKeyColumnNames":[', '"a",', '"a"]}}]}}'),
    "unknown-list": (DEBEZIUM, _LIST + '"x":[', '"a",', '"a"]}]}}'),
    "tidb": (TICDC, _CANAL + ',"_tidb":{', '"%":1,', '"commitTs":5}}'),
    "unknown-members": (TICDC, _CANAL, ',"%":1', "}"),
    "mysql-types": (TICDC, _CANAL + ',"mysqlType":{', '"%":"",', '"a":"int"}}'),
    "open-cells": (OPEN, '{"u":{', '"%":1,', '"z":1}}'),
}


@pytest.mark.parametrize(("protocol", "begin", "part", "end"), VALUES.values(), ids=VALUES)
def test_values_are_counted_before_they_are_parsed(protocol: str, begin: str, part: str, end: str) -> None:
    """70 KB of LZ4 were 640 MB."""
    count = (8 << 20) // (len(part) + 6 * part.count("%")) - 1000
    parts = [part.replace("%", f"{at:x}") for at in range(count)] if "%" in part else [part] * count
    data = lz4("".join([begin, *parts, end]).encode())
    given = framed(open_row(data)) if protocol == OPEN else record(data)
    cost = cost_of(lambda: exceeds(protocol, Limits(), given))
    assert cost.bytes < 80 * MB


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_values_of_a_message(protocol: str) -> None:
    given = row_with(protocol, 500)
    assert translator(protocol, Limits(values=5000)).translate(given)
    assert "more values than the limit `values` allows, 400" in exceeds(protocol, Limits(values=400), given)


def test_values_of_a_key() -> None:
    key = '{"payload":{' + ",".join(f'"k{at}":1' for at in range(500)) + "}}"
    given = with_key(debezium('{"a":1}'), key)
    assert translator(DEBEZIUM, Limits(values=501)).translate(given)
    assert "key: more values" in exceeds(DEBEZIUM, Limits(values=500), given)


def test_commas_in_strings_are_no_values() -> None:
    text = rep('a,{[\\"', 10_000)
    given = debezium(f'{{"a":"{text}"}}')
    assert translator(DEBEZIUM, Limits(values=100)).translate(given)


@pytest.mark.parametrize(("name", "most"), [("Enum", 65_535), ("EnumSet", 64)])
def test_members_that_no_column_has_are_not_known(name: str, most: int) -> None:
    for count in (most, most + 1):
        allowed = ",".join(f"{at:x}" for at in range(count))
        entry = f'{{"type":"string","name":"io.debezium.data.{name}","parameters":{{"allowed":"{allowed}"}}'
        given = debezium('{"a":"1"}', declaring(entry + ',"field":"a"}'))
        (event,) = translator(DEBEZIUM).inspect(given)
        assert isinstance(event, RowChange)
        members = event.schema.columns[0].type.members
        assert len(members or ()) == (count if count == most else 0)


def test_a_key_that_names_a_column_twice() -> None:
    given = table_changes('"columns":[{"name":"a","typeName":"INT"}],"primaryKeyColumnNames":["a","A"]')
    with pytest.raises(Malformed, match=r"primaryKeyColumnNames: a duplicate column"):
        translator(DEBEZIUM).translate(given)


# ---------------------------------------------------------------- claim checks

NAME = "d55ba54b-8b70-4055-9b1a-5a0a902e71b8.json"


def stub() -> ConsumerRecord:
    return record(message(_tidb={"commitTs": 7, "claimCheckLocation": f"s3://b/{NAME}"}))


def test_bytes_of_an_object(tmp_path: Path) -> None:
    whole = json.dumps(message(_tidb={"commitTs": 7})).encode()
    (tmp_path / NAME).write_bytes(whole)
    options = {"claim-check-storage-uri": str(tmp_path)}
    reading = Translator(TICDC, CANAL, options, limits=Limits(claim_check_bytes=len(whole)))
    assert Resolver().translate(reading, stub())
    reading = Translator(TICDC, CANAL, options, limits=Limits(claim_check_bytes=len(whole) - 1))
    with pytest.raises(LimitExceeded, match=r"_tidb\.claimCheckLocation: .*limit `claim_check_bytes`"):
        Resolver().translate(reading, stub())


def test_no_more_of_an_object_is_fetched_than_is_needed_to_refuse_it(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(bytes(1000))
    assert len(Storage().fetch(ClaimCheck(str(tmp_path), NAME, 10))) == 11


def test_an_object_without_bytes_is_read(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"")
    assert Storage().fetch(ClaimCheck(str(tmp_path), NAME)) == b""


def test_what_an_object_decompresses_to_counts(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(lz4(bytes(100 * MB)))
    reading = Translator(TICDC, CANAL, {"claim-check-storage-uri": str(tmp_path)})
    with pytest.raises(LimitExceeded, match=r"limit `decompressed_bytes`"):
        Resolver().translate(reading, stub())


def test_answers_take_the_bytes_that_a_cache_may_have() -> None:
    answers = LookupCache(Limits(cache_bytes=100))
    for number in range(5):
        need = ClaimCheck("s", f"{number}.json")
        answers.pin(need, number)
        answers.provide(need, bytes(40))
    assert len(list(answers)) == 2


# ---------------------------------------------------------------- types


@pytest.mark.parametrize(
    "column",
    [
        "UNSIGNED UNSIGNED",
        "INT, b INT, PRIMARY KEY (a, b, A)",
        "INT, KEY (a, a)",
        "TIMESTAMP(400000000)",
        "DATETIME(7)",
        "TIME(7)",
        "BIT(65)",
        "BIT(4000000000)",
        "BINARY(256)",
        "BINARY(400000000) DEFAULT 'x'",
        "CHAR(256)",
        "DECIMAL(66,2)",
        "DECIMAL(1000000000,5)",
        "DECIMAL(65,39)",
        "INT(" + "9" * 5000 + ")",
        "SET(" + ",".join(f"'{number}'" for number in range(65)) + ")",
        "TEXT DEFAULT '" + "x" * 65_536 + "'",
        f"INT, {'c' * 65} INT",
        "INT, KEY (" + ",".join(["a"] * 33) + ")",
    ],
)
def test_what_no_server_has_defines_nothing(column: str) -> None:
    reading = translator(TICDC)
    peak, error = peak_of(lambda: reading.translate(statement(TICDC, f"CREATE TABLE t (a {column})")))
    assert error is None
    assert peak < 10 * MB
    assert reading.catalog.newest(TableId("d", "t"))[1] is None


@pytest.mark.parametrize(
    "column",
    [
        *("TIMESTAMP(6)", "BIT(64)", "BINARY(255) DEFAULT 'x'", "VARBINARY(65535)", "CHAR(255)"),
        *("DECIMAL(65,30)", "DOUBLE(255,30)", "INT(255)", "YEAR(4)", f"INT, {'c' * 64} INT"),
        "SET(" + ",".join(f"'{number}'" for number in range(64)) + ")",
        "ENUM(" + ",".join(f"'{number}'" for number in range(2000)) + ")",
    ],
)
def test_the_largest_that_servers_have_is_read(column: str) -> None:
    reading = translator(TICDC)
    reading.translate(statement(TICDC, f"CREATE TABLE t (a {column})"))
    assert reading.catalog.newest(TableId("d", "t"))[1] is not None


@pytest.mark.parametrize("target", [OPEN, DEBEZIUM, CKAFKA, TICDC])
@pytest.mark.parametrize(
    ("declared", "text"),
    [
        ("timestamp(400000000)", "2020-01-01 00:00:00.1"),
        ("datetime(400000000)", "2020-01-01 00:00:00.1"),
        ("time(400000000)", "01:02:03.1"),
        ("bit(4000000000)", "1"),
        ("binary(400000000)", "x"),
        ("char(400000000)", "x"),
        ("decimal(1000000000,1000000000)", "1.5"),
        ("enum(" + "'a'," * 70_000 + "'b')", "a"),
    ],
)
def test_no_value_is_padded_to_what_a_message_says(declared: str, text: str, target: str) -> None:
    given = record(message(data=[{"id": text}], mysqlType={"id": declared}, sqlType={"id": 12}))

    def padded() -> None:
        with contextlib.suppress(RelayError):
            translator(CANAL, target=target).translate(given)

    assert cost_of(padded).bytes < 40 * MB


# ---------------------------------------------------------------- time


def rep(part: str, size: int) -> str:
    return part * (size // len(part))


#: DDL texts that cost more than linear time once, or look as if they could, by their size in characters.
TEXTS: dict[str, Callable[[int], str]] = {
    "statements": lambda n: ";".join(f"CREATE TABLE t{i} (a int)" for i in range(n // 25)),
    "repeated": lambda n: rep("DROP DATABASE d;", n),
    "views": lambda n: rep("CREATE VIEW v AS SELECT a;", n),
    "unique": lambda n: "CREATE TABLE t (a int" + rep(",unique(a)", n) + ")",
    "unique-columns": lambda n: (
        "CREATE TABLE t (" + ",".join(f"b{i} int unique" for i in range(n // 16)) + ")"
    ),
    "columns": lambda n: "CREATE TABLE t (" + ",".join(f"b{i} int" for i in range(n // 10)) + ")",
    "modify": lambda n: (
        "CREATE TABLE t ("
        + ",".join(f"b{i} int" for i in range(n // 40))
        + ");ALTER TABLE t "
        + ",".join(f"MODIFY b{i} text FIRST" for i in range(n // 40))
    ),
    "convert": lambda n: (
        "CREATE TABLE t ("
        + ",".join(f"b{i} text" for i in range(n // 40))
        + ");ALTER TABLE t "
        + ",".join(["CONVERT TO CHARACTER SET utf8mb4"] * (n // 80))
    ),
    "renames": lambda n: "RENAME TABLE " + ",".join(f"a{i} TO a{i + 1}" for i in range(n // 18)),
    "swaps": lambda n: "RENAME TABLE " + ",".join(["a TO b", "b TO a"] * (n // 16)),
    "drops": lambda n: "DROP TABLE " + ",".join(f"a{i}" for i in range(n // 8)),
    "attributes": lambda n: "CREATE TABLE t (a int" + rep(" unsigned", n) + ")",
    "charsets": lambda n: "CREATE TABLE t (a text" + rep(" charset utf8", n) + ")",
    "members": lambda n: "CREATE TABLE t (a enum(" + rep("'a',", n) + "'b'))",
    "open-parentheses": lambda n: "CREATE TABLE t (a int DEFAULT " + "(" * n,
    "parentheses": lambda n: "CREATE TABLE t (a int DEFAULT " + "(" * (n // 2) + ")" * (n // 2) + ")",
    "signs": lambda n: "CREATE TABLE t (a int DEFAULT " + "-" * n + "1)",
    "key": lambda n: "CREATE TABLE t (a int, KEY (" + rep("a,", n) + "a))",
    "strings": lambda n: "CREATE TABLE t (a text DEFAULT " + rep("'' ", n) + ")",
    "escapes": lambda n: "CREATE TABLE t (a text DEFAULT '" + rep("\\'", n),
    "back-ticks": lambda n: "`" * n,
    "comments": lambda n: rep("/*! ", n // 2) + rep("*/", n // 2),
    "introducers": lambda n: rep("_a \n", n),
    "options": lambda n: "ALTER TABLE t " + rep("a=1 ", n),
    "partitions": lambda n: "ALTER TABLE t DROP PARTITION p" + rep(",p", n),
    "view-items": lambda n: "CREATE VIEW v AS SELECT a" + rep(",a", n),
    "view-points": lambda n: "CREATE VIEW v AS SELECT " + rep("a.", n),
    "view-views": lambda n: "CREATE VIEW " + rep("view ", n),
    "view-lists": lambda n: "CREATE VIEW v (" + rep("(a", n),
    "view-blanks": lambda n: "CREATE VIEW v AS SELECT a" + " " * n + "b",
    "digits": lambda n: "CREATE TABLE t (a int(" + "1" * n + "))",
    "hexadecimal": lambda n: "CREATE TABLE t (a blob DEFAULT x'" + "1" * n + "')",
}


@pytest.mark.parametrize("make", TEXTS.values(), ids=TEXTS)
def test_a_statement_costs_linear_time(make: Callable[[int], str]) -> None:
    """1 MB of statements took 200 seconds; the default limits let a quarter of that in."""
    size, most = 10_000, Limits(ddl_bytes=10 * MB, ddl_statements=10**9)
    assert_linear(lambda factor: attempt(TICDC, most, statement(TICDC, make(size * factor))))


#: Statements about many tables, by their number.
OF_MANY_TABLES: dict[str, Callable[[int], str]] = {
    "RENAME TO": lambda n: "ALTER TABLE t " + ", ".join(f"RENAME TO t{i}" for i in range(n)),
    "RENAME TABLE": lambda n: "RENAME TABLE " + ", ".join(f"a{i} TO b{i}" for i in range(n)),
    "DROP TABLE": lambda n: "DROP TABLE " + ", ".join(f"a{i}" for i in range(n)),
    "DROP VIEW": lambda n: "DROP VIEW " + ", ".join(f"a{i}" for i in range(n)),
}


@pytest.mark.parametrize("target", PROTOCOLS)
@pytest.mark.parametrize("make", OF_MANY_TABLES.values(), ids=OF_MANY_TABLES)
def test_a_statement_about_many_tables_is_written_in_linear_time(
    make: Callable[[int], str], target: str
) -> None:
    most = Limits(ddl_bytes=10 * MB, output_bytes=10**10)
    records = {factor: statement(TICDC, make(1_000 * factor)) for factor in (1, FACTOR)}
    assert_linear(lambda factor: Translator(TICDC, target, limits=most).translate(records[factor]))


@pytest.mark.parametrize("name", ["unique-columns", "modify", "swaps", "key", "view-items"])
def test_the_longest_statement_that_is_read_takes_little(name: str) -> None:
    biggest = statement(TICDC, TEXTS[name](Limits().ddl_bytes - 200))
    assert_cheap(lambda: attempt(TICDC, Limits(), biggest), most_bytes=200 * MB)


def cells(count: int, value: str = '"1"') -> str:
    return "{" + ",".join(f'"c{number}":{value}' for number in range(count)) + "}"


def canal(data: str, types: str = '{"a":"int"}', old: str = "null", kind: str = "UPDATE") -> ConsumerRecord:
    return record(
        f'{{"database":"d","table":"t","pkNames":["a"],"isDdl":false,"type":"{kind}","es":1,"ts":1,"sql":"",'
        f'"sqlType":{{"a":4}},"mysqlType":{types},"data":{data},"old":{old}}}'
    )


def debezium(after: str, schema: str = "null") -> ConsumerRecord:
    source = '{"connector":"TiCDC","ts_ms":1,"db":"d","table":"t","commit_ts":415508856908021766}'
    body = f'{{"source":{source},"op":"c","ts_ms":1,"before":null,"after":{after}}}'
    return record(f'{{"payload":{body},"schema":{schema}}}')


def with_key(row: ConsumerRecord, key: str) -> ConsumerRecord:
    return ConsumerRecord(row.topic, 0, 0, 0, key.encode(), row.value)


def declaring(entry: str) -> str:
    """A schema block with this column."""
    return '{"fields":[{"field":"after","fields":[' + entry + "]}]}"


def table_changes(table: str, more: str = "") -> ConsumerRecord:
    """A DDL message whose list says this of table t."""
    source = '{"connector":"TiCDC","ts_ms":1,"db":"d","table":"t","commit_ts":415508856908021766}'
    change = f'{{"type":"CREATE","id":"\\"d\\".\\"t\\"","table":{{{table}}}{more}}}'
    ddl = "CREATE TABLE t (a int)"
    return record(f'{{"payload":{{"source":{source},"ts_ms":1,"ddl":"{ddl}","tableChanges":[{change}]}}}}')


def defaulting(value: str) -> ConsumerRecord:
    column = f'{{"name":"a","typeName":"DOUBLE","position":1,"defaultValueExpression":{value}}}'
    return table_changes(f'"columns":[{column}]')


def open_(value: str) -> ConsumerRecord:
    return framed(open_row(value.encode()))


#: Records of about n bytes that look as if they could cost much.
RECORDS: dict[str, tuple[str, Callable[[int], ConsumerRecord]]] = {
    "rows": (CANAL, lambda n: canal("[" + ",".join(['{"a":"1"}'] * (n // 10)) + "]")),
    "empty-rows": (CANAL, lambda n: canal("[" + ",".join(["{}"] * (n // 3)) + "]")),
    "columns": (TICDC, lambda n: canal(f"[{cells(n // 12)}]")),
    "types": (TICDC, lambda n: canal('[{"a":"1"}]', cells(n // 14, '"int"'))),
    "type": (TICDC, lambda n: canal('[{"a":"1"}]', '{"a":"int' + rep(" unsigned", n) + '"}')),
    "enum": (TICDC, lambda n: canal('[{"a":"1"}]', '{"a":"enum(' + rep("'a',", n) + "'b')\"}")),
    "nested": (CANAL, lambda n: canal('[{"a":' + "[" * (n // 2) + "]" * (n // 2) + "}]")),
    "lenient-arrays": (CANAL, lambda n: canal('[{"a":[' + rep("[],", n) + "1]}]")),
    "lenient-numbers": (CANAL, lambda n: canal('[{"a":[' + rep("1,", n) + "1]}]")),
    "lenient-rows": (CANAL, lambda n: canal("[" + rep('{"a":1},', n) + '{"a":1}]')),
    "number": (CANAL, lambda n: canal('[{"a":' + "1" * n + "}]")),
    "digits": (CANAL, lambda n: canal('[{"a":"' + "1" * n + '"}]')),
    "decimal": (CANAL, lambda n: canal('[{"a":"' + "1" * n + '"}]', '{"a":"decimal(10,2)"}')),
    "set": (CANAL, lambda n: canal('[{"a":"' + rep("a,", n) + '"}]', "{\"a\":\"set('a','b')\"}")),
    "name": (CANAL, lambda n: canal('[{"' + "a" * n + '":"1"}]')),
    "ckafka-columns": (
        CKAFKA,
        lambda n: record(
            '{"TYPE":"INSERT","DATABASE":"d","TABLE":"t","NEW_VALUES":' + cells(n // 12) + ',"OLD_VALUES":{}}'
        ),
    ),
    "open-columns": (OPEN, lambda n: open_('{"u":' + cells(n // 30, '{"t":3,"f":65,"v":1}') + "}")),
    "open-nameless": (
        OPEN,
        lambda n: open_('{"u":{"a":{"t":3,"f":65,"v":1}},"p":[' + rep('{"t":3,"v":1},', n) + "1]}"),
    ),
    "open-nested": (OPEN, lambda n: open_('{"u":{"a":{"t":3,"f":65,"v":' + "[" * n + "}}}")),
    "open-arrays": (OPEN, lambda n: open_('{"u":{"a":{"t":3,"f":65,"v":[' + rep("[],", n) + "1]}}}")),
    "debezium-columns": (DEBEZIUM, lambda n: debezium(cells(n // 12))),
    "debezium-arrays": (DEBEZIUM, lambda n: debezium('{"a":[' + rep("[],", n) + "1]}")),
    "debezium-zeros": (DEBEZIUM, lambda n: debezium('{"a":"' + rep(": -0", n) + '","b": -0}')),
    "debezium-blanks": (DEBEZIUM, lambda n: debezium('{"a":' + " " * n + "-0}")),
    "debezium-colons": (DEBEZIUM, lambda n: debezium('{"a":1' + rep(":  ", n) + ":-0}")),
    "debezium-nextval": (DEBEZIUM, lambda n: defaulting('"NEXTVAL(' + " " * n + '(("')),
    "debezium-next-value": (DEBEZIUM, lambda n: defaulting('"NEXT VALUE FOR' + " " * n + '(("')),
    "debezium-next-name": (DEBEZIUM, lambda n: defaulting('"NEXTVAL(' + "a" * n + "." + "b" * n + '(("')),
}


#: Numbers of n digits, of which all, or those of a fraction or an exponent, are many.
NUMBERS: dict[str, Callable[[int], str]] = {
    "whole": lambda n: "1" * n,
    "negative": lambda n: "-" + "1" * n,
    "fraction": lambda n: "0." + "7" * n,
    "fraction-and-exponent": lambda n: "0." + "7" * n + "7E1",
    "whole-and-fraction": lambda n: "1" * n + ".5",
    "whole-and-exponent": lambda n: "1" * n + "e-5",
    "zeros": lambda n: "0." + "0" * n + "1",
    "exponent": lambda n: "1E" + "0" * n + "1",
    "negative-exponent": lambda n: "1e-" + "0" * n + "1",
}
#: Where a number can be.
MESSAGES_WITH_NUMBERS: dict[str, tuple[str, Callable[[str], ConsumerRecord]]] = {
    "debezium-row": (DEBEZIUM, lambda number: debezium(f'{{"a":{number}}}')),
    "debezium-decimal": (
        DEBEZIUM,
        lambda number: debezium(
            f'{{"a":{number}}}', declaring('{"field":"a","type":"double","tidb_type":"decimal"}')
        ),
    ),
    "debezium-key": (
        DEBEZIUM,
        lambda number: with_key(debezium('{"b":1}'), f'{{"payload":{{"a":{number}}}}}'),
    ),
    "debezium-schema": (
        DEBEZIUM,
        lambda number: debezium('{"a":1}', declaring(f'{{"field":"a","type":"double","default":{number}}}')),
    ),
    "debezium-table": (DEBEZIUM, defaulting),
    "open": (OPEN, lambda number: open_(f'{{"u":{{"a":{{"t":5,"f":65,"v":{number}}}}}}}')),
    "open-decimal": (OPEN, lambda number: open_(f'{{"u":{{"a":{{"t":246,"f":65,"v":{number}}}}}}}')),
    "canal": (CANAL, lambda number: canal(f'[{{"a":{number}}}]', '{"a":"double"}')),
    "canal-decimal": (CANAL, lambda number: canal(f'[{{"a":{number}}}]', '{"a":"decimal(65,30)"}')),
}


@pytest.mark.parametrize("number", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize(
    ("protocol", "message_with"), MESSAGES_WITH_NUMBERS.values(), ids=MESSAGES_WITH_NUMBERS
)
def test_a_long_number_costs_linear_time(
    protocol: str, message_with: Callable[[str], ConsumerRecord], number: Callable[[int], str]
) -> None:
    records = {factor: message_with(number(50_000 * factor)) for factor in (1, FACTOR)}
    assert_linear(lambda factor: attempt(protocol, Limits(), records[factor]))


@pytest.mark.parametrize(
    ("number", "value"), [("0." + "7" * 5000, 0.7777777777777778), ("1e-" + "0" * 5000 + "1", 0.1)]
)
def test_a_fraction_or_an_exponent_of_many_digits_is_read(number: str, value: float) -> None:
    (found,) = Translator(DEBEZIUM, CANAL).translate(debezium(f'{{"a":{number}}}'))
    assert json.loads(found.value or b"")["data"] == [{"a": str(value)}]


@pytest.mark.parametrize(("protocol", "make"), RECORDS.values(), ids=RECORDS)
def test_a_record_costs_linear_time_and_little_memory(
    protocol: str, make: Callable[[int], ConsumerRecord]
) -> None:
    records = {factor: make(100_000 * factor) for factor in (1, FACTOR)}
    assert_linear(lambda factor: attempt(protocol, Limits(), records[factor]))
    large = make(MB)
    assert_cheap(lambda: attempt(protocol, Limits(), large))


WIDE = "CREATE TABLE t (" + ",".join(f"c{number} INT" for number in range(4000)) + ")"
MODIFY = "ALTER TABLE t MODIFY c1 INT"


@pytest.mark.parametrize(
    "texts",
    [
        [WIDE, *[MODIFY] * 8999],
        [f"ALTER TABLE t ADD COLUMN c{number} INT" for number in range(5998)],
        [WIDE, *[MODIFY + ";" + MODIFY] * 49],
    ],
)
def test_statements_of_a_wide_table_in_one_record_take_little(texts: list[str]) -> None:
    given = framed(*map(open_ddl, texts))
    assert_cheap(lambda: attempt(OPEN, Limits(), given))


LATER = {
    "many": [MODIFY] * 250,
    "wide": ["ALTER TABLE t " + ",".join(f"MODIFY c{at} INT" for at in range(3000))] * 12,
}


@functools.cache
def after(later: str) -> State:
    """What a translator remembers of a wide table and these statements."""
    reading = translator(OPEN)
    for number, sql in enumerate([WIDE, *LATER[later]]):
        reading.learn(framed(open_ddl(sql, ts=1000 * number + 1)))
    return reading.state


@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("is_one_text", [False, True])
def test_late_statements_take_little_whatever_comes_behind_them(later: str, is_one_text: bool) -> None:
    reading, before = translator(OPEN), after(later)
    late = [open_ddl(MODIFY, ts=2 + number) for number in range(100)]
    given = framed(open_ddl(";".join([MODIFY] * 100), ts=2)) if is_one_text else framed(*late)

    def again() -> None:
        reading.restore(before)
        reading.translate(given)

    assert_cheap(again)


def test_one_late_statement_leaves_all_that_comes_behind_it_known() -> None:
    reading = translator(OPEN)
    reading.restore(after("many"))
    reading.translate(framed(open_ddl(MODIFY, ts=2)))
    schema = reading.catalog.newest(TableId("d", "t"))[1]
    assert schema is not None
    assert len(schema.columns) == 4000


def test_a_catalog_of_many_tables_costs_no_more_for_each() -> None:
    """30,000 CREATE TABLE took 7 seconds: each made a copy of what was known."""

    def learn(factor: int) -> None:
        reading = Translator(TICDC, CANAL)
        for number in range(700 * factor):
            sql = f"CREATE TABLE t{number} (id int)"
            reading.learn(record(message(isDdl=True, type="CREATE", sql=sql, data=None), offset=number))
        assert reading.catalog.versions == 700 * factor

    assert_linear(learn)


def test_old_versions_of_a_wide_table_are_let_go() -> None:
    """A definition of thousands of columns, 256 times, would be hundreds of MB."""
    names = [f"b{number}" for number in range(2000)]
    reading = Translator(TICDC, CANAL)

    def ddl(sql: str, offset: int) -> None:
        reading.learn(record(message(isDdl=True, type="ALTER", sql=sql, data=None), offset=offset))

    def many() -> None:
        ddl("CREATE TABLE t (" + ",".join(f"{name} int" for name in names) + ")", 0)
        for number in range(1, 37):
            ddl("ALTER TABLE t " + ",".join(f"MODIFY {name} varchar({number})" for name in names), number)
        assert 10 < reading.catalog.versions < 36
        newest = reading.catalog.newest(TableId("d", "t"))[1]
        assert newest is not None
        assert newest.columns[0].type.length == 36

    assert cost_of(many).bytes < 100 * MB


def test_versions_keep_no_text_of_their_statement() -> None:
    reading = Translator(TICDC, CANAL)

    def many() -> None:
        for number in range(200):
            comment = str(number) * 20_000
            sql = f"CREATE TABLE t (id int) /* {comment} */"
            reading.learn(record(message(isDdl=True, type="CREATE", sql=sql, data=None), offset=number))

    assert held_by(many) < 1 * MB
    assert reading.catalog.versions == 200


# ---------------------------------------------------------------- memory that runs out, and policies


@pytest.mark.parametrize(("codec", "part"), [(TicdcCanalDecoder, "decode"), (OpenProtocolEncoder, "encode")])
def test_memory_that_runs_out_is_an_error_with_a_policy(
    codec: type, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, is_there_none = getattr(codec, part), True

    def short_of_memory(*given: Any) -> Any:
        if is_there_none:
            raise MemoryError
        return work(*given)

    monkeypatch.setattr(codec, part, short_of_memory)
    reading = translator(TICDC)
    with pytest.raises(OutOfMemory) as raised:
        reading.translate(record(message()))
    assert raised.value.code == "decode.out-of-memory"
    policies = ErrorPolicies({"decode": Policy.SKIP})
    assert policies.policy_of(raised.value) is Policy.SKIP
    is_there_none = False
    assert reading.translate(record(message()))


def test_no_record_exhausts_a_small_process() -> None:
    """Where memory runs out, C code may crash instead of raising."""
    script = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (700 << 20, 700 << 20))
from test_limits import *
for protocol in (TICDC, OPEN, DEBEZIUM):
    for bomb in (BOMB, b"\\xff\\xff\\xff\\xff\\x0f\\x00a", b"\\x80\\x80\\x80\\x08a"):
        given = framed(open_row(bomb)) if protocol == OPEN else record(bomb)
        for _ in range(3):
            try:
                translator(protocol).translate(given)
            except RelayError as error:
                print(error.code)
"""
    script = script.replace("BOMB", "__import__('zlib').decompress(bytes.fromhex(sys.argv[1]))")
    import zlib

    bomb = zlib.compress(lz4(bytes(150 * MB))).hex()
    done = subprocess.run(
        [sys.executable, "-c", script, bomb],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    codes = done.stdout.split()
    assert len(codes) == 27
    assert set(codes) == {"decode.limit-exceeded", "decode.malformed"}


@pytest.mark.parametrize("policy", [Policy.SKIP, Policy.DEAD_LETTER])
def test_the_policy_of_decode_decides(policy: Policy) -> None:
    reading = translator(TICDC, Limits(rows=2))
    bad = rows(TICDC, 3)
    with pytest.raises(LimitExceeded) as raised:
        reading.translate(bad)
    refused = ErrorPolicies({"decode": policy}, "dead").apply(raised.value, bad, reading)
    assert refused.policy is policy
    if policy is Policy.DEAD_LETTER:
        (letter,) = refused.dead_letters
        assert letter.value == bad.value
        assert b"decode.limit-exceeded" in dict(letter.headers).values()


def test_a_limit_cannot_be_nothing() -> None:
    from relay.config.keys import LimitsConfig as Table

    assert Table().of_a_record() == Limits()
    with pytest.raises(ValueError, match="greater than 0"):
        Table(rows=0)


# ---------------------------------------------------------------- how cost is measured


def attempt(protocol: str, limits: Limits, given: ConsumerRecord) -> None:
    """Translate; an error is as good."""
    with contextlib.suppress(LimitExceeded, Malformed):
        translator(protocol, limits, DEBEZIUM if protocol != DEBEZIUM else TICDC).translate(given)


def peak_of(work: Callable[[], object]) -> tuple[int, RelayError | None]:
    """The most bytes that it took at a time, and the error that it ended with."""
    error = None
    with others_kept():
        tracemalloc.start()
        try:
            work()
        except RelayError as raised:
            error = raised
        finally:
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
    return peak, error


@pytest.fixture(autouse=True)
def _no_tracing() -> Iterator[None]:
    yield
    tracemalloc.stop()


def nested(levels: int, opened: str, closed: str) -> bytes:
    """A message of Canal with an unknown member that is nested so deep."""
    row = '{"data":[{"id":"1"}],"database":"d","table":"t","type":"INSERT","es":1,"ts":1,"x":%s}'
    return (row % (opened * levels + "1" + closed * levels)).encode()


@pytest.mark.parametrize(
    ("opened", "closed"), [("[", "]"), ('{"a":', "}"), ('[1,{"b":', "}]"), ('["[[",', "]")]
)
def test_how_deep_a_message_may_be_nested_is_relays_own_limit(opened: str, closed: str) -> None:
    """Parsers have other limits with other releases of Python."""
    levels = opened.count("[") + opened.count("{") - opened.count("[[") * 2
    most = (MOST_LEVELS - 1) // levels  # the message is one itself
    translator = Translator("canal-json", "canal-json")
    translator.translate(ConsumerRecord("t", 0, 0, 0, None, nested(most, opened, closed)))
    with pytest.raises(Malformed, match="nested more than 500 levels"):
        translator.translate(ConsumerRecord("t", 0, 1, 0, None, nested(most + 1, opened, closed)))


def test_many_brackets_that_are_not_nested_are_no_matter() -> None:
    assert not is_too_deep(b"[" + b"[]," * 10_000 + b'"' + b"[" * 1000 + b'"]')
    assert is_too_deep(b"[" * 600)
    assert not is_too_deep(b"]" * 600 + b"[" * 100)


def with_levels(text: bytes, levels: int) -> bytes:
    """A JSON object with a last member that is nested so deep."""
    return b'%b,"x":%b1%b}' % (text.strip()[:-1], b"[" * levels, b"]" * levels)


def decoded(protocol: str, given: ConsumerRecord, options: dict[str, str] | None = None) -> list[Event]:
    return Translator(protocol, protocol, options).inspect(given)


@pytest.mark.parametrize("packed", [cramjam.lz4.compress, cramjam.snappy.compress_raw])
@pytest.mark.parametrize(
    ("protocol", "file"),
    [
        (TICDC, "ticdc/canal-json/09_dml"),
        ("ticdc-debezium", "ticdc/debezium.no-schema/09_dml"),
        ("ticdc-simple-json", "ticdc/simple.json/09_dml"),
    ],
)
def test_compressed_messages_may_be_nested_as_deep(
    protocol: str, file: str, packed: Callable[[bytes], Any]
) -> None:
    whole = captured(file)[0]

    def nested_so(levels: int) -> ConsumerRecord:
        value = bytes(packed(with_levels(whole.value or b"", levels)))
        return msgspec.structs.replace(whole, value=value)

    assert decoded(protocol, nested_so(MOST_LEVELS - 1))
    with pytest.raises(Malformed, match="nested more than 500 levels"):
        decoded(protocol, nested_so(MOST_LEVELS))


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("packed", [bytes, cramjam.lz4.compress])
def test_segments_of_open_protocol_may_be_nested_as_deep(side: int, packed: Callable[[bytes], Any]) -> None:
    whole = captured("ticdc/open-protocol/09_dml")[1]

    def nested_so(levels: int) -> ConsumerRecord:
        (segment,) = unframe(whole.key, whole.value)
        parts = list(segment)
        parts[side] = with_levels(parts[side], levels)
        key, value = framed_key([parts[0]]), framed_value([bytes(packed(parts[1]))])
        return msgspec.structs.replace(whole, key=key, value=value)

    assert decoded("ticdc-open-protocol", nested_so(MOST_LEVELS - 1))
    with pytest.raises(Malformed, match="nested more than 500 levels"):
        decoded("ticdc-open-protocol", nested_so(MOST_LEVELS))


@pytest.mark.parametrize("protocol", [TICDC, "ticdc-open-protocol", "ticdc-simple-json"])
def test_stored_messages_may_be_nested_as_deep(protocol: str) -> None:
    file = next(each for each in CAPTURED if protocol_of(each) == protocol and ".claim-check/" in each)
    options = reading_options(file)

    def refused(levels: int) -> str:
        reader = Translator(protocol, protocol, options)
        for given in captured(file):
            try:
                reader.inspect(given)
            except ClaimCheck as need:
                reader.provide(need, stored(need, levels))
                try:
                    reader.inspect(given)
                except Malformed as error:
                    return error.reason
                return ""
        raise AssertionError("no claim check")

    def stored(need: ClaimCheck, levels: int) -> bytes:
        found = claim_check_parts(Path(options["claim-check-storage-uri"], need.name).read_bytes())
        assert found is not None
        if protocol != "ticdc-open-protocol":
            return claim_check_document(found.key, with_levels(found.value, levels))
        ((_, text),) = unframe(found.key, found.value)
        return claim_check_document(found.key, framed_value([with_levels(text, levels)]))

    assert refused(MOST_LEVELS - 1) == ""
    assert "nested more than 500 levels" in refused(MOST_LEVELS)


@pytest.mark.parametrize("before", [b" " * 300, b"\xef\xbb\xbf"])
def test_messages_behind_blanks_or_a_mark_may_be_nested_as_deep(before: bytes) -> None:
    with pytest.raises(Malformed, match="nested more than 500 levels"):
        decoded("canal-json", ConsumerRecord("t", 0, 1, 0, None, before + nested(MOST_LEVELS, "[", "]")))


def test_a_statement_of_ticdc_avro_may_be_nested_as_deep() -> None:
    statement = b'{"query":"CREATE TABLE t (a INT)","type":3,"schema":"d","table":"t","commitTs":1}'
    given = ConsumerRecord("t", 0, 1, 0, None, b"\x01" + with_levels(statement, MOST_LEVELS))
    with pytest.raises(Malformed, match="nested more than 500 levels"):
        decoded("ticdc-avro", given)
