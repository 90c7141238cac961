"""Write the captured records of `relay demo` to a topic repeatedly; create the topic if it is missing."""

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

#: The health check waits for this file, which exists when the topic does.
PRODUCING = Path(tempfile.gettempdir(), "producing")


async def make_topic(servers: str, topic: str) -> None:
    """Create the topic with the partitions of the capture, unless it exists."""
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
    """Write all records every `every_seconds`, `rounds` times; 0 for no limit."""
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
    """Parse the arguments, and produce."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--every-seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=0, help="number of repetitions; 0 for no limit")
    given = parser.parse_args()
    asyncio.run(produce(given.bootstrap_servers, given.topic, given.every_seconds, given.rounds))


if __name__ == "__main__":
    main()
