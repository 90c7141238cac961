"""Every message printed in PingCAP's page "TiCDC Open Protocol", read, and written as the new architecture of
TiCDC does.

The page's stream is of the first releases (before v4.0.5): without flags, and with VARCHAR in base64.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from open_support import (
    V1,
    cell,
    change,
    counted,
    ddl,
    framed,
    raw,
    records,
    row,
    schema_change,
    segment,
    unframed,
    values,
)
from support import OPEN

from relay import (
    ABSENT,
    ConsumerRecord,
    DdlKind,
    Generated,
    Op,
    RowChange,
    SchemaChange,
    TableId,
    Translator,
    Watermark,
)

# ---------------------------------------------------------------- the stream

CREATE_TS, FIRST_TS, SECOND_TS = 415508856908021766, 415508878783938562, 415508881418485761
CREATE = "CREATE TABLE test.t1(id int primary key, val varchar(16))"


def _row_key(commit_ts: int) -> str:
    return f'{{"ts":{commit_ts},"scm":"test","tbl":"t1","t":1}}'


_CREATE = (f'{{"ts":{CREATE_TS},"scm":"test","tbl":"t1","t":2}}', f'{{"q":"{CREATE}","t":3}}')
_MARK = (f'{{"ts":{CREATE_TS},"t":3}}', "")
_LAST_MARK = ('{"ts":415508881038376963,"t":3}', "")
_AGAIN = '{"u":{"id":{"t":3,"h":true,"v":3},"val":{"t":15,"v":"Y2M="}}}'
#: Partition, key and value of logs 1 to 14, and what is written for the rows among them.
LOGS: list[tuple[int, tuple[str, str], Any]] = [
    (0, _CREATE, None),
    (0, _MARK, None),
    (1, _CREATE, None),
    (1, _MARK, None),
    (
        0,
        (_row_key(FIRST_TS), '{"u":{"id":{"t":3,"h":true,"v":1},"val":{"t":15,"v":"YWE="}}}'),
        ("u", 1, "aa"),
    ),
    (
        1,
        (_row_key(FIRST_TS), '{"u":{"id":{"t":3,"h":true,"v":2},"val":{"t":15,"v":"YmI="}}}'),
        ("u", 2, "bb"),
    ),
    (0, (_row_key(FIRST_TS), _AGAIN), ("u", 3, "cc")),
    (0, (_row_key(FIRST_TS), _AGAIN), ("u", 3, "cc")),
    (0, (_row_key(SECOND_TS), '{"d":{"id":{"t":3,"h":true,"v":1}}}'), ("d", 1, ABSENT)),
    (1, (_row_key(SECOND_TS), '{"d":{"id":{"t":3,"h":true,"v":2}}}'), ("d", 2, ABSENT)),
    (
        0,
        (_row_key(SECOND_TS), '{"u":{"id":{"t":3,"h":true,"v":3},"val":{"t":15,"v":"ZGQ="}}}'),
        ("u", 3, "dd"),
    ),
    (
        0,
        (_row_key(SECOND_TS), '{"u":{"id":{"t":3,"h":true,"v":4},"val":{"t":15,"v":"ZWU="}}}'),
        ("u", 4, "ee"),
    ),
    (0, _LAST_MARK, None),
    (1, _LAST_MARK, None),
]


def stream(logs: list[tuple[int, tuple[str, str], Any]]) -> list[ConsumerRecord]:
    return [
        framed(message, offset=at, partition=partition) for at, (partition, message, _) in enumerate(logs)
    ]


def as_written(row_: Any, flags: int) -> dict[str, Any]:
    part, number, text = row_
    key = {"id": cell(3, number, flags, h=True)}
    return {part: key if text is ABSENT else key | {"val": cell(15, text, 64)}}


@pytest.mark.parametrize("at", range(14), ids=[f"log {at + 1}" for at in range(14)])
def test_the_log(at: int) -> None:
    translator = Translator(OPEN, OPEN)
    found = [translator.inspect(record) for record in stream(LOGS)]
    _, (key, value), row_ = LOGS[at]
    (event,) = found[at]
    assert event.source.commit_ts == json.loads(key)["ts"]
    if row_ is None:
        assert isinstance(event, SchemaChange if value else Watermark)
        assert not isinstance(event, SchemaChange) or (event.ddl, event.kinds) == (
            CREATE,
            (DdlKind.CREATE_TABLE,),
        )
        return
    part, *cells = row_
    assert isinstance(event, RowChange)
    assert event.table == TableId("test", "t1")
    assert (event.op, event.after if part == "u" else event.before) == (
        Op.INSERT if part == "u" else Op.DELETE,
        tuple(cells),
    )


@pytest.mark.parametrize("at", range(14), ids=[f"log {at + 1}" for at in range(14)])
def test_the_log_as_it_is_written(at: int) -> None:
    translator = Translator(OPEN, OPEN)
    written = [translator.translate(record) for record in stream(LOGS)]
    partition, (key, value), row_ = LOGS[at]
    (out,) = written[at]
    assert out.partition == partition
    ((again, document),) = unframed(out)
    assert again == key.encode()
    # The definition is known: an INT that is the primary key has 11.
    assert document.decode() == (
        value if row_ is None else json.dumps(as_written(row_, 11), separators=(",", ":"))
    )


@pytest.mark.parametrize("log", [log for log in LOGS if log[2]])
def test_rows_of_the_stream_without_the_statement_before(log: tuple[int, tuple[str, str], Any]) -> None:
    """`h` marks a column of a unique key; that it is the primary key, no message says."""
    assert values(stream([log])) == [as_written(log[2], 19)]


def test_deletes_lack_the_other_columns_and_are_counted() -> None:
    assert counted(stream(LOGS)) == {"columns-absent": 2}


def test_a_message_of_several_events() -> None:
    rows = [log[1] for log in LOGS]
    found = Translator(OPEN, OPEN).inspect(framed(*rows))
    assert [type(event).__name__ for event in found] == ["SchemaChange", "Watermark"] * 2 + [
        "RowChange"
    ] * 8 + ["Watermark"] * 2


def test_the_empty_value_of_a_watermark() -> None:
    """The page says that it has none; TiCDC writes eight zero bytes."""
    for value in (None, b"", bytes(8)):
        (found,) = Translator(OPEN, OPEN).inspect(raw(V1 + segment(_MARK[0]), value))
        assert isinstance(found, Watermark)
        assert found.source.commit_ts == CREATE_TS


# ---------------------------------------------------------------- column type codes

#: The examples of the table as they are printed; canonical value; what is written.
EXAMPLES: list[tuple[str, Any, Any]] = [
    ('{"t":1,"v":1}', 1, cell(1, 1)),
    ('{"t":2,"v":1}', 1, cell(2, 1)),
    ('{"t":3,"v":123}', 123, cell(3, 123)),
    ('{"t":4,"v":153.123}', 153.123, cell(4, 153.123)),
    ('{"t":5,"v":153.123}', 153.123, cell(5, 153.123)),
    ('{"t":6,"v":null}', None, cell(6, None)),
    ('{"t":7,"v":"1973-12-30 15:30:00"}', "1973-12-30 15:30:00", cell(7, "1973-12-30 15:30:00")),
    ('{"t":8,"v":123}', 123, cell(8, 123)),
    ('{"t":9,"v":123}', 123, cell(9, 123)),
    ('{"t":10,"v":"2000-01-01"}', "2000-01-01", cell(10, "2000-01-01")),
    ('{"t":14,"v":"2000-01-01"}', "2000-01-01", cell(10, "2000-01-01")),
    ('{"t":11,"v":"23:59:59"}', "23:59:59", cell(11, "23:59:59")),
    ('{"t":12,"v":"2015-12-20 23:58:58"}', "2015-12-20 23:58:58", cell(12, "2015-12-20 23:58:58")),
    ('{"t":13,"v":1970}', 1970, cell(13, 1970, 193)),
    ('{"t":15,"v":"test"}', "test", cell(15, "test", 64)),
    ('{"t":253,"v":"test"}', "test", cell(15, "test", 64)),
    (r'{"t":15,"v":"\\x89PNG\\r\\n\\x1a\\n"}', r"\x89PNG\r\n\x1a\n", cell(15, r"\x89PNG\r\n\x1a\n", 64)),
    ('{"t":16,"v":81}', 81, cell(16, 81, 193)),
    (r'{"t":245,"v":"{\"key1\": \"value1\"}"}', '{"key1": "value1"}', cell(245, '{"key1": "value1"}')),
    ('{"t":246,"v":"129012.1230000"}', "129012.1230000", cell(246, "129012.1230000")),
    ('{"t":247,"v":1}', 1, cell(247, 1, 64)),
    ('{"t":248,"v":3}', 3, cell(248, 3, 64)),
    ('{"t":249,"v":"5rWL6K+VdGV4dA=="}', "测试text", cell(249, "5rWL6K+VdGV4dA==", 64)),
    ('{"t":250,"v":"5rWL6K+VdGV4dA=="}', "测试text", cell(250, "5rWL6K+VdGV4dA==", 64)),
    ('{"t":251,"v":"5rWL6K+VdGV4dA=="}', "测试text", cell(251, "5rWL6K+VdGV4dA==", 64)),
    ('{"t":252,"v":"5rWL6K+VdGV4dA=="}', "测试text", cell(252, "5rWL6K+VdGV4dA==", 64)),
    ('{"t":254,"v":"test"}', "test", cell(254, "test", 64)),
    (r'{"t":254,"v":"\\x89PNG\\r\\n\\x1a\\n"}', r"\x89PNG\r\n\x1a\n", cell(254, r"\x89PNG\r\n\x1a\n", 64)),
]


@pytest.mark.parametrize(("printed", "value", "written"), EXAMPLES, ids=[example[0] for example in EXAMPLES])
def test_the_example_of_a_type(printed: str, value: Any, written: Any) -> None:
    message = row(f'{{"u":{{"c":{printed}}}}}')
    (found,) = change(message).after or ()
    assert (str(found) if isinstance(value, str) else found) == value
    assert values(records(message)) == [{"u": {"c": written}}]


@pytest.mark.parametrize("code", [15, 253, 254])
def test_the_example_of_binary_strings_with_the_flag_that_says_so(code: int) -> None:
    assert change(row({"u": {"c": cell(code, r"\x89PNG\r\n\x1a\n", 1)}})).after == (b"\x89PNG\r\n\x1a\n",)


# ---------------------------------------------------------------- DDL type codes

CODES = {
    1: DdlKind.CREATE_DATABASE, 2: DdlKind.DROP_DATABASE, 3: DdlKind.CREATE_TABLE, 4: DdlKind.DROP_TABLE, 5: DdlKind.ADD_COLUMN,
    6: DdlKind.DROP_COLUMN, 7: DdlKind.ADD_INDEX, 8: DdlKind.DROP_INDEX, 9: DdlKind.ADD_FOREIGN_KEY, 10: DdlKind.DROP_FOREIGN_KEY,
    11: DdlKind.TRUNCATE_TABLE, 12: DdlKind.MODIFY_COLUMN, 13: DdlKind.REBASE_AUTO_ID, 14: DdlKind.RENAME_TABLE,
    15: DdlKind.SET_DEFAULT, 16: DdlKind.ALTER_TABLE_OPTION, 17: DdlKind.TABLE_COMMENT, 18: DdlKind.RENAME_INDEX,
    19: DdlKind.ADD_PARTITION, 20: DdlKind.DROP_PARTITION, 21: DdlKind.CREATE_VIEW, 22: DdlKind.TABLE_CHARSET,
    23: DdlKind.TRUNCATE_PARTITION, 24: DdlKind.DROP_VIEW, 25: DdlKind.RECOVER_TABLE, 26: DdlKind.ALTER_DATABASE, 27: None,
    28: None, 29: None, 30: None, 31: None, 32: DdlKind.ADD_PRIMARY_KEY, 33: DdlKind.DROP_PRIMARY_KEY, 34: DdlKind.SEQUENCE,
    35: DdlKind.SEQUENCE, 36: DdlKind.SEQUENCE,
}  # fmt: skip


@pytest.mark.parametrize("code", range(1, 37))
def test_the_code_of_a_statement(code: int) -> None:
    """By the code alone, for a statement that says nothing."""
    kind = CODES[code]
    assert schema_change(ddl("FROBNICATE", code)).kinds == (() if kind is None else (kind,))
    assert values(records(ddl("FROBNICATE", code))) == [{"q": "FROBNICATE", "t": code}]


# ---------------------------------------------------------------- flags


def test_flag_85_is_nullable_unique_generated_and_binary() -> None:
    found = change(row({"u": {"c": cell(15, r"\xff", 85)}}))
    (column,) = found.schema.columns
    assert (column.nullable, column.generated, column.type.base) == (True, Generated.STORED, "varbinary")
    assert [key.columns for key in found.schema.unique_keys] == [("c",)]
    assert (found.schema.primary_key, found.schema.handle_key()) == ((), ())
    assert found.after == (b"\xff",)
    assert values(records(row({"u": {"c": cell(15, r"\xff", 85)}}))) == [{"u": {"c": cell(15, r"\xff", 85)}}]


KNOWN = "CREATE TABLE t (a CHAR(9) AS ('x') STORED, b INT, c INT, PRIMARY KEY (a, b), UNIQUE (c))"
#: Flags that differ from those which the definition would have, and one that no release has a meaning for.
ODD = {"a": cell(254, "x", 46, h=True), "b": cell(3, 1, 47, h=True), "c": cell(3, 2, 85 + 256)}


@pytest.mark.parametrize("statements", [[], [ddl(KNOWN)]], ids=["unknown", "known"])
@pytest.mark.parametrize(
    "document",
    [
        {"u": ODD},
        {"d": ODD},
        {"d": {"b": ODD["b"]}},
        {"u": ODD, "p": ODD | {"c": cell(3, 3, 85 + 256)}},
        {"u": ODD, "p": {"c": cell(3, 3, 85 + 256)}},
        {"u": {"b": ODD["b"]}, "p": {"b": ODD["b"]}},
    ],
)
def test_flags_that_were_read_are_written(statements: list[Any], document: dict[str, Any]) -> None:
    """Two rows each: the first is read in the general way."""
    rows_ = [row(document, ts=10), row(document, ts=11)]
    for options in ({}, {"output-raw-change-event": "false"}):
        found = values(records(*statements, *rows_), options)[len(statements) :]
        assert len(found) >= 2
        for part in ("u", "p", "d"):
            for written in found:
                for name, one in written.get(part, {}).items():
                    assert (one["f"], one.get("h")) == (ODD[name]["f"], ODD[name].get("h"))


def test_flags_of_an_update_that_is_split_are_those_that_were_read() -> None:
    old = ODD | {"c": cell(3, 3, 85 + 256)}
    for statements in ([], [ddl(KNOWN)]):
        found = values(
            records(*statements, row({"u": ODD, "p": old}, ts=10)), {"output-raw-change-event": "false"}
        )
        assert found[len(statements) :] == [{"d": old}, {"u": ODD}]


def test_flag_46_is_of_a_key_of_several_columns_generated_and_the_handle() -> None:
    cells = {"a": cell(254, "x", 46, h=True), "b": cell(254, "y", 42, h=True)}
    found = change(row({"u": cells}))
    first, _ = found.schema.columns
    assert (first.nullable, first.generated, first.type.base) == (False, Generated.STORED, "char")
    assert found.schema.primary_key == found.schema.handle_key() == ("a", "b")
    assert values(records(row({"u": cells}))) == [{"u": cells}]
