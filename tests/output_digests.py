"""Digests of everything that relay writes for folders of captured records: every route, three sets of
options.

    make bytes                                           # tests/data, compared with its digests
    make bytes RECORDS=folder DIGESTS=file [WRITE=1]     # other records; WRITE=1 writes the digests anew

A folder holds `<origin>/<variant>/<workload>.jsonl`, as tests/data does. Records are read by the protocol of
their variant; those of other formats by every protocol, so that the errors they get are compared as well.
What is digested of a produced record: topic, partition, timestamp, key, value, headers and blobs; of a
refused one: the error's code and path. After the digest stand the counts of events and of losses.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from decoded_once import DecodedOnce
from support import WRITABLE, remember_schemas

from relay import CodecError, ConsumerRecord, ProducerRecord, RelayError, Resolver, Translator
from relay.codecs import BUILT_IN
from relay.codecs.losses import Loss

#: Those that are tried on files of any protocol.
READABLE = [name for name, codec in BUILT_IN.items() if codec.is_readable and codec.is_writable]
#: Sources whose times need no zone.
WITHOUT_TIMEZONE = {"ticdc-debezium", "ticdc-debezium-avro", "maxwell-json"}
SIMPLE = {
    "output-raw-change-event": "true",
    "integrity-check-level": "correctness",
    "send-bootstrap-in-msg-count": "20",
    "timezone": "Asia/Shanghai",
    "large-message-handle-compression": "lz4",
}
#: The targets' options by name of the set, and how many partitions the target has (None: the source's).
OPTION_SETS: dict[str, tuple[int | None, dict[str, dict[str, str]]]] = {
    "default": (None, {name: {} for name in WRITABLE}),
    "full": (
        None,
        {
            "ticdc-canal-json": {
                "enable-tidb-extension": "true",
                "content-compatible": "true",
                "output-row-key": "true",
                "output-raw-change-event": "true",
                "timezone": "Asia/Shanghai",
            },
            "canal-json": {"max-batch-size": "16", "timezone": "Asia/Shanghai"},
            "ckafka-json": {"ddl-time-unit": "ms", "event-time-offset": "+00:00", "timezone": "-05:00"},
            "ticdc-open-protocol": {
                "max-batch-size": "16",
                "only-output-updated-columns": "true",
                "timezone": "Asia/Shanghai",
                "large-message-handle-compression": "lz4",
                "output-raw-change-event": "true",
            },
            "ticdc-debezium": {
                "debezium-disable-schema": "true",
                "debezium-include-start-ts": "true",
                "enable-tidb-extension": "true",
                "output-raw-change-event": "true",
            },
            "debezium-json": {
                "topic.prefix": "shop",
                "schemas.enable": "false",
                "decimal.handling.mode": "string",
                "bigint.unsigned.handling.mode": "precise",
                "binary.handling.mode": "hex",
                "time.precision.mode": "isostring",
                "include.schema.comments": "true",
                "skipped.operations": "none",
                "provide.transaction.metadata": "true",
                "replace.null.with.default": "false",
            },
            "canal-protobuf": {"max-batch-size": "16", "timezone": "Asia/Shanghai"},
            "maxwell-json": {
                "output_ddl": "true",
                "output_binlog_position": "true",
                "output_gtid_position": "true",
                "output_server_id": "true",
                "output_thread_id": "true",
                "output_schema_id": "true",
                "output_push_timestamp": "true",
                "output_row_query": "true",
                "output_primary_keys": "true",
                "output_primary_key_columns": "true",
                "kafka_key_format": "array",
            },
            "debezium-avro": {
                "topic.prefix": "shop",
                "decimal.handling.mode": "double",
                "bigint.unsigned.handling.mode": "precise",
                "time.precision.mode": "connect",
                "field.name.adjustment.mode": "avro_unicode",
                "skipped.operations": "none",
                "provide.transaction.metadata": "true",
                "ignore.default.for.nullables": "true",
                "key.subject.name.strategy": "RecordNameStrategy",
                "value.subject.name.strategy": "TopicRecordNameStrategy",
            },
            "ticdc-debezium-avro": {
                "enable-tidb-extension": "true",
                "avro-enable-watermark": "true",
                "avro-decimal-handling-mode": "string",
                "avro-bigint-unsigned-handling-mode": "string",
                "output-raw-change-event": "true",
                "replace.null.with.default": "false",
                "cluster-id": "elsewhere",
            },
            "ticdc-avro": {
                "enable-tidb-extension": "true",
                "avro-enable-watermark": "true",
                "avro-include-before-value": "true",
                "avro-decimal-handling-mode": "string",
                "avro-bigint-unsigned-handling-mode": "string",
                "integrity-check-level": "correctness",
                "output-raw-change-event": "true",
                "keyspace": "elsewhere",
                "timezone": "Asia/Shanghai",
            },
            "flat-json": {
                "op-values": "numbers",
                "deleted-values": "booleans",
                "commit-ts-column": "__commit_ts",
                "gtid-column": "__gtid",
                "version-column": "__version",
                "deletes": "both",
                "decimals": "number",
                "binary": "hex",
                "enum": "index",
                "json": "nested",
                "timestamp-format": "iso",
                "timezone": "Asia/Shanghai",
            },
            "ticdc-simple-json": SIMPLE,
            "ticdc-simple-avro": SIMPLE,
        },
    ),
    "reduced": (
        3,
        {
            "ticdc-canal-json": {
                "enable-tidb-extension": "true",
                "delete-only-output-handle-key-columns": "true",
                "only-output-updated-columns": "true",
                "output-raw-change-event": "false",
                "max-message-bytes": "2000",
                "large-message-handle-option": "handle-key-only",
            },
            "canal-json": {},
            "ckafka-json": {"event-time-offset": "-03:30"},
            "ticdc-open-protocol": {
                "output-old-value": "false",
                "delete-only-output-handle-key-columns": "true",
                "output-raw-change-event": "false",
                "max-message-bytes": "2000",
                "large-message-handle-option": "claim-check",
                "claim-check-storage-uri": "/claim-checks",
            },
            "ticdc-debezium": {
                "output-old-value": "false",
                "output-raw-change-event": "false",
                "enable-tidb-extension": "true",
                "cluster-id": "elsewhere",
                "large-message-handle-compression": "snappy",
            },
            "debezium-json": {"profile": "kafka-connect", "zero-dates": "text"},
            "canal-protobuf": {"canal.instance.filter.transaction.entry": "true", "enum": "label"},
            "maxwell-json": {
                "output_commit_info": "false",
                "output_nulls": "false",
                "output_null_zerodates": "true",
            },
            "debezium-avro": {
                "time.precision.mode": "microseconds",
                "bit": "number",
                "time": "text",
                "enum-schema": "string",
                "schema-columns": "optional",
                "key-change-headers": "false",
                "zero-dates": "text",
            },
            "ticdc-avro": {"enable-tidb-extension": "true"},
            "ticdc-debezium-avro": {"output-old-value": "false"},
            "flat-json": {
                "op-column": "",
                "deleted-column": "",
                "database-column": "",
                "table-column": "",
                "time-column": "",
                "version-column": "__version",
                "version": "offset",
                "deletes": "tombstone",
                "zero-dates": "null",
                "timezone": "-05:00",
            },
            "ticdc-simple-json": {
                "max-message-bytes": "2000",
                "large-message-handle-option": "claim-check",
                "claim-check-storage-uri": "/claim-checks",
            },
            "ticdc-simple-avro": {
                "max-message-bytes": "2000",
                "large-message-handle-option": "handle-key-only",
            },
        },
    ),
}


class Job(NamedTuple):
    """One file of records, read by one protocol."""

    path: Path
    name: str
    source: str
    #: Records of Canal that are put into this form first: nobody has captured it.
    through: str | None = None


def jobs(folder: Path) -> Iterator[Job]:
    """What is to be translated below a folder."""
    for path in sorted(folder.glob("*/*/*.jsonl")):
        if path.name.endswith(".schemas.jsonl"):
            continue
        origin, variant = path.parts[-3:-1]
        name = f"{origin}/{variant}/{path.stem}"
        source = _protocol(origin, variant)
        for each in [source] if source else READABLE:
            yield Job(path, name, each)
        if source == "canal-json":
            yield Job(path, f"{name} as ckafka-json", "ckafka-json", "ckafka-json")


def _protocol(origin: str, variant: str) -> str | None:
    kind = variant.partition(".")[0]
    if origin == "ticdc" and kind == "simple":
        return "ticdc-simple-avro" if ".avro" in variant else "ticdc-simple-json"
    known = {
        ("ticdc", "canal-json"): "ticdc-canal-json",
        ("ticdc", "open-protocol"): "ticdc-open-protocol",
        ("ticdc", "debezium"): "ticdc-debezium",
        ("ticdc", "avro"): "ticdc-avro",
        ("ticdc", "debezium-avro"): "ticdc-debezium-avro",
        ("mysql", "canal-json"): "canal-json",
        ("mysql", "maxwell"): "maxwell-json",
    }
    if variant == "debezium.avro":
        return "debezium-avro"
    return "canal-protobuf" if "protobuf" in variant else known.get((origin, kind))


def _source_options(job: Job) -> dict[str, str]:
    """Return the producer's options, with the storage of its claim checks."""
    options = {}
    if job.path.parent.name == "debezium.avro":
        options["field.name.adjustment.mode"] = "avro_unicode"
    if "shanghai" in job.path.parent.name and job.source not in WITHOUT_TIMEZONE:
        options["timezone"] = "Asia/Shanghai"
    if job.path.parent.name == "maxwell.alt" and job.source == "maxwell-json":
        options |= {"output_nulls": "false", "output_naming_strategy": "underscore_to_camelcase"}
    storage = job.path.parent / "storage"
    if storage.is_dir() and job.source in {
        "ticdc-canal-json",
        "ticdc-open-protocol",
        "ticdc-simple-json",
    }:
        options["claim-check-storage-uri"] = str(storage)
    return options


def _bytes(part: Any) -> bytes | None:
    if part is None:
        return None
    return part.encode() if isinstance(part, str) else base64.b64decode(part["base64"])


def _records(job: Job) -> Iterator[ConsumerRecord]:
    given = []
    for line in job.path.read_text(encoding="utf-8").split("\n"):
        if line:
            r = json.loads(line)
            headers = tuple((name, _bytes(value)) for name, value in r.get("headers") or ())
            key, value = _bytes(r["key"]), _bytes(r["value"])
            given.append(
                ConsumerRecord(r["topic"], r["partition"], r["offset"], r["timestamp"], key, value, headers)
            )
    if job.through is None:
        yield from given
        return
    translator = Translator("canal-json", job.through)
    offset = 0
    for record in given:
        for out in translator.translate(record):
            yield ConsumerRecord(out.topic, out.partition, offset, out.timestamp_ms, out.key, out.value)
            offset += 1


def _feed(digest: Any, produced: Iterable[ProducerRecord]) -> None:
    for out in produced:
        blobs = [(blob.name, blob.data) for blob in out.blobs]
        digest.update(
            repr(
                (out.topic, out.partition, out.timestamp_ms, out.key, out.value, out.headers, blobs)
            ).encode()
        )


def _listed(counts: Mapping[Loss, int] | Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()) if count)


def every_route(set_name: str, target: str) -> bool:
    """Choose every target and set of options."""
    return True


def name_of(job: Job, set_name: str, target: str) -> str:
    """The name of a digest."""
    return f"{job.name}: {job.source} -> {target}, {set_name}"


def digests_of(job: Job, is_chosen: Callable[[str, str], bool] = every_route) -> dict[str, str]:
    """The digests and counts of one job by route and set of options, of those that are chosen."""
    remember_schemas(job.path.parent)
    records, source_options, found = list(_records(job)), _source_options(job), {}
    decoded = DecodedOnce()
    for set_name, (partitions, by_target) in OPTION_SETS.items():
        for target, options in by_target.items():
            if not is_chosen(set_name, target):
                continue
            translator = Translator(job.source, target, source_options, options, partitions=partitions)
            decoded.share(translator)
            digest, resolver = hashlib.sha256(), Resolver()
            for record in records:
                try:
                    _feed(digest, resolver.translate(translator, record))
                except CodecError as error:
                    digest.update(f"{error.code} {error.path}".encode())
                except RelayError as error:
                    digest.update(error.code.encode())
            counts = f"{_listed(translator.events)}; {_listed(translator.losses)}"
            found[name_of(job, set_name, target)] = f"{digest.hexdigest()[:20]} {counts}"
    return found


def all_digests(folder: Path) -> dict[str, str]:
    """The digests of everything below a folder."""
    with ProcessPoolExecutor(2) as pool:
        return {name: value for found in pool.map(digests_of, jobs(folder)) for name, value in found.items()}


def read_digests(path: Path) -> dict[str, str]:
    """The digests of a file, which are nested by the names of the jobs."""

    def flat(node: dict[str, Any], names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        for name, inner in node.items():
            if isinstance(inner, dict):
                yield from flat(inner, (*names, name))
            else:
                yield ": ".join((*names, name)), inner

    return dict(flat(json.loads(path.read_text(encoding="utf-8")), ()))


def write_digests(path: Path, digests: dict[str, str]) -> None:
    """Write a file of digests, one a line, so that a difference can be read."""
    nested: dict[str, dict[str, str]] = {}
    for name, digest in sorted(digests.items()):
        job, _, route = name.partition(": ")
        nested.setdefault(job, {})[route] = digest
    path.write_text(json.dumps(nested, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> int:
    """Compare or write digests; 1 if they differ."""
    parser = argparse.ArgumentParser(description="Digests of what relay writes for captured records.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("digests", type=Path)
    parser.add_argument("--write", action="store_true", help="write the digests instead of comparing them")
    given = parser.parse_args()
    if not given.write and not given.digests.is_file():
        parser.error(f"{given.digests} does not exist; WRITE=1 (--write) makes it")
    found = all_digests(given.folder)
    if given.write:
        write_digests(given.digests, found)
        print(f"{len(found)} digests written")
        return 0
    expected = read_digests(given.digests)
    if not any(" " in each for each in expected.values()):  # written before digests had counts
        found = {name: each.partition(" ")[0] for name, each in found.items()}
    differing = sorted(
        name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name)
    )
    for name in differing:
        print(f"differs  {name}", f"  was  {expected.get(name)}", f"  is   {found.get(name)}", sep="\n")
    print(f"{len(found)} digests, {len(differing)} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
