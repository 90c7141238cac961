"""What many tests need: captured records as records, messages as records, and a short way to translate."""

from __future__ import annotations

import base64
import functools
import json
import os
from pathlib import Path
from typing import Any, Final

from toy_protocol.registry import remember

from relay import ConsumerRecord, DecodeError, ProducerRecord, Translator
from relay.codecs import BUILT_IN
from relay.core.detection import FormatHints
from relay.model.events import Event
from relay.model.lookups import RegisteredSchema

TICDC, CANAL, OPEN = "ticdc-canal-json", "canal-json", "ticdc-open-protocol"
DATA = Path(__file__).parent / "data"
#: Whether `make quick` runs.
QUICK: Final = os.environ.get("PYTEST_QUICK") == "1"
#: Whether tests of many routes try all of them, not some that have every source, target and option among them.
ALL_ROUTES: Final = os.environ.get("PYTEST_ALL_ROUTES") == "1"
#: relay's own protocols that can be written.
WRITABLE = frozenset(name for name, codec in BUILT_IN.items() if codec.is_writable)
#: All captured files, for `captured`, and how those of a protocol begin.
CAPTURED = sorted(path.relative_to(DATA).as_posix().removesuffix(".jsonl") for path in DATA.rglob("*.jsonl"))
_PRODUCERS = {
    "ticdc/avro": "ticdc-avro",
    "ticdc/canal-json": TICDC,
    "ticdc/open-protocol": OPEN,
    "ticdc/debezium-avro": "ticdc-debezium-avro",
    "ticdc/debezium": "ticdc-debezium",
    "ticdc/simple.json": "ticdc-simple-json",
    "ticdc/simple.avro": "ticdc-simple-avro",
    "mysql/canal-json": CANAL,
    "mysql/canal-protobuf": "canal-protobuf",
    "mysql/debezium.avro": "debezium-avro",
    "mysql/debezium": "debezium-json",
    "mysql/maxwell": "maxwell-json",
}


def protocol_of(file: str) -> str:
    """The protocol of a captured file."""
    return next(protocol for start, protocol in _PRODUCERS.items() if file.startswith(start))


def reading_options(file: str) -> dict[str, str]:
    """Return the options that a reader of a captured file needs."""
    folder = DATA / file.rpartition("/")[0]
    setting = folder.name.rpartition(".")[2]
    if folder.name == "debezium.alt-string":
        return {
            "decimal.handling.mode": "string",
            "bigint.unsigned.handling.mode": "precise",
            "binary.handling.mode": "base64",
            "time.precision.mode": "isostring",
        }
    if folder.name == "maxwell.alt":
        return {"output_nulls": "false", "output_naming_strategy": "underscore_to_camelcase"}
    if folder.name == "debezium.avro":
        return {"field.name.adjustment.mode": "avro_unicode"}
    if (folder / "storage").is_dir():
        return {"claim-check-storage-uri": str(folder / "storage")}
    return {"large-message-handle-compression": setting} if setting in {"lz4", "snappy"} else {}


def _bytes(part: Any) -> bytes | None:
    if part is None:
        return None
    return part.encode() if isinstance(part, str) else base64.b64decode(part["base64"])


@functools.cache
def remember_schemas(folder: Path) -> None:
    """Let the tests' registry know the schemas of captured records."""
    path = folder / "schemas.ndjson"
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            found = json.loads(line)
            remember(found["id"], RegisteredSchema(found["schema"]))


def captured(path: str) -> list[ConsumerRecord]:
    """The records of one file below tests/data, such as `ticdc/canal-json/09_dml`."""
    return list(_captured(path))


@functools.cache
def _captured(path: str) -> tuple[ConsumerRecord, ...]:
    remember_schemas((DATA / path).parent)
    lines = (DATA / f"{path}.jsonl").read_text(encoding="utf-8").split("\n")
    return tuple(
        ConsumerRecord(
            *(r["topic"], r["partition"], r["offset"], r["timestamp"], _bytes(r["key"]), _bytes(r["value"])),
            tuple((name, _bytes(value)) for name, value in r.get("headers") or ()),
        )
        for r in map(json.loads, filter(None, lines))
    )


def captured_files(variant: str) -> list[str]:
    """The files of one variant, for `captured`."""
    return sorted(f"{variant}/{path.name[: -len('.jsonl')]}" for path in (DATA / variant).glob("*.jsonl"))


def record(
    message: dict[str, Any] | bytes | str, offset: int = 0, timestamp_ms: int = 0, partition: int = 0
) -> ConsumerRecord:
    """A message as a record of the topic `topic`."""
    value = (
        message
        if isinstance(message, bytes)
        else message.encode()
        if isinstance(message, str)
        else json.dumps(message).encode()
    )
    return ConsumerRecord("topic", partition, offset, timestamp_ms, None, value)


def translate(
    source: str,
    target: str,
    messages: list[ConsumerRecord],
    source_options: dict[str, str] | None = None,
    target_options: dict[str, str] | None = None,
) -> list[dict[str, Any]]:
    """The translated values, parsed."""
    translator = Translator(source, target, source_options, target_options)
    return [json.loads(out.value or b"null") for message in messages for out in translator.translate(message)]


def translated_records(translator: Translator, messages: list[ConsumerRecord]) -> list[ProducerRecord]:
    """The translated records."""
    return [out for message in messages for out in translator.translate(message)]


def events(
    protocol: str, messages: list[ConsumerRecord], options: dict[str, str] | None = None
) -> list[Event]:
    """The canonical events."""
    translator = Translator(protocol, protocol, options)
    return [event for message in messages for event in translator.inspect(message)]


def named_refusal(protocol: str, each: ConsumerRecord, options: dict[str, str] | None = None) -> str:
    """What a command says of a record that the protocol's codec must refuse."""
    try:
        Translator.reader(protocol, options).inspect(each)
    except DecodeError as error:
        return str(FormatHints().named(error, each))
    raise AssertionError(f"{protocol} reads it")


def row_message(
    mysql_type: dict[str, str], *rows: dict[str, Any], op: str = "INSERT", old: Any = None, **more: Any
) -> dict[str, Any]:
    """A row message of the Canal family, of the table `d.t`."""
    return {
        "id": 0, "database": "d", "table": "t", "pkNames": None, "isDdl": False, "type": op, "es": 1700000000123,
        "ts": 1700000000456, "sql": "", "sqlType": {}, "mysqlType": mysql_type, "data": list(rows), "old": old,
    } | more  # fmt: skip
