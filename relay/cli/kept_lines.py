"""Input kept in a temporary file, so that it can be read more than once."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

from relay.cli.arguments import Input, InputFormat


@contextmanager
def kept_lines(write: Callable[[BinaryIO], None], name: str) -> Iterator[Input]:
    """Give what `write` puts into a temporary file as an input."""
    with tempfile.TemporaryFile() as kept:
        write(cast("BinaryIO", kept))
        yield Input(cast("BinaryIO", kept), name, rewound_size(kept), InputFormat.RECORDS)


def rewound_size(kept: tempfile._TemporaryFileWrapper[bytes] | BinaryIO) -> int:
    """Return the size of a file in bytes, and go back to its beginning."""
    end = kept.seek(0, 2)
    kept.seek(0)
    return end
