"""Find earlier output of a route: on a first start there is none."""

from __future__ import annotations

import asyncio
from typing import Final

from relay.config import Config
from relay.io.kafka.clients import Clusters
from relay.io.kafka.parts import Part, read_part
from relay.model.errors import ServiceError
from relay.model.records import SOURCE_HEADER, ConsumerRecord

_SECONDS: Final = 10.0


async def earlier_output(config: Config, clusters: Clusters) -> str:
    """Return evidence, as text, that a target topic has records of a source topic: its newest record.

    Returns "" if none was found or if the check was not possible. Topics of tables are not checked.
    """
    try:
        async with asyncio.timeout(_SECONDS):
            for topic in config.fixed_topics:
                newest: list[ConsumerRecord] = []
                await read_part(clusters.target, topic, Part(last=1), newest.append)
                for record in newest:
                    mark = dict(record.headers).get(SOURCE_HEADER) or b""
                    source = mark.decode(errors="replace").rsplit("/", 3)[0]
                    if source in config.source.topics:
                        return f"topic {topic} has records of source topic {source}"
    except (ServiceError, TimeoutError):
        pass
    return ""
