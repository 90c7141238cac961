"""The schema history of a route that hides values: definitions without hidden defaults and comments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from column_rules_support import (
    CANARIES,
    KEY,
    bytes_of,
    canaries_in,
    customer_message,
    rule,
    rules,
    source_records,
    story,
)
from support import TICDC, WRITABLE

from relay import ConsumerRecord, ProducerRecord, Resolver, TableId, Translator
from relay.catalog.definitions import Definition, definition_record
from relay.catalog.redacted_history import is_redacted
from relay.model.errors import Malformed
from relay.service.loop.history import apply_records, history_record
from relay.service.loop.history import source_records as records_in

#: Protocols whose messages do not change definitions.
_WITHOUT_DDL = {"ogg-json"}
_TABLE = TableId("shop", "customers")


def _translator(source: str, action: str = "hash", target: str = "debezium-json") -> Translator:
    return Translator(source, target, columns=rules(action), hash_key=KEY)


def _kept(translator: Translator, records: Iterable[ConsumerRecord]) -> Iterator[ProducerRecord]:
    """The entries of the history for the records that change the catalog."""
    for each in records:
        before = translator.catalog
        Resolver().translate(translator, each)
        if translator.catalog is not before:
            yield history_record(translator.history_entry(each), "history", "route")


def _read(entries: Iterable[ProducerRecord]) -> list[ConsumerRecord]:
    """The source records of a history with these entries."""
    return records_in(
        ConsumerRecord("history", 0, at, 0, each.key, each.value, each.headers)
        for at, each in enumerate(entries)
    )


@pytest.mark.parametrize("source", sorted(WRITABLE - {"flat-json"} - _WITHOUT_DDL))
def test_a_history_has_no_hidden_values_and_the_same_definitions(source: str) -> None:
    records = source_records(source)
    translator = _translator(source)
    entries = list(_kept(translator, records))
    assert not [canary for each in entries for canary in canaries_in(bytes_of(each))]
    restarted = _translator(source)
    assert apply_records(restarted, _read(entries)) == 0
    _check_same_rows(translator, restarted, records)


def _check_same_rows(translator: Translator, restarted: Translator, records: list[ConsumerRecord]) -> None:
    """Both know the same definitions, and reading a statement again changes nothing."""
    for each in records:
        before = restarted.catalog
        assert Resolver().translate(restarted, each) == Resolver().translate(translator, each)
        assert restarted.catalog is before


def test_a_history_without_hidden_values_has_the_records() -> None:
    translator = Translator(
        TICDC, "debezium-json", columns=[rule("rename", "email", name="mail", tables="*.*")]
    )
    entries = list(_kept(translator, story()[:5]))
    assert [record.value for record in _read(entries)] == [each.value for each in (story()[0], story()[4])]


def test_types_and_what_is_shown_stay() -> None:
    create = "CREATE TABLE `customers` (`id` bigint DEFAULT '3' COMMENT 'number', `email` enum('a','b') DEFAULT 'b')"
    translator = _translator(TICDC)
    (entry,) = _kept(translator, [customer_message("CREATE", 0, sql=create)])
    restarted = _translator(TICDC)
    apply_records(restarted, _read([entry]))
    found, known = (each.catalog.newest(_TABLE)[1] for each in (restarted, translator))
    assert found is not None
    assert known is not None
    assert found.columns[0] == known.columns[0]
    assert (found.columns[1].type, found.columns[1].comment) == (known.columns[1].type, None)
    assert found.columns[1].default is not known.columns[1].default


_STATEMENTS = (
    "CREATE TABLE `customers` (`id` bigint PRIMARY KEY, `email` varchar(9))",
    "ALTER TABLE `customers` ADD `phone` int",
    "RENAME TABLE `customers` TO `clients`",
    "CREATE TABLE `customers` LIKE `clients`",
    "DROP TABLE `clients`",
    "CREATE TABLE `customers2` AS SELECT 1",
    "ALTER DATABASE `shop` CHARACTER SET latin1",
    "CREATE TABLE `late` (`id` int, `note` text)",
    "DROP DATABASE `shop`",
    "CREATE TABLE `customers` (`id` int)",
)


def _statements() -> list[ConsumerRecord]:
    return [customer_message("QUERY", at, sql=sql, table="") for at, sql in enumerate(_STATEMENTS)]


def _states(translator: Translator) -> Any:
    catalog = translator.catalog
    states = {
        (database, name): [(each.at, each.schema, each.is_gone, each.identity) for each in history]
        for database, tables in catalog.histories.items()
        for name, history in tables.items()
    }
    return states, dict(catalog.defaults.items())


def test_all_effects_of_statements_are_kept() -> None:
    translator = _translator(TICDC)
    entries = list(_kept(translator, _statements()))
    assert len(entries) == len(_STATEMENTS)
    restarted = _translator(TICDC)
    apply_records(restarted, _read(entries))
    assert _states(restarted) == _states(translator)
    for _ in range(2):  # as a running relay reads its own entries, too
        apply_records(translator, _read(entries))
        apply_records(restarted, _read(entries))
        assert _states(restarted) == _states(translator)


def test_statements_after_a_late_one_are_kept_again() -> None:
    first, late, *_ = _statements()
    after = customer_message("QUERY", 5, sql="ALTER TABLE `customers` ADD `born` date", table="")
    translator = _translator(TICDC)
    entries = list(_kept(translator, [first, after, late]))
    restarted = _translator(TICDC)
    apply_records(restarted, _read(entries))
    assert _states(restarted) == _states(translator)
    found = restarted.catalog.newest(_TABLE)[1]
    assert found is not None
    assert [column.name for column in found.columns] == ["id", "email", "phone", "born"]


def test_a_record_that_was_learned_ahead_is_redacted() -> None:
    translator = _translator(TICDC)
    create = story()[0]
    translator.learn(create)
    translator.translate(create)
    restarted = _translator(TICDC)
    apply_records(restarted, _read([history_record(translator.history_entry(create), "history")]))
    assert restarted.catalog.newest(_TABLE)[1] == translator.catalog.newest(_TABLE)[1]


def test_imported_definitions_hide_values_too() -> None:
    create = f"CREATE TABLE `customers` (`id` bigint, `email` text COMMENT '{CANARIES[0]}')"
    record = definition_record(Definition(_TABLE, (("shop", create),)))
    translator = _translator(TICDC)
    entry = history_record(translator.history_entry(record), "history")
    assert entry.key == str(record.position).encode()
    assert not canaries_in(bytes_of(entry))
    (kept,) = _read([entry])
    translator.learn(kept)
    assert is_redacted(kept)
    assert translator.history_entry(kept) is kept
    schema = translator.catalog.newest(_TABLE)[1]
    assert schema is not None
    assert [column.type.base for column in schema.columns] == ["bigint", "text"]


@pytest.mark.parametrize("value", [None, b"[", b"{}x", b'{"versions":[{}]}', b'{"versions":[1]}'])
def test_damaged_entries_are_refused(value: bytes | None) -> None:
    translator = _translator(TICDC)
    with pytest.raises(Malformed):
        translator.learn(ConsumerRecord("definitions after topic", 0, 0, 0, None, value))
