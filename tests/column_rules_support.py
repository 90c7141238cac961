"""Tables and their rows, for tests of column rules; and how to find values that must not appear."""

from __future__ import annotations

import base64
import functools
import io
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from fastavro import schemaless_writer
from support import TICDC, record, row_message

from relay import ColumnAction, ColumnRule, ConsumerRecord, ProducerRecord, Resolver, Translator

#: A secret key of rules that hash values.
KEY: Final = b"a secret key of tests"
TYPES: Final = {
    "id": "bigint",
    "email": "varchar(100)",
    "age": "tinyint unsigned",
    "credit": "decimal(10,2)",
    "born": "date",
    "photo": "blob",
    "grade": "enum('low','high')",
    "data": "json",
}
ROW: Final[dict[str, Any]] = {
    "id": "7",
    "email": "ann@example.com",
    "age": "42",
    "credit": "1.10",
    "born": "1987-06-05",
    "photo": "\x00\xff\x01",
    "grade": "2",
    "data": '{"a": 1}',
}


def rule(action: str, *columns: str, tables: str = "d.t", **more: Any) -> ColumnRule:
    """A rule for columns of the table `d.t`."""
    return ColumnRule(tables=(tables,), columns=columns, action=ColumnAction(action), **more)


def row(op: str = "INSERT", old: Any = None, **more: Any) -> dict[str, Any]:
    """A message about the row, of which `more` are other values."""
    return row_message(TYPES, ROW | more, op=op, old=None if old is None else [old], pkNames=["id"])


def shaped(
    *rules: ColumnRule, target: str = "canal-json", message: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The parsed message that is written for a row."""
    translator = Translator("canal-json", target, columns=rules, hash_key=KEY)
    (out, *_) = translator.translate(record(message or row()))
    found: dict[str, Any] = json.loads(out.value or b"null")
    return found


def cells(*rules: ColumnRule, **more: Any) -> dict[str, Any]:
    """The row that is written for one with other values."""
    found: dict[str, Any] = shaped(*rules, message=row(**more))["data"][0]
    return found


# ---------------------------------------------------------------- hidden values

#: Text that is in no message except as a value of these columns.
CANARIES: Final = ("q7Zwk4@canary.example", "98765043210987", "Xq81vPt0", "1987-06-05", "Kd93jwQ2")
CUSTOMER: Final = {
    "id": "bigint(20)",
    "email": "varchar(100)",
    "phone": "bigint(20)",
    "note": "text",
    "born": "date",
    "photo": "blob",
    "city": "varchar(40)",
}
CUSTOMER_ROW: Final = dict(zip(CUSTOMER, ("7", *CANARIES[:4], CANARIES[4], "Berlin"), strict=True))
HIDDEN: Final = ("email", "phone", "note", "born", "photo")
ACTIONS: Final[Mapping[str, dict[str, Any]]] = {
    "drop": {},
    "null": {},
    "fixed": {"value": "0"},
    "hash": {"length": 40},
}


def rules(action: str, columns: tuple[str, ...] = HIDDEN) -> tuple[ColumnRule, ...]:
    """The rules that hide these columns of the table."""
    return (
        ColumnRule(
            tables=("shop.*",), columns=columns, action=ColumnAction(action), **ACTIONS.get(action, {})
        ),
    )


def customer_message(kind: str, at: int, **more: Any) -> ConsumerRecord:
    is_row = kind in {"INSERT", "UPDATE", "DELETE"}
    codes = {"bigint(20)": -5, "varchar(100)": 12, "text": 2005, "date": 91, "blob": 2004, "varchar(40)": 12}
    body = {
        "id": 0,
        "database": "shop",
        "table": "customers",
        "pkNames": ["id"],
        "isDdl": not is_row,
        "type": kind,
        "es": 1_700_000_000_000 + at,
        "ts": 1_700_000_000_500 + at,
        "sql": "",
        "sqlType": {name: codes[text] for name, text in CUSTOMER.items()} if is_row else None,
        "mysqlType": {name: text.partition("(")[0] for name, text in CUSTOMER.items()} if is_row else None,
        "data": [CUSTOMER_ROW] if is_row else None,
        "old": None,
        "_tidb": {"commitTs": (1_700_000_000_000 + at) << 18},
    }
    text = json.dumps(body | more, separators=(",", ":"))
    return record(text, offset=at, timestamp_ms=1_700_000_000_000 + at)


def story() -> list[ConsumerRecord]:
    """The table's statements and rows, as TiCDC sends them as Canal-JSON."""
    columns = ", ".join(
        f"`{name}` {text} NOT NULL" if name == "id" else f"`{name}` {text}" for name, text in CUSTOMER.items()
    )
    create = f"CREATE TABLE `customers` ({columns}, PRIMARY KEY (`id`))"
    alter = (
        f"ALTER TABLE `customers` MODIFY COLUMN `email` varchar(200) DEFAULT '{CANARIES[0]}' "
        f"COMMENT 'such as {CANARIES[2]}', ADD COLUMN `zip` varchar(10)"
    )
    changed = CUSTOMER_ROW | {"city": "Hamburg", "email": CANARIES[0] + "x"}
    return [
        customer_message("CREATE", 0, sql=create),
        customer_message("INSERT", 1),
        customer_message("UPDATE", 2, data=[changed], old=[CUSTOMER_ROW]),
        customer_message("UPDATE", 3, data=[changed | {"city": "Bonn"}], old=[{"city": "Hamburg"}]),
        customer_message("ALTER", 4, sql=alter),
        customer_message("DELETE", 5),
        *[customer_message("INSERT", 6 + at, data=[CUSTOMER_ROW | {"id": str(8 + at)}]) for at in range(4)],
    ]


def as_records(out: list[ProducerRecord], at: int) -> Iterator[ConsumerRecord]:
    for index, each in enumerate(out):
        headers = tuple((name, value) for name, value in each.headers if name != "relay.source")
        yield ConsumerRecord("topic", 0, at * 100 + index, each.timestamp_ms, each.key, each.value, headers)


@functools.cache
def source_records(protocol: str) -> list[ConsumerRecord]:
    """The story in a protocol."""
    translator = Translator(TICDC, protocol)
    written: list[ConsumerRecord] = []
    for at, each in enumerate(story()):
        written += as_records(Resolver().translate(translator, each), at)
    return written


def bytes_of(each: ProducerRecord | ConsumerRecord) -> bytes:
    """Return everything that a record has."""
    blobs = b"".join(blob.data for blob in getattr(each, "blobs", ()))
    headers = b"".join(name.encode() + (value or b"") for name, value in each.headers)
    return b"\n".join([each.topic.encode(), each.key or b"", each.value or b"", headers, blobs])


def canaries_in(data: bytes) -> list[str]:
    """Return the canaries that appear in bytes: as text, as base64 or hexadecimal digits, as a number."""
    return [canary for canary in CANARIES if any(form in data for form in forms_of(canary))]


def forms_of(text: str) -> set[bytes]:
    """Return the forms that a value has in some protocol: text, base64, hexadecimal digits, Avro's numbers."""
    forms = {text.encode(), base64.b64encode(text.encode()).rstrip(b"=")[:-1], text.encode().hex().encode()}
    if text.isdigit():
        schemaless_writer(number := io.BytesIO(), "long", int(text))
        forms.add(number.getvalue())
    return forms
