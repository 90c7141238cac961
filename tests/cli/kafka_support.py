"""A route on the broker of the tests, as a configuration file, and its topics."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
from support import captured
from typer.testing import Result

from relay.model.records import ConsumerRecord
from relay.service.loop.history import history_record

#: DDL and rows of some tables, and watermarks.
DML = "ticdc/canal-json.tidb-extension/09_dml"


class Route:
    """Source, target, dead letters and schema history; `run` calls the command line beside the tests' event
    loop.
    """

    def __init__(self, kafka: Any, relay: Callable[..., Result], path: Path, topics: list[str]) -> None:
        self.kafka, self._relay, self.config = kafka, relay, path
        self.source, self.target, self.dead, self.history = topics
        self.group = f"g-{uuid.uuid4().hex[:8]}"

    @classmethod
    async def made(
        cls, kafka: Any, relay: Callable[..., Result], folder: Path, partitions: int = 1, **limits: str
    ) -> Route:
        """Create the topics and write the configuration."""
        source, dead, history = [
            await kafka.topic(partitions),
            await kafka.topic(partitions),
            await kafka.topic(cleanup_policy="compact"),
        ]
        route = cls(
            kafka,
            relay,
            folder / "relay.toml",
            [source, await kafka.topic(partitions, **limits), dead, history],
        )
        route.configure()
        return route

    def configure(  # noqa: PLR0913 - what a configuration has
        self,
        to_options: str = "{}",
        dead: str | None = None,
        policy: str = "dead-letter",
        to: str = "canal-json",
        partitions: int = 0,
        *,
        source: str = "ticdc-canal-json",
        max_initial_failures: int = 20,
    ) -> None:
        """Write the configuration anew."""
        self.config.write_text(
            f'[route]\nfrom = "{source}"\nto = "{to}"\nto_options = {to_options}\n'
            f'[source]\nbootstrap_servers = "{self.kafka.bootstrap_servers}"\ntopics = ["{self.source}"]\n'
            f'group_id = "{self.group}"\n[target]\ntopic = "{self.target}"\npartitions = {partitions}\n'
            f'[errors]\ndecode = "{policy}"\nencode = "{policy}"\ndead_letter_topic = "{self.dead if dead is None else dead}"\n'
            f"max_initial_failures = {max_initial_failures}\n"
            f'[schema]\nhistory_topic = "{self.history}"\n',
            encoding="utf-8",
        )

    async def beside(self, folder: Path, to: str = "canal-json") -> Route:
        """Another route of the same source topic, with the same dead-letter topic."""
        topics = [
            self.source,
            await self.kafka.topic(),
            self.dead,
            await self.kafka.topic(cleanup_policy="compact"),
        ]
        route = Route(self.kafka, self._relay, folder / "beside.toml", topics)
        route.configure(to=to)
        return route

    def records(self, path: str = DML) -> list[ConsumerRecord]:
        """Captured records as if they stood in the source topic."""
        return [
            msgspec.structs.replace(each, topic=self.source, offset=offset)
            for offset, each in enumerate(captured(path))
        ]

    async def remember(self, records: Iterable[ConsumerRecord]) -> None:
        """Write records into the schema history, as the relay does with those that change the catalog."""
        kept = [history_record(record, self.history) for record in records]
        await self.kafka.produce(
            self.history,
            [ConsumerRecord(out.topic, 0, 0, out.timestamp_ms, out.key, out.value) for out in kept],
        )

    async def run(self, *arguments: str | Path) -> Result:
        """Call `relay` with these arguments and the configuration."""
        return await asyncio.to_thread(self._relay, *arguments, "--config", self.config)


def is_ddl(record: ConsumerRecord) -> bool:
    return bool(json.loads(record.value or b"{}").get("isDdl"))


def is_row(record: ConsumerRecord) -> bool:
    return json.loads(record.value or b"{}").get("type") in {"INSERT", "UPDATE", "DELETE"}
