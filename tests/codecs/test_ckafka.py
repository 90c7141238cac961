"""CKafka's rows and DDL beyond what its page prints: shapes, what is missing, and what is counted as lost."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from ckafka_support import CKAFKA, CREATE, MEMBERS, NOON, ROW, change, ddl, losses, records, row
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import CANAL, TICDC, captured, events, record, row_message, translate, translated_records

from relay import (
    ABSENT,
    Loss,
    Malformed,
    Op,
    RowChange,
    SchemaChange,
    TableId,
    Translator,
    UnsupportedMessage,
)
from relay.catalog import Catalog
from relay.codecs import PROTOCOLS
from relay.codecs.given_options import parse_options
from relay.model.events import Snapshot
from relay.model.lookups import LookupCache
from relay.testing.strategies import Case, cases

# ---------------------------------------------------------------- rows


@pytest.mark.parametrize("letter", ["I", "l", "i"])
def test_all_spellings_of_an_insert(letter: str) -> None:
    message = row(ROW, letter=letter)
    assert change(message).op is Op.INSERT
    assert translate(CKAFKA, CKAFKA, records(message)) == [message | {"TYPE": "I"}]


@pytest.mark.parametrize(
    ("message", "path"),
    [
        (row(None), "NEW_VALUES"),
        (row(None, ROW, "U"), "NEW_VALUES"),
        (row(ROW, None, "D"), "OLD_VALUES"),
        (row(["1"]), "NEW_VALUES"),
        (row(ROW, "x", "U"), "OLD_VALUES"),
        (row(ROW, BINLOG_POS=-1), "BINLOG_POS"),
        (row(ROW, BINLOG_POS=1 << 63), "BINLOG_POS"),
        (row(ROW, DATABASE=[]), "DATABASE"),
        (ddl("x", es="soon"), "es"),
        (ddl("", "INSERT", isDdl=False), "data"),
    ],
)
def test_what_is_no_message_is_malformed(message: dict[str, Any], path: str) -> None:
    with pytest.raises(Malformed) as raised:
        change(message)
    assert raised.value.path == path


@pytest.mark.parametrize(
    "message", ["{]", "{}", "[]", '"TYPE"', '{"TYPE":', '{"TYPE":null}', " ", "[" * 100_000]
)
def test_what_is_no_json_of_this_protocol_is_malformed(message: str) -> None:
    with pytest.raises(Malformed):
        change(message)


@pytest.mark.parametrize(
    "message", [row(ROW, letter="X"), ddl("", "FOO", isDdl=False), {"type": "TIDB_WATERMARK"}]
)
def test_unknown_types_are_unsupported(message: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedMessage):
        change(message)


def test_an_update_without_its_old_row() -> None:
    message = row(ROW, None, "U")
    found = change(CREATE, message)
    assert (found.op, found.before, found.after) == (Op.UPDATE, None, (1, "x", Decimal("1.50")))
    assert translate(CKAFKA, CKAFKA, records(message)) == [message]
    assert losses(CKAFKA, CKAFKA, CREATE, message) == {"before-missing": 1}


def test_an_old_row_that_another_source_does_not_say_is_counted_once() -> None:
    update = row_message({"id": "int"}, {"id": "1"}, {"id": "2"}, op="UPDATE", old=None)
    assert [out["OLD_VALUES"] for out in translate(CANAL, CKAFKA, [record(update)])] == [None, None]
    assert losses(CANAL, CKAFKA, update)["before-missing"] == 2


def test_the_old_row_of_canal_is_filled_from_the_new_one() -> None:
    update = row_message(
        {"id": "int", "a": "varchar(9)"}, {"id": "1", "a": None}, op="UPDATE", old=[{"a": "x"}]
    )
    (out,) = translate(CANAL, CKAFKA, [record(update)])
    assert (out["NEW_VALUES"], out["OLD_VALUES"]) == ({"id": "1", "a": None}, {"id": "1", "a": "x"})


def test_null_value_and_absent_stay_apart() -> None:
    update = row({"id": "1", "a": None, "b": "2.00"}, {"id": "1", "a": ""}, "U")
    found = change(CREATE, update)
    assert found.before == (1, "", ABSENT)
    assert found.after == (1, None, Decimal("2.00"))
    assert translate(CKAFKA, CKAFKA, records(CREATE, update))[1] == update
    assert losses(CKAFKA, CKAFKA, CREATE, update) == {"columns-absent": 1}


def test_a_row_that_lacks_columns_of_its_table_is_partial_and_counted() -> None:
    assert change(CREATE, row({"id": "1"})).after == (1, ABSENT, ABSENT)
    assert losses(CKAFKA, CKAFKA, CREATE, row({"id": "1"})) == {"columns-absent": 1}


def test_a_delete_of_ticdc_with_its_key_alone_stays_that() -> None:
    create = ddl("CREATE TABLE `t` (`id` INT PRIMARY KEY, `a` VARCHAR(9), `b` DECIMAL(9,2))")
    delete = row_message({"id": "int"}, {"id": "1"}, op="DELETE", pkNames=["id"])
    _, out = translate(TICDC, CKAFKA, records(create, delete))
    assert (out["TYPE"], out["NEW_VALUES"], out["OLD_VALUES"]) == ("D", None, {"id": "1"})
    assert losses(TICDC, CKAFKA, create, delete)["columns-absent"] == 1


def test_a_column_that_the_catalog_lacks_makes_the_table_a_guess_with_the_types_that_are_known() -> None:
    found = change(CREATE, row(ROW | {"new": "5"}))
    assert found.after == (Decimal("1.50"), 1, "x", "5")
    assert not found.schema.complete
    assert losses(CKAFKA, CKAFKA, CREATE, row(ROW | {"new": "5"})) == {"schema-inferred": 1}


def test_types_follow_the_ddl_in_the_stream() -> None:
    alter = ddl("ALTER TABLE t ADD COLUMN n INT", "ALTER")
    *_, before, _, after = translate(CKAFKA, CANAL, records(CREATE, row(ROW), alter, row(ROW | {"n": "5"})))
    assert before["mysqlType"] == {"id": "int", "a": "varchar(9)", "b": "decimal(9,2)"}
    assert after["mysqlType"] == before["mysqlType"] | {"n": "int"}
    assert after["data"] == [{"id": "1", "a": "x", "b": "1.50", "n": "5"}]
    assert after["pkNames"] == ["id"]


def test_the_gtid_travels_with_rows_and_is_lost_with_ddl() -> None:
    gtid = "3E11FA47-71CA-11E1-9E33-C80AA9429562:23"
    message = row(ROW, GLOBAL_ID=gtid)
    assert change(message).source.gtid == gtid
    assert translate(CKAFKA, CKAFKA, records(message)) == [message]
    assert translate(CKAFKA, CANAL, records(message))[0]["gtid"] == gtid
    assert (
        translate(CANAL, CKAFKA, [record(row_message({"id": "int"}, {"id": "1"}, gtid=gtid))])[0]["GLOBAL_ID"]
        == gtid
    )
    assert losses(CANAL, CKAFKA, ddl("DROP TABLE t", "ERASE", gtid=gtid, es=1000)) == {"gtid": 1}


def test_members_that_are_always_null_are_extras_when_they_are_not() -> None:
    message = row(ROW, EVENT_SERVER_ID=7)
    assert change(message).source.unknown_fields == {"EVENT_SERVER_ID": 7}


def test_all_members_are_there_in_their_order() -> None:
    row_out, ddl_out = translate(
        CANAL, CKAFKA, records(row_message({"id": "int"}, {"id": "1"}), ddl("DROP TABLE t", "ERASE"))
    )
    assert list(row_out) == MEMBERS == sorted(MEMBERS)
    assert list(ddl_out) == sorted(ddl("")) == list(ddl(""))
    assert [row_out[name] for name in ("EVENT_SERVER_ID", "GLOBAL_ID", "GROUP_ID")] == [None] * 3


def test_rows_without_a_binlog_position_have_no_file_and_the_offset_of_their_source() -> None:
    rows = row_message({"id": "int"}, {"id": "1"}, {"id": "2"})
    out = translate(CANAL, CKAFKA, [record(rows, offset=41)])
    assert [(message["BINLOG_NAME"], message["BINLOG_POS"]) for message in out] == [("", 41), ("", 41)]
    assert losses(CANAL, CKAFKA, rows)["binlog-position-synthetic"] == 2
    again = translate(CKAFKA, CKAFKA, [record(message, offset=5) for message in out])
    assert again == out


def test_keys_and_headers_of_the_output() -> None:
    (out,) = Translator(CKAFKA, CKAFKA).translate(records(row(ROW))[0])
    assert out.key is None
    assert out.value == json.dumps(row(ROW), separators=(",", ":")).encode()


# ---------------------------------------------------------------- "canal format"


def canal_form(op: str, data: Any, old: Any = None, **more: Any) -> dict[str, Any]:
    """A row of the connector's canal format, by the table of fields in its document; no sample is printed
    there.
    """
    return (
        ddl("", op)
        | {"data": data, "old": old, "isDdl": False, "es": NOON * 1000, "ts": NOON * 1000 + 523}
        | more
    )


def test_rows_of_the_canal_format_have_their_types_from_the_catalog() -> None:
    new = ROW | {"a": "y"}
    messages = (canal_form("INSERT", [ROW]), canal_form("UPDATE", [new], [ROW]), canal_form("DELETE", [new]))
    _, insert, update, delete = events(CKAFKA, records(CREATE, *messages))
    assert isinstance(insert, RowChange)
    assert isinstance(update, RowChange)
    assert isinstance(delete, RowChange)
    x, y = ((1, letter, Decimal("1.50")) for letter in "xy")
    assert [(c.op, c.before, c.after) for c in (insert, update, delete)] == [
        (Op.INSERT, None, x), (Op.UPDATE, x, y), (Op.DELETE, y, None),
    ]  # fmt: skip
    assert (update.source.event_time_ns, update.emitted_at_ns) == (NOON * 10**9, (NOON * 1000 + 523) * 10**6)
    assert update.schema.primary_key == ("id",)
    _, _, out, _ = translate(CKAFKA, CKAFKA, records(CREATE, *messages))
    assert out == row(new, ROW, "U", BINLOG_NAME="", BINLOG_POS=2)


def test_rows_of_the_canal_format_without_types_in_seconds_and_several() -> None:
    found = events(CKAFKA, records(canal_form("INSERT", [{"id": "1"}, {"id": "2"}], es=NOON, ts=NOON + 1)))
    assert [(c.after, c.source.event_time_ns) for c in found if isinstance(c, RowChange)] == [
        (("1",), NOON * 10**9),
        (("2",), NOON * 10**9),
    ]
    assert [event.emitted_at_ns for event in found] == [(NOON + 1) * 10**9] * 2


def test_an_old_row_that_cannot_be_paired_is_unknown() -> None:
    for old in (None, [], [None]):
        message = canal_form("UPDATE", [ROW], old)
        assert change(message).before is None
        assert losses(CKAFKA, CKAFKA, CREATE, message)["before-missing"] == 1


def test_types_that_a_row_of_canals_form_says_are_taken() -> None:
    message = canal_form("INSERT", [{"id": "1"}], mysqlType={"id": "int"}, pkNames=["id"])
    found = change(message)
    assert found.after == (1,)
    assert found.schema.primary_key == ("id",)
    with pytest.raises(Malformed) as raised:
        change(canal_form("INSERT", [{"id": "1"}], mysqlType=[1]))
    assert raised.value.path == "mysqlType"
    with pytest.raises(Malformed) as raised:
        _ = change(CREATE, canal_form("DELETE", [{"id": "x"}])).before
    assert raised.value.path == "data[0].id"


# ---------------------------------------------------------------- DDL


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("CREATE TABLE t (a INT)", "CREATE"), ("DROP TABLE t", "ERASE"), ("TRUNCATE TABLE t", "TRUNCATE"),
        ("RENAME TABLE x TO t", "RENAME"), ("ALTER TABLE x RENAME TO t", "RENAME"), ("ALTER TABLE t ADD COLUMN b INT", "ALTER"),
        ("ALTER TABLE t ADD INDEX i (a)", "CINDEX"), ("CREATE INDEX i ON t (a)", "CINDEX"), ("DROP INDEX i ON t", "DINDEX"),
        ("ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES u (a)", "CINDEX"), ("CREATE DATABASE d", "QUERY"),
        ("DROP DATABASE d", "QUERY"), ("ALTER DATABASE d CHARACTER SET utf8", "QUERY"), ("CREATE VIEW v AS SELECT 1", "QUERY"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("source", [CANAL, TICDC, CKAFKA])
def test_the_word_for_a_statement_is_canals(source: str, sql: str, word: str) -> None:
    (out,) = translate(source, CKAFKA, [record(ddl(sql, "WRONG"))])
    assert (out["type"], out["sql"], out["isDdl"]) == (word, sql, True)


@pytest.mark.parametrize("word", ["ALTER", "QUERY", "DINDEX"])
def test_ckafkas_own_word_for_a_statement_stays(word: str) -> None:
    message = ddl("CREATE INDEX i ON t (a)", word)
    assert translate(CKAFKA, CKAFKA, [record(message)])[0]["type"] == word


@pytest.mark.parametrize("es", [1656300979, 1656300979000, 1656300979748])
@pytest.mark.parametrize("later", [0, 3])
def test_times_of_a_statement_keep_their_unit(es: int, later: int) -> None:
    message = ddl("DROP TABLE t", "ERASE", es=es, ts=es + later)
    translator = Translator(CKAFKA, CKAFKA)
    (out,) = translator.translate(records(message)[0])
    written = json.loads(out.value or b"")
    assert (written["es"], written["ts"]) == (es, es + later)
    assert not translator.losses


def test_what_a_statement_has_no_place_for_is_counted_once() -> None:
    message = ddl("DROP TABLE t", "ERASE", gtid="a:1", es=1465531100000)
    assert losses(CANAL, CKAFKA, message) == {"gtid": 1}
    translator = Translator(CANAL, CKAFKA)
    (event,) = Translator(CANAL, CKAFKA).inspect(record(message))
    assert isinstance(event, SchemaChange)
    source = msgspec.structs.replace(
        event.source, snapshot=Snapshot.TRUE, binlog_file="f", binlog_position=4, server_id=1
    )
    found: list[Loss] = []
    encoder = translator.route.target.open_encoder(translator.route.target_options, LookupCache())
    list(encoder.encode([msgspec.structs.replace(event, source=source)], record(message), found))
    assert sorted(found) == ["binlog-position", "gtid", "server-id", "snapshot"]


def test_unknown_members_of_a_row_are_counted_and_null_ones_carried() -> None:
    message = row(ROW) | {"EVENT_SERVER_ID": 5, "GROUP_ID": "g"}
    assert translate(CKAFKA, CKAFKA, records(message)) == [message]
    assert losses(CKAFKA, CKAFKA, CREATE, message) == {}
    assert losses(CKAFKA, CANAL, CREATE, message)["unknown-fields"] == 1
    assert losses(CKAFKA, CKAFKA, CREATE, message | {"ISTRANS": 0}) == {"unknown-fields": 1}
    numbers = message | {"NEW_VALUES": {"id": 1}, "ISTRANS": 0}
    assert losses(CKAFKA, CKAFKA, CREATE, numbers)["unknown-fields"] == 1


def test_a_row_without_any_time_has_that_of_its_log() -> None:
    (event,) = events(CKAFKA, [record(row(ROW), timestamp_ms=-1)])
    assert isinstance(event, RowChange)
    assert event.emitted_at_ns == event.source.event_time_ns > 0


def test_a_statement_about_several_tables_stays_one_message() -> None:
    sql = "RENAME TABLE a TO b, c TO d"
    (out,) = translate(CANAL, CKAFKA, [record(ddl(sql, "RENAME", "b"))])
    assert (out["table"], out["sql"]) == ("b", sql)
    assert len(translate(CKAFKA, TICDC, [record(out)])) == 2


def test_a_statement_that_is_not_understood_passes_and_is_counted() -> None:
    strange = ddl("ALTER UNIVERSE SET gravity = 0", "ALTER")
    assert translate(CKAFKA, CKAFKA, records(strange)) == [strange]
    assert losses(CKAFKA, CKAFKA, strange) == {"ddl-not-understood": 1}


def test_statements_without_the_flag_are_ddl_if_they_read_so_and_else_skipped() -> None:
    (event,) = events(CKAFKA, records(ddl("CREATE DATABASE x", "QUERY", "", isDdl=False)))
    assert isinstance(event, SchemaChange)
    assert event.table == TableId("x", "")
    query = ddl("update t set a = 1", "QUERY", isDdl=False)
    assert translate(CKAFKA, CKAFKA, records(query)) == []
    assert losses(CKAFKA, CKAFKA, query) == {"statement": 1}


# ---------------------------------------------------------------- what is lost


def test_what_a_row_of_ticdc_loses() -> None:
    insert = row_message(
        {"id": "int"},
        {"id": "1"},
        pkNames=["id"],
        es=NOON * 1000,
        _tidb={"commitTs": 5, "rowkey": "eA==", "x": 1},
    )
    assert losses(TICDC, CKAFKA, insert) == {
        "schema-inferred": 1, "commit-ts": 1, "row-key": 1, "unknown-fields": 1, "column-type": 1, "primary-key": 1,
        "binlog-position-synthetic": 1,
    }  # fmt: skip


def test_watermarks_have_no_message_and_are_counted() -> None:
    mark = {
        "type": "TIDB_WATERMARK",
        "isDdl": False,
        "es": 5,
        "ts": 6,
        "_tidb": {"watermarkTs": 429918007904436226},
    }
    assert translate(TICDC, CKAFKA, [record(mark)]) == []
    assert losses(TICDC, CKAFKA, mark) == {"watermark": 1}


def test_tombstones_are_skipped_and_counted() -> None:
    translator = Translator(CKAFKA, CANAL)
    assert translator.translate(record(b"")) == []
    assert translator.losses == {"tombstone": 1}


def test_a_row_of_another_snapshot_keeps_its_mark_and_loses_its_time() -> None:
    read = row_message({"id": "varchar"}, {"id": "1"}, op="INIT", es=NOON * 1000)
    (out,) = translate(CANAL, CKAFKA, [record(read)])
    assert (out["TYPE"], out["TIME"]) == ("I", "19700101080000")
    assert losses(CANAL, CKAFKA, read) == {
        "schema-inferred": 1,
        "event-time-precision": 1,
        "binlog-position-synthetic": 1,
    }


def test_strict_lets_the_connectors_own_messages_pass() -> None:
    messages = records(
        CREATE, row(ROW), row(ROW, ROW, "U"), row(None, ROW, "D"), row(ROW, TIME="19700101080000")
    )
    *changes, snapshot = messages
    assert len(translate(CKAFKA, CKAFKA, changes, None, {"strict": "true"})) == 4
    # A row of a snapshot does not have the time of its change.
    strict = {"strict": "all,-event-time,-event-time-precision"}
    assert len(translate(CKAFKA, CKAFKA, [*changes, snapshot], None, strict)) == 5


# ---------------------------------------------------------------- JSON and captured rows


def test_native_values_keep_their_digits() -> None:
    text = json.dumps(row({"id": 0, "b": "x"})).replace(
        '"id": 0', '"id": 12345678901234567890, "v": 0.10, "t": true, "j": {"k": [1.50]}'
    )
    create = ddl("CREATE TABLE t (id BIGINT UNSIGNED, v DECIMAL(3,2), t BOOL, j JSON, b TEXT)")
    assert change(create, text).after == (12345678901234567890, Decimal("0.10"), 1, '{"k":[1.50]}', "x")
    assert change("\ufeff" + text.replace('"x"', '"x\ny"')).after == (
        "12345678901234567890",
        "0.10",
        "1",
        '{"k":[1.50]}',
        "x\ny",
    )


@pytest.mark.parametrize(
    "path",
    [f"ticdc/canal-json.content-compatible/{name}" for name in ("01_all_types", "02_numeric", "09_dml")]
    + [
        f"mysql/canal-json/{name}"
        for name in (
            "01_all_types",
            "02_numeric",
            "03_temporal",
            "06_zero_dates",
            "07_keys",
            "11_enum_set_json_generated",
        )
    ]
    + ["mysql/canal-json.gtid/09_dml"],
)
def test_captured_rows_survive_the_way_through_this_protocol(path: str) -> None:
    """Types and keys come back from the DDL that travels with the rows."""
    source, options = (TICDC, {"content-compatible": "true"}) if path.startswith("ticdc") else (CANAL, {})
    compared = ("database", "table", "type", "data", "old", "mysqlType", "sqlType", "pkNames", "sql", "gtid")
    direct = translate(source, source, captured(path), None, options)
    there = [out.value or b"" for out in translated_records(Translator(source, CKAFKA), captured(path))]
    back = translate(
        CKAFKA, source, [record(message, offset=at) for at, message in enumerate(there)], None, options
    )
    assert len(direct) > 10
    rows = [message for message in direct if not message["isDdl"]]
    assert [[m.get(name) for name in compared] for m in back if not m["isDdl"]] == [
        [m.get(name) for name in compared] for m in rows
    ]
    again = translated_records(
        Translator(CKAFKA, CKAFKA), [record(message, offset=at) for at, message in enumerate(there)]
    )
    assert [out.value for out in again] == there


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases(), style=st.sampled_from(["auto", "mysql"]))
def test_generated_rows_come_back_from_their_text(case: Case, style: str) -> None:
    codec = PROTOCOLS[CKAFKA]
    options = parse_options(codec, {"value-style": style}, "")
    encoder, decoder = codec.open_encoder(options, LookupCache()), codec.open_decoder(options, LookupCache())
    catalog = Catalog()
    found: list[RowChange] = []
    for offset, payload in enumerate(encoder.encode([case.created, *case.changes], record(b""), [])):
        (event,), catalog = decoder.decode(record(payload.value or b"", offset=offset), catalog, [])
        found += [event] if isinstance(event, RowChange) else []
    assert [(c.op, c.schema, c.before, c.after) for c in found] == [
        (c.op, c.schema, c.before, c.after) for c in case.changes
    ]


def test_columns_that_are_absent_are_counted_beside_a_label_that_is_unknown() -> None:
    translator = Translator(CKAFKA, CANAL)
    statements = (
        "CREATE TABLE t (id INT PRIMARY KEY, s SET('a','b'))",
        "ALTER TABLE t ADD COLUMN n INT",
    )
    for one in records(*[ddl(each) for each in statements], row({"id": "2", "s": "zzz"})):
        translator.translate(one)
    assert translator.losses[Loss.COLUMNS_ABSENT] == 1
