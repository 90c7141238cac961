"""What Kafka Connect makes of a topic: the images that ExtractNewRecordState hands on, and what the JDBC sink
stores in PostgreSQL.
"""

from __future__ import annotations

import base64
import itertools
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, Protocol

from readers.java import Program
from readers.truth import Row, SqlType, Step, Table, value

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBERS: Final = itertools.count()


class TaskFailed(Exception):
    """The connector's task would end with this failure."""


class Message(Protocol):
    """A record of a topic, as relay gives it or as Kafka has it."""

    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...


def _wire(message: Message) -> dict[str, Any]:
    return {
        "key": _base64(message.key),
        "value": _base64(message.value),
        "headers": [[name, _base64(content)] for name, content in message.headers],
    }


def _base64(part: bytes | None) -> str | None:
    return None if part is None else base64.b64encode(part).decode()


def unwrapped(
    connect: Program, messages: Iterable[Message], registry: str | None = None
) -> list[dict[str, Any]]:
    """What the transformation gives for each record of a topic. Raises TaskFailed.

    `registry`: of records in Avro, the URL of the API that Apicurio's converter asks.
    """
    job = {"do": "unwrap", "topic": "topic", "registry": registry, "records": list(map(_wire, messages))}
    answer = connect.ask(job)
    if "error" in answer:
        raise TaskFailed(f"at record {answer['at']}: {answer['error']}")
    found: list[dict[str, Any]] = answer["rows"]
    return found


def in_avro(
    connect: Program, topic: str, messages: Iterable[Message], registry: str
) -> list[tuple[bytes | None, bytes | None]]:
    """What Apicurio's converter writes of JSON with schemas: keys and values."""
    job = {"do": "write", "topic": topic, "registry": registry, "records": list(map(_wire, messages))}
    return [(_from_base64(key), _from_base64(value)) for key, value in connect.ask(job)["records"]]


def timed(
    connect: Program, topic: str, messages: Iterable[Message], registry: str, reads: str, passes: int
) -> float:
    """The seconds of processor time that the fastest pass takes of messages in `json` or `avro`, read by that
    converter and written by the other one.
    """
    job = {"do": "time", "topic": topic, "registry": registry, "reads": reads, "passes": passes}
    nanos: int = connect.ask(job | {"records": list(map(_wire, messages))})["nanos"]
    return nanos / 1e9


def _from_base64(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def steps(table: Table, images: Iterable[dict[str, Any]]) -> list[Step]:
    """The images of a table's rows, tombstones among them; keys must be those of their rows."""
    found: list[Step] = []
    for each in images:
        if "op" not in each:
            assert each["row"] is None, "a tombstone has become a row"
            continue
        image = {name: cell for name, cell in each["row"].items() if name != "__deleted"}
        for name, cell in (each["key"] or {}).items():
            assert image[name] == cell, f"{name} is not the same in key and row"
        if each["op"] == "u":
            found.append(("-", table.row(_given(each["before"]), _connect_value)))
        found.append(("-" if each["op"] == "d" else "+", table.row(_given(image), _connect_value)))
    return found


def _given(image: dict[str, list[Any]]) -> dict[str, Any]:
    return {name: None if cell[1] is None else cell for name, cell in image.items()}


def _connect_value(kind: SqlType, cell: list[Any]) -> Any:
    """A value by the logical type of its field."""
    name, content = cell
    match name:
        case "bytes":
            content = base64.b64decode(content)
        case "io.debezium.time.Date":
            content = (date(1970, 1, 1) + timedelta(int(content))).isoformat()
        case "io.debezium.time.MicroTimestamp":
            content = (_EPOCH + timedelta(microseconds=int(content))).replace(tzinfo=None).isoformat()
        case "io.debezium.time.ZonedTimestamp":
            assert content.endswith("Z")
            content = content.removesuffix("Z")
    assert isinstance(content, bytes) == kind.is_binary, f"{kind} comes as {name}"
    return value(kind, content)


class Sink:
    """Debezium's JDBC sink into a PostgreSQL: upserts and deletes by the records' keys."""

    def __init__(self, connect: Program, url: str) -> None:
        self._connect = connect
        self._url = url

    def store(
        self,
        messages: Iterable[Message],
        topic: str = "topic",
        name: str = "",
        registry: str | None = None,
        **settings: str,
    ) -> str:
        """Let the sink read a topic, of one table unless `name` names the table's parts
        (`collection.name.format`); gives the name of its table. Raises TaskFailed.

        `registry`: of records in Avro, the URL of the API that Apicurio's converter asks.
        `settings` of the sink have underscores for dots.
        """
        name = name or f"t{next(_NUMBERS)}"
        config = {
            "connection.url": self._url,
            "connection.username": "relay",
            "connection.password": "relay",
            "insert.mode": "upsert",
            "delete.enabled": "true",
            "primary.key.mode": "record_key",
            "schema.evolution": "basic",
            "collection.name.format": name,
            "quote.identifiers": "true",
            "use.time.zone": "UTC",
            "flush.max.retries": "0",
        } | {setting.replace("_", "."): text for setting, text in settings.items()}
        job = {"do": "sink", "topic": topic, "registry": registry, "config": config}
        answer = self._connect.ask(job | {"records": list(map(_wire, messages))})
        if "error" in answer:
            raise TaskFailed(f"at record {answer['at']} or after: {answer['error']}")
        return name

    def rows(self, stored: str, table: Table) -> list[Row]:
        """What PostgreSQL has of a table."""
        answer = self._connect.ask({"do": "table", "url": self._url, "name": stored})
        found = []
        for row in answer["rows"]:
            cells = zip(answer["columns"], answer["types"], row, strict=True)
            given = {name: None if text is None else (kind, text) for name, kind, text in cells}
            found.append(table.row(given, _stored_value))
        return found


def _stored_value(kind: SqlType, cell: tuple[str, str]) -> Any:
    """A value by the type of PostgreSQL's column."""
    name, text = cell
    if name == "bytea":
        return value(kind, bytes.fromhex(text.removeprefix("\\x")))
    assert not kind.is_binary, f"{kind} is stored as {name}"
    if name == "bool":
        text = str(int(text == "t"))
    if name == "timestamptz":
        text = re.sub(r"\+00$", "", text)
    return value(kind, text)
