"""Messages of CKafka, and short ways to read them, for the tests of its codec."""

from __future__ import annotations

from typing import Any

from support import captured, events, reading_options, record, translated_records

from relay import ConsumerRecord, RowChange, Translator

CKAFKA = "ckafka-json"
MEMBERS = [
    "BINLOG_NAME", "BINLOG_POS", "DATABASE", "EVENT_SERVER_ID", "GLOBAL_ID", "GROUP_ID", "NEW_VALUES", "OLD_VALUES", "TABLE",
    "TIME", "TYPE",
]  # fmt: skip
NOON = 1465531200  # 2016-06-10 12:00:00 in UTC+8


def row(new: Any = None, old: Any = None, letter: str = "I", **more: Any) -> dict[str, Any]:
    """A row message of the table `d.t`."""
    members = [
        "mysql-bin.000001", 4, "d", None, None, None, new, old, "t", "20160610120000", letter,
    ]  # fmt: skip
    return dict(zip(MEMBERS, members, strict=True)) | more


def ddl(sql: str, word: str = "CREATE", table: str = "t", **more: Any) -> dict[str, Any]:
    return {
        "data": None, "database": "d", "es": 1465531100, "id": 0, "isDdl": True, "mysqlType": None, "old": None, "pkNames": None,
        "sql": sql, "sqlType": None, "table": table, "ts": 1465531100, "type": word,
    } | more  # fmt: skip


def records(*messages: dict[str, Any] | str) -> Any:
    return [record(message, offset=at, timestamp_ms=1465532000123) for at, message in enumerate(messages)]


def written(file: str) -> list[ConsumerRecord]:
    """Captured records of TiCDC Canal-JSON as relay writes them for CKafka, of which none were captured."""
    made = Translator("ticdc-canal-json", CKAFKA, reading_options(file))
    messages = [out for each in captured(file) for out in made.translate(each)]
    return [
        ConsumerRecord(out.topic, out.partition, at, out.timestamp_ms, out.key, out.value)
        for at, out in enumerate(messages)
    ]


def change(*messages: dict[str, Any] | str, options: dict[str, str] | None = None) -> RowChange:
    """The last message's row."""
    *_, event = events(CKAFKA, records(*messages), options)
    assert isinstance(event, RowChange)
    return event


def losses(source: str, target: str, *messages: dict[str, Any], **options: str) -> dict[str, int]:
    translator = Translator(
        source, target, None, {name.replace("_", "-"): value for name, value in options.items()}
    )
    translated_records(translator, records(*messages))
    return {what.value: count for what, count in translator.losses.items()}


CREATE = ddl("CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9), b DECIMAL(9,2))")
ROW = {"b": "1.50", "id": "1", "a": "x"}
