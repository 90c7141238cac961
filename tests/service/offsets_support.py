"""A route for tests of `relay offsets`: a configuration file, relays that run it, and the command."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from relay.cli.commands import app
from relay.config import Config, load_config
from relay.model.records import SOURCE_HEADER, ConsumerRecord
from relay.service.loop.settings import LoopSettings

NOW = 1_700_000_000_000


class Route:
    """A route between two topics of two partitions. `lay` comes first."""

    def __init__(self, kafka: Any, run_relay: Any, echo: Any, folder: Path) -> None:
        self.kafka, self._run_relay, self._echo, self._file = kafka, run_relay, echo, folder / "relay.toml"
        self.source = self.target = self.group = ""

    async def lay(self, partitions: int = 2, **tables: Mapping[str, Any]) -> None:
        """Make the topics and the configuration; `tables` are tables of it, over the usual ones."""
        self.source, self.target = await self.kafka.topic(partitions), await self.kafka.topic(partitions)
        self.group = f"g-{self.target}"
        self.configure(**tables)

    def configure(self, **tables: Mapping[str, Any]) -> None:
        """Write the configuration anew."""
        usual: dict[str, dict[str, Any]] = {
            "route": {"from": "ticdc-canal-json", "to": "canal-json"},
            "source": {
                "bootstrap_servers": self.kafka.bootstrap_servers,
                "topics": [self.source],
                "group_id": self.group,
            },
            "target": {"topic": self.target},
            "delivery": {"commit_interval_seconds": 0.2},
            "schema": {"history_topic": ""},
        }
        lines = []
        for name, table in usual.items():
            lines.append(f"[{name}]")
            # JSON of texts, numbers and lists is TOML.
            lines += [
                f"{key} = {_toml(value)}" for key, value in (table | dict(tables.get(name, {}))).items()
            ]
        self._file.write_text("\n".join(lines), encoding="utf-8")

    @property
    def config(self) -> Config:
        return load_config(self._file)

    async def produce(self, count: int, start: int = 0) -> None:
        """Write numbered records, in turn to both partitions, a millisecond apart."""
        numbers = range(start, start + count)
        await self.kafka.produce(
            self.source, [ConsumerRecord("", i % 2, 0, NOW + i, None, b"%d" % i) for i in numbers]
        )

    def start(self, settings: LoopSettings | None = None, **delivery: int) -> Any:
        """Start a relay; `delivery` are keys of [delivery] that differ."""
        config = self.config
        changed = config.model_copy(update={"delivery": config.delivery.model_copy(update=delivery)})
        return self._run_relay(changed, self._echo(self.target), settings)

    async def relayed(self, count: int) -> None:
        """Run a relay until it has committed so many records, then stop it."""
        relay = self.start()
        await self.reach(count)
        assert await relay.stop() == 0

    async def reach(self, count: int) -> None:
        """Wait until the committed offsets add up to this number."""

        async def is_reached() -> bool:
            return sum(each["committed"] or 0 for each in await self.shown()) == count

        await self.kafka.until(is_reached)

    async def call(self, *arguments: str | int) -> Result:
        """Call `relay offsets` beside the tests' event loop."""
        command = ["offsets", *map(str, arguments), "--config", str(self._file)]
        return await asyncio.to_thread(CliRunner().invoke, app, command)

    async def objects(self, *arguments: str | int) -> list[dict[str, Any]]:
        result = await self.call(*arguments, "--json", "--quiet")
        assert result.exit_code == 0, result.stderr
        return [json.loads(line) for line in result.stdout.splitlines()]

    async def shown(self) -> list[dict[str, Any]]:
        return await self.objects("show")

    async def committed(self) -> list[int | None]:
        return [each["committed"] for each in await self.shown()]

    async def marks(self) -> list[str]:
        """The source positions of the committed records in the target, in the order of the partitions."""
        found = await self.kafka.read(self.target, committed=True)
        return [(dict(each.headers)[SOURCE_HEADER] or b"").decode() for each in found]

    def marks_of(self, partition: int, offsets: Iterable[int]) -> list[str]:
        return [f"{self.source}/{partition}/{offset}/0" for offset in offsets]


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(each)}" for key, each in value.items()) + "}"
    return json.dumps(value)
