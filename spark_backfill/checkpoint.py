"""relay's files in a checkpoint beside Spark's: the configuration of the run, and the results of its steps.

A run continues after the last step of the previous one. All steps must have the same configuration, so every
start compares it with the file. The file has the settings that determine the target's bytes, as text by key;
no secrets, no addresses of brokers (they change; it has the cluster's own id instead), and no settings that a
user may change during a backfill (`batch_records`, `spark` …).

An error policy that was `stop` may change: a completed step has met no such error, so any other policy would
have done the same.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from relay.codecs.given_options import RENAMED_OPTIONS
from relay.codecs.losses import with_present_names
from relay.config import Config
from relay.config.key_names import new_name
from relay.config.keys import DeadLetterPayload, PartitionBy, RowsFormat
from relay.config.wiring import hash_key
from relay.core.error_policies import Policy
from relay.model.errors import ConfigError, Problem, ServiceError
from relay.model.records import ConsumerRecord
from relay.text.redaction import HIDDEN, is_plain_address, shown_option
from spark_backfill.frames import RECORDS, Columns, record_batch
from spark_backfill.hadoop import hadoop_path

_VERSION: Final = 1
_NEW_RUN: Final = "a new run needs a new checkpoint and a new target"
#: The columns of a file in the checkpoint; `place` is a `topic/partition`.
_WRITTEN: Final = "place string, records bigint"
_NO_IDS: Final[Mapping[str, str]] = MappingProxyType({})
#: The version of Spark's log of offsets, in its first line.
_OFFSETS_VERSION: Final = "v1"
#: The number of the data before the first step.
BEFORE: Final = -1
#: A name and a password in a path. Hadoop's paths have no parameters: text after a `?` names files.
_USER: Final = re.compile(r"://[^/,]*:[^/,]*@")
_POLICIES: Final = ("decode", "encode", "too_large", "claim_check")
_KEYS: Final = {
    "source": ("topics", "group_id", "start", "start_offsets", "start_timestamp", "start_commit_ts"),
    "target": ("topic", "partitions", "watermarks"),
    "errors": _POLICIES,
    "backfill": (
        *("end", "end_offsets", "end_timestamp", "end_commit_ts"),
        *("schema_input", "output", "output_format", "output_layout"),
    ),
}


#: Keys that older checkpoints lack: a missing key means its default.
_KEYS_IF_SET: Final[Mapping[str, Sequence[str]]] = {
    "route": (
        "include_tables",
        "exclude_tables",
        "include_events",
        "exclude_events",
        "columns",
        "rows",
        "tables",
    ),
    "source": ("topics_pattern", "exclude_topics_pattern"),
    "target": ("topics", "partition_by"),
    "schema": ("schema_dumps", "schema_dumps_database", "schema_dumps_as_of"),
    "errors": ("dead_letter_payload",),
    "backfill": ("rows_format",),
}
#: The defaults of these keys.
_UNSET: Final[tuple[object, ...]] = (
    *([], "", "start"),
    *(PartitionBy.AUTO, RowsFormat.PARQUET, DeadLetterPayload.AUTO),
)
#: Digits of the fingerprint of a secret key, which shows that it has changed, and nothing else.
_FINGERPRINT_DIGITS: Final = 16


def described(config: Config, source_cluster: str, target_cluster: str) -> dict[str, Any]:
    """Return the settings that determine the target's bytes, by key.

    `…_cluster`: Kafka's ids of the clusters; "" for none.
    """
    tables = config.model_dump(mode="json", by_alias=True)
    found: dict[str, Any] = {"source.cluster": source_cluster, "target.cluster": target_cluster}
    found |= {f"route.{side}": tables["route"][side] for side in ("from", "to")}
    for side in ("from_options", "to_options"):
        found |= {f"route.{side}.{name}": _shown(name, text) for name, text in tables["route"][side].items()}
    found |= {f"{table}.{key}": tables[table][key] for table, keys in _KEYS.items() for key in keys}
    found |= {
        f"{table}.{key}": tables[table][key]
        for table, keys in _KEYS_IF_SET.items()
        for key in keys
        if tables[table][key] not in _UNSET
    }
    found |= {f"backfill.{key}": _shown_paths(tables["backfill"][key]) for key in ("schema_input", "output")}
    if key := hash_key(config.route):
        found["route.hash_key"] = hmac.digest(key, b"relay checkpoint", "sha256").hex()[:_FINGERPRINT_DIGITS]
    found["schema.wait_for_ddl"] = config.waits_for_ddl
    found["errors.dead_letter_topic"] = config.dead_letter_topic if config.has_dead_letters else ""
    return dict(sorted(found.items()))


def _shown_paths(text: str) -> str:
    """Return paths without their passwords; hide them if a password has an unexpected form."""
    shown = _USER.sub("://", text)
    plain = all(is_plain_address(path) for path in shown.split(",") if "://" in path)
    return shown if plain else HIDDEN


def _shown(name: str, text: str) -> str:
    """Return an option without the secrets that a URI may hold."""
    return shown_option(name, text)


def differing(kept: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the keys whose values differ, except policies that have not affected any step yet."""
    keys = sorted(key for key in kept.keys() | now.keys() if kept.get(key) != now.get(key))
    free = {f"errors.{name}" for name in _POLICIES if kept.get(f"errors.{name}") == Policy.STOP}
    if not kept.get("errors.dead_letter_topic"):
        free.add("errors.dead_letter_topic")
    return [key for key in keys if key not in free]


class Checkpoint:
    """The configuration of earlier runs.

    `first`: where the first of them began, by `topic/partition`; None without one. Raises ConfigError if
    there is progress of Spark without a configuration.
    """

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._spark = spark
        self._path, self._system = hadoop_path(spark, f"{folder.rstrip('/')}/relay/configuration.json")
        self._draft = self._path.suffix(".draft")
        self._kept = self._read_description()
        progress, _ = hadoop_path(spark, f"{folder.rstrip('/')}/spark")
        if self._kept is None and self._system.exists(progress):
            message = f"{self._path} is missing: it holds the settings of the progress in {progress}"
            raise ConfigError([Problem("backfill.checkpoint", message, _NEW_RUN)])

    @property
    def first(self) -> Mapping[str, int] | None:
        """Return where the first run began."""
        return None if self._kept is None else self._kept["first"]

    def check(self, now: Mapping[str, Any], topic_ids: Mapping[str, str] = _NO_IDS) -> None:
        """Raise ConfigError, with the differing keys, if earlier runs had another configuration.

        Also for a source topic that was deleted and created again since.
        """
        if self._kept is None:
            return
        if keys := differing(self._kept["keys"], now):
            raise ConfigError([_problem(key, self._path.toString()) for key in keys])
        known = self._kept["topic_ids"]
        new = [topic for topic, kept in known.items() if topic_ids.get(topic, kept) != kept]
        if new:
            names = ", ".join(sorted(new))
            message = f"{names}: recreated since the last run, with offsets from 0 again"
            raise ConfigError([Problem("source.topics", message, _NEW_RUN)])

    def keep(
        self, now: Mapping[str, Any], first: Mapping[str, int], topic_ids: Mapping[str, str] = _NO_IDS
    ) -> None:
        """Keep the configuration of this run. Raises ServiceError."""
        document = {
            "version": _VERSION,
            "keys": dict(now),
            "first": dict(sorted(first.items())),
            "topic_ids": dict(sorted(topic_ids.items())),
        }
        if document == self._kept:
            return
        # Written under another name first: one of the two files is always complete.
        stream = self._system.create(self._draft, True)
        stream.write(bytearray(json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"))
        stream.close()
        self._system.delete(self._path, False)
        self._rename()
        self._kept = document

    def _rename(self) -> None:
        if not self._system.rename(self._draft, self._path):
            raise ServiceError(f"cannot rename {self._draft} to {self._path}")

    def _read_description(self) -> dict[str, Any] | None:
        if self._system.exists(self._path):
            if (known := self._read(self._path)) is not None:
                return known
            message = f"{self._path} was not written by this version of relay"
            raise ConfigError([Problem("backfill.checkpoint", message, "name another folder")])
        # A run was killed after `delete`; or while it wrote its first draft, when nothing had happened yet.
        known = None
        with contextlib.suppress(PySparkException):
            known = self._read(self._draft) if self._system.exists(self._draft) else None
        if known is not None:
            self._rename()
        return known

    def _read(self, path: Any) -> dict[str, Any] | None:
        try:
            (row,) = self._spark.read.text(path.toString(), wholetext=True).collect()
            return _document(row.value)
        except (ValueError, KeyError, TypeError):
            return None


def _document(text: str) -> dict[str, Any] | None:
    """Read a kept configuration; None for one of another version. Raises ValueError, KeyError, TypeError."""
    found = json.loads(text)
    keys = dict(_present(key, value) for key, value in found["keys"].items())
    known = {"version": found["version"], "keys": keys, "first": dict(found["first"])}
    # Checkpoints of older versions have no topic ids.
    known["topic_ids"] = dict(found.get("topic_ids", {}))
    return known if known["version"] == _VERSION else None


def _present(key: str, value: Any) -> tuple[str, Any]:
    """Return the present name of a key or an option, and its value with the present names of losses.

    Older checkpoints may have other names.
    """
    name = _present_name(key)
    return name, with_present_names(value) if name == "route.to_options.strict" else value


def _present_name(key: str) -> str:
    *table, name = key.split(".")
    renamed = RENAMED_OPTIONS.get(name) if table[-1:] in (["from_options"], ["to_options"]) else None
    return ".".join([*table, renamed or new_name([*table, name]) or name])


def local_problems(config: Config) -> list[Problem]:
    """Return the problems that a checkpoint in a local folder reveals; needs no Spark.

    Clusters are not compared.
    """
    folder = config.backfill.checkpoint.removeprefix("file://")
    if not folder or "://" in folder:
        return []
    file = Path(folder, "relay", "configuration.json")
    try:
        kept = _document(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError):
        return []
    if kept is None:
        return []
    clusters = {name: kept["keys"].get(name, "") for name in ("source.cluster", "target.cluster")}
    now = described(config, clusters["source.cluster"], clusters["target.cluster"])
    return [_problem(key, str(file)) for key in differing(kept["keys"], now)]


def _problem(key: str, path: str) -> Problem:
    hint = f"the old value is in {path}; a new value needs a new checkpoint and a new target"
    return Problem(key, "differs from the value that the checkpoint was created with", hint)


class StepStore:
    """Data of a run of several steps, beside Spark's checkpoint: DDL and record counts of every step.

    A step that is repeated writes its part anew.
    """

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self._spark, self._folder = spark, f"{checkpoint.rstrip('/')}/relay"
        self._written: tuple[int, dict[str, int]] | None = None

    def keep_ddl(self, step: int, records: list[ConsumerRecord]) -> None:
        """Keep the DDL of a step, or that before the first one (`BEFORE`)."""
        if records:
            frame = self._spark.createDataFrame(pa.Table.from_batches([record_batch(records)]), RECORDS)
            frame.coalesce(1).write.mode("overwrite").parquet(f"{self._folder}/ddl/step={step}")

    def ddl_before(self, step: int) -> list[ConsumerRecord]:
        """Return the DDL of all steps before this one."""
        frame = self._read("ddl", f"{RECORDS}, step string")
        if frame is None:
            return []
        batches = frame.where(F.col("step").cast("bigint") < step).toArrow().to_batches()
        return [record for batch in batches for record in Columns().read(batch)]

    def keep_written(self, step: int, written: Mapping[str, int]) -> None:
        """Keep how many records were written to each `topic/partition` up to the end of a step.

        A repeated step needs the previous number; older ones are not needed.
        """
        self._written = step, dict(written)
        frame = self._spark.createDataFrame(list(written.items()), _WRITTEN)
        frame.coalesce(1).write.mode("overwrite").parquet(f"{self._folder}/written/step={step}")
        older, system = hadoop_path(self._spark, f"{self._folder}/written/step={step - 2}")
        system.delete(older, True)

    def written_before(self, step: int) -> dict[str, int]:
        """Return how many records the steps before this one have written to each `topic/partition`.

        Raises ConfigError.
        """
        if step == 0:
            return {}
        if self._written is None or self._written[0] != step - 1:
            frame = self._read(f"written/step={step - 1}", _WRITTEN)
            if frame is None:
                what = f"the records written before step {step}: offsets would restart"
                message = f"{self._folder} lacks {what}"
                raise ConfigError([Problem("backfill.checkpoint", message, _NEW_RUN)])
            self._written = step - 1, {row.place: row.records for row in frame.collect()}
        return self._written[1]

    def _read(self, what: str, columns: str) -> DataFrame | None:
        folder, system = hadoop_path(self._spark, f"{self._folder}/{what}")
        if not system.exists(folder):
            return None
        # With the schema: a first step that was killed while it wrote has left a folder without one.
        return self._spark.read.schema(columns).parquet(folder.toString())


def ends_of_step(spark: SparkSession, checkpoint: str, step: int) -> dict[str, int] | None:
    """Return where Spark ends a step in each `topic/partition`, which it has logged before the step begins.

    None without a log, before the first step, and for a log of another version.
    """
    path, system = hadoop_path(spark, f"{checkpoint.rstrip('/')}/spark/offsets/{step}")
    if not system.exists(path):
        return None
    jvm: Any = spark._jvm
    stream = system.open(path)
    try:
        lines = jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8").splitlines()
    finally:
        stream.close()
    if lines[0] != _OFFSETS_VERSION:
        return None
    return {
        f"{topic}/{number}": offset
        for topic, partitions in json.loads(lines[-1]).items()
        for number, offset in partitions.items()
    }
