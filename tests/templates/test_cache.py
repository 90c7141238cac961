"""Templates take a bounded number of bytes, are removed for others when unused, and are not tried where hardly any
record fits one.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest
from fake_registry import MemoryRegistry
from reference_engine import Interpreter
from support import CANAL, TICDC
from templates_support import translator_class

from benchmarks import wide
from relay import ConsumerRecord, Resolver, Translator
from relay.model.limits import DEFAULT_LIMITS
from relay.templates.route.policy import DEFAULT_POLICY, EAGER_POLICY, TemplatePolicy
from relay.templates.route.route_templates import RouteTemplates

TABLES: Final = 4
COLUMNS: Final = 12
#: Bytes that suffice for the templates of one table, but not of two.
CAPACITY: Final = 12_000


def rows_of_tables() -> tuple[list[ConsumerRecord], list[ConsumerRecord]]:
    """The statements of the tables, and an INSERT of each."""
    records = list(wide.of_tables(TABLES, COLUMNS, 60))
    rows = [record for record in records[TABLES:] if b'"type":"INSERT"' in (record.value or b"")]
    tables = [b'"table":"table_%04d"' % at for at in range(TABLES)]
    return records[:TABLES], [next(row for row in rows if name in (row.value or b"")) for name in tables]


#: Records are not tried for a while after ten that fitted no template.
PAUSING: Final = TemplatePolicy(first_derivation=2, misses_before_pause=10)


def translator_with(
    cache_bytes: int = DEFAULT_LIMITS.cache_bytes, policy: TemplatePolicy = EAGER_POLICY
) -> tuple[Translator, list[ConsumerRecord]]:
    limits = msgspec.structs.replace(DEFAULT_LIMITS, cache_bytes=cache_bytes)
    translator = translator_class(policy)(TICDC, CANAL, limits=limits, engine=Interpreter)
    statements, rows = rows_of_tables()
    for record in statements:
        translator.translate(record)
    return translator, rows


def change_table(translator: Translator, number: int, ddl: bytes) -> None:
    """Translate another statement about a table; `ddl`: what stands behind its name."""
    statement = rows_of_tables()[0][number]
    value = statement.value or b""
    start, end = value.index(b"CREATE TABLE `"), value.index(b'","sqlType"')
    changed = value[:start] + b"ALTER TABLE `table_%04d` %b" % (number, ddl) + value[end:]
    translator.translate(msgspec.structs.replace(statement, value=changed, offset=1_000_000 + number))


def fitting(translator: Translator, record: ConsumerRecord, times: int) -> int:
    """How often a record has fitted a template."""
    before = translator.paths["fast"]
    for _ in range(times):
        translator.translate(record)
    return translator.paths["fast"] - before


def test_every_table_has_templates_within_the_capacity() -> None:
    translator, rows = translator_with()
    assert [fitting(translator, row, 5) for row in rows] == [3] * TABLES


def test_a_template_is_derived_when_rows_have_cost_as_much() -> None:
    """Tables of few rows do not pay for templates."""
    translator, rows = translator_with(policy=DEFAULT_POLICY)
    assert fitting(translator, rows[0], 32) == 0
    assert fitting(translator, rows[0], 5) == 5
    assert fitting(translator, rows[1], 5) == 0


def test_a_table_has_no_templates_beyond_the_capacity() -> None:
    translator, rows = translator_with(CAPACITY)
    # What is made last may be the one that fills it.
    found = [fitting(translator, row, 5) for row in rows]
    assert found[0] == 3
    assert found[-1] == 0
    assert fitting(translator, rows[0], 5) == 5


def test_unused_templates_are_evicted() -> None:
    translator, rows = translator_with(1, TemplatePolicy(first_derivation=2, search_interval=10))
    assert fitting(translator, rows[0], 5) == 3
    assert fitting(translator, rows[1], 8) == 0
    assert fitting(translator, rows[0], 1) == 1, "it was used before somebody looked"
    # The first look finds that it was used, the second that it was not.
    assert fitting(translator, rows[1], 60) > 20
    assert fitting(translator, rows[0], 1) == 0


def test_templates_of_a_changed_table_are_evicted() -> None:
    translator, rows = translator_with(1)
    assert [fitting(translator, row, 5) for row in rows[:2]] == [3, 0]
    change_table(translator, 0, b"ADD COLUMN more INT")
    assert fitting(translator, rows[1], 5) >= 2


def test_a_table_that_changes_costs_others_nothing() -> None:
    translator, rows = translator_with()
    assert [fitting(translator, row, 5) for row in rows] == [3] * TABLES
    change_table(translator, 2, b"ADD COLUMN more INT")
    assert [fitting(translator, row, 5) for row in rows] == [5, 5, 3, 5]
    state = translator.state
    change_table(translator, 1, b"ADD COLUMN more INT")
    assert [fitting(translator, row, 5) for row in rows] == [5, 3, 5, 5]
    translator.restore(state)
    assert [fitting(translator, row, 5) for row in rows] == [5, 3, 5, 5], "what it is again is another change"
    translator.restore(translator.state)
    assert [fitting(translator, row, 5) for row in rows] == [5] * TABLES


def untraceable(row: ConsumerRecord) -> ConsumerRecord:
    """The row with a member twice, of which no template is made."""
    value = (row.value or b"").replace(b'"es":', b'"es":0,"es":')
    return msgspec.structs.replace(row, value=value)


def test_records_are_not_looked_at_where_hardly_any_fits() -> None:
    translator, rows = translator_with(policy=PAUSING)
    assert fitting(translator, rows[0], 5) == 3
    assert fitting(translator, untraceable(rows[0]), 40) == 0
    assert fitting(translator, rows[0], 20) == 0, "records that fit are not examined, either"
    assert fitting(translator, rows[0], 200) > 50, "now and then somebody looks"


def test_a_change_of_definitions_has_records_looked_at_again() -> None:
    translator, rows = translator_with(policy=PAUSING)
    assert fitting(translator, rows[0], 5) == 3
    assert fitting(translator, untraceable(rows[0]), 40) == 0
    assert fitting(translator, rows[0], 5) == 0
    change_table(translator, 2, b"ADD COLUMN more INT")
    assert fitting(translator, rows[0], 5) == 5


def test_records_are_not_looked_at_where_definitions_change_too_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As many statements as make templates not worth their making; from then on few records are examined."""
    policy = msgspec.structs.replace(PAUSING, late_derivation=100)
    translator, rows = translator_with(policy=policy)
    found = []
    looked: list[ConsumerRecord] = []
    is_warming_up = RouteTemplates.is_warming_up

    def noting(self: RouteTemplates, record: ConsumerRecord) -> bool:
        looked.append(record)
        return is_warming_up(self, record)

    monkeypatch.setattr(RouteTemplates, "is_warming_up", noting)
    for number in range(60):
        change_table(translator, 0, b"COMMENT = '%d'" % number)
        looked.clear()
        fitting(translator, rows[0], 20)
        found.append(len(looked))
    assert found[0] == 2, "the second one has a template"
    assert sum(found[-20:]) < 20 * 20 / 4
    assert fitting(translator, rows[0], 2500) > 100, (
        "when statements come no more, rows have a template again"
    )


def test_tables_that_fit_do_not_pay_for_one_that_does_not() -> None:
    translator, rows = translator_with(policy=PAUSING)
    assert fitting(translator, rows[0], 5) == 3
    found = [
        fitting(translator, row, 1) for _ in range(100) for row in (rows[0], *[untraceable(rows[1])] * 3)
    ]
    assert sum(found) == 100


def derivations(monkeypatch: pytest.MonkeyPatch) -> list[ConsumerRecord]:
    """The records of which templates are derived from now on, or could not be."""
    found: list[ConsumerRecord] = []
    derive = RouteTemplates.derive

    def noting(self: RouteTemplates, record: ConsumerRecord, *args: Any, **named: Any) -> None:
        found.append(record)
        derive(self, record, *args, **named)

    monkeypatch.setattr(RouteTemplates, "derive", noting)
    return found


@pytest.mark.parametrize("target", [CANAL, "debezium-json", "debezium-avro"])
def test_rows_whose_topic_templates_cannot_say_are_learned_once(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    derived = derivations(monkeypatch)
    translator = Translator(TICDC, target, topic="{database}_{table}", engine=Interpreter)
    resolver = Resolver(registries={"target": MemoryRegistry()})
    for record in wide.of_tables(1, COLUMNS, 100):
        resolver.translate(translator, record)
    assert translator.paths["fast"] == 0
    assert 0 < len(derived) <= 8


def test_what_cannot_be_derived_is_hardly_tried_where_definitions_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    translator, rows = translator_with()
    derived = derivations(monkeypatch)
    for number in range(200):
        change_table(translator, 0, b"ADD COLUMN more_%d INT" % number)
        for row in (*rows[1:3], *[untraceable(rows[3])] * 3):
            translator.translate(row)
    assert len(derived) < 10
    assert translator.paths["fast"] >= 390


def test_what_is_kept_of_shapes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    translator, rows = translator_with(policy=TemplatePolicy(first_derivation=2, shape_bytes=500))
    derived = derivations(monkeypatch)
    for _ in range(20):
        for row in map(untraceable, rows):
            translator.translate(row)
    # Where all are remembered, each is tried at its 2nd and its 16th message.
    assert 2 * TABLES < len(derived) < 10 * TABLES
    change_table(translator, 0, b"ADD COLUMN more INT")
    assert fitting(translator, rows[1], 5) >= 2


def test_messages_before_a_statement_do_not_count_for_a_template_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A template serves one definition. Rows that are too few for one must not pay for it together."""
    translator, rows = translator_with(policy=TemplatePolicy(first_derivation=20))
    derived = derivations(monkeypatch)
    for number in range(10):
        change_table(translator, 0, b"COMMENT = '%d'" % number)
        assert fitting(translator, rows[0], 15) == 0
    assert not derived
    assert fitting(translator, rows[0], 15) > 0
    assert len(derived) == 1


@pytest.mark.parametrize("warm", [2, 4])
def test_tables_of_one_name_in_many_databases_are_counted_beyond_the_limit(warm: int) -> None:
    """Canal's marker has no database: noting a shape beyond the limit resets its own counts."""
    policy = TemplatePolicy(first_derivation=4, shape_bytes=1_000)
    translator = translator_class(policy)(CANAL, TICDC, engine=Interpreter)

    def translate(database: str, table: str, count: int) -> None:
        for _ in range(count):
            value = (
                '{"data":[{"a":"1"}],"database":"%s","es":1700000000000,"id":1,"isDdl":false,"mysqlType":{"a":"int"},'
                '"old":null,"pkNames":["a"],"sql":"","sqlType":{"a":4},"table":"%s","ts":1700000000001,"type":"INSERT"}'
            )  # fmt: skip
            text = (value % (database, table)).encode()
            translator.translate(ConsumerRecord("t", 0, 0, 1700000000001, None, text))

    translate("one", "same", warm)
    for number in range(5):
        translate("one", f"another_{number}", warm)
    translate("two", "same", 8)
    assert translator.paths["fast"] >= 4
