"""State that an older version has written is read: `data/state` has it as that version wrote it (README.md there).

The Spark job's checkpoint is in `spark/test_earlier_state.py`, what needs a broker in `service/test_earlier_state.py`.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple, Never

import msgspec
import pytest
from state_support import STATE, records, tables
from support import DATA, captured

from relay import TableId, Translator
from relay.config import Config
from relay.config.registries import registry_settings
from relay.config.wiring import translator_of
from relay.core.dead_letters import DeadLetterFilter, DeadLetterIndex
from relay.io.kafka.ports import Partition
from relay.io.kafka.progress import progress_in
from relay.io.registry import SchemaRegistry
from relay.io.registry.transport import RegistryRequest, RegistryUnreachable, Response
from relay.io.resolver import Resolver
from relay.model.lookups import TableDefinition
from relay.service.commands.replay import Outcome, Replay
from relay.service.loop.history import apply_records, entries_of, source_records
from relay.topics.startup import WrittenTopics

#: The registry of the older version's run.
URL = "http://127.0.0.1:9/api"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """The folders with answers: of the source's registry, of the target's, and of a resolver."""
    for name, text in json.loads((STATE / "answer-cache.json").read_text(encoding="utf-8")).items():
        path = tmp_path / "cache" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "cache"


def no_answer(_: RegistryRequest) -> Response:
    raise RegistryUnreachable("connection refused")


def avro(cache: Path) -> Config:
    """The route whose answers were kept, with the present names of its keys."""
    strategies = ("key.subject.name.strategy", "value.subject.name.strategy")
    registries = {side: {"urls": [URL], "cache_dir": str(cache / side)} for side in ("source", "target")}
    keys: dict[str, Any] = {
        "route": {
            "from": "ticdc-avro",
            "to": "debezium-avro",
            "to_options": dict.fromkeys(strategies, "TopicRecordNameStrategy"),
        },
        "source": {
            "bootstrap_servers": "b:1",
            "topics": ["t"],
            "group_id": "g",
            "schema_registry": registries["source"],
        },
        "target": {"topic": "avro-out", "schema_registry": registries["target"]},
    }
    return Config(**keys)


def without_registry(cache: Path) -> Resolver:
    """A resolver for schemas that only has the folders."""
    config = avro(cache)
    sides = {"source": config.source.schema_registry, "target": config.target.schema_registry}
    return Resolver(
        registries={
            side: SchemaRegistry(registry_settings(table, side), retries=0, transport=no_answer)
            for side, table in sides.items()
        }
    )


# ---------------------------------------------------------------- schema history


class History(NamedTuple):
    """A schema history's name, the source it is of, and how many of its records there are."""

    name: str
    protocol: str
    records: int
    options: dict[str, str] | None = None


HISTORIES = [
    History("canal", "ticdc-canal-json", 49),
    History("debezium", "debezium-json", 47),
    History("open", "ticdc-open-protocol", 3, {"large-message-handle-compression": "lz4"}),
    History("simple", "ticdc-simple-avro", 56),
    History("maxwell", "maxwell-json", 43),
    History("avro", "ticdc-avro", 49),
]


@pytest.mark.parametrize("history", HISTORIES, ids=lambda each: each.name)
def test_a_schema_history_gives_the_same_tables(history: History, cache: Path) -> None:
    translator = Translator(history.protocol, "canal-json", source_options=history.options)
    found = source_records(records(f"history/{history.name}"))
    assert len(found) == history.records
    assert apply_records(translator, found, without_registry(cache)) == 0
    expected = json.loads((STATE / f"history/{history.name}.tables.json").read_text(encoding="utf-8"))
    assert tables(translator.catalog) == expected


def test_a_schema_history_without_names_of_routes_is_not_foreign() -> None:
    for history in HISTORIES:
        kept = records(f"history/{history.name}")
        assert {each.headers for each in kept} == {()}
        assert entries_of(kept).unreadable == []


# ---------------------------------------------------------------- progress


def test_progress_is_read() -> None:
    kept = records("progress")
    first = {Partition("progress-source", number): 20 for number in range(3)}
    assert progress_in(kept[:3], "orders/relay") == first
    last = {Partition("progress-source", number): offset for number, offset in enumerate((97, 45, 41))}
    assert progress_in(kept, "orders/relay") == last
    assert progress_in(kept, "orders") == {}


# ---------------------------------------------------------------- dead letters

CLAIMS = DATA / "ticdc/canal-json.claim-check/storage"
#: The message that was missing there.
GONE = "0c9d8aa1-5b00-4d7d-a508-a608fb91ea26.json"


def orders(claims: Path, strict: str = "false") -> Config:
    """The route of the dead letters, which now accepts statements of any length, and rows of all tables."""
    keys: dict[str, Any] = {
        "route": {
            "from": "ticdc-canal-json",
            "to": "debezium-json",
            "from_options": {"claim-check-storage-uri": claims.as_uri()},
            "to_options": {
                "key.converter.schemas.enable": "false",
                "value.converter.schemas.enable": "false",
                "strict": strict,
            },
        },
        "source": {"bootstrap_servers": "b:1", "topics": ["orders"], "group_id": "orders-relay"},
        "target": {"topic": "orders-out"},
        "schema": {"history_topic": "orders-history"},
        "errors": {"decode": "dead-letter", "dead_letter_topic": "orders-dead"},
    }
    return Config(**keys)


async def replayed(config: Config, largest: int) -> tuple[Outcome, Translator]:
    """Replay, without writing, what was not replayed yet; records of the target may have so many bytes."""
    translator = translator_of(config)
    assert apply_records(translator, source_records(records("dead-letters.history"))) == 0
    replay = Replay(config, translator, WrittenTopics({"orders-out": largest}, ()), writes=False)
    chosen = DeadLetterFilter(route=config.route_name).filter(letters().dead_letters())
    return await replay.run(chosen, lambda *_: None), translator


def letters() -> DeadLetterIndex:
    index = DeadLetterIndex(lambda _: True)
    for each in records("dead-letters"):
        index.add(each)
    return index


def test_dead_letters_are_listed_as_before() -> None:
    index = letters()
    assert index.other_records == 0
    listed = [
        json.loads(line)
        for line in (STATE / "dead-letters.listed.ndjson").read_text(encoding="utf-8").splitlines()
    ]
    assert [
        {
            "position": each.position._asdict(),
            "source": each.source._asdict(),
            "route": each.route,
            "timestamp": each.original.timestamp_ms,
            "code": each.code,
            "protocol": each.protocol,
            "path": each.path,
            "detail": each.detail,
            "tables": [{"database": table.database, "table": table.table} for table in each.tables],
            "replayed": each.replayed_ms,
        }
        for each in index.dead_letters()
    ] == listed


async def test_dead_letters_fail_again_for_the_same_reasons(tmp_path: Path) -> None:
    """Only the limit for statements was raised: the older version would have written five records."""
    for each in CLAIMS.iterdir():
        if each.name != GONE:
            shutil.copy(each, tmp_path)
    outcome, _ = await replayed(orders(tmp_path, strict="zero-date"), largest=7_000)
    assert (outcome.letters, outcome.records) == (5, 5)
    assert Counter(each.error.code for each in outcome.failed) == {
        "decode.malformed": 1,
        "encode.not-representable": 8,
        "service.record-too-large": 1,
        "service.claim-check-missing": 1,
    }


async def test_dead_letters_are_translated_when_the_reasons_are_gone() -> None:
    """Statements among them are learned, too."""
    outcome, translator = await replayed(orders(CLAIMS), largest=1_000_000)
    assert (outcome.letters, outcome.records) == (15, 16), "a DELETE has a tombstone"
    assert [each.error.code for each in outcome.failed] == ["decode.malformed"]
    assert {"dml_db.accounts", "zero_dates_db.zd"} <= tables(translator.catalog).keys()


# ---------------------------------------------------------------- answers


def test_answers_of_a_registry_are_used_without_it(cache: Path) -> None:
    """Schemas of the source, and ids of the target's schemas."""
    translator, resolver = translator_of(avro(cache)), without_registry(cache)
    written = [
        out
        for record in captured("ticdc/avro.tidb-extension/10_ddl")
        for out in resolver.translate(
            translator, msgspec.structs.replace(record, topic=f"avro-{record.topic}")
        )
    ]
    assert len(written) == 123


def test_definitions_of_a_resolver_are_used(cache: Path) -> None:
    """They are of tables at positions with a commit ts, and with a position in a binlog."""

    def refuse(need: TableDefinition) -> Never:
        raise AssertionError(need.what())

    resolver = Resolver(fetches={TableDefinition: refuse}, cache=cache / "resolver")
    for protocol, file, count in (
        ("ticdc-canal-json", "ticdc/canal-json.tidb-extension/09_dml", 6),
        ("debezium-json", "mysql/debezium.no-schema/09_dml", 40),
    ):
        translator, table = Translator(protocol, "canal-json"), TableId("dml_db", "accounts")
        for record in captured(file)[:count]:
            translator.learn(record)
        at, schema = translator.catalog.newest(table)
        assert at is not None
        assert schema is not None
        found = resolver.fetch(TableDefinition(table, at))
        assert (found.id, found.columns, found.primary_key) == (table, schema.columns, schema.primary_key)
