"""Rows whose values rules replace have templates, which show the key to nobody."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from column_rules_support import KEY, row, rule
from engine_support import ENGINE, ENGINES
from reference_engine import Interpreter
from support import TICDC, record
from templates_support import Both

from relay import ColumnRule, ConsumerRecord
from relay.column_rules.replacements import HashKey
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
