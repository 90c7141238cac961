"""A record is read and written by itself and the DDL before it: not by how other rows looked, nor by records
that were refused.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from support import OPEN, record, row_message

from relay import ConsumerRecord, Malformed, NotRepresentable, Translator
from relay.codecs.open_protocol.frames import framed_key, framed_value

DEBEZIUM, TICDC = "ticdc-debezium", "ticdc-canal-json"
TARGETS = ["canal-json", TICDC, "ckafka-json", OPEN, DEBEZIUM]
TS = 470615239042793472


def drow(after: str, offset: int, commit_ts: int = TS) -> ConsumerRecord:
    """An INSERT into `d.t` in TiCDC Debezium without schema; `after` is JSON."""
    source = {
        "connector": "TiCDC",
        "name": "default",
        "ts_ms": 1,
        "db": "d",
        "table": "t",
        "commit_ts": commit_ts,
    }
    head = json.dumps({"source": source, "ts_ms": 1, "transaction": None, "op": "c", "before": None})[:-1]
    return ConsumerRecord(
        "topic", 0, offset, 1, b'{"payload":{"id":1}}', f'{{"payload":{head},"after":{after}}}}}'.encode()
    )


def dddl(ddl: str) -> ConsumerRecord:
    """A DDL statement about `d.t`, before all rows."""
    source = {
        "connector": "TiCDC",
        "name": "default",
        "ts_ms": 1,
        "db": "d",
        "table": "t",
        "commit_ts": TS - 9,
    }
    payload = {
        "source": source,
        "ts_ms": 1,
        "databaseName": "d",
        "schemaName": None,
        "ddl": ddl,
        "tableChanges": [],
    }
    return ConsumerRecord("topic", 0, 0, 1, b"{}", json.dumps({"payload": payload}).encode())


def after(translator: Translator, *records: ConsumerRecord) -> Any:
    """What the last record becomes when the translator has seen the others, refused or not."""
    out: list[Any] = []
    for one in records:
        try:
            out = [json.loads(made.value or b"") for made in translator.translate(one)]
        except (Malformed, NotRepresentable):
            out = []
    return out


@pytest.mark.parametrize(
    ("ddl", "odd", "even"),
    [
        (
            "CREATE TABLE t (id BIGINT UNSIGNED PRIMARY KEY, c DATE)",
            '{"id":1e0,"c":99999999999}',
            '{"id":-1,"c":null}',
        ),
        ("CREATE TABLE t (id INT PRIMARY KEY, c INT)", '{"id":1,"c":"x"}', '{"id":1,"c":null}'),
        (None, '{"id":1,"c":5.5}', '{"id":1,"c":5}'),
        (None, '{"id":1,"c":null}', '{"id":1,"c":7}'),
    ],
)
def test_an_odd_row_does_not_change_how_the_next_one_is_read(ddl: str | None, odd: str, even: str) -> None:
    before = [] if ddl is None else [dddl(ddl)]
    alone = after(Translator(DEBEZIUM, TICDC), *before, drow(even, 2))
    assert alone
    assert after(Translator(DEBEZIUM, TICDC), *before, drow(odd, 1), drow(even, 2)) == alone


@pytest.mark.parametrize("target", [OPEN, DEBEZIUM])
@pytest.mark.parametrize("is_strict", [True, False])
def test_a_row_without_columns_is_refused_and_leaves_no_trace(target: str, is_strict: bool) -> None:
    options = {"strict": "true"} if is_strict else {}
    if target == DEBEZIUM:
        options["enable-tidb-extension"] = "true"  # messages contain the types
    types = {"id": "int", "v": "text"}
    good = record(row_message(types, {"id": "1", "v": "x"}, pkNames=["id"], _tidb={"commitTs": TS}), offset=2)
    empty = record(row_message(types, {}, pkNames=["id"], _tidb={"commitTs": TS}), offset=1)
    translator = Translator(TICDC, target, None, options)
    with pytest.raises(Malformed, match="a row without columns"):
        translator.translate(empty)
    values = [made.value for made in translator.translate(good)]
    assert values == [made.value for made in Translator(TICDC, target, None, options).translate(good)]
    assert b'"v"' in (values[0] or b"")


@pytest.mark.parametrize(
    "column", ["c DATE DEFAULT '0000-00-00'", "c DECIMAL(30,20) DEFAULT '0.12345678901234567891'"]
)
def test_a_default_that_the_format_cannot_hold_is_no_loss_of_a_row(column: str) -> None:
    value = "2020-01-01" if "DATE" in column else "1.5"
    ddl = record({"database": "d", "table": "t", "isDdl": True, "type": "CREATE", "es": 1, "ts": 1, "_tidb": {"commitTs": TS - 9},
                  "sql": f"CREATE TABLE t (id INT PRIMARY KEY, {column})"})  # fmt: skip
    types = {"id": "int", "c": column.split()[1].partition("(")[0].lower()}
    row = record(
        row_message(types, {"id": "1", "c": value}, pkNames=["id"], _tidb={"commitTs": TS}), offset=1
    )
    translator = Translator(TICDC, DEBEZIUM, None, {"strict": "true", "enable-tidb-extension": "true"})
    translator.translate(ddl)
    assert len(translator.translate(row)) == 1


@pytest.mark.parametrize("text", ["1969-12-31 23:59:59", "2020-02-30 00:00:00"])
def test_a_timestamp_that_is_none_is_counted(text: str) -> None:
    translator = Translator(TICDC, DEBEZIUM)
    types = {"id": "int", "c": "timestamp"}
    translator.translate(
        record(row_message(types, {"id": "1", "c": text}, pkNames=["id"], _tidb={"commitTs": TS}))
    )
    assert translator.losses["zero-date"] == 1  # type: ignore[index]  # a StrEnum is its text


@pytest.mark.parametrize("number", ["1e-99999999999999999999", "9" * 400, "-" + "9" * 400])
@pytest.mark.parametrize("ddl", [None, "DOUBLE", "FLOAT", "DECIMAL(10,2)", "BIGINT"])
def test_absurd_numbers_are_ordinary_errors_or_values(number: str, ddl: str | None) -> None:
    translator = Translator(DEBEZIUM, TICDC)
    if ddl is not None:
        translator.translate(dddl(f"CREATE TABLE t (id INT PRIMARY KEY, c {ddl})"))
    for offset in (1, 2):
        after(translator, drow(f'{{"id":1,"c":{number}}}', offset))


def test_a_statement_with_many_blanks_takes_no_time() -> None:
    ddl = "CREATE VIEW `v`" + " " * 200_000 + "X"
    statement = {"database": "d", "table": "v", "isDdl": True, "type": "QUERY", "es": 1, "ts": 1, "sql": ddl}
    assert len(Translator(TICDC, DEBEZIUM).translate(record(statement))) == 1


@pytest.mark.parametrize("source", ["canal-json", TICDC])
@pytest.mark.parametrize("target", TARGETS)
def test_numbers_of_types_hold_for_their_own_message(source: str, target: str) -> None:
    """Without `mysqlType` the `sqlType` says what a text means, and that of another message says nothing."""
    rows = [
        record(row_message({}, {"a": text}, mysqlType=None, sqlType={"a": code}), offset=at)
        for at, (text, code) in enumerate([("1", 4), ("x y", 12), ("2020-01-01", 91), ("2", 4), ("3", 5)])
    ]
    together = Translator(source, target)
    assert [together.translate(row) for row in rows] == [
        Translator(source, target).translate(row) for row in rows
    ]


def test_a_text_that_canal_takes_for_a_blob_is_known_by_its_own_number() -> None:
    rows = [
        record(row_message({"a": "text(100)"}, {"a": "Ã¤"}, sqlType={"a": code}), offset=at)
        for at, code in enumerate([2004, 2005, 2004])
    ]
    together = Translator("canal-json", "canal-json")
    texts = [json.loads(together.translate(row)[0].value or b"")["data"] for row in rows]
    assert texts == [[{"a": "ä"}], [{"a": "Ã¤"}], [{"a": "ä"}]]


def opened(offset: int, *segments: tuple[str, str]) -> ConsumerRecord:
    """A batch of Open Protocol."""
    keys, values = zip(*segments, strict=True)
    return ConsumerRecord(
        "topic", 0, offset, 1, framed_key(map(str.encode, keys)), framed_value(map(str.encode, values))
    )


def orow(commit_ts: int, cells: str) -> tuple[str, str]:
    return f'{{"ts":{commit_ts},"scm":"d","tbl":"t","t":1}}', cells


@pytest.mark.parametrize("target", ["canal-json", TICDC, DEBEZIUM])
def test_columns_have_the_order_of_their_own_row(target: str) -> None:
    a, b = (f'"{name}":{{"t":15,"f":64,"v":"1"}}' for name in "ab")
    both = [
        f'{{"u":{{{a},{b}}}}}',
        f'{{"u":{{{b},{a}}}}}',
        f'{{"u":{{{b},{a}}},"p":{{{a},{b}}}}}',
        f'{{"d":{{{a},{b}}}}}',
    ]
    rows = [opened(at, orow(TS + at, cells)) for at, cells in enumerate([*both, *both])]
    together = Translator(OPEN, target)
    assert [together.translate(row) for row in rows] == [
        Translator(OPEN, target).translate(row) for row in rows
    ]


def together_and_alone(source: str, target: str, ddl: ConsumerRecord, rows: list[ConsumerRecord]) -> None:
    """Rows of one table, one after the other, and each by itself."""
    together = Translator(source, target)
    together.translate(ddl)
    for row in rows:
        alone = Translator(source, target)
        alone.translate(ddl)
        assert together.translate(row) == alone.translate(row)


TABLE = record({"database": "d", "table": "t", "isDdl": True, "type": "CREATE", "es": 1, "ts": 1, "_tidb": {"commitTs": TS - 9},
                "sql": "CREATE TABLE t (id INT PRIMARY KEY, b INT, c VARCHAR(9))"})  # fmt: skip


@pytest.mark.parametrize("source", ["canal-json", TICDC])
@pytest.mark.parametrize("target", TARGETS)
def test_equal_types_do_not_mean_equal_columns(source: str, target: str) -> None:
    """A look-alike tells all types of its table with every row, whatever columns the row has."""
    types = {"id": "int", "b": "int", "c": "varchar"}
    cells: list[dict[str, Any]] = [
        {"id": "1", "b": "2", "c": "x"},
        {"id": "1"},
        {"id": "1", "c": "y"},
        {"c": "z", "id": "1"},
    ]
    messages = [
        row_message(types, row, pkNames=["id"], op=op, old=old, _tidb={"commitTs": TS})
        for op, old in (
            ("INSERT", None),
            ("DELETE", None),
            ("UPDATE", [{"b": "7"}]),
            ("UPDATE", [{"c": "w"}]),
        )
        for row in cells
    ]
    rows = [record(message, offset=at + 1) for at, message in enumerate(messages * 2)]
    together_and_alone(source, target, TABLE, rows)


@pytest.mark.parametrize("source", ["canal-json", TICDC])
@pytest.mark.parametrize("target", TARGETS)
def test_equal_types_do_not_mean_equal_keys(source: str, target: str) -> None:
    types = {"id": "int", "b": "int", "c": "varchar"}
    rows = [
        record(
            row_message(types, {"id": "1", "b": "2", "c": "x"}, pkNames=key, _tidb={"commitTs": TS}),
            offset=at + 1,
        )
        for at, key in enumerate([["id"], ["b"], None, [], ["id", "b"], ["id"], ["b"]])
    ]
    together_and_alone(source, target, TABLE, rows)


@pytest.mark.parametrize("source", ["canal-json", TICDC])
@pytest.mark.parametrize("target", TARGETS)
def test_tables_are_distinguished_by_both_names(source: str, target: str) -> None:
    """The DDL is that of `d.t`; the same types and columns in another table have no key of its own."""
    names = [("d", "t"), ("d", "u"), ("e", "t"), ("d", "t"), ("e", "t"), ("", "t"), ("d", "t")]
    if target == OPEN:
        names.remove(("", "t"))  # no key of Open Protocol can say it
    message = row_message(
        {"id": "int", "b": "int", "c": "varchar"}, {"id": "1", "b": "2", "c": "x"}, _tidb={"commitTs": TS}
    )
    rows = [
        record(message | {"database": database, "table": table}, offset=at + 1)
        for at, (database, table) in enumerate(names)
    ]
    together_and_alone(source, target, TABLE, rows)


@pytest.mark.parametrize("partitions", [None, 3])
def test_records_of_other_topics_and_partitions_keep_their_own(partitions: int | None) -> None:
    message = row_message({"id": "int"}, {"id": "1"}, pkNames=["id"])
    sources = [("a", 0), ("a", 1), ("b", 1), ("b", 0), ("a", 0), ("b", 0)]
    value = json.dumps(message).encode()
    rows = [
        ConsumerRecord(topic, partition, at, 1, None, value) for at, (topic, partition) in enumerate(sources)
    ]
    translator = Translator("canal-json", "canal-json", topic="to-{topic}", partitions=partitions)
    made = [translator.translate(row)[0] for row in rows]
    assert [each.topic for each in made] == [f"to-{topic}" for topic, _ in sources]
    assert [each.headers for each in made] == [
        (("relay.source", f"{topic}/{partition}/{at}/0".encode()),)
        for at, (topic, partition) in enumerate(sources)
    ]
    if partitions is None:
        assert [each.partition for each in made] == [partition for _, partition in sources]
