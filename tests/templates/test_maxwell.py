"""Maxwell as a source of templates and as their target: which rows fit; the same comes out of the others, too."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from engine_support import ENGINES
from support import CANAL, TICDC, captured
from templates_support import Both

from relay import ConsumerRecord, Translator
from relay.codecs.losses import Loss
from relay.templates.engine import Engine

MAXWELL, DEBEZIUM = "maxwell-json", "debezium-json"
Row = dict[str, Any]
FIRST: Row = {"id": 1, "v": "a"}
WHOLE: Row = {"xid": 40, "commit": True}

pytestmark = pytest.mark.parametrize("engine", ENGINES)


def compact(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def record(
    value: Row | bytes, key: Any = None, offset: int = 9, time_ms: int = 1795255388588
) -> ConsumerRecord:
    data, key_data = (each if isinstance(each, bytes | None) else compact(each) for each in (value, key))
    return ConsumerRecord("rows", 0, offset, time_ms, key_data, data)


def row(
    data: Row, old: Row | None = None, kind: str = "insert", key: Row | None = None, **facts: Any
) -> ConsumerRecord:
    """A row of shop.t, with a Kafka key by its `id`."""
    kind = kind if old is None else "update"
    message = {"database": "shop", "table": "t", "type": kind, "ts": 1795255381, **(facts or WHOLE)}
    message["data"] = data
    if old is not None:
        message["old"] = old
    return record(message, {"database": "shop", "table": "t", "pk.id": 1} if key is None else key)


def ddl(columns: str, offset: int = 1) -> ConsumerRecord:
    text = f"CREATE TABLE t (id INT PRIMARY KEY, {columns})"
    message = {"type": "table-create", "database": "shop", "table": "t", "ts": 1795255380000, "sql": text}
    return record(message, offset=offset)


class Pair(Both):
    """A route with and without templates that knows a table; no table without columns."""

    def __init__(
        self, engine: type[Engine], columns: str = "v VARCHAR(9)", target: str = CANAL, **settings: Any
    ) -> None:
        super().__init__(MAXWELL, target=target, engine=engine, **settings)
        if columns:
            self.fits(ddl(columns))

    def learns(self, one: ConsumerRecord) -> bool:
        """Show a record until its shape has a template; whether it has one."""
        self.fits(one)
        self.fits(one)
        return self.fits(one)


class TestRowsThatAreRead:
    def test_of_one_shape(self, engine: type[Engine]) -> None:
        both = Pair(engine)
        assert both.learns(row(FIRST))
        assert both.fits(row({"id": 2, "v": 'b"\U0001f600'}, xid=7, commit=True))
        assert both.fits(row({"id": -3, "v": None}, key={"database": "shop", "table": "t", "pk.id": "x"}))
        assert not both.fits(row({"id": "4", "v": "b"}))
        assert not both.fits(row({"id": 1 << 63, "v": "b"})), "beyond 64 bits with a sign"
        assert not both.fits(row({"id": 4, "v": "b", "w": 1}))
        assert not both.fits(row({"v": "b"}))
        assert not both.fits(row(FIRST, ts=1 << 60))

    def test_ends_of_transactions(self, engine: type[Engine]) -> None:
        """A row that is the last one of its transaction is two events."""
        both = Pair(engine)
        assert both.learns(row(FIRST))
        assert both.templated.events["transaction-mark"] == 3
        assert both.templated.losses[Loss.TRANSACTION_MARK] == 3
        assert not both.fits(row(FIRST, xid=41, xoffset=0)), "another shape"
        assert both.learns(row(FIRST, xid=41, xoffset=0))
        assert both.fits(row(FIRST, xid=42, xoffset=17))
        assert not both.fits(row(FIRST, xid=42, xoffset=-1))
        assert both.learns(row(FIRST, commit=True)), "without an id it ends nothing"
        assert both.templated.events["transaction-mark"] == 3

    def test_ends_of_transactions_without_a_topic(self, engine: type[Engine]) -> None:
        both = Pair(engine, topic="{database}.{table}")
        assert both.learns(row(FIRST))
        assert both.fits(row({"id": 2, "v": "b"}))
        assert both.templated.losses[Loss.TRANSACTION_MARK] == 4

    def test_ends_of_transactions_that_become_messages(self, engine: type[Engine]) -> None:
        both = Pair(engine, target=DEBEZIUM, target_options={"provide.transaction.metadata": "true"})
        assert not both.learns(row(FIRST))
        assert both.learns(row(FIRST, xid=41, xoffset=0))

    def test_updates(self, engine: type[Engine]) -> None:
        both = Pair(engine, "v VARCHAR(9), w INT")
        assert both.learns(row({"id": 1, "v": "a", "w": 2}, {"v": "b"}))
        assert both.fits(row({"id": 1, "v": "a", "w": 2}, {"w": None}))
        assert both.fits(row({"id": 1, "v": "a", "w": 2}, {"v": None, "w": 3}))
        assert both.fits(row({"id": 1, "v": "a", "w": 2}, {}))
        assert not both.fits(row({"id": 1, "v": "a", "w": 2}, {"w": "3"}))
        assert not both.fits(row({"id": 1, "v": "a", "w": 2}, {"x": 3}))

    def test_updates_without_an_old_row(self, engine: type[Engine]) -> None:
        both = Pair(engine)
        assert both.learns(row(FIRST, kind="update"))
        assert both.fits(row({"id": 2, "v": None}, kind="update"))
        assert both.templated.losses[Loss.BEFORE_MISSING] == 4

    def test_updates_of_keys(self, engine: type[Engine]) -> None:
        both = Pair(engine, target=DEBEZIUM)
        assert both.learns(row(FIRST, {"v": "b"}))
        assert not both.learns(row(FIRST, {"id": 2}))
        assert both.fits(row(FIRST, {"id": 1}))

    def test_deletes_and_snapshots(self, engine: type[Engine]) -> None:
        for kind in ("delete", "bootstrap-insert"):
            both = Pair(engine, target=DEBEZIUM)
            assert both.learns(row(FIRST, kind=kind))
            assert both.fits(row({"id": 2, "v": None}, kind=kind))

    def test_where_and_when(self, engine: type[Engine]) -> None:
        facts: Row = {
            **WHOLE,
            "position": "mysql-bin.000001:154",
            "gtid": "x:1",
            "server_id": 7,
            "thread_id": 8,
            "schema_id": 9,
            "push_ts": 1795255397.139823,
            "primary_key": [1],
            "primary_key_columns": ["id"],
        }
        both = Pair(engine, target=DEBEZIUM)
        assert both.learns(row(FIRST, **facts))
        for other in (
            {"position": "mysql-bin.000001:9223372036854775807"},
            {"gtid": "y:2-3", "thread_id": 99, "primary_key": ["x"], "xid": 5},
            {"push_ts": 1795255397},
            {"push_ts": 0.5},
        ):
            assert both.fits(row(FIRST, **facts | other)), other
        for odd in (
            {"position": "mysql-bin.000002:4"},
            {"position": "mysql-bin.000001:9223372036854775808"},
            {"position": "mysql-bin.000001:04"},
            {"position": "mysql-bin.000001:-4"},
            {"gtid": ""},
            {"thread_id": None},
            {"server_id": 8},
            {"push_ts": -1},
            {"push_ts": 1e20},
            {"push_ts": 9300000000.5},
        ):
            assert not both.fits(row(FIRST, **facts | odd)), odd
        assert both.learns(row(FIRST, **facts | {"position": "mysql-bin.000002:4"}))

    def test_members_of_others(self, engine: type[Engine]) -> None:
        both = Pair(engine)
        assert not both.learns(row(FIRST, **WHOLE, comment="x"))
        assert not both.learns(record((row(FIRST).value or b"") + b"{}"))
        assert not both.learns(record(row(FIRST).value or b"", b"no JSON"))

    def test_rows_follow_ddl(self, engine: type[Engine]) -> None:
        both = Pair(engine)
        assert both.learns(row(FIRST))
        late = msgspec.structs.replace(row(FIRST), offset=0)
        assert not both.fits(late)
        elsewhere = msgspec.structs.replace(row(FIRST), partition=3, offset=0)
        assert both.fits(elsewhere), "by the time"
        assert not both.fits(msgspec.structs.replace(row(FIRST, ts=1795255370, **WHOLE), partition=3))

    def test_types(self, engine: type[Engine]) -> None:
        columns = (
            "u BIGINT UNSIGNED, b BIT(64), y YEAR, d DECIMAL(9,2), f FLOAT, g DOUBLE, e ENUM('a','b'), "
            "n ENUM('x') NOT NULL, r BINARY(4), t TIME, j JSON, s SET('a')"
        )
        data = {
            "id": 1, "u": 1 << 63, "b": 5, "y": 2024, "d": 1.5, "f": 0.1, "g": 1e30, "e": "b", "n": "x", "r": "YQ==",
            "t": "01:02:03", "j": None, "s": None,
        }  # fmt: skip
        both = Pair(engine, columns)
        assert both.learns(row(data))
        for name, value in {
            "u": 0,
            "b": 1 << 63,
            "d": 7,
            "f": 3,
            "g": 2,
            "e": "a",
            "y": None,
        }.items():
            assert both.fits(row(data | {name: value})), name
        for name, value in {
            "b": -1, "y": 1900, "d": "1.5", "f": "NaN", "e": 1, "n": None, "t": None, "j": {}, "s": ["a"], "r": "?",
        }.items():  # fmt: skip
            assert not both.fits(row(data | {name: value})), name
        assert both.templated.losses[Loss.TIME_RANGE], "what a TIME may have lost is counted"

    def test_tables_without_definitions(self, engine: type[Engine]) -> None:
        """The type inferred from a value is the same in all messages."""
        both = Pair(engine, "")
        data = {"id": 1, "v": "a", "d": 1.50, "n": None}
        assert both.learns(row(data))
        assert both.fits(row(data | {"id": 2, "v": None, "n": "b"}))
        others: list[Row] = [
            {"id": None},
            {"id": 1.5},
            {"id": 1 << 63},
            {"v": 1},
            {"v": []},
            {"d": 3},
            {"d": 1e30},
            {"d": "1"},
        ]
        for other in others:
            assert not both.fits(row(data | other)), other
        assert not both.fits(row(data, key={"database": "shop", "table": "t", "pk.v": 1})), "another key"
        assert both.templated.losses[Loss.VALUE_INFERRED]

    def test_rows_with_their_statement(self, engine: type[Engine]) -> None:
        both = Pair(engine)
        assert not any(both.fits(row(FIRST, **WHOLE, query="INSERT")) for _ in range(8))
        assert Pair(engine).learns(row(FIRST, **WHOLE, query=None))

    def test_rows_without_nulls(self, engine: type[Engine]) -> None:
        both = Both(MAXWELL, target=CANAL, engine=engine)
        without = Translator(MAXWELL, CANAL, {"output_nulls": "false"}, engine=engine)
        for one in (ddl("v VARCHAR(9)"), row(FIRST), row(FIRST), row(FIRST)):
            both.fits(one)
            without.translate(one)
        assert without.paths["fast"] == 0


class TestRowsThatAreWritten:
    @pytest.mark.parametrize("folder", ["mysql/canal-json", "ticdc/canal-json.tidb-extension"])
    def test_all_types(self, engine: type[Engine], folder: str) -> None:
        source = CANAL if folder.startswith("mysql") else TICDC
        both = Both(source, target=MAXWELL, engine=engine)
        records = captured(f"{folder}/01_all_types")
        for each in (*records, *[each for each in records if b'"isDdl":false' in (each.value or b"")] * 3):
            both.fits(each)
        assert both.templated.paths["fast"] > 25

    def test_rows_of_one_message(self, engine: type[Engine]) -> None:
        both = Both(CANAL, target=MAXWELL, engine=engine)
        records = captured("mysql/canal-json/12_bulk")
        for each in (*records, *[each for each in records if b'"isDdl":false' in (each.value or b"")]):
            both.fits(each)
        assert both.templated.paths["fast"] > 380

    def test_places_in_transactions(self, engine: type[Engine]) -> None:
        both = Pair(engine, target=MAXWELL, target_options={"output_gtid_position": "true"})
        assert both.learns(row(FIRST, **WHOLE, gtid="x:1"))
        assert both.fits(row(FIRST, xid=10**18 - 1, commit=True, gtid="x:2"))
        assert not both.fits(row(FIRST, xid=10**18, commit=True, gtid="x:2"))
        assert not both.fits(row(FIRST, xid=-1, commit=True, gtid="x:2"))
        assert both.learns(row(FIRST, xid=4, xoffset=5, gtid="x:2"))
        assert both.fits(row(FIRST, xid=5, xoffset=0, gtid="x:2"))

    def test_what_has_no_template(self, engine: type[Engine]) -> None:
        for options in ({"output_nulls": "false"}, {"output_push_timestamp": "true"}):
            both = Pair(engine, target=MAXWELL, target_options=options)
            assert not both.learns(row(FIRST)), options
        both = Pair(engine, target=MAXWELL, target_options={"output_binlog_position": "true"})
        assert not both.learns(row(FIRST, **WHOLE, position="a:4"))

    def test_tables_without_a_primary_key(self, engine: type[Engine]) -> None:
        """Their keys are made of the record's position."""
        both = Both(MAXWELL, target=MAXWELL, engine=engine)
        text = "CREATE TABLE t (id INT, v VARCHAR(9))"
        message = {"type": "table-create", "database": "shop", "table": "t", "ts": 1795255380000, "sql": text}
        both.fits(record(message, offset=1))
        for _ in range(3):
            assert not both.fits(row(FIRST))

    def test_documents_that_are_null(self, engine: type[Engine]) -> None:
        both = Both(CANAL, target=MAXWELL, engine=engine)
        message = {
            "data": [{"id": "1", "j": "{}"}], "database": "shop", "es": 1795255381000, "gtid": "", "id": 1, "isDdl": False,
            "mysqlType": {"id": "int", "j": "json"}, "old": None, "pkNames": ["id"], "sql": "",
            "sqlType": {"id": 4, "j": 12}, "table": "t", "ts": 1795255381001, "type": "INSERT",
        }  # fmt: skip
        for _ in range(2):
            both.fits(record(message))
        assert both.fits(record(message | {"data": [{"id": "2", "j": "null"}]}))
        assert both.templated.losses[Loss.JSON_NULL] == 1
        update = message | {"type": "UPDATE", "old": [{"j": "[]"}]}
        for _ in range(2):
            both.fits(record(update))
        assert both.fits(record(update | {"old": [{"j": None}]}))
        assert not both.fits(record(update | {"old": [{"j": "null"}], "data": [{"id": "2", "j": None}]}))

    def test_zero_dates_that_are_null(self, engine: type[Engine]) -> None:
        both = Pair(engine, "v DATE", target=MAXWELL, target_options={"output_null_zerodates": "true"})
        assert both.learns(row({"id": 1, "v": "2024-02-29"}))
        assert both.fits(row({"id": 1, "v": "0000-00-00"}))
        assert both.templated.losses[Loss.ZERO_DATE] == 1


@pytest.mark.parametrize("kind", ["insert", "delete", "bootstrap-insert"])
def test_rows_with_an_empty_old_row_fit(engine: type[Engine], kind: str) -> None:
    def message(number: int, old: Row) -> ConsumerRecord:
        data = {"id": number, "v": "a"}
        return record(
            {"database": "shop", "table": "t", "type": kind, "ts": 1795255381, "data": data, "old": old}
        )

    pair = Pair(engine).learn(*[message(at, {}) for at in (1, 2)])
    assert pair.fits(message(3, {}))
    assert not pair.fits(message(4, {"v": "b"}))


def test_old_values_are_looked_at_where_they_are_not_written(engine: type[Engine]) -> None:
    both = Pair(engine, "v BIGINT", target="flat-json")
    assert both.learns(row({"id": 1, "v": 7}, {"v": 6}))
    for odd in (1 << 63, 1 << 64, -(1 << 63) - 1):
        assert not both.fits(row({"id": 1, "v": 7}, {"v": odd}))
        assert not both.fits(row({"id": 1, "v": odd}, {"v": 6}))
