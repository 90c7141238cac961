"""What a checkpoint was made with: kept beside Spark's own, and compared at the start of every run.

A run goes on behind the last step of the one before it, and takes for granted that the steps before were made with the same
configuration. Kept is what decides about the target's bytes, readable, by key; no secrets, no addresses of brokers (they change;
the cluster's own id is kept instead), and nothing that a user may turn while a backfill is under way (`batch_records`, `spark` …).

An error policy that was `stop` may change: a step that is done has met no such error, so any other policy had done the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import SparkSession

from relay.codecs._large_messages import shown_uri
from relay.config import Config, Policy
from relay.errors import ConfigError, Problem

_VERSION: Final = 1
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


def described(config: Config, source_cluster: str, target_cluster: str) -> dict[str, Any]:
    """What decides about the target, by key. `…_cluster`: Kafka's ids of the clusters; "" where there is none."""
    tables = config.model_dump(mode="json", by_alias=True)
    found = {"source.cluster": source_cluster, "target.cluster": target_cluster}
    found |= {f"route.{side}": tables["route"][side] for side in ("from", "to")}
    for side in ("from_options", "to_options"):
        found |= {f"route.{side}.{name}": _shown(name, text) for name, text in tables["route"][side].items()}
    found |= {f"{table}.{key}": tables[table][key] for table, keys in _KEYS.items() for key in keys}
    letters = any(getattr(config.errors, name) is Policy.DEAD_LETTER for name in _POLICIES)
    found["errors.dead_letter_topic"] = config.errors.dead_letter_topic if letters else ""
    return dict(sorted(found.items()))


def _shown(name: str, text: str) -> str:
    """An option without the secrets that a URI may hold."""
    return shown_uri(text) if name.endswith("-uri") else text


def differing(kept: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The keys with another value, but for policies of which nothing has depended yet."""
    keys = sorted(key for key in kept.keys() | now.keys() if kept.get(key) != now.get(key))
    free = {f"errors.{name}" for name in _POLICIES if kept.get(f"errors.{name}") == Policy.STOP}
    if not kept.get("errors.dead_letter_topic"):
        free.add("errors.dead_letter_topic")
    return [key for key in keys if key not in free]


def check_checkpoint(spark: SparkSession, checkpoint: str, now: Mapping[str, Any]) -> None:
    """Keep what this run is made with. Raises ConfigError, with the keys that differ, if the checkpoint is of another one."""
    jvm: Any = spark._jvm  # noqa: SLF001
    path = jvm.org.apache.hadoop.fs.Path(f"{checkpoint.rstrip('/')}/relay/configuration.json")
    system = path.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001
    if system.exists(path):
        (row,) = spark.read.text(path.toString(), wholetext=True).collect()
        kept = _read(path.toString(), row.value)
        if problems := [_problem(key, path.toString()) for key in differing(kept, now)]:
            raise ConfigError(problems)
        if kept == now:
            return
    # Under another name first: what is there is whole.
    draft = path.suffix(".draft")
    stream = system.create(draft, True)
    stream.write(bytearray(json.dumps({"version": _VERSION, "keys": now}, indent=2, ensure_ascii=False).encode() + b"\n"))
    stream.close()
    system.delete(path, False)
    system.rename(draft, path)


def _read(path: str, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
        if found["version"] == _VERSION:
            return dict(found["keys"])
    except (ValueError, KeyError, TypeError):
        pass
    raise ConfigError([Problem("backfill.checkpoint", f"{path} was not written by this version of relay", "name another folder")])


def _problem(key: str, path: str) -> Problem:
    hint = f"{path} has the old value; a new value needs a new checkpoint and a new target"
    return Problem(key, "is not what the checkpoint was made with", hint)
