"""Rows with a member that their protocol does not define, as a producer's transform adds it to every message:
templates give what the pipeline gives, and count the member with each row.
"""

from __future__ import annotations

import msgspec
import pytest
from engine_support import ENGINES
from support import captured, reading_options
from unknown_support import Member, with_unknown_members

from relay import ConsumerRecord, Loss, NotRepresentable, Resolver, RowChange, Translator
from relay.codecs.maxwell.messages import camel_case
from relay.core.verification import ShadowTranslator
from relay.templates.engine import Engine

ROWS = {
    "ticdc-canal-json": "ticdc/canal-json/09_dml",
    "canal-json": "mysql/canal-json/09_dml",
    "ticdc-open-protocol": "ticdc/open-protocol/09_dml",
    "ticdc-debezium": "ticdc/debezium.no-schema/09_dml",
    "debezium-json": "mysql/debezium/09_dml",
    "maxwell-json": "mysql/maxwell/09_dml",
    "ticdc-simple-json": "ticdc/simple.json/09_dml",
    "ticdc-avro": "ticdc/avro.tidb-extension/09_dml",
    "ticdc-debezium-avro": "ticdc/debezium-avro/09_dml",
    "debezium-avro": "mysql/debezium.avro/02_numeric",
}
#: Sources whose rows have none, with such a member or without.
WITHOUT_TEMPLATES = {"ticdc-avro", "ticdc-debezium-avro"}
#: Rows of each file that are tried; what comes behind them is of the same shapes.
MOST_ROWS = 4


def primed(protocol: str, engine: type[Engine], **options: str) -> Translator:
    """A translator that knows the tables of the captured records."""
    given = reading_options(ROWS[protocol])
    made = ShadowTranslator(protocol, "ticdc-open-protocol", given, options, engine=engine)
    for record in captured(ROWS[protocol]):
        Resolver().learn(made, record)
    return made


def rows(protocol: str, reader: Translator) -> list[tuple[ConsumerRecord, set[str]]]:
    """Captured records of one row, and the names of its columns."""
    found = []
    for record in captured(ROWS[protocol]):
        events = Resolver().inspect(reader, record)
        if len(events) == 1 and isinstance(events[0], RowChange):
            columns = {column.name for column in events[0].schema.columns}
            found.append((record, columns | set(map(camel_case, columns))))
    return found[:MOST_ROWS]


def at(record: ConsumerRecord, offset: int) -> ConsumerRecord:
    return msgspec.structs.replace(record, offset=record.offset + 1000 + offset)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("protocol", ROWS)
def test_templates_count_unknown_members_and_write_the_same(protocol: str, engine: type[Engine]) -> None:
    made, used = primed(protocol, engine), 0
    for record, columns in rows(protocol, primed(protocol, engine)):
        changed = [*with_unknown_members(protocol, record, columns)]
        others = [*with_unknown_members(protocol, record, columns, Member(b"7", is_first=True))]
        assert len(changed) == len(others) > 0
        for (same, _), (other, _) in zip(changed, others, strict=True):
            before, counted = made.paths["fast"], made.losses[Loss.UNKNOWN_FIELDS]
            for offset, each in enumerate((same, same, same, other, other, same)):
                Resolver().translate(made, at(each, offset))
            assert made.losses[Loss.UNKNOWN_FIELDS] == counted + 6
            used += made.paths["fast"] - before
            Resolver().translate(made, at(record, 6))
            assert made.losses[Loss.UNKNOWN_FIELDS] == counted + 6
    assert (used > 0) is (protocol not in WITHOUT_TEMPLATES)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("protocol", ROWS)
def test_strict_refuses_each_row_with_an_unknown_member(protocol: str, engine: type[Engine]) -> None:
    made = primed(protocol, engine, strict="unknown-fields")
    record, columns = rows(protocol, primed(protocol, engine))[0]
    changed = next(iter(with_unknown_members(protocol, record, columns))).record
    for offset in range(4):
        with pytest.raises(NotRepresentable, match="unknown-fields"):
            Resolver().translate(made, at(changed, offset))
        assert Resolver().translate(made, at(record, offset))
