"""Templates of TiCDC Avro, read and written: the same bytes, errors and losses as the slow path, on most rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from engine_support import ENGINES
from fake_registry import MemoryRegistry
from support import captured, captured_files
from toy_protocol.registry import schema_by_id

from relay import CodecError, ConsumerRecord, ProducerRecord, Resolver, RowChange, Translator
from relay.core.verification import ShadowTranslator
from relay.model.lookups import RegisteredSchema, SchemaById
from relay.templates.engine import Engine

AVRO = "ticdc-avro"
EXTENSION = {"enable-tidb-extension": "true", "avro-enable-watermark": "true"}
BEFORE = {"enable-tidb-extension": "true", "avro-include-before-value": "true"}
STRINGS = {"avro-decimal-handling-mode": "string", "avro-bigint-unsigned-handling-mode": "string"}
PLAIN: dict[str, str] = {}
#: Variants of captured messages, and what they are written as.
ROUTES: tuple[tuple[str, str, str, Mapping[str, str]], ...] = (
    ("ticdc/avro.tidb-extension", AVRO, "canal-json", PLAIN),
    ("ticdc/avro.tidb-extension", AVRO, AVRO, EXTENSION),
    ("ticdc/avro.tidb-extension", AVRO, AVRO, STRINGS | EXTENSION),
    ("ticdc/avro.tidb-extension", AVRO, AVRO, {"schema-id": "header"} | EXTENSION),
    ("ticdc/avro.include-before", AVRO, AVRO, BEFORE),
    ("ticdc/avro.include-before", AVRO, "ticdc-open-protocol", PLAIN),
    ("ticdc/avro.string-modes", AVRO, AVRO, EXTENSION),
    ("ticdc/avro", AVRO, "flat-json", PLAIN),
    ("ticdc/canal-json.tidb-extension", "ticdc-canal-json", AVRO, EXTENSION),
    ("ticdc/canal-json.tidb-extension", "ticdc-canal-json", AVRO, BEFORE),
    ("ticdc/canal-json.tidb-extension", "ticdc-canal-json", AVRO, PLAIN),
    ("ticdc/avro", AVRO, AVRO, PLAIN),
    ("ticdc/open-protocol", "ticdc-open-protocol", AVRO, BEFORE),
)
FILES = ("01_all_types", "02_numeric", "09_dml")
ROUNDS = 4


class Registry(MemoryRegistry):
    """Has the schemas of captured messages as well."""

    def schema(self, id: int | str) -> RegisteredSchema:
        try:
            return schema_by_id(SchemaById("source", id))
        except Exception:
            return super().schema(id)


class Route:
    def __init__(self, kind: type[Translator], *route: Any, **more: Any) -> None:
        registry = Registry()
        self.translator = kind(*route, **more)
        self._resolver = Resolver(registries={"source": registry, "target": registry})

    def outcome(self, record: ConsumerRecord) -> list[ProducerRecord] | str:
        try:
            return self._resolver.translate(self.translator, record)
        except CodecError as error:
            return str(error)

    def is_row(self, record: ConsumerRecord) -> bool:
        """Whether a record is a row's."""
        events = self._resolver.inspect(self.translator, record)
        return len(events) == 1 and isinstance(events[0], RowChange)


def routes(source: str, target: str, options: Mapping[str, str], engine: type[Engine]) -> tuple[Route, Route]:
    """A translator without templates, and one that compares its templates with the slow path."""
    slow = Route(Translator, source, target, {}, options)
    return slow, Route(ShadowTranslator, source, target, {}, options, engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("folder", "source", "target", "options"), ROUTES)
def test_rows_take_the_fast_path(
    folder: str, source: str, target: str, options: Mapping[str, str], engine: type[Engine]
) -> None:
    slow, fast = routes(source, target, options, engine)
    names = [name for name in captured_files(folder) if name.endswith(FILES)]
    records = [record for name in names for record in captured(name)]
    assert records
    for each in records:
        assert fast.outcome(each) == slow.outcome(each)
    before = fast.translator.paths["fast"]
    for each in records * ROUNDS:
        assert fast.outcome(each) == slow.outcome(each)
    assert fast.translator.losses == slow.translator.losses
    rows = sum(slow.is_row(record) for record in records)
    assert fast.translator.paths["fast"] - before > rows * (ROUNDS - 1)


def _varint(body: bytes, at: int, *other: int) -> bytes:
    """The body with another number at an offset, which has one byte there."""
    return body[:at] + bytes(other) + body[at + 1 :]


#: Changes of the value behind the id of its schema: INT, VARCHAR(…), DECIMAL and so on follow each other.
ODD: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda body: body[:0],
    "bytes at the end": lambda body: body + b"\0",
    "bytes are missing": lambda body: body[:-1],
    "a long varint": lambda body: b"\x80" * 10 + b"\0" + body[1:],
    "a varint with zeros": lambda body: bytes([body[0] | 0x80, 0]) + body[1:],
    "an int of 33 bits": lambda body: b"\x80\x80\x80\x80\x10" + body[1:],
    "a branch that is not there": lambda body: _varint(body, 1, 4),
    "a negative branch": lambda body: _varint(body, 1, 1),
    "a negative length": lambda body: _varint(body, 2, 1),
    "a text that ends too late": lambda body: _varint(body, 2, 0x7E),
    "null": lambda body: body.replace(body[1:], b"", 1),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("target", ["canal-json", AVRO])
def test_odd_values_take_the_slow_path(target: str, engine: type[Engine]) -> None:
    options = EXTENSION if target == AVRO else PLAIN
    slow, fast = routes(AVRO, target, options, engine)
    records = captured("ticdc/avro.tidb-extension/09_dml")
    for each in records * 3:
        assert fast.outcome(each) == slow.outcome(each)
    seen: Counter[type] = Counter()
    for record in records:
        value = record.value or b""
        if value[:1] != b"\0":
            continue
        for change in ODD.values():
            odd = msgspec.structs.replace(record, value=value[:5] + change(value[5:]))
            outcome = fast.outcome(odd)
            assert outcome == slow.outcome(odd)
            seen[type(outcome)] += 1
        for at in range(5, len(value)):
            odd = msgspec.structs.replace(
                record, value=value[:at] + bytes([value[at] ^ 0x80]) + value[at + 1 :]
            )
            outcome = fast.outcome(odd)
            assert outcome == slow.outcome(odd)
            seen[type(outcome)] += 1
    assert seen[list] > 20
    assert seen[str] > 100


@pytest.mark.parametrize("engine", ENGINES)
def test_an_id_in_a_header_decides(engine: type[Engine]) -> None:
    """The value then has no id, even if it looks like one."""
    slow, fast = routes(AVRO, "canal-json", PLAIN, engine)
    records = captured("ticdc/avro.tidb-extension/09_dml")
    for each in records * 3:
        fast.outcome(each)
        slow.outcome(each)
    before = fast.translator.paths["fast"]
    for record in records:
        for header in ("__value_schema_id", "apicurio.value.globalId"):
            with_header = msgspec.structs.replace(record, headers=((header, (record.value or b"")[:5]),))
            assert fast.outcome(with_header) == slow.outcome(with_header)
    assert fast.translator.paths["fast"] == before


@pytest.mark.parametrize("engine", ENGINES)
def test_a_table_with_the_same_name_in_avro_ends_templates(engine: type[Engine]) -> None:
    """Names with characters that Avro does not allow become one name; then the definition is ambiguous."""
    slow, fast = routes(AVRO, "canal-json", PLAIN, engine)
    records = captured("ticdc/avro.tidb-extension/09_dml")
    rows = [record for record in records if (record.key or b"").startswith(b"\0")]
    for each in [*records, *rows]:
        assert fast.outcome(each) == slow.outcome(each)
    last = rows[-1]
    table = last.topic.removeprefix("tidb_dml_db_")
    statement = {
        "query": f"CREATE TABLE `{table}` (`id` INT PRIMARY KEY)",
        "type": 3,
        "schema": "dml-db",
        "table": table,
        "commitTs": 1 << 62,
    }
    ddl = msgspec.structs.replace(last, key=None, value=b"\x01" + msgspec.json.encode(statement))
    before = fast.translator.paths["fast"]
    for each in [ddl, *[row for row in rows if row.topic == last.topic]]:
        assert fast.outcome(each) == slow.outcome(each)
    assert fast.translator.paths["fast"] == before


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_of_one_topic_go_to_topics_of_their_tables(engine: type[Engine]) -> None:
    """The ids of schemas depend on the topic that a message is for."""
    slow = Route(Translator, "ticdc-canal-json", AVRO, {}, EXTENSION, topic="out.{database}.{table}")
    fast = Route(
        ShadowTranslator,
        "ticdc-canal-json",
        AVRO,
        {},
        EXTENSION,
        topic="out.{database}.{table}",
        engine=engine,
    )
    records = captured("ticdc/canal-json.tidb-extension/09_dml")
    for each in records * ROUNDS:
        assert fast.outcome(each) == slow.outcome(each)
    assert fast.translator.paths["fast"] > len(records)
