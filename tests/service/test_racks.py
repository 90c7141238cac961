"""Reading from the replica in relay's own rack (KIP-392), on three brokers in three racks."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import OffsetOutOfRangeError
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.metadata import MetadataRequest
from broker_support import broker_options
from service.test_resilience_cluster import led_by
from service.transport_support import check_complete, numbered

from relay.config import Config
from relay.config.kafka import consumer_settings
from relay.demo.kafka import Cluster
from relay.io.kafka.ports import PollFailed
from relay.io.kafka.source import KafkaSource
from relay.model.errors import RecordsGone
from relay.service import app

pytestmark = pytest.mark.kafka
SELECTOR = "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector\n"


@pytest.fixture(scope="module")
def racks() -> Iterator[Cluster]:
    """Three brokers, each in a rack of its own: `rack-1` to `rack-3`."""
    with tempfile.TemporaryDirectory(prefix="relay-racks-", ignore_cleanup_errors=True) as home:
        cluster = Cluster(Path(home) / "kafka", nodes=3, options=broker_options(properties=SELECTOR))
        for number, node in enumerate(cluster.nodes, start=1):
            with node.properties.open("a") as file:
                file.write(f"broker.rack=rack-{number}\n")
        with cluster:
            yield cluster


def config_of(servers: str, source: str, target: str, rack: str) -> Config:
    given = {"bootstrap_servers": servers, "topics": [source], "group_id": f"g-{source}", "client_rack": rack}
    return Config.model_validate(
        {
            "route": {"from": "ticdc-canal-json", "to": "canal-json"},
            "source": given,
            "target": {"topic": target},
            "schema": {"history_topic": ""},
        }
    )


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The brokers from which a relay's source fetches."""
    asked: list[int] = []

    class Watched(KafkaSource):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            client = self.consumer._client
            send = client.send

            async def note(node_id: int, request: Any, **more: Any) -> Any:
                if isinstance(request, FetchRequest):
                    asked.append(node_id)
                return await send(node_id, request, **more)

            client.send = note

    monkeypatch.setattr(app, "KafkaSource", Watched)
    return asked


@pytest.mark.parametrize("case", [("rack-2", 2), ("rack-9", 1), ("", 1)])
async def test_records_come_from_the_replica_in_the_rack(
    racks: Cluster, kafka_at: Any, run_relay: Any, echo: Any, asked: list[int], case: tuple[str, int]
) -> None:
    """All partitions are led by broker 1."""
    rack, expected = case
    async with kafka_at(racks.bootstrap_servers) as kafka:
        source, target = await led_by(kafka.admin, 1), await led_by(kafka.admin, 1)

        async def are_known() -> bool:
            request = MetadataRequest([source, target], allow_auto_topic_creation=False)
            answers = [await kafka.admin._send_request(request, node) for node in (1, 2, 3)]
            codes = [
                [code, *(each[0] for each in numbers)] for a in answers for code, _, _, numbers in a.topics
            ]
            return not any(itertools.chain(*codes)) and all(len(each) == 3 for each in codes)

        await kafka.until(are_known)
        relay = run_relay(config_of(racks.bootstrap_servers, source, target, rack), echo(target))
        for start in range(0, 3000, 1000):
            await kafka.produce(source, numbered(1000, start=start))

            async def is_done(count: int = start + 1000) -> bool:
                assert not relay.has_ended, relay.log.events[-3:]
                return bool(sum((await kafka.committed(f"g-{source}")).values()) == count)

            await kafka.until(is_done)
        assert asked[-1] == expected
        assert await relay.stop() == 0
        check_complete(await kafka.read(target), 3000)


@pytest.mark.parametrize(("rack", "first"), [("rack-2", PollFailed), ("", RecordsGone)])
async def test_a_replica_that_is_behind_is_no_loss(
    racks: Cluster, monkeypatch: pytest.MonkeyPatch, rack: str, first: type[Exception]
) -> None:
    """The leader has the last word."""
    source = KafkaSource(consumer_settings(config_of(racks.bootstrap_servers, "t", "u", rack)))

    answers = iter([{TopicPartition("t", 0): 7}, None, {TopicPartition("t", 0): 7}])

    async def getmany(*_: Any, **__: Any) -> Any:
        if offsets := next(answers):
            raise OffsetOutOfRangeError(offsets)
        return {TopicPartition("t", 1): []}

    monkeypatch.setattr(source.consumer, "getmany", getmany)
    with pytest.raises(first):
        await source.poll()
    # Other partitions give records meanwhile.
    await source.poll()
    with pytest.raises(RecordsGone, match="t/0 at 7"):
        await source.poll()
    await source.stop()
