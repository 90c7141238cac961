"""Read and write claim-check objects at a configured URI, through fsspec.

All calls block; the service makes them in threads. A URI is a folder, or `file://`, `s3://`, `gcs://`
(`gs://`), `azure://` (`az://`, `abfs://`) and a path; other schemes of fsspec work too. The parameters of
TiCDC's own URIs are understood (`s3://bucket/prefix?access-key=…`). Secrets in a URI are shown in no error:
`object_location` returns the printable part.
"""

from __future__ import annotations

import contextlib
import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from relay.codecs import object_location
from relay.io.files import NotRegular, open_regular, write_whole
from relay.model.errors import ClaimCheckMissing, Problem, StorageUnavailable
from relay.model.lookups import ClaimCheck
from relay.model.records import Blob
from relay.text.redaction import is_plain_address

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

#: TiDB's scheme names that differ from those of fsspec.
_SCHEMES: Final = {"local": "file", "azure": "az", "azblob": "az", "gs": "gcs"}
_AZURE: Final = {
    "account-name": ("account_name",),
    "account-key": ("account_key",),
    "sas-token": ("sas_token",),
}
#: Parameters of a storage URI (pingcap/tidb pkg/objstore/parse.go) and where fsspec's file systems take them.
_PARAMETERS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "s3": {
        "access-key": ("key",),
        "secret-access-key": ("secret",),
        "session-token": ("token",),
        "endpoint": ("endpoint_url",),
        "region": ("client_kwargs", "region_name"),
    },
    "gcs": {"credentials-file": ("token",), "endpoint": ("endpoint_url",)},
    "az": _AZURE,
    "abfs": _AZURE,
    "abfss": _AZURE,
}
#: Minimum similarity of a name to a known parameter for it to be shown.
_LIKE: Final = 0.75
_EXTRAS: Final = {"s3": "s3", "gcs": "gcs", "az": "azure", "abfs": "azure", "abfss": "azure"}


class Storage:
    """Read and write objects; fsspec itself caches the file systems."""

    def fetch(self, need: ClaimCheck) -> bytes:
        """Return the needed object, at most one byte more of it than the limit.

        Raises ClaimCheckMissing, StorageUnavailable.
        """
        location = object_location(need.storage, need.name)
        try:
            files, folder = _open(need.storage)
            if _is_local(files):
                return _read_file(Path(folder), need.name, need.most_bytes + 1)
            return _read_at_most(files, f"{folder}/{need.name}", need.most_bytes + 1)
        except FileNotFoundError as error:
            raise ClaimCheckMissing(f"no object {location}") from error
        except Exception as error:  # every file system has different ones
            raise StorageUnavailable(f"{location} cannot be read: {_reason(error)}") from error

    def store(self, blob: Blob) -> None:
        """Write an object durably, replacing an older one of its name. Raises StorageUnavailable."""
        try:
            files, folder = _open(blob.storage)
            if _is_local(files):
                _write_file(Path(folder), blob)
            else:
                files.pipe_file(f"{folder}/{blob.name}", blob.data)
        except Exception as error:
            location = object_location(blob.storage, blob.name)
            raise StorageUnavailable(f"{location} cannot be written: {_reason(error)}") from error


def _read_at_most(files: AbstractFileSystem, path: str, size: int) -> bytes:
    try:
        return bytes(files.cat_file(path, end=size))
    except FileNotFoundError:
        raise
    except Exception:
        # Object stores have no range of an empty object.
        with contextlib.suppress(Exception):
            if files.size(path) == 0:
                return b""
        raise


def storage_problems(storages: Mapping[str, str]) -> list[Problem]:
    """Return the problems of a translator's storage URIs (`Route.storages`), without contacting them.

    A target's folder must be absolute: messages repeat it, and their readers have another working directory.
    """
    problems = []
    for side, uri in storages.items():
        path = f"{side}.option.claim-check-storage-uri"
        scheme, folder, _ = _parts(uri)
        if side == "to" and scheme == "file" and not folder.startswith("/"):
            message = "is a relative path, which the readers of the messages cannot open"
            problems.append(Problem(path, message, "give an absolute one, such as /srv/claim-checks"))
            continue
        if "://" in uri and scheme != "file" and not is_plain_address(uri):
            message = "seems to have a password in place of the host"
            hint = "give secrets as parameters, in which / is written %2F, & %26, @ %40"
            problems.append(Problem(path, message, hint))
            continue
        try:
            _open(uri)
        except ImportError:
            hint = (
                f"pip install '.[{_EXTRAS[scheme]}]' in relay's folder"
                if scheme in _EXTRAS
                else "install what fsspec needs for it"
            )
            problems.append(Problem(path, f"the packages for {scheme}:// are not installed", hint))
        except _UnknownParameter as error:
            problems.append(Problem(path, str(error), error.hint))
        except Exception as error:
            hint = "a folder, or for example s3://bucket/prefix; some stores need the account"
            problems.append(Problem(path, f"cannot be opened as storage: {_reason(error)}", hint))
    return problems


class _UnknownParameter(Exception):
    """A name is shown only if it resembles a known one: it may be the rest of a secret with an & in it."""

    def __init__(self, name: str, number: int, known: Mapping[str, object]) -> None:
        like = difflib.get_close_matches(name, known, n=1, cutoff=_LIKE)
        super().__init__(f"unknown parameter {name!r}" if like else f"unknown parameter {number}")
        self.hint = "known: " + (", ".join(sorted(known)) or "none")
        if not like:
            self.hint += "; an & in a value is written %26"


def _parts(uri: str) -> tuple[str, str, str]:
    """Return the scheme as in fsspec, the rest, and the parameters.

    A path without a scheme may hold any character.
    """
    scheme, mark, rest = uri.partition("://")
    if not mark:
        return "file", uri, ""
    path, _, query = rest.partition("?")
    return _SCHEMES.get(scheme.lower(), scheme.lower()), path, query


def _open(uri: str) -> tuple[AbstractFileSystem, str]:
    # Most runs have no claim checks, and the import takes 50 ms.
    from fsspec import available_protocols  # noqa: PLC0415 - most routes need no storage
    from fsspec.core import url_to_fs  # noqa: PLC0415 - see above

    scheme, path, query = _parts(uri)
    if scheme not in available_protocols():
        raise ValueError("no such scheme")
    files, folder = url_to_fs(f"{scheme}://{path}", **_arguments(scheme, query))
    return files, folder.rstrip("/")


def _arguments(scheme: str, query: str) -> dict[str, Any]:
    known = _PARAMETERS.get(scheme, {})
    arguments: dict[str, Any] = {}
    # As in TiDB, a plus sign is literal, not a space: keys may contain it.
    parameters = parse_qsl(query.replace("+", "%2B"), keep_blank_values=True)
    for number, (given, value) in enumerate(parameters, 1):
        name = given.lower().replace("_", "-")
        if name not in known:
            raise _UnknownParameter(name, number, known)
        *outer, last = known[name]
        table = arguments
        for step in outer:
            table = table.setdefault(step, {})
        table[last] = value
    return arguments


def _is_local(files: AbstractFileSystem) -> bool:
    return "file" in ((files.protocol,) if isinstance(files.protocol, str) else files.protocol)


def _read_file(folder: Path, name: str, size: int) -> bytes:
    """Read an object up to a size.

    It must be a regular file of the folder: a link leads anywhere, a pipe never ends.
    """
    with open_regular(_inside(folder, name), follow=False) as file:
        return file.read(size)


def _write_file(folder: Path, blob: Blob) -> None:
    path = _inside(folder, blob.name)
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(path, blob.data)


def _inside(folder: Path, name: str) -> Path:
    """Return the path of an object. Raises ValueError for a name that leads out of the folder."""
    if name in {"", ".", ".."} or "/" in name or "\0" in name:
        raise ValueError("an object's name must be the name of a file")
    return folder / name


def _reason(error: Exception) -> str:
    """Return an error's kind.

    Its text may hold secrets of a request: only the system's own message is shown.
    """
    if isinstance(error, NotRegular):
        return "it is a pipe or a device, not a file"
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number) if number else type(error).__name__
