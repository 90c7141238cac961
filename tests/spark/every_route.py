"""Captured sets translated by the job along every route at once: one Spark job for all, as the parts of a backfill put together.

Every route has its own configuration, catalogue and source topics (a number before each topic's name). Rows are dealt out to tasks
one by one, so that every source partition is spread over all of them. What a record became is compared with what one translator
gives that reads the whole set in its order, with letters in place of records that cannot be translated.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from pyspark import cloudpickle
from spark.backfills import config_for

from relay import ConsumerRecord, ProducerRecord
from relay.catalog import Catalog
from relay.codecs import PROTOCOLS
from relay.config import Config
from relay.dead_letters import dead_letter, route_name, tables_of
from relay.errors import RelayError
from relay.record_lines import parse_record
from relay.storage import Storage
from spark_backfill.frames import PRODUCED, RECORDS, Columns, record_batch
from spark_backfill.job import empty_catalog
from spark_backfill.translation import OWN_PARTITION, Bounds, OnlyDdl, Terms, Translate, learnt

TARGETS: Sequence[tuple[str, dict[str, str]]] = (
    *((name, {}) for name in PROTOCOLS),
    ("ticdc-canal-json", {"enable-tidb-extension": "true"}),
)
#: How the folders of captured sets begin, by protocol.
SOURCES = {
    "ticdc/canal-json": "ticdc-canal-json",
    "ticdc/open-protocol": "ticdc-open-protocol",
    "ticdc/debezium": "ticdc-debezium",
    "mysql/canal-json": "canal-json",
}
Batches = Iterable[pa.RecordBatch]
Outputs = dict[tuple[str, int], list[tuple[object, ...]]]


class Route(NamedTuple):
    """A captured set and a target. `number` begins the names of its topics."""

    number: int
    variant: str
    config: Config
    records: Sequence[ConsumerRecord]


def variants(root: Path) -> dict[str, str]:
    """The captured sets below a folder that a registered protocol reads, and which."""
    found = {}
    for path in sorted(path for path in root.glob("*/*") if path.is_dir()):
        variant = f"{path.parent.name}/{path.name}"
        source = SOURCES.get(variant.partition(".")[0])
        if source and not any(word in variant for word in (".avro", "nonflat")):
            found[variant] = source
    return found


def routes(root: Path) -> Iterator[Route]:
    """Every captured set to every target."""
    pairs = [(variant, target) for variant in variants(root) for target in TARGETS]
    for number, (variant, (target, to_options)) in enumerate(pairs):
        source = variants(root)[variant]
        yield Route(number, variant, _config(root, variant, source, target, to_options), _records(root / variant, number))


def _config(root: Path, variant: str, source: str, target: str, to_options: dict[str, str]) -> Config:
    from_options = {"timezone": "Asia/Shanghai"} if "shanghai" in variant else {}
    if "claim-check" in variant:
        from_options["claim-check-storage-uri"] = str(root / variant / "storage")
    if variant.endswith((".lz4", ".snappy")):
        from_options["large-message-handle-compression"] = variant.rpartition(".")[2]
    policies = dict.fromkeys(("decode", "encode", "too_large", "claim_check"), "dead-letter")
    return config_for(
        "in",
        "out",
        route={"from": source, "to": target, "from_options": from_options, "to_options": to_options},
        errors=policies | {"dead_letter_topic": "letters"},
    )


def _records(folder: Path, number: int) -> list[ConsumerRecord]:
    lines = [
        line for path in sorted(folder.glob("*.jsonl")) if ".schemas." not in path.name for line in path.read_bytes().splitlines()
    ]
    return [msgspec.structs.replace(record, topic=f"{number}.{record.topic}") for record in map(parse_record, filter(None, lines))]


class Held(NamedTuple):
    """What a broadcast is to a task."""

    value: Catalog


class Forgets:
    """An accumulator that nobody asks."""

    def add(self, term: object) -> None:
        """Nothing."""


class ByRoute:
    """Gives the rows of every route to its own function."""

    def __init__(self, functions: Mapping[int, Callable[[Batches], Batches]]) -> None:
        self.functions = functions

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """What the functions give."""
        for batch in batches:
            records = sorted(Columns().read(batch), key=_number)
            for number, own in groupby(records, key=_number):
                yield from self.functions[number]([record_batch(list(own))])


# Workers cannot import the tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


def _number(record: ConsumerRecord) -> int:
    return int(record.topic.partition(".")[0])


def translated(spark: Any, chosen: Sequence[Route], tasks: int) -> dict[int, Outputs]:
    """What Spark makes of all routes, by route and target partition, in the order that the job's targets have."""
    rows = pa.Table.from_batches([record_batch(route.records) for route in chosen])
    frame = spark.createDataFrame(rows, RECORDS).repartition(tasks).cache()
    ddl: dict[int, list[ConsumerRecord]] = {route.number: [] for route in chosen}
    finders = {route.number: OnlyDdl(route.config, Columns()) for route in chosen}
    for batch in frame.mapInArrow(ByRoute(finders), RECORDS).toArrow().to_batches():
        for record in Columns().read(batch):
            ddl[_number(record)].append(record)
    workers = {}
    for route in chosen:
        catalog = Held(learnt(route.config, ddl[route.number], empty_catalog()))
        workers[route.number] = Translate(route.config, Columns(), catalog, Forgets(), Bounds(), Terms())
    made: dict[int, Outputs] = {route.number: {} for route in chosen}
    table = (
        frame.mapInArrow(ByRoute(workers), PRODUCED)
        .orderBy("source_topic", "source_partition", "source_offset", "number")
        .toArrow()
    )
    frame.unpersist()
    for row in table.to_pylist():
        headers = tuple((each["key"], each["value"]) for each in row["headers"])
        place = row["topic"], row["partition"]
        out = (row["timestamp_ms"], row["key"], row["value"], headers)
        made[int(row["source_topic"].partition(".")[0])].setdefault(place, []).append((row["source_topic"], *out))
    return made


def relayed(route: Route) -> Outputs:
    """What one translator makes of the whole set."""
    found: Outputs = {}
    for record, out in _relayed(route):
        place = out.topic, out.partition
        found.setdefault(place, []).append((record.topic, out.timestamp_ms, out.key, out.value, out.headers))
    # Letters of several topics meet in one; the job sorts them by source.
    return {place: sorted(made, key=lambda each: str(each[0])) for place, made in found.items()}


def _relayed(route: Route) -> Iterator[tuple[ConsumerRecord, ProducerRecord]]:
    config, storage, translator = route.config, Storage(), route.config.translator()
    for record in route.records:
        try:
            made: Sequence[ProducerRecord] = storage.translate(translator, record)
        except RelayError as error:
            letters = config.errors.dead_letter_topic
            made = (dead_letter(record, error, letters, tables_of(translator, record), OWN_PARTITION, route_name(config)),)
        yield from ((record, out) for out in made)


def differences(expected: Outputs, found: Outputs) -> Counter[str]:
    """How many records differ, by target place."""
    wrong: Counter[str] = Counter()
    for place in expected.keys() | found.keys():
        ours, theirs = expected.get(place, []), found.get(place, [])
        count = sum(one != other for one, other in zip(ours, theirs, strict=False)) + abs(len(ours) - len(theirs))
        if count:
            wrong[f"{place[0]}/{place[1]}"] = count
    return wrong
