"""Messages of the Canal family with anything in their members are read or refused, beyond what
`test_contract` feeds every codec.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import CANAL, TICDC, record, row_message

from relay import DecodeError, NotRepresentable, RowChange, Translator
from relay.codecs import PROTOCOLS

CKAFKA = "ckafka-json"
SHORT = [
    b'{"database":"d","table":"t","isDdl":true,"type":"ALTER","es":1,"sql":"ALTER TABLE t ADD b INT"}',
    b'{"type":"TIDB_WATERMARK","isDdl":false,"es":1,"_tidb":{"watermarkTs":429918007904436226}}',
    *(
        record(
            row_message(
                {"a": "int", "f": "float"}, {"a": "1", "f": "1.5"}, op=op, old=old, _tidb={"commitTs": 5}
            )
        ).value
        or b""
        for op, old in (("INSERT", None), ("UPDATE", [{"a": "2", "f": None}]), ("DELETE", None))
    ),
    b'{"BINLOG_NAME":"b","DATABASE":"d","NEW_VALUES":{"a":"1"},"OLD_VALUES":{"a":null},"TIME":"20160611015029","TYPE":"U"}',
]


def survives(translator: Translator, value: bytes) -> bool:
    """Translate and read every value; True if it was a message."""
    try:
        translator.translate(record(value))
        for event in translator.inspect(record(value)):
            if isinstance(event, RowChange):
                _ = event.before, event.after
    except (DecodeError, NotRepresentable) as error:  # a target may have no text for a time before the year 1
        assert error.protocol in PROTOCOLS
        assert error.reason
        return False
    return True


_scalar = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
_json = st.recursive(
    _scalar,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)
_names = [
    "database",
    "table",
    "pkNames",
    "isDdl",
    "type",
    "es",
    "ts",
    "sql",
    "sqlType",
    "mysqlType",
    "data",
    "old",
    "_tidb",
    "gtid",
]
_types = st.sampled_from(["INSERT", "UPDATE", "DELETE", "QUERY", "TIDB_WATERMARK", "CREATE"])
_cells = st.dictionaries(st.sampled_from("abc"), st.none() | st.text(max_size=6), max_size=3)
_words = st.sampled_from(
    ["int", "float", "year", "binary(3)", "enum('a", "decimal(1,", "json", "timestamp", ""]
)


@given(
    st.fixed_dictionaries(
        {"type": _types},
        optional={name: _json for name in _names if name != "type"}
        | {"data": st.lists(_cells, max_size=3), "old": st.lists(_cells | st.none(), max_size=3)}
        | {"mysqlType": st.dictionaries(st.sampled_from("abc"), _words, max_size=3), "isDdl": st.booleans()},
    )
)
def test_messages_with_anything_in_their_members(message: dict[str, object]) -> None:
    for source in (TICDC, CANAL, CKAFKA):
        for target in (TICDC, CANAL, CKAFKA):
            survives(
                Translator(source, target, {"timezone": "Asia/Shanghai"}, None), record(message).value or b""
            )


CREATE = {
    "isDdl": True, "type": "CREATE", "database": "d", "table": "t", "es": 1,
    "sql": "CREATE TABLE t (a DECIMAL(9,2), b ENUM('x','y'), c DATETIME(3), d SET('x','y'), e TIME, f BIT(8), g BINARY(3), h DATE)",
}  # fmt: skip
_rows = st.dictionaries(
    st.sampled_from("abcdefgh"), _scalar | st.text("0123456789-:.AZ=xy, ", max_size=20), max_size=8
)


@given(
    st.fixed_dictionaries(
        {
            "TYPE": st.sampled_from(["I", "U", "D", "X"]),
            "NEW_VALUES": st.none() | _rows,
            "OLD_VALUES": st.none() | _rows,
        },
        optional=dict.fromkeys(
            ("BINLOG_NAME", "BINLOG_POS", "EVENT_SERVER_ID", "GLOBAL_ID", "GROUP_ID"), _json
        )
        | {"DATABASE": st.just("d") | _scalar, "TABLE": st.just("t") | _scalar}
        | {"TIME": st.text("0123456789", min_size=13, max_size=14) | st.just("20160611015029") | _scalar},
    ),
    st.sampled_from(["auto", "mysql", "debezium"]),
)
def test_rows_of_ckafka_with_anything_in_their_members(message: dict[str, object], value_style: str) -> None:
    for target in (TICDC, CANAL, CKAFKA):
        translator = Translator(CKAFKA, target, {"value-style": value_style, "timezone": "Asia/Shanghai"})
        translator.translate(record(CREATE))
        survives(translator, record(message, offset=1).value or b"")


@pytest.mark.parametrize("source", [TICDC, CANAL, CKAFKA])
def test_short_messages_cut_at_every_byte(source: str) -> None:
    """What is left is no message."""
    translator = Translator(source, CANAL if source == TICDC else TICDC)
    for value in SHORT:
        for end in range(len(value)):
            assert not survives(translator, value[:end]) or end == 0  # an empty value is a tombstone
