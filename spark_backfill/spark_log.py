"""The output of a Java that Python starts: messages of Spark, Ivy and log4j go to a file.

The terminal is left to the job's own progress reports.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

from relay.model.errors import ServiceError

#: Instead of a file: Java writes to the job's own stdout and stderr.
INHERITED: Final = "-"
_ERRORS: Final = ("Caused by: ", "Error: ", "java.", "Exception in thread")
_TAIL_BYTES: Final = 16_384


class SparkLog(NamedTuple):
    """The file, and its name."""

    path: str
    file: BinaryIO

    @classmethod
    def opened(cls, path: str) -> SparkLog | None:
        """Open the named file, or a new temporary one for ""; None for `INHERITED`.

        Raises ServiceError.
        """
        if path == INHERITED:
            return None
        try:
            if path:
                return cls(path, Path(path).open("wb"))
            handle, made = tempfile.mkstemp(prefix="relay-spark-", suffix=".log")
        except OSError as error:
            raise ServiceError(f"cannot write {path or tempfile.gettempdir()}: {error.strerror}") from error
        return cls(made, os.fdopen(handle, "wb"))

    def start_java(self, conf: SparkConf) -> None:
        """Start the Java of this process, which writes here, unless it runs already."""
        if SparkContext._gateway is None:
            launch: Any = launch_gateway  # has no types
            gateway = launch(conf, {"stdout": self.file, "stderr": self.file})
            SparkContext._ensure_initialized(gateway=gateway)

    def reason(self) -> str:
        """Return the last line that may be the error by which Java ended; "" for none."""
        self.file.flush()
        text = Path(self.path).read_bytes()[-_TAIL_BYTES:].decode(errors="replace")
        lines = [line.strip() for line in text.splitlines()]
        return next((line for line in reversed(lines) if line.startswith(_ERRORS)), "")
