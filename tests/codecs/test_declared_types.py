"""Whatever a message has in place of a member's value, what a decoder puts into an event has the declared type,
so that no encoder meets a value that it cannot write.
"""

from __future__ import annotations

import contextlib
import copy
import json
import typing
from collections.abc import Iterator
from types import UnionType
from typing import Any

import msgspec
import pytest
from support import CAPTURED, captured, protocol_of, reading_options, record

from relay import CodecError, ConsumerRecord, DecodeError, Loss, Resolver, Source, Transaction, Translator

FOLDERS = (
    "mysql/canal-json",
    "mysql/debezium.no-schema",
    "mysql/maxwell",
    "ticdc/canal-json.tidb-extension",
    "ticdc/debezium.no-schema",
    "ticdc/simple.json",
)
FILES = [f"{folder}/{name}" for folder in FOLDERS for name in ("09_dml", "10_ddl")]
FILES = [file for file in FILES if file in CAPTURED]
CKAFKA = {"DATABASE": "d", "TABLE": "t", "TYPE": "I", "NEW_VALUES": {"id": "1", "note": "a"}}
#: What a member may have instead: each is a value of another JSON type.
OTHERS: tuple[Any, ...] = ("7", 7, 7.5, True, ["7"], {"7": 7}, None)


def scalars(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where a document has values."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from scalars(member, (*path, name))
    elif isinstance(value, list):
        for at, item in enumerate(value[:1]):
            yield from scalars(item, (*path, at))
    elif path and path[0] != "schema":
        yield path


def changed(message: ConsumerRecord) -> Iterator[ConsumerRecord]:
    """The message with another value of one member, and with a member of another protocol's name."""
    document = json.loads(message.value or b"")
    for path in scalars(document):
        for other in OTHERS:
            made = copy.deepcopy(document)
            part = made
            for step in path[:-1]:
                part = part[step]
            part[path[-1]] = other
            yield msgspec.structs.replace(message, value=json.dumps(made).encode())
    for name in ("ptn", "schema_id", "gtid", "startTs", "EVENT_SERVER_ID", "xid", "tableID"):
        for other in OTHERS:
            yield msgspec.structs.replace(message, value=json.dumps({**document, name: other}).encode())


def is_of(value: object, annotation: Any) -> bool:
    """Whether a value has a declared type; a bool is no int."""
    choices = typing.get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    kinds = [typing.get_origin(choice) or choice for choice in choices]
    return any(isinstance(value, kind) for kind in kinds) and (not isinstance(value, bool) or bool in kinds)


TYPES: dict[type[Any], dict[str, Any]] = {kind: typing.get_type_hints(kind) for kind in (Source, Transaction)}


def check(translator: Translator, message: ConsumerRecord) -> None:
    """Read each changed message, and write what it says."""
    for other in changed(message):
        try:
            events = translator.inspect(other)
        except DecodeError:
            continue
        for event in events:
            for part in (event.source, getattr(event, "transaction", None)):
                for name, annotation in TYPES.get(type(part), {}).items():
                    assert is_of(getattr(part, name), annotation), (name, other.value)
        state = translator.state
        with contextlib.suppress(CodecError):
            translator.translate(other)
        translator.restore(state)


@pytest.mark.one_case
@pytest.mark.parametrize("file", FILES)
def test_events_have_their_declared_types_whatever_a_message_has(file: str) -> None:
    translator = Translator(protocol_of(file), "ticdc-simple-avro", reading_options(file))
    resolver, seen = Resolver(), set[int]()
    for each in captured(file)[:30]:
        size = len(each.value or b"") // 200
        if each.value is not None and size not in seen:
            seen.add(size)
            check(translator, each)
        resolver.translate(translator, each)


@pytest.mark.parametrize(
    "target", ["ticdc-simple-avro", "ticdc-open-protocol", "maxwell-json", "ckafka-json"]
)
def test_a_member_of_another_protocol_and_type_is_an_unknown_one(target: str) -> None:
    writing = {"output_schema_id": "true"} if target == "maxwell-json" else {}
    check(Translator("ckafka-json", target, None, writing), record(CKAFKA))
    translator = Translator("ckafka-json", target, None, writing)
    translator.translate(record(CKAFKA | {"ptn": "7", "schema_id": "x"}))
    assert translator.losses[Loss.UNKNOWN_FIELDS] == 1
