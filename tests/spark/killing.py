"""The command as a process of its own, that can be killed whenever somebody wants; and what its target then
must hold.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from relay.model.records import ProducerRecord, source_mark

ROOT = Path(__file__).parent.parent.parent
_CONFIG = """
[route]
from = "ticdc-canal-json"
to = "canal-json"
[source]
bootstrap_servers = "{servers}"
topics = ["{source}"]
group_id = "relay"
[target]
topic = "{target}"
[backfill]
checkpoint = "{folder}/checkpoint"
output = "{output}"
batch_records = {step}
task_records = {step}
"""


def written_config(
    folder: Path, servers: str, source: str, target: str, *, to_files: bool, step: int = 200
) -> Path:
    """Write a configuration; files go to `out` in the folder. `step`: records of a step, and of a task."""
    path, output = folder / "relay.toml", folder / "out" if to_files else ""
    path.write_text(
        _CONFIG.format(folder=folder, servers=servers, source=source, target=target, output=output, step=step)
    )
    return path


class Command:
    """The command in a process group of its own, so that SIGKILL takes the JVM and the workers as well.

    `submitted`: by spark-submit, whose Java starts Python; else Python starts Java.
    """

    def __init__(
        self, config: Path, settings: Mapping[str, str], log: Path, *options: str, submitted: bool = True
    ) -> None:
        spark = {name: value for name, value in settings.items() if name != "spark.jars.packages"}
        flags = [part for name, value in spark.items() for part in ("--conf", f"{name}={value}")]
        if submitted:
            words = [
                str(Path(sys.executable).parent / "spark-submit"),
                *flags,
                str(ROOT / "spark_backfill/main.py"),
            ]
        else:
            table = ", ".join(f"{json.dumps(name)} = {json.dumps(value)}" for name, value in settings.items())
            words = [sys.executable, "-m", "spark_backfill", "--set", f"backfill.spark={{{table}}}"]
        self.log = log
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [*words, "--config", str(config), *options],
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def session(self) -> int:
        """The session of its processes."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def signal(self, number: int) -> None:
        """Send a signal to the whole group, as a terminal does."""
        os.killpg(self._process.pid, number)

    def said(self, words: str, seconds: float = 240) -> None:
        """Wait until the log holds these words."""
        deadline = time.monotonic() + seconds
        while words not in self.log.read_text():
            assert self._process.poll() is None, self.log.read_text()[-3000:]
            assert time.monotonic() < deadline, self.log.read_text()[-3000:]
            time.sleep(0.05)

    def kill(self) -> None:
        """End it at once, if it has not ended."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def wait(self, seconds: float = 300) -> int:
        """Wait for its end; gives the exit status."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


Written = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def content_of(records: Iterable[ProducerRecord]) -> list[Written]:
    """Timestamp, key, value and headers."""
    return [(each.timestamp_ms, each.key, each.value, each.headers) for each in records]


def once(found: Iterable[Written]) -> list[Written]:
    """What a topic holds without its repeats: those have the same `relay.source`, and must have the same
    bytes.
    """
    kept: dict[bytes | None, Written] = {}
    for each in found:
        mark = source_mark(each[3])
        assert kept.setdefault(mark, each) == each, f"{mark!r} was written twice, and differs"
    return list(kept.values())
