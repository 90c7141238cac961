"""What foreign readers, and the peers of `benchmarks/peers.py`, are made of: files of Maven Central, pinned in
parts.txt and fetched once.

A line of parts.txt is a part, coordinates, and the SHA-256 of the file. Of the readers only what their
classes load is listed, not all that their POMs name; of the peers all that a job or a worker starts with.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import shutil
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import NamedTuple

from jgo.maven import MavenContext

from relay.demo.kafka import cache_dir

_LIST = Path(__file__).parent / "parts.txt"
_DOWNLOADS_AT_ONCE = 4


class PartMissing(Exception):
    """A part cannot be had here; says why."""


class _File(NamedTuple):
    part: str
    group: str
    name: str
    version: str
    sha256: str

    def fetch(self, folder: Path) -> None:
        """Download into `folder`. Raises PartMissing."""
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="m2-") as repository:
            context = MavenContext(repo_cache=Path(repository))
            try:
                found = context.project(self.group, self.name).at_version(self.version).artifact().resolve()
            except Exception as error:
                raise PartMissing(
                    f"cannot download {self.group}:{self.name}:{self.version}, "
                    f"is Maven Central reachable? {error}"
                ) from error
            if hashlib.sha256(found.read_bytes()).hexdigest() != self.sha256:
                raise PartMissing(f"{found.name} is not the file that parts.txt means")
            shutil.move(found, folder)


@cache
def _files() -> list[_File]:
    found = []
    for line in _LIST.read_text(encoding="utf-8").splitlines():
        part, coordinates, sha256 = line.split()
        group, name, version = coordinates.split(":")
        found.append(_File(part, group, name, version, sha256))
    return found


def jars(part: str) -> list[Path]:
    """The files of a part; raises PartMissing.

    They lie in the cache folder of relay's own Kafka, in a folder that is complete or not there.
    """
    wanted = [file for file in _files() if file.part == part]
    if not wanted:
        raise PartMissing(f"there is no {part} in parts.txt")
    folder = cache_dir() / "readers" / f"{part}-{digest(file.sha256.encode() for file in wanted)}"
    with locked(folder):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix="download-") as temporary:
                staging = Path(temporary, "jars")
                staging.mkdir()
                with ThreadPoolExecutor(_DOWNLOADS_AT_ONCE) as pool:
                    list(pool.map(lambda file: file.fetch(staging), wanted))
                staging.rename(folder)
    return sorted(folder.iterdir())


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a lock for who makes `folder`, between processes; its parent is made."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(folder.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def unpack(archive: tarfile.TarFile, folder: Path) -> None:
    """Unpack an archive of which the sum is known. Python before 3.11.4 has no filters."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, filter="data")
    else:
        archive.extractall(folder)  # noqa: S202 - what is unpacked is pinned by its sum


def digest(contents: Iterable[bytes]) -> str:
    """A short name for what the contents are together."""
    return hashlib.sha256(b"\0".join(contents)).hexdigest()[:12]
