"""How many rows of captured files fit templates, so that no route loses its templates unnoticed.

The rest has none for a reason: rows older than DDL that no commit ts orders, updates that become two
messages, values of which the target loses something.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pytest
from reference_engine import Interpreter
from support import CAPTURED, captured, protocol_of, reading_options

from relay import CodecError, ConsumerRecord, ProducerRecord, Translator
from relay.routing import TopicRule

ROUNDS: Final = 8
ROWS: Final = ("insert", "update", "delete", "read")
FOLDER: Final = "ticdc/canal-json.tidb-extension"
WORKLOADS: Final = ("02_numeric", "03_temporal", "04_strings_binary", "07_keys", "09_dml", "11_enum_set")

#: Targets and their options, and how many of a hundred rows fit templates at least.
SHARES: Final[list[tuple[str, Mapping[str, str], int]]] = [
    ("canal-json", {}, 92),
    ("canal-json", {"profile": "flink"}, 92),
    ("ticdc-canal-json", {}, 92),
    ("ticdc-canal-json", {"only-output-updated-columns": "true", "enable-tidb-extension": "true"}, 92),
    ("ticdc-canal-json", {"delete-only-output-handle-key-columns": "true", "key": "primary-key"}, 92),
    ("ckafka-json", {}, 92),
    ("ticdc-open-protocol", {}, 92),
    ("ticdc-open-protocol", {"delete-only-output-handle-key-columns": "true"}, 92),
    # An UPDATE would have cells of changed columns alone.
    ("ticdc-open-protocol", {"only-output-updated-columns": "true"}, 70),
    ("ticdc-debezium", {}, 88),
    ("ticdc-debezium", {"debezium-disable-schema": "true", "key": "primary-key"}, 88),
    ("ticdc-debezium", {"enable-tidb-extension": "true", "debezium-include-start-ts": "true"}, 88),
    # A DELETE has a tombstone, a second message.
    ("debezium-json", {}, 76),
    ("debezium-json", {"tombstones.on.delete": "false", "schemas.enable": "false"}, 91),
    ("debezium-json", {"profile": "flink"}, 92),
    ("debezium-json", {"profile": "kafka-connect"}, 76),
    ("debezium-json", {"decimal.handling.mode": "string", "time.precision.mode": "connect"}, 72),
    ("flat-json", {}, 92),
    ("flat-json", {"commit-ts-column": "__commit_ts", "version-column": "__version"}, 92),
    ("flat-json", {"profile": "clickhouse"}, 92),
    ("flat-json", {"profile": "starrocks"}, 92),
]


def share(file: str, target: str, options: Mapping[str, str], key: tuple[str, ...] = ()) -> tuple[int, int]:
    """Return how many rows of a file fitted templates in the last round, and how many there were."""
    rules = [TopicRule("*.*", key=key)] if key else []
    source, records = protocol_of(file), captured(file)
    translator = Translator(source, target, reading_options(file), options, rules=rules, engine=Interpreter)
    before = 0, 0
    for _ in range(ROUNDS):
        before = fitting(translator)
        for record in records:
            try:
                translator.translate(record)
            except CodecError:
                continue
    after = fitting(translator)
    return after[0] - before[0], after[1] - before[1]


@pytest.mark.parametrize("target", ["canal-json", "ticdc-canal-json", "debezium-json", "ckafka-json"])
def test_rows_of_ckafka_fit_templates(target: str) -> None:
    """Of all types: relay has written them as CKafka's."""
    fitted = rows = 0
    for file in CAPTURED:
        if file.startswith((FOLDER + "/01", FOLDER + "/09")):
            made = Translator(protocol_of(file), "ckafka-json", reading_options(file))
            written = [out for each in captured(file) for out in made.translate(each)]
            its_fitted, its_rows = share_of(written, target)
            fitted, rows = fitted + its_fitted, rows + its_rows
    assert rows > 60
    assert 100 * fitted >= 76 * rows


def share_of(written: Sequence[ProducerRecord], target: str) -> tuple[int, int]:
    """Return the same of messages that relay has written as CKafka's."""
    records = [
        ConsumerRecord(out.topic, out.partition, at, out.timestamp_ms, out.key, out.value)
        for at, out in enumerate(written)
    ]
    translator = Translator("ckafka-json", target, engine=Interpreter)
    before = 0, 0
    for _ in range(ROUNDS):
        before = fitting(translator)
        for record in records:
            translator.translate(record)
    after = fitting(translator)
    return after[0] - before[0], after[1] - before[1]


def fitting(translator: Translator) -> tuple[int, int]:
    return translator.paths["fast"], sum(translator.events[kind] for kind in ROWS)


@pytest.mark.one_case
@pytest.mark.parametrize(("target", "options", "least"), SHARES)
def test_most_rows_fit_templates(target: str, options: Mapping[str, str], least: int) -> None:
    files = [
        file for file in CAPTURED if file.startswith(FOLDER + "/") and any(map(file.__contains__, WORKLOADS))
    ]
    assert len(files) == len(WORKLOADS)
    fitted, rows = map(sum, zip(*[share(file, target, options) for file in files], strict=True))
    assert rows > 300
    assert 100 * fitted >= least * rows


@pytest.mark.one_case
@pytest.mark.parametrize("target", ["debezium-json", "flat-json", "ticdc-canal-json", "ticdc-debezium"])
def test_keys_of_chosen_columns_do_not_stand_in_the_way(target: str) -> None:
    (file,) = [file for file in CAPTURED if file.startswith(FOLDER + "/12_bulk")]
    fitted, rows = share(file, target, {}, ("id",))
    assert rows > 300
    assert 100 * fitted >= 60 * rows
