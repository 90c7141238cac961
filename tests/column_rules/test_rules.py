"""What column rules do with the values and definitions of columns, and which rules are refused."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import pytest
from column_rules_support import KEY, ROW, cells, row, rule, shaped
from support import record, row_message

from relay import ColumnRule, ConfigError, ConsumerRecord, Loss, NotRepresentable, Translator


def hashed(text: str | bytes, length: int = 64) -> str:
    data = text if isinstance(text, bytes) else text.encode()
    return hmac.new(KEY, data, hashlib.sha256).hexdigest()[:length]


MASKED = [
    ({}, "ann@example.com", "***************"),
    ({"first": 1, "last": 4}, "ann@example.com", "a**********.com"),
    ({"last": 4}, "ann@example.com", "***********.com"),
    # A text that is not longer than what would be kept shows nothing.
    ({"first": 3, "last": 4}, "ann@exa", "*******"),
    ({"first": 3, "last": 4}, "ann@exam", "ann*exam"),
    ({"first": 3}, "", ""),
    ({"last": 1}, "né", "*é"),
]


@pytest.mark.parametrize(("kept", "email", "expected"), MASKED)
def test_mask_keeps_the_first_and_last_characters(kept: dict[str, Any], email: str, expected: str) -> None:
    assert cells(rule("mask", "email", **kept), email=email)["email"] == expected


def test_masked_values_of_other_types_are_text() -> None:
    found = shaped(rule("mask", "age", "credit", "born", "grade", "data", last=1))
    assert {name: found["data"][0][name] for name in ("age", "credit", "born", "grade")} == {
        "age": "*2",
        "credit": "***0",
        "born": "*********5",
        "grade": "***h",
    }
    types = {name: found["mysqlType"][name] for name in ("age", "credit", "born", "grade", "data")}
    assert types == {
        "age": "varchar(255)",
        "credit": "varchar(255)",
        "born": "varchar(255)",
        "grade": "varchar(255)",
        "data": "longtext",
    }


def test_hashes_are_the_hmac_of_a_values_text() -> None:
    found = cells(rule("hash", "email", "age", "credit", "born", "grade", "photo"))
    assert found == ROW | {
        "email": hashed("ann@example.com"),
        "age": hashed("42"),
        "credit": hashed("1.10"),
        "born": hashed("1987-06-05"),
        "grade": hashed("high"),
        "photo": hashed(b"\x00\xff\x01"),
    }
    assert cells(rule("hash", "email", length=10))["email"] == hashed("ann@example.com", 10)


@pytest.mark.parametrize(
    "source", ["canal-json", "ticdc-open-protocol", "debezium-json", "maxwell-json", "ticdc-simple-json"]
)
def test_hashes_do_not_depend_on_the_protocol(source: str) -> None:
    definition = (
        "CREATE TABLE t (id bigint PRIMARY KEY, email varchar(100), age tinyint unsigned, "
        "credit decimal(10,2), born date, grade enum('low','high'))"
    )
    messages = [row_message({}, isDdl=True, type="CREATE", sql=definition, data=None), row()]
    writer, reader = (
        Translator("canal-json", source),
        Translator(
            source,
            "flat-json",
            columns=[rule("hash", "email", "age", "credit", "born", "grade")],
            hash_key=KEY,
        ),
    )
    written = [out for at, each in enumerate(messages) for out in writer.translate(record(each, offset=at))]
    records = [
        ConsumerRecord("topic", 0, at, each.timestamp_ms, each.key, each.value)
        for at, each in enumerate(written)
    ]
    found = [out for each in records for out in reader.translate(each)]
    text = (found[-1].value or b"").decode()
    for value in ("ann@example.com", "42", "1.10", "1987-06-05", "high"):
        assert hashed(value) in text, value


def test_truncate_takes_characters_of_text_and_bytes_of_bytes() -> None:
    found = cells(rule("truncate", "email", "photo", length=2), email="néé")
    assert (found["email"], found["photo"]) == ("né", "\x00\xff")
    assert cells(rule("truncate", "data", length=3))["data"] == '{"a'


def test_null_and_absent_columns_stay_what_they_are() -> None:
    assert cells(rule("hash", "email"), email=None)["email"] is None
    message = row()
    del message["data"][0]["email"], message["mysqlType"]["email"]
    for action, more in (("hash", {}), ("fixed", {"value": "x"}), ("null", {})):
        assert "email" not in shaped(rule(action, "email", **more), message=message)["data"][0]


def test_a_fixed_value_replaces_null_too() -> None:
    assert cells(rule("fixed", "email", value="***"), email=None)["email"] == "***"
    found = shaped(rule("fixed", "age", value="0"), rule("fixed", "born", value="hidden"))
    assert (found["data"][0]["age"], found["mysqlType"]["age"]) == ("0", "tinyint unsigned")
    # A text that is no value of the type makes the column text.
    assert (found["data"][0]["born"], found["mysqlType"]["born"]) == ("hidden", "varchar(255)")


UNFIT = [
    ("age", "256", "varchar(255)"),
    ("age", "-1", "varchar(255)"),
    ("age", "255", "tinyint unsigned"),
    ("credit", "1.5", "decimal(10,2)"),
    ("born", "2026-02-30x", "varchar(255)"),
    ("data", "hidden", "longtext"),
    ("data", "{}", "json"),
    ("grade", "high", "varchar(255)"),
    ("credit", "1.239", "varchar(255)"),
    ("credit", "123456789", "varchar(255)"),
    ("age", " 5", "varchar(255)"),
    ("born", "2024-02-31", "varchar(255)"),
    ("born", "2024-02-29", "date"),
]


@pytest.mark.parametrize(("column", "value", "expected"), UNFIT)
def test_a_fixed_value_has_the_type_of_its_column_if_it_fits(column: str, value: str, expected: str) -> None:
    assert shaped(rule("fixed", column, value=value))["mysqlType"][column] == expected


def test_the_statement_of_a_row_is_not_written_where_any_table_has_hidden_columns() -> None:
    message: dict[str, Any] = {
        "database": "d", "table": "orders", "type": "insert", "ts": 1_700_000_000, "xid": 1, "commit": True,
        "query": "INSERT INTO orders SELECT 1 FROM t WHERE email = 'ann@example.com'", "data": {"id": 7},
    }  # fmt: skip
    translator = Translator(
        "maxwell-json", "maxwell-json", None, {"output_row_query": "true"}, columns=[rule("null", "email")]
    )
    (out,) = translator.translate(record(message))
    assert b"ann@" not in (out.value or b"")
    assert translator.losses[Loss.QUERY] == 1


def test_old_rows_and_keys_follow() -> None:
    message = row("UPDATE", old={"email": "old@example.com", "age": "41"})
    found = shaped(
        rule("hash", "email", length=8), rule("drop", "age"), rule("rename", "id", name="no"), message=message
    )
    assert found["old"] == [{"email": hashed("old@example.com", 8)}]
    assert (found["pkNames"], found["data"][0]["no"]) == (["no"], "7")
    assert "age" not in found["mysqlType"]
    # A column that did not change under its rule is not among the changed ones.
    message = row("UPDATE", old={"email": "ann@example.org"})
    assert shaped(rule("truncate", "email", length=3), message=message)["old"] == [{}]


def test_a_hashed_key_keeps_the_rows_apart() -> None:
    found = shaped(rule("hash", "id", length=32), target="debezium-json")
    assert found["payload"]["after"]["id"] == hashed("7", 32)
    (out,) = Translator(
        "canal-json", "debezium-json", columns=[rule("hash", "id", length=32)], hash_key=KEY
    ).translate(record(row()))
    assert hashed("7", 32).encode() in (out.key or b"")


def test_columns_are_matched_in_any_letter_case_and_tables_exactly() -> None:
    assert cells(rule("null", "E*L"))["email"] is None
    assert cells(rule("null", "email", tables="d.T")) == ROW
    assert cells(rule("null", "*", tables="x.*")) == ROW


def test_the_first_rule_for_values_applies_and_the_first_new_name() -> None:
    rules = (
        rule("rename", "email", name="mail"),
        rule("truncate", "email", length=3),
        rule("hash", "email"),
        rule("rename", "email", name="post"),
    )
    assert cells(*rules)["mail"] == "ann"


def test_keep_leaves_out_all_other_columns() -> None:
    assert cells(rule("keep", "id", "em*"), rule("keep", "age")) == {
        "id": "7",
        "email": ROW["email"],
        "age": "42",
    }


REFUSED_FOR_KEYS: list[ColumnRule] = [
    rule("drop", "id"),
    rule("null", "id"),
    rule("fixed", "id", value="1"),
    rule("mask", "id"),
    rule("hash", "id", length=31),
    rule("keep", "email"),
]


@pytest.mark.parametrize("given", REFUSED_FOR_KEYS)
def test_rules_after_which_keys_would_not_identify_rows_are_refused(given: ColumnRule) -> None:
    with pytest.raises(NotRepresentable, match=r"id: the column is part of the key of d\.t") as raised:
        shaped(given)
    assert raised.value.path == "id"


def test_rules_that_do_not_fit_a_type_are_refused() -> None:
    with pytest.raises(
        NotRepresentable, match=r"photo: the column of d\.t is of type blob, and mask is for text"
    ):
        shaped(rule("mask", "photo"))
    with pytest.raises(
        NotRepresentable, match=r"age: the column of d\.t is of type tinyint, and truncate is for"
    ):
        shaped(rule("truncate", "age", length=1))


def test_rules_that_leave_no_column_are_refused() -> None:
    message = row()
    message["pkNames"] = None
    with pytest.raises(NotRepresentable, match=r"the rules drop all columns of d\.t"):
        shaped(rule("drop", "*"), message=message)


def test_labels_need_the_members() -> None:
    message = row_message({"id": "int", "grade": "enum"}, {"id": "7", "grade": "2"}, pkNames=["id"])
    for action in ("hash", "mask"):
        with pytest.raises(NotRepresentable, match="its members are unknown"):
            shaped(rule(action, "grade"), message=message)


def test_members_of_hidden_columns_are_not_shown() -> None:
    for given in (rule("null", "grade"), rule("fixed", "grade", value="high")):
        assert shaped(given)["mysqlType"]["grade"] == "varchar(255)"


def test_names_are_compared_as_mysql_does() -> None:
    message = row_message({"id": "int", "EMAİL": "text"}, {"id": "7", "EMAİL": "x"}, pkNames=["id"])
    for pattern in ("email", "EMA?L", "emaİl"):
        assert shaped(rule("null", pattern), message=message)["data"][0]["EMAİL"] is None


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(
        NotRepresentable, match=r"Email: a rule renames a column of d\.t to the name of another one"
    ):
        shaped(rule("rename", "age", name="Email"))


def test_a_refused_record_changes_nothing() -> None:
    translator = Translator("canal-json", "canal-json", columns=[rule("mask", "photo")])
    before = translator.state
    with pytest.raises(NotRepresentable):
        translator.translate(record(row()))
    assert (translator.state, translator.events.total(), translator.losses.total()) == (before, 0, 0)


def test_members_that_may_show_values_are_not_written_and_counted() -> None:
    message: dict[str, Any] = {
        "database": "d", "table": "t", "type": "insert", "ts": 1_700_000_000, "xid": 1, "commit": True,
        "query": "INSERT INTO t VALUES (7, 'ann@example.com')", "data": {"id": 7, "email": "ann@example.com"},
        "primary_key_columns": ["id"], "mystery": "ann@example.com",
    }  # fmt: skip
    options = {"output_row_query": "true"}
    for rules, query in (
        ((), 1),
        ((rule("rename", "email", name="mail"),), 1),
        ((rule("null", "email"),), 0),
    ):
        translator = Translator("maxwell-json", "maxwell-json", None, options, columns=rules)
        (out,) = translator.translate(record(message))
        assert (out.value or b"").count(b"INSERT INTO") == query
        assert translator.losses[Loss.QUERY] == 1 - query
    assert b"ann@" not in (out.value or b"")


WRONG = [
    (rule("hash", "email"), "columns.0.action", "hash needs a secret key"),
    (rule("drop", "email", tables="shop"), "columns.0.tables", "not of the form database.table"),
    (rule("drop"), "columns.0.columns", "no column is named"),
    (rule("drop", "email", length=3), "columns.0.length", "has no effect with action drop"),
    (rule("fixed", "email"), "columns.0.value", "is missing"),
    (rule("rename", "email"), "columns.0.name", "is missing"),
    (rule("truncate", "email"), "columns.0.length", "is missing"),
    (rule("truncate", "email", length=0), "columns.0.length", "is not positive"),
    (rule("mask", "email", first=-1), "columns.0.first", "is negative"),
    (rule("rename", "email", name="x" * 65), "columns.0.name", "more than 64 characters"),
]


@pytest.mark.parametrize(("given", "path", "text"), WRONG)
def test_wrong_rules_are_named(given: ColumnRule, path: str, text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Translator("canal-json", "canal-json", columns=[given])
    (problem,) = raised.value.problems
    assert problem.path == path
    assert text in problem.message


def test_a_hash_has_at_most_64_digits() -> None:
    with pytest.raises(ConfigError, match="at most 64 hexadecimal digits"):
        Translator("canal-json", "canal-json", columns=[rule("hash", "email", length=65)], hash_key=KEY)
