"""Captured sets translated by the job along many routes at once: one Spark job for all, as the parts of a
backfill put together.

Every route has its own configuration, catalog and source topics (a number before each topic's name). Rows
are dealt out to tasks one by one, so that every source partition is spread over all of them. What they became
is written to files as a backfill writes it, and compared with what one translator gives that reads the whole
set in its order, with dead letters for records that cannot be translated. Beside the captured sets there
are made ones (`made`).
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import functions as F
from spark.backfills import config_for, lines_in
from support import captured, row_message

from relay import ConsumerRecord, ProducerRecord
from relay.catalog import Catalog
from relay.codecs import BUILT_IN
from relay.config import Config
from relay.config.keys import FileFormat
from relay.config.wiring import translator_of
from relay.core.dead_letters import dead_letter
from relay.io.record_lines import format_record, parse_record
from relay.io.resolver import Resolver
from relay.model.errors import RelayError
from spark_backfill.files import OutputFolder
from spark_backfill.frames import PRODUCED, RECORDS, Columns, record_batch
from spark_backfill.schema_pass import FOUND, DdlRecord, FindDdl, collect_ddl, empty_catalog, learn_ddl
from spark_backfill.terms import KEEP_PARTITION, Bounds, Terms
from spark_backfill.translation import Translate

TARGETS: Sequence[tuple[str, dict[str, str]]] = (
    *((name, {}) for name, codec in BUILT_IN.items() if codec.is_writable),
    ("ticdc-canal-json", {"enable-tidb-extension": "true"}),
    ("canal-json", {"profile": "flink", "key": "primary-key", "tombstones": "true"}),
)
#: How the folders of captured sets begin, by protocol.
SOURCES = {
    "ticdc/canal-json": "ticdc-canal-json",
    "ticdc/open-protocol": "ticdc-open-protocol",
    "ticdc/debezium": "ticdc-debezium",
    "ticdc/simple": "ticdc-simple-json",
    "mysql/canal-json": "canal-json",
}
Batches = Iterable[pa.RecordBatch]
#: The lines of each `topic/partition`, in their order.
Outputs = dict[str, list[bytes]]


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


def made() -> dict[str, list[ConsumerRecord]]:
    """Sets of TiCDC's Canal-JSON without a capture: statements of one commit ts, and captures that overlap."""
    sql = [
        f"CREATE TABLE `d`.`{name}` (`id` INT NOT NULL, `{name}` INT, PRIMARY KEY (`id`))" for name in "ab"
    ]
    # The parts of one RENAME of several tables.
    sql += [f"RENAME TABLE `d`.`{old}` TO `d`.`{new}`" for old, new in ("ax", "ba", "xb")]
    sql += [f"ALTER TABLE `d`.`a` ADD COLUMN `{name}` INT" for name in "yz"]
    messages = [
        row_message({}, isDdl=True, type="QUERY", sql=text, data=None, _tidb={"commitTs": ts << 18})
        for text, ts in zip(sql, (10, 11, 20, 20, 20, 30, 30), strict=True)
    ]
    for ts in (12, 20, 21, 30, 31):
        types = (
            {"id": "int"}
            | dict.fromkeys("b" if ts > 20 else "a", "int")
            | dict.fromkeys("yz" if ts > 30 else "", "int")
        )
        row = dict.fromkeys(types, "7")
        messages.append(row_message(types, row, table="a", pkNames=["id"], _tidb={"commitTs": ts << 18}))
    equal = [
        ConsumerRecord("made", 0, at, at, None, json.dumps(message).encode())
        for at, message in enumerate(messages)
    ]
    capture = captured("ticdc/canal-json.tidb-extension/10_ddl")
    return {"made/equal-commit-ts": equal, "made/overlap": [*capture, *capture[: len(capture) // 2]]}


def routes(root: Path) -> Iterator[Route]:
    """Captured sets and made ones: the first set of every source to every target, each of the others to one,
    to each target in turn.
    """
    sets = {variant: (source, _records(root / variant)) for variant, source in variants(root).items()}
    sets |= {variant: ("ticdc-canal-json", records) for variant, records in made().items()}
    met = set[str]()
    pairs = []
    for at, (variant, (source, _)) in enumerate(sets.items()):
        targets = [TARGETS[at % len(TARGETS)]] if source in met else TARGETS
        met.add(source)
        pairs += [(variant, target) for target in targets]
    for number, (variant, (target, to_options)) in enumerate(pairs):
        source, records = sets[variant]
        own = [msgspec.structs.replace(each, topic=f"{number}.{each.topic}") for each in records]
        yield Route(
            number, variant, _config(root, variant, source, target, to_options, f"{number}.letters"), own
        )


def _config(
    root: Path, variant: str, source: str, target: str, to_options: dict[str, str], letters: str
) -> Config:
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
        errors=policies | {"dead_letter_topic": letters},
    )


def _records(folder: Path) -> list[ConsumerRecord]:
    paths = [path for path in sorted(folder.glob("*.jsonl")) if ".schemas." not in path.name]
    return [parse_record(line) for path in paths for line in path.read_bytes().splitlines() if line]


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
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]  # theirs has no types


def _number(record: ConsumerRecord) -> int:
    return int(record.topic.partition(".")[0])


def _of_route(found: DdlRecord, number: int) -> DdlRecord:
    topic = f"{number}.{found.record.topic.partition('.')[2]}"
    return found._replace(record=msgspec.structs.replace(found.record, topic=topic))


def translated(spark: Any, chosen: Sequence[Route], tasks: int, folder: Path) -> dict[int, Outputs]:
    """What Spark makes of all routes and a backfill's target writes to a folder, by route."""
    rows = pa.Table.from_batches([record_batch(route.records) for route in chosen])
    frame = spark.createDataFrame(rows, RECORDS).repartition(tasks).cache()
    # What teaches a catalog is the same whatever the target.
    first = {route.variant: route.number for route in reversed(chosen)}
    finders = {route.number: FindDdl(route.config, Columns()) for route in chosen}
    ddl: dict[int, list[DdlRecord]] = {number: [] for number in first.values()}
    own = frame.where(F.substring_index("topic", ".", 1).cast("int").isin(*first.values()))
    for found in collect_ddl(own.mapInArrow(ByRoute(finders), FOUND)):
        ddl[_number(found.record)].append(found)
    workers = {}
    for route in chosen:
        taught = [_of_route(found, route.number) for found in ddl[first[route.variant]]]
        catalog = Held(learn_ddl(route.config, taught, empty_catalog()))
        workers[route.number] = Translate(route.config, Columns(), catalog, Forgets(), Bounds(), Terms())
    OutputFolder(str(folder), FileFormat.JSON_LINES).write(frame.mapInArrow(ByRoute(workers), PRODUCED), {})
    frame.unpersist()
    written: dict[int, Outputs] = {route.number: {} for route in chosen}
    for path, lines in lines_in(folder).items():
        written[int(path.partition(".")[0])][path] = lines
    return written


def relayed(route: Route) -> Outputs:
    """What one translator makes of the whole set. A record that comes again, and a dead letter, stand at the
    place of their offset.
    """
    found: dict[str, list[tuple[tuple[object, ...], ProducerRecord]]] = {}
    for record, number, out in _relayed(route):
        position = record.topic, record.partition, record.offset, number
        found.setdefault(f"{out.topic}/{out.partition}", []).append((position, out))
    return {
        partition: [
            format_record(out, at).rstrip(b"\n")
            for at, (_, out) in enumerate(sorted(made, key=lambda each: each[0]))
        ]
        for partition, made in found.items()
    }


def _relayed(route: Route) -> Iterator[tuple[ConsumerRecord, int, ProducerRecord]]:
    config, resolver, translator = route.config, Resolver(), translator_of(route.config)
    for record in route.records:
        try:
            made: Sequence[ProducerRecord] = resolver.translate(translator, record)
        except RelayError as error:
            letters = config.dead_letter_topic
            made = (
                dead_letter(
                    record, error, letters, translator.tables_of(record), KEEP_PARTITION, config.route_name
                ),
            )
        yield from ((record, number, out) for number, out in enumerate(made))


def differences(expected: Outputs, found: Outputs) -> Counter[str]:
    """How many records differ, by target partition."""
    wrong: Counter[str] = Counter()
    for partition in expected.keys() | found.keys():
        ours, theirs = expected.get(partition, []), found.get(partition, [])
        count = sum(one != other for one, other in zip(ours, theirs, strict=False)) + abs(
            len(ours) - len(theirs)
        )
        if count:
            wrong[partition] = count
    return wrong
