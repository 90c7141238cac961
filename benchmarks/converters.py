"""`python -m benchmarks.converters`: relay beside Kafka Connect's converters, on the same messages.

JsonConverter reads messages of Debezium and Apicurio's AvroConverter writes them, and the other way round,
with schemas in a real registry; relay does the same. Processor time of one thread, the least of many passes,
in turns: the converters are warm, and neither Java's garbage collector nor the machine's other work counts.
relay has read the statements of the connector before, which Connect's converters need not.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from benchmarks.routes import DATA, read_records
from relay.core.translator import Translator
from relay.io.kernel import translator_class
from relay.io.registry import RegistrySettings, SchemaRegistry
from relay.io.resolver import Resolver
from relay.model.records import ConsumerRecord

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from readers.connect import in_avro, timed
from readers.java import Program
from registry import apicurio

JSON, AVRO = "debezium-json", "debezium-avro"
_FOLDER: Final = DATA / "mysql" / "debezium.no-schema"
_WORKLOADS: Final = ("01_all_types", "09_dml")
_ROUNDS: Final = 3
#: Java compiles what runs often.
_WARM, _MEASURED = 400, 50
_RELAY_WARM, _RELAY_PASSES = 20, 10
_TOPIC: Final = "converters"


class Measured(NamedTuple):
    """Microseconds a message."""

    workload: str
    route: str
    converters_us: float
    relay_us: float


def measure() -> Iterator[Measured]:
    """Measure both directions of each workload."""
    with apicurio.running() as url, Program("ConnectReader", "connect", is_fast=True) as connect:
        own_url = url.removesuffix("/apis/ccompat/v7") + "/apis/registry/v2"
        client = SchemaRegistry(RegistrySettings(table="t", urls=(url,)))
        resolver = Resolver(registries={"source": client, "target": client})
        for workload in _WORKLOADS:
            given = read_records(_FOLDER / f"{workload}.jsonl")
            in_json = _rows(given)
            written = in_avro(connect, _TOPIC, in_json, own_url)
            in_both = {JSON: in_json, AVRO: [_with(*each) for each in zip(in_json, written, strict=True)]}
            for source, target in ((JSON, AVRO), (AVRO, JSON)):
                records = in_both[source]
                ours = _relay(resolver, source, target, records, _statements(resolver, given, source))
                reads = source.removeprefix("debezium-")
                timed(connect, _TOPIC, records, own_url, reads, _WARM)
                theirs_least = ours_least = float("inf")
                for _ in range(_ROUNDS):
                    each = timed(connect, _TOPIC, records, own_url, reads, _MEASURED)
                    theirs_least, ours_least = min(theirs_least, each), min(ours_least, ours())
                micros = [seconds * 1e6 / len(records) for seconds in (theirs_least, ours_least)]
                yield Measured(workload, f"{source} -> {target}", *micros)


def _statements(resolver: Resolver, given: Sequence[ConsumerRecord], protocol: str) -> list[ConsumerRecord]:
    """What a connector has written of statements, in a protocol."""
    translator = Translator(JSON, protocol)
    made = [out for record in given for out in resolver.translate(translator, record)]
    topics = {record.topic for record in given if b'"ddl":' in (record.value or b"")}
    return [
        ConsumerRecord(out.topic, 0, offset, out.timestamp_ms, out.key, out.value)
        for offset, out in enumerate(made)
        if out.topic in topics
    ]


def _rows(given: Sequence[ConsumerRecord]) -> list[ConsumerRecord]:
    """Debezium's rows, with schemas, which relay adds."""
    translator = Translator(JSON, JSON, None, {"ddl": "drop", "tombstones.on.delete": "false"})
    made = [out for record in given for out in translator.translate(record)]
    return [
        ConsumerRecord(_TOPIC, 0, offset, out.timestamp_ms, out.key, out.value)
        for offset, out in enumerate(made)
        if out.value is not None
    ]


def _with(record: ConsumerRecord, parts: tuple[bytes | None, bytes | None]) -> ConsumerRecord:
    return msgspec.structs.replace(record, key=parts[0], value=parts[1])


def _relay(
    resolver: Resolver,
    source: str,
    target: str,
    records: Sequence[ConsumerRecord],
    statements: Sequence[ConsumerRecord],
) -> Callable[[], float]:
    """What translates all records, and gives the seconds of the fastest pass."""
    translator = translator_class()(source, target)
    for record in statements:
        resolver.translate(translator, record)
    for _ in range(_RELAY_WARM):
        for record in records:
            resolver.translate(translator, record)

    def least() -> float:
        gc.collect()
        found = float("inf")
        for _ in range(_RELAY_PASSES):
            began = time.thread_time()
            for record in records:
                translator.translate(record)
            found = min(found, time.thread_time() - began)
        return found

    return least


def main() -> None:
    """Measure and print."""
    for each in measure():
        print(
            f"{each.workload:14} {each.route:32} converters {each.converters_us:6.1f} us, "
            f"relay {each.relay_us:6.1f} us: {each.converters_us / each.relay_us:.2f} times as fast"
        )


if __name__ == "__main__":
    main()
