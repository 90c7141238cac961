"""Batches are compressed with the level of the configuration, or with the default that the reference promises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import codec
from pydantic import ValidationError

from relay import ConsumerRecord, ProducerRecord
from relay.config import Config
from relay.config.kafka import producer_settings
from relay.io.kafka.batches import ClientBatch, KernelBatch
from relay.io.kafka.sink import KafkaSink

HEADER_BYTES = 61
#: They have the time.
GZIP_HEADER_BYTES = 10
NOW = 1_700_000_000_000
#: Text in which a higher level finds more.
VALUES = [
    f'{{"id":{n},"name":"user {n * n % 97}","city":"{n % 7} Main Street"}}'.encode() for n in range(500)
]
COMPRESSORS: dict[str, Callable[[bytes, int], bytes]] = {
    "gzip": codec.gzip_encode,
    "lz4": codec.lz4_encode,
    "zstd": codec.zstd_encode,
}


def config_of(**target: Any) -> Config:
    """A configuration without a broker."""
    tables: dict[str, Any] = {
        "route": {"from": "ticdc-canal-json", "to": "canal-json"},
        "source": {"bootstrap_servers": "b:1", "topics": ["in"], "group_id": "g"},
        "target": {"topic": "out", **target},
    }
    return Config(**tables)


async def records_of_a_batch(config: Config) -> bytes:
    """The records of a batch as they are sent."""
    sink = KafkaSink(producer_settings(config), {"out": 1_000_000})
    batch = sink.batch("out")
    assert isinstance(batch, ClientBatch | KernelBatch)
    for value in VALUES:
        assert batch.append(ProducerRecord("out", 0, 1_000, None, value, ()))
    await sink.stop()
    return bytes(batch.closed()._build())[HEADER_BYTES:]


@pytest.mark.parametrize(
    ("compression", "level", "expected", "other"),
    [
        ("gzip", 0, 6, 9),
        ("gzip", 1, 1, 6),
        ("lz4", 0, 1, 9),
        ("lz4", 9, 9, 1),
        ("zstd", 0, 3, 1),
        ("zstd", 12, 12, 3),
    ],
)
async def test_batches_have_the_level(compression: str, level: int, expected: int, other: int) -> None:
    compressed = COMPRESSORS[compression]
    plain = await records_of_a_batch(config_of(compression="none"))
    found = await records_of_a_batch(config_of(compression=compression, compression_level=level))
    start = GZIP_HEADER_BYTES if compression == "gzip" else 0
    assert found[start:] == compressed(plain, expected)[start:]
    assert found[start:] != compressed(plain, other)[start:]


@pytest.mark.parametrize(
    ("compression", "level", "message"),
    [
        ("snappy", 1, "snappy has no levels"),
        ("none", 1, "none has no levels"),
        ("gzip", 10, "gzip has levels from 1 to 9"),
        ("zstd", 23, "zstd has levels from 1 to 22"),
    ],
)
def test_levels_that_do_not_exist_are_refused(compression: str, level: int, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        config_of(compression=compression, compression_level=level)


@pytest.mark.kafka
@pytest.mark.parametrize("compression", ["gzip", "lz4"])
async def test_what_is_written_is_read(
    kafka: Any, make_config: Any, echo: Any, run_relay: Any, compression: str
) -> None:
    source, target = await kafka.topic(), await kafka.topic()
    await kafka.produce(source, [ConsumerRecord("", 0, 0, NOW, None, value) for value in VALUES])
    relay = run_relay(make_config(source, target, target_compression=compression), echo(target))
    found = await kafka.read(target, at_least=len(VALUES))
    assert await relay.stop() == 0
    assert [each.value for each in found] == VALUES
