"""Read and write files safely where other users may have placed something else."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path
from typing import BinaryIO, Final

#: Maximum bytes of a file with a configuration, a certificate, a secret or a token.
SMALL_BYTES: Final = 4 << 20
#: Written files are readable by owner and group only: they may hold rows. The process's umask restricts this
#: further.
_MODE: Final = 0o640
_HANDED_OVER: Final = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")


class NotRegular(OSError):
    """The file is a pipe, a device or a socket; `strerror` has its type."""


def open_regular(path: Path, *, follow: bool = True) -> BinaryIO:
    """Open a file for reading. Raises OSError; NotRegular, without waiting, for a pipe or a device.

    A pipe from the shell (`<(…)`, /dev/stdin) was passed on purpose, and is opened. Unless `follow`, a
    symbolic link is refused, too (ELOOP).
    """
    if str(path).startswith(_HANDED_OVER):
        return path.open("rb")
    # Without O_NONBLOCK, opening a named pipe waits for a writer. It has no effect on files.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    descriptor = os.open(path, flags if follow else flags | os.O_NOFOLLOW)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return open(descriptor, "rb")  # noqa: PTH123 - a descriptor has no path
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise NotRegular(errno.EINVAL, "Not a regular file", str(path))


def read_small(path: Path) -> bytes:
    """Read a file of at most `SMALL_BYTES`. Raises OSError, see `open_regular`."""
    with open_regular(path) as file:
        data = file.read(SMALL_BYTES + 1)
    if len(data) > SMALL_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return data


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that a reader sees all of it or nothing, and so that it survives a loss of power.

    The unfinished file has an unpredictable name that did not exist before. Raises OSError, and leaves no
    unfinished file behind.
    """
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(unfinished, flags, _MODE)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor has no path
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
