"""Rows whose values rules replace have templates, which show the key to nobody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from column_rules_support import KEY, row, rule
from engine_support import ENGINE, ENGINES, needs_kernel
from reference_engine import Interpreter
from support import TICDC, captured, reading_options, record
from templates_support import Both

from relay import ColumnRule, ConsumerRecord, NotRepresentable, TableRule, Translator
from relay.rules.columns.replacements import HashKey
from relay.templates.engine import Engine
from relay.templates.ops import Template

_EMAILS = ("ann@example.com", "", "Ünal 😀 \u20ac", 'a "quoted"\n\\ line', "x" * 300)

_COMMIT = {"_tidb": {"commitTs": 1_700_000_000_000 << 18}}


def _compact(message: dict[str, Any]) -> ConsumerRecord:
    return record(msgspec.json.encode(message))


def _row(at: int, op: str = "INSERT", **more: Any) -> ConsumerRecord:
    old = {"email": f"old{at}@example.com"} if op == "UPDATE" else None
    given = {"id": str(at), "email": f"{at}@example.com", "age": str(at % 200), "credit": f"{at}.10"}
    return _compact(row(op, old, **given | more) | _COMMIT)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("target", ["canal-json", "debezium-json", "flat-json", "maxwell-json"])
@pytest.mark.parametrize(
    "rules",
    [
        (rule("hash", "email", "age", "credit", "born", "photo", "data"),),
        (rule("hash", "id", length=32),),
        (rule("mask", "email", "age", "credit", "born", first=1, last=2),),
        (rule("truncate", "email", "photo", length=3), rule("mask", "age")),
        (rule("hash", "email", length=9), rule("rename", "email", name="mail"), rule("drop", "born")),
    ],
    ids=lambda rules: " ".join(each.action for each in rules),
)
def test_rows_have_templates(engine: type[Engine], target: str, rules: tuple[ColumnRule, ...]) -> None:
    both = Both(TICDC, target=target, engine=engine, columns=rules, hash_key=KEY)
    for op in ("INSERT", "UPDATE", "DELETE"):
        both.learn(*[_row(at, op) for at in (1, 2)])
        assert both.fits(_row(3, op))
        for email in _EMAILS:
            assert both.fits(_row(4, op, email=email, age="0", credit="-0.01"))
        assert both.fits(_row(5, op, email=None, age=None, born=None))


def test_a_malformed_value_under_a_rule_is_the_same_error() -> None:
    both = Both(TICDC, target="debezium-json", engine=ENGINE, columns=[rule("hash", "age")], hash_key=KEY)
    both.learn(*[_row(at) for at in (1, 2)])
    assert not both.fits(_row(3, age="many"))
    assert both.fits(_row(4))


@pytest.mark.parametrize("base", ["enum", "double"])
def test_values_whose_text_engines_do_not_know_have_no_template(base: str) -> None:
    types = {"id": "bigint", "value": {"enum": "enum('low','high')", "double": "double"}[base]}
    value = {"enum": "2", "double": "1e17"}[base]
    message = {"mysqlType": types, "sqlType": {"id": -5, "value": 4}, "data": [{"id": "1", "value": value}]}
    both = Both(TICDC, target="flat-json", engine=ENGINE, columns=[rule("hash", "value")], hash_key=KEY)
    for _ in range(5):
        assert not both.fits(_compact(row() | _COMMIT | message))


def test_no_template_shows_the_key() -> None:
    seen: list[Template] = []

    class Recording(Interpreter):
        """Keeps the templates that it is given."""

        def add(self, template: Template) -> int:
            seen.append(template)
            return super().add(template)

    both = Both(TICDC, target="flat-json", engine=Recording, columns=[rule("hash", "email")], hash_key=KEY)
    both.learn(*[_row(at) for at in (1, 2)])
    assert both.fits(_row(3))
    assert "hash" in repr(seen[-1])
    for text in (repr(seen), str(seen), f"{HashKey(KEY)} {HashKey(KEY)!r}", repr(vars(both.templated))):
        assert KEY.decode() not in text


@needs_kernel
def test_the_projection_of_a_template_is_not_that_of_other_rows() -> None:
    """NULL in the NOT NULL key of a table with another rule became NULL in the target."""
    file = "mysql/debezium.no-schema/07_keys"
    records = captured(file)
    marks = (b'"table":"pk_single"', b'"op":"c"', b'"after":{"id":1')
    one = next(each for each in records if all(mark in (each.value or b"") for mark in marks))
    null = msgspec.structs.replace(one, value=(one.value or b"").replace(marks[-1], b'"after":{"id":null'))
    found = []
    for engine in (None, ENGINE):
        translator = Translator(
            "debezium-json",
            "debezium-json",
            reading_options(file),
            columns=[rule("rename", "v", name="z", tables="*.*")],
            engine=engine,
        )
        for each in (*records, *[msgspec.structs.replace(one, offset=1000 + at) for at in range(60)]):
            translator.translate(each)
        found.append((translator.translate(null), translator.losses))
    assert found[0] == found[1]


@pytest.mark.parametrize("tables", [[], [TableRule(source=r"(.*)\..*", target="{1}.moved")]])
@pytest.mark.parametrize("action", ["rename", "hash"])
def test_losses_do_not_depend_on_how_many_rows_came_before(
    action: str, tables: list[TableRule], compile_at: Callable[[int], None]
) -> None:
    """The first 15 rows of a table passed a route that refuses them."""
    compile_at(8)
    one = next(each for each in captured("mysql/canal-json/09_dml") if b'"INSERT"' in (each.value or b""))
    more = {"name": "q"} if action == "rename" else {}
    translator = Translator(
        "canal-json",
        "flat-json",
        target_options={"strict": "untyped"},
        columns=[rule(action, "name", tables="*.*", **more)],
        hash_key=KEY,
        tables=tables,
    )
    for at in range(20):
        with pytest.raises(NotRepresentable, match="untyped"):
            translator.translate(msgspec.structs.replace(one, offset=at))
