"""A real MariaDB for tests: the one that is installed, or Debian's packages, unpacked below ~/.cache/relay."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from readers.parts import locked

USER, PASSWORD = "relay", "se cret"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "relay" / "mariadb"
#: The server, and what it needs beyond a minimal Debian.
_PACKAGES = ("mariadb-server-core", "liburing2")
_AIO = ("libaio1", "libaio1t64")
_SCRIPTS = ("mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql")


class Server:
    """A server that runs."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"mysql://{USER}@127.0.0.1:{port}"


def _unpacked() -> Path | None:
    """The folder of Debian's packages; None where there is no Debian that gives them."""
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        return None
    with locked(_CACHE):
        return _CACHE if (_CACHE / "ready").exists() or _unpack() else None


def _unpack() -> bool:
    """Fetch and unpack the packages; False where they cannot be had."""
    shutil.rmtree(_CACHE, ignore_errors=True)
    _CACHE.mkdir(parents=True)
    aio = [each for each in _AIO if not _fetch(each)]
    if any(map(_fetch, _PACKAGES)) or len(aio) == 0:
        return False
    for package in _CACHE.glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, _CACHE], check=True)
        package.unlink()
    (_CACHE / "ready").touch()
    return True


def _fetch(package: str) -> int:
    command = ["apt-get", "download", "-q", package]
    return subprocess.run(command, cwd=_CACHE, capture_output=True, timeout=120, check=False).returncode


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


@contextlib.contextmanager
def mariadb(folder: Path) -> Iterator[Server]:
    """A new server with one user, who may do everything. Skips the test where none can be had."""
    installed = shutil.which("mariadbd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    root = Path("/") if installed else _unpacked()
    if root is None:
        if os.environ.get("CI"):
            pytest.fail("no MariaDB can be had")
        pytest.skip("no MariaDB is installed, and apt-get gives none")
    libraries = [str(each) for part in ("usr/lib", "lib") for each in (root / part).glob("*-linux-gnu")]
    environment = (
        {**os.environ, "LD_LIBRARY_PATH": ":".join(libraries)} if root == _CACHE else dict(os.environ)
    )
    share, data, temporary = root / "usr/share/mysql", folder / "data", folder / "temporary"
    data.mkdir()
    temporary.mkdir()
    command = [
        installed or str(root / "usr/sbin/mariadbd"),
        *("--no-defaults", f"--datadir={data}", f"--lc-messages-dir={share}", "--skip-log-bin"),
        *(f"--character-sets-dir={share}/charsets", "--innodb-buffer-pool-size=16M"),
        # A server that starts removes temporary tables from there, those of others, too.
        f"--tmpdir={temporary}",
        *(("--user=root",) if os.getuid() == 0 else ()),
    ]
    scripts = "create database mysql;\nuse mysql;\n" + "".join(
        (share / name).read_text() for name in _SCRIPTS
    )
    made = subprocess.run(
        [*command, "--bootstrap"],
        input=scripts.encode(),
        env=environment,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert made.returncode == 0, made.stderr[-2000:]
    (folder / "init.sql").write_text(
        f"CREATE USER {USER}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\nGRANT ALL ON *.* TO {USER}@'127.0.0.1';\n"
    )
    port = _free_port()
    command += [f"--port={port}", "--bind-address=127.0.0.1", f"--socket={folder}/s", "--skip-name-resolve"]
    command += [f"--init-file={folder}/init.sql"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 60
        while b"ready for connections" not in (folder / "log").read_bytes():
            is_coming = process.poll() is None and time.monotonic() < deadline
            assert is_coming, (folder / "log").read_text()[-2000:]
            time.sleep(0.05)
        yield Server(port)
    finally:
        process.terminate()
        process.wait(30)
