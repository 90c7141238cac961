"""Topics of relay's own that an older version has written, on a real Apache Kafka (`test_earlier_state.py` above
has what needs none).
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from state_support import STATE, records
from support import DATA, captured
from typer.testing import CliRunner

from relay.cli.commands import app
from relay.core.dead_letters import read_marker
from relay.model.records import ConsumerRecord

pytestmark = pytest.mark.kafka

SPREAD = "ticdc/canal-json.3-partitions/10_ddl"
DEAD_LETTERS = """
[route]
from = "ticdc-canal-json"
to = "debezium-json"
from_options = {{ claim-check-storage-uri = "{claims}" }}
to_options = {{ "key.converter.schemas.enable" = false, "value.converter.schemas.enable" = false }}
[source]
bootstrap_servers = "{servers}"
topics = ["orders"]
group_id = "orders-relay"
[target]
topic = "orders-out"
[errors]
decode = "dead-letter"
dead_letter_topic = "orders-dead"
[schema]
history_topic = "orders-history"
"""


def moved(found: list[ConsumerRecord]) -> list[ConsumerRecord]:
    """Without the gaps of transactions, which a test does not make."""
    return [msgspec.structs.replace(each, offset=number) for number, each in enumerate(found)]


async def test_exactly_once_between_clusters_goes_on(
    kafka: Any, make_config: Any, echo: Any, run_relay: Any
) -> None:
    """By another name the broker counts as another cluster."""
    source, target = await kafka.topic(3, name="progress-source"), await kafka.topic(3)
    progress = await kafka.topic(cleanup_policy="compact")
    await kafka.produce(progress, moved(records("progress")))
    await kafka.produce(source, captured(SPREAD) + captured(SPREAD)[:40])
    config = make_config(
        *(source, target),
        source_group_id="orders/relay",
        target_bootstrap_servers=f"localhost:{kafka.bootstrap_servers.rpartition(':')[2]}",
        delivery_mode="exactly-once",
        delivery_progress_topic=progress,
        schema_history_topic="",
    )
    relay = run_relay(config, echo(target))
    await kafka.until(lambda: written(kafka, target, 40))
    assert await relay.stop() == 0
    (opened,) = relay.log.named("partitions.opened")
    assert opened["offsets"] == {f"{source}/{number}": at for number, at in enumerate((97, 45, 41))}
    assert len(await kafka.read(target, committed=True)) == 40


async def written(kafka: Any, target: str, count: int) -> bool:
    return len(await kafka.read(target, committed=True)) >= count


async def test_dead_letters_are_listed_and_replayed(kafka: Any, tmp_path: Path) -> None:
    path = tmp_path / "relay.toml"
    claims = (DATA / "ticdc/canal-json.claim-check/storage").as_uri()
    path.write_text(DEAD_LETTERS.format(claims=claims, servers=kafka.bootstrap_servers))
    for name in ("orders", "orders-out", "orders-dead", "orders-history"):
        await kafka.topic(name=name)
    await kafka.produce("orders-dead", records("dead-letters"))
    await kafka.produce("orders-history", moved(records("dead-letters.history")))

    async def run(*arguments: str) -> str:
        given = ["dead-letters", *arguments, "--config", str(path)]
        done = await asyncio.to_thread(CliRunner().invoke, app, given)
        assert done.exit_code in {0, 2}, done.output
        return done.stdout

    listed = (STATE / "dead-letters.listed.ndjson").read_text(encoding="utf-8")
    assert [json.loads(line) for line in (await run("list", "--all", "--json")).splitlines()] == [
        json.loads(line) | {"has_payload": True} for line in listed.splitlines()
    ]
    await run("replay")
    assert len(await kafka.read("orders-out")) == 16
    # Those of the older version, and one for each dead letter that could be replayed.
    found = [read_marker(each) for each in await kafka.read("orders-dead")]
    assert len({position for position in found if position}) == 7 + 15
    # Statements that were replayed are in the history, too.
    assert len(await kafka.read("orders-history")) == 3 + 5
    left = [json.loads(line)["code"] for line in (await run("list", "--json")).splitlines()]
    assert left == ["decode.malformed"]
