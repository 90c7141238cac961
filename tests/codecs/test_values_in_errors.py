"""No error shows a value of a row: neither its own text nor the errors that it was raised from.

Every source and every target is tried with some of the others: what a decoder refuses has nothing to do with the
target, nor what an encoder refuses with the source. `make routes` tries all pairs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support import ALL_ROUTES, captured, reading_options

from relay import ConsumerRecord, Need, RelayError, Resolver, Translator

CANARY = "CaNaRy7539"
#: Values that hardly any column has.
BAD: list[Any] = [
    CANARY, f"2026-01-{CANARY}", f"2026-01-01T10:00:00{CANARY}", f"{CANARY}==", [CANARY], {CANARY: 1}, 75.39e30,
    f"1{CANARY}", f"-838:59:{CANARY}", f"\ud800{CANARY}",
]  # fmt: skip
FILES = {
    "canal-json": "mysql/canal-json/01_all_types",
    "ticdc-canal-json": "ticdc/canal-json.tidb-extension/01_all_types",
    "debezium-json": "mysql/debezium.no-schema/01_all_types",
    "ticdc-debezium": "ticdc/debezium.no-schema/01_all_types",
    "maxwell-json": "mysql/maxwell.full/01_all_types",
    "ticdc-simple-json": "ticdc/simple.json/01_all_types",
}
TARGETS = [
    "canal-json", "canal-protobuf", "ckafka-json", "debezium-json", "flat-json", "maxwell-json", "ticdc-avro",
    "ticdc-debezium", "ticdc-open-protocol", "ticdc-simple-json", "ticdc-canal-json",
]  # fmt: skip
#: A third of the pairs.
ROUTES = [
    (source, target)
    for at, source in enumerate(FILES)
    for to, target in enumerate(TARGETS)
    if ALL_ROUTES or (at + to) % 3 == 0
]
#: Where messages have rows.
ROWS = frozenset({"data", "old", "before", "after"})


def paths(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the cells of rows are."""
    if isinstance(document, dict):
        if path and ROWS.intersection(map(str, path)):
            yield from ((*path, name) for name in document)
            return
        for name, inner in document.items():
            yield from paths(inner, (*path, name))
    elif isinstance(document, list):
        for at, inner in enumerate(document):
            yield from paths(inner, (*path, at))


def changed(value: bytes, path: tuple[Any, ...], cell: Any) -> bytes:
    """The message with another cell."""
    document = json.loads(value)
    inner = document
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = cell
    return json.dumps(document, separators=(",", ":"), ensure_ascii=True).encode()


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and those that a traceback shows before it."""
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def shown(error: BaseException) -> str:
    return "".join(f"{type(each).__name__}: {each} {each.args!r}\n" for each in chain(error))


@pytest.mark.one_case
@pytest.mark.parametrize(("source", "target"), ROUTES)
def test_no_error_or_its_causes_show_a_value(source: str, target: str) -> None:
    records = captured(FILES[source])
    translator = Translator(source, target, reading_options(FILES[source]))
    refused = 0
    state = translator.state
    for record in records:
        value = record.value or b""
        found = list(paths(json.loads(value))) if value.startswith(b"{") else []
        for number, path in enumerate(found):
            cell = BAD[(number + len(target)) % len(BAD)]
            bad = ConsumerRecord(
                record.topic, record.partition, record.offset, record.timestamp_ms, record.key,
                changed(value, path, cell),
            )  # fmt: skip
            try:
                Resolver().translate(translator, bad)
            except RelayError as error:
                refused += 1
                text = shown(error)
                assert CANARY not in text.replace(str(path[-1]), ""), (path, text)
                assert "7539" not in text, (path, text)
            translator.restore(state)
        try:
            Resolver().translate(translator, record)
        except RelayError as error:
            assert not isinstance(error, Need)
        state = translator.state
    assert refused > 5
