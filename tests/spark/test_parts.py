"""The parts of the job that need no Spark: records in columns, counters, the catalog that all tasks share,
client options.
"""

from __future__ import annotations

import pickle
import random
import tracemalloc
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from spark.backfills import config_for
from support import TICDC, captured, record, row_message

from relay import ConsumerRecord, Translator
from relay.config import SecurityConfig
from relay.config.kafka import security_settings
from relay.config.wiring import translator_of
from relay.io.kafka.settings import ClusterSettings
from relay.model.errors import ConfigError
from spark_backfill.brokers import client_options
from spark_backfill.counts import BackfillCounts, CountsParam, Parts, Tally
from spark_backfill.frames import Columns, record_batch
from spark_backfill.schema_pass import empty_catalog, learn_ddl, with_times
from spark_backfill.terms import Bounds


def test_records_go_through_columns_unchanged() -> None:
    records = [
        ConsumerRecord("t", 2, 7, -1, None, b"\xff", (("a", None), ("a", b"\x00"))),
        ConsumerRecord("t", 2, 8, 5, b"", None),
    ]
    assert list(Columns().read(record_batch(records))) == records
    assert list(Columns().read(record_batch(records[1:]))) == records[1:]


def test_a_task_that_ran_twice_counts_once() -> None:
    first, again, other = BackfillCounts(), BackfillCounts(), BackfillCounts()
    first.count_read([record(b"x", 3), record(b"y", 4)])
    again.count_read([record(b"x", 3), record(b"y", 4)])
    other.count_read([record(b"z", 9), record(b"z", 0, partition=1)])
    whole = tally_of([{0: first}, {0: again}, {1: other}]).counts
    assert (whole.read, whole.read_bytes) == (4, 4)
    assert whole.ranges == {"topic/0": (3, 9, 3), "topic/1": (0, 0, 1)}


def tally_of(tasks: Iterable[Parts]) -> Tally:
    """What Spark's driver has after these tasks, each of which has sent what it added."""
    param = CountsParam()
    found = param.zero(Tally())
    for term in tasks:
        sent = pickle.dumps(param.addInPlace(param.zero(Tally()), term))
        found = param.addInPlace(found, pickle.loads(sent))  # noqa: S301 - its own
    return found


def test_counters_in_the_driver_do_not_grow_with_tasks() -> None:
    """5,000 tasks and 1,000 tables, 5 of them in each task."""

    def of_task(task: int) -> Parts:
        tables = {f"database.table_{(5 * task + at) % 1_000}": Counter(insert=1) for at in range(5)}
        return {task: BackfillCounts(read=5, tables=tables)}

    tracemalloc.start()
    try:
        counts = tally_of(map(of_task, range(5_000))).counts
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert counts.read == 25_000
    assert len(counts.tables) == 1_000
    assert counts.tables["database.table_7"] == {"insert": 25}
    assert peak < 4 << 20


def test_bounds_hold_from_the_first_and_before_the_end() -> None:
    bounds = Bounds({"topic/0": 2}, {"topic/0": 4}, since_ms=10, before_ms=20)
    offsets = [at for at in range(6) if bounds.contains(record(b"", at, 15))]
    assert offsets == [2, 3]
    assert [ms for ms in (9, 10, 19, 20) if bounds.contains(record(b"", 3, ms))] == [10, 19]
    assert bounds.contains(record(b"", 9, 15, partition=1))


def ddl(offset: int, sql: str, commit_ts: int = 0) -> ConsumerRecord:
    tidb = {"commitTs": commit_ts or 10 * offset}
    message: dict[str, Any] = {
        "type": "ALTER",
        "isDdl": True,
        "sql": sql,
        "data": None,
        "old": None,
        "_tidb": tidb,
    }
    return record(row_message({}, **message), offset)


@pytest.mark.parametrize("seed", range(3))
def test_any_row_has_the_definition_of_its_position(seed: int) -> None:
    """However many versions its table has, in whatever order the DDL was found."""
    history = [ddl(1, "CREATE TABLE t (a VARCHAR(1))")]
    history += [ddl(2 * n + 1, f"ALTER TABLE t MODIFY a VARCHAR({n + 1})") for n in range(1, 400)]
    rows = [
        record(row_message({"a": "varchar"}, {"a": "x"}, _tidb={"commitTs": 10 * (2 * n)}), 2 * n)
        for n in range(1, 400)
    ]
    relay, expected = Translator(TICDC, "canal-json"), {}
    for each in sorted([*history, *rows], key=lambda found: found.offset):
        expected[each.offset] = relay.translate(each)
    config = config_for()
    shuffled = with_times(config, random.Random(seed).sample(history, len(history)))
    job = translator_of(config)
    job.catalog = learn_ddl(config, shuffled[200:], learn_ddl(config, shuffled[:200], empty_catalog()))
    assert b"varchar(2)" in (expected[4][0].value or b"")
    for row in rows:
        assert job.translate(row) == expected[row.offset]


def test_a_captured_topic_read_backwards_is_the_same() -> None:
    records = captured("ticdc/canal-json.tidb-extension/10_ddl")
    config = config_for()
    relay, job = translator_of(config), translator_of(config)
    expected = [relay.translate(each) for each in records]
    history = [each for each in records if b'"isDdl":true' in (each.value or b"")]
    job.catalog = learn_ddl(config, with_times(config, history), empty_catalog())
    assert [job.translate(each) for each in reversed(records)] == expected[::-1]


SAME_COMMIT_TS = {
    "swap": ["RENAME TABLE `d`.`a` TO `d`.`b`", "RENAME TABLE `d`.`b` TO `d`.`a`"],
    "chain": [f"RENAME TABLE `d`.`{old}` TO `d`.`{new}`" for old, new in ("bc", "ce", "ac")],
    "columns": [f"ALTER TABLE `d`.`a` ADD COLUMN `{name}` INT" for name in "xy"],
}


@pytest.mark.parametrize("parts", SAME_COMMIT_TS.values(), ids=SAME_COMMIT_TS)
@pytest.mark.parametrize("target", ["ticdc-debezium", "canal-json"])
def test_statements_of_one_commit_ts_are_those_that_the_relay_saw(target: str, parts: list[str]) -> None:
    """Whoever reads all DDL first knows the later ones before he translates the first; so does who reads a
    broadcast copy.
    """
    records = [
        ddl(at, f"CREATE TABLE `d`.`{name}` (`id` INT NOT NULL, `{name}` INT)")
        for at, name in enumerate("ab", start=1)
    ]
    records += [ddl(3 + at, sql, 30) for at, sql in enumerate(parts)]
    records.append(record(row_message({"id": "int"}, {"id": "1"}, table="a", _tidb={"commitTs": 31}), 9))
    config = config_for(route={"to": target})
    relay, job = translator_of(config), translator_of(config)
    expected = [relay.translate(each) for each in records]
    job.catalog = learn_ddl(config, with_times(config, records[:-1]), empty_catalog())
    assert [job.translate(each) for each in records] == expected
    assert [relay.translate(each) for each in records] == expected


def test_tls_and_sasl_are_the_java_clients(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_text("CA")
    keys = {
        "protocol": "SASL_SSL",
        "mechanism": "SCRAM-SHA-512",
        "username": "me",
        "password": 'a"b\\',
        "ca_file": str(ca),
    }
    cluster = ClusterSettings(
        "b:1", security_settings(SecurityConfig.model_validate(keys), "source.security")
    )
    assert client_options(cluster) == {
        "bootstrap.servers": "b:1",
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "CA",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required "
            'username="me" password="a\\"b\\\\";'
        ),
    }
    ca.unlink()
    with pytest.raises(ConfigError, match=r"source\.security\.ca_file"):
        client_options(cluster)
