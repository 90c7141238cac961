"""Values that are no JSON come apart into what they are made of, and are changed there."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from support import captured

from fuzz.binary import changed, decoded
from fuzz.mutations import mutated
from relay import ConsumerRecord, DecodeError, Resolver, Translator

FILES = {
    "canal-protobuf": "mysql/canal-protobuf/09_dml",
    "debezium-avro": "mysql/debezium.avro/06_zero_dates",
    "ticdc-avro": "ticdc/avro.include-before/09_dml",
    "ticdc-debezium-avro": "ticdc/debezium-avro/09_dml",
    "ticdc-simple-avro": "ticdc/simple.avro/09_dml",
}
PROTOCOLS = pytest.mark.parametrize(("protocol", "file"), FILES.items())


def has_value(record: ConsumerRecord) -> bool:
    """Whether it is no tombstone."""
    return record.value is not None


@PROTOCOLS
def test_what_is_not_changed_is_encoded_as_it_was(protocol: str, file: str) -> None:
    for record in filter(has_value, captured(file)):
        found = decoded(record.value or b"")
        assert found is not None, protocol
        assert found.encoded() == record.value


@PROTOCOLS
def test_most_changes_keep_the_structure(protocol: str, file: str) -> None:
    """What is refused has a reason of its own more often than that of bytes that are no message."""
    records, chance, outcomes = captured(file), random.Random(5), Counter[str]()
    translator = Translator(protocol, protocol)
    for record in records:
        Resolver().learn(translator, record)
    catalog = translator.catalog
    for _ in range(100):
        record = chance.choice(records)
        made = changed(record, chance)
        assert made is not None
        outcomes["changed"] += made != record
        translator.catalog = catalog
        try:
            Resolver().inspect(translator, made)
            outcomes["read"] += 1
        except DecodeError as error:
            outcomes[error.reason] += 1
    assert outcomes["changed"] > 80
    assert outcomes["read"] > 20
    assert len(outcomes) > 3


@PROTOCOLS
def test_cells_become_canaries(protocol: str, file: str) -> None:
    records, chance = captured(file), random.Random(6)
    made = [mutated(chance.choice(records), records, chance) for _ in range(200)]
    assert any(b"CaNaRy" in (each.value or b"") for each in made), protocol
