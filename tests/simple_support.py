"""Messages of TiCDC Simple, as TiCDC prints them, and short ways to read and to write them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from relay import ConsumerRecord, Event, ProducerRecord, RowChange, Translator
from relay.codecs.simple.avro_wire import AvroWire
from relay.codecs.simple.json_wire import JsonWire

SIMPLE, AVRO = "ticdc-simple-json", "ticdc-simple-avro"
TIME_MS = 1_795_254_665_000
#: The version of the definition, and the commit ts of a row, of which a statement lies between.
VERSION, DDL_TS, ROW_TS = TIME_MS << 18, (TIME_MS << 18) + 9, (TIME_MS + 1000) << 18

Json = dict[str, Any]


def column(name: str, base: str = "int", *, default: Any = None, nullable: bool = True, **more: Any) -> Json:
    """A column of a definition."""
    is_text = base in {"varchar", "text", "enum", "set"}
    charset = (
        {"charset": "utf8mb4", "collate": "utf8mb4_bin"}
        if is_text
        else dict.fromkeys(("charset", "collate"), "binary")
    )
    return {
        "name": name,
        "dataType": {"mysqlType": base, **charset, "length": 11, **more},
        "nullable": nullable,
        "default": default,
    }


ID = column("id", nullable=False)


def table(*columns: Json, name: str = "t", version: int = VERSION, **more: Any) -> Json:
    """A definition of `d.t`: the key `id`, and these columns."""
    primary = {"name": "primary", "unique": True, "primary": True, "nullable": False, "columns": ["id"]}
    found = {"schema": "d", "table": name, "tableID": 100, "version": version, "columns": [ID, *columns]}
    return {**found, "indexes": [primary], **more}


def bootstrap(schema: Json) -> Json:
    """A BOOTSTRAP."""
    return {"version": 1, "type": "BOOTSTRAP", "commitTs": 0, "buildTs": TIME_MS, "tableSchema": schema}


def ddl(kind: str, sql: str, schema: Json | None = None, *, at: int = DDL_TS, **more: Any) -> Json:
    """A DDL message."""
    found: Json = {"version": 1, "type": kind, "sql": sql, "commitTs": at, "buildTs": TIME_MS}
    return found | ({} if schema is None else {"tableSchema": schema}) | more


def row(data: Json | None, old: Json | None = None, *, version: int = VERSION, **more: Any) -> Json:
    """A row of `d.t`; `id` is 1 if it is not given."""
    kind = "DELETE" if data is None else "INSERT" if old is None else "UPDATE"
    images = {
        name: {"id": "1", **image} for name, image in (("data", data), ("old", old)) if image is not None
    }
    return {
        "version": 1,
        "database": "d",
        "table": "t",
        "tableID": 100,
        "type": kind,
        "commitTs": ROW_TS,
        "buildTs": TIME_MS,
        "schemaVersion": version,
        **more,
        **images,
    }


def records(*messages: Json | bytes) -> list[ConsumerRecord]:
    """The messages as records of one partition."""
    values = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in messages]
    return [ConsumerRecord("topic", 0, at, TIME_MS, None, value) for at, value in enumerate(values)]


def as_avro(message: Json) -> bytes:
    """A message other than a row, in Avro."""
    return AvroWire(AVRO).write(JsonWire(SIMPLE).read(json.dumps(message).encode()))


def read(
    *messages: Json | bytes, protocol: str = SIMPLE, options: dict[str, str] | None = None
) -> tuple[list[Event], Translator]:
    """The events of messages, and the translator that has read them."""
    translator = Translator(protocol, protocol, options)
    found = [event for record in records(*messages) for event in translator.inspect(record)]
    return found, translator


def value_of(schema: Json, value: Any, options: dict[str, str] | None = None) -> tuple[Any, Translator]:
    """The canonical value of the column behind the key."""
    events, translator = read(bootstrap(table(schema)), row({schema["name"]: value}), options=options)
    change = events[-1]
    assert isinstance(change, RowChange)
    assert change.after is not None
    return change.after[1], translator


def counted(translator: Translator) -> dict[str, int]:
    """What was counted, by name."""
    return {what.value: count for what, count in translator.losses.items()}


def written(outs: Sequence[ProducerRecord]) -> list[Json]:
    """The messages of records in JSON."""
    return [json.loads(out.value or b"null") for out in outs]
