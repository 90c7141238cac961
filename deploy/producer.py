"""Write the captured records of `relay demo` to a topic again and again; a missing topic is created."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import TopicAlreadyExistsError, for_code

from relay.demo.play import PARTITIONS, captured_records

#: Says to the health check that the topic is there.
PRODUCING = Path(tempfile.gettempdir(), "producing")


async def make_topic(servers: str, topic: str) -> None:
    """Make the topic with the partitions of the capture, unless it is there."""
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    try:
        answer = await admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
        for _, code, *_ in answer.topic_errors:
            if code not in (0, TopicAlreadyExistsError.errno):
                raise for_code(code)
    finally:
        await admin.close()


async def produce(servers: str, topic: str, every_seconds: float, rounds: int) -> None:
    """Write all records, every so many seconds. `rounds`: how often; 0 for ever."""
    await make_topic(servers, topic)
    records, done = captured_records(), 0
    async with AIOKafkaProducer(bootstrap_servers=servers, acks="all") as producer:
        PRODUCING.touch()  # noqa: ASYNC240 - takes no time
        while not rounds or done < rounds:
            now_ms = int(time.time() * 1000)
            for record in records:
                await producer.send(
                    topic, record.value, record.key, record.partition, now_ms, headers=list(record.headers)
                )
            await producer.flush()
            done += 1
            if done != rounds:
                await asyncio.sleep(every_seconds)


def main() -> None:
    """Read the arguments, and produce."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--every-seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=0, help="how often; 0 for ever")
    given = parser.parse_args()
    asyncio.run(produce(given.bootstrap_servers, given.topic, given.every_seconds, given.rounds))


if __name__ == "__main__":
    main()
