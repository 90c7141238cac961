"""Values of hidden columns appear in nothing that any route writes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from column_rules_support import ACTIONS, KEY, bytes_of, canaries_in, forms_of, rules, source_records
from support import WRITABLE

from relay import ColumnRule, ProducerRecord, Resolver, Translator
from relay.io.kernel import translator_class


@pytest.mark.parametrize("target", sorted(WRITABLE))
@pytest.mark.parametrize("source", sorted(WRITABLE - {"flat-json"}))
def test_hidden_values_are_in_no_message(source: str, target: str) -> None:
    records = source_records(source)
    assert any(canaries_in(bytes_of(each)) for each in records)
    for action in ACTIONS:
        out = translated(Translator, source, target, rules(action))
        assert {canary for each in out for canary in canaries_in(bytes_of(each))} == set(), action
        assert any(form in bytes_of(each) for each in out for form in forms_of("Berlin"))
        assert translated(translator_class(), source, target, rules(action)) == out


def translated(
    kind: Callable[..., Translator], source: str, target: str, columns: tuple[ColumnRule, ...]
) -> list[ProducerRecord]:
    """Return what a translator with rules makes of the story."""
    translator = kind(source, target, columns=columns, hash_key=KEY)
    return [each for record in source_records(source) for each in Resolver().translate(translator, record)]
