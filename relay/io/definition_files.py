"""Read table definitions from dumps on disk: files and folders of SQL, and output of SHOW CREATE TABLE."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple
from urllib.parse import unquote

from relay.catalog.definition_reader import DefinitionReader
from relay.catalog.definitions import Definition
from relay.io.files import open_regular
from relay.model.errors import ConfigError, DdlNotUnderstood, Problem
from relay.model.limits import DEFAULT_LIMITS, Limits
from relay.mysql.dumps import DumpStatement, dumped_database, statements
from relay.mysql.show_create import separate, shown_statements

_CHUNK: Final = 1 << 20
#: Maximum bytes of the output of SHOW CREATE TABLE, which is read as a whole.
_LONGEST_SHOWN: Final = 64 << 20
_NAMES: Final = (".sql", ".sql.gz")
#: mydumper and Dumpling write a separate file for every table: `database.table-schema.sql`.
_OF_TABLE: Final = re.compile(r"(.[^.]*)\..+-schema(?:-view)?\.sql(?:\.gz)?")


class Dumped(NamedTuple):
    """The definitions of dumps, by table.

    Also the number of files read, and the statements that were not understood.
    """

    definitions: list[Definition]
    files: int
    problems: list[str]


def read_dumps(
    names: Sequence[str],
    commit_ts: int,
    database: str | None = None,
    *,
    option: str,
    database_option: str,
    limits: Limits = DEFAULT_LIMITS,
) -> Dumped:
    """Read files and folders.

    `database`: default for unqualified names if the dump names no database; set by `database_option`. Raises
    ConfigError, about `option`, for input that cannot be read at all.
    """
    reader, files = DefinitionReader(limits, database_option), _files(names, option)
    for path in files:
        try:
            with _opened(path) as stream:
                _read(stream, path, database, reader, limits)
        except (OSError, EOFError, zlib.error) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError([Problem(option, f"cannot read {path}: {reason}")]) from error
        except DdlNotUnderstood as error:
            raise ConfigError([Problem(option, f"{path} {error}")]) from error
    definitions = reader.definitions(commit_ts)
    if not definitions and not reader.problems:
        reader.problems.append(f"no statement defines a table in {', '.join(names)}")
    return Dumped(definitions, len(files), reader.problems)


def _files(names: Sequence[str], option: str) -> list[Path]:
    """Return the files to read, those of a folder in the order in which they depend on each other."""
    found: list[Path] = []
    for name in names:
        path = Path(name)
        if not path.is_dir():
            found.append(path)
            continue
        inside = [each for each in sorted(path.iterdir()) if each.name.endswith(_NAMES) and each.is_file()]
        schemas = [each for each in inside if _OF_TABLE.fullmatch(each.name)]
        if schemas:
            # The other files hold rows. A view replaces its placeholder table.
            inside = sorted(schemas, key=lambda each: ("-schema-view." in each.name, each.name))
        if not inside:
            raise ConfigError([Problem(option, f"folder {name} has no .sql or .sql.gz file")])
        found += inside
    return found


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    if path.name.endswith(".zst"):
        raise OSError("it is compressed with zstd: decompress it first (unzstd)")
    with open_regular(path) as stream:
        if path.name.endswith(".gz"):
            yield io.BufferedReader(gzip.GzipFile(fileobj=stream))
        else:
            yield stream


def _read(
    stream: BinaryIO, path: Path, database: str | None, reader: DefinitionReader, limits: Limits
) -> None:
    start = stream.read(_CHUNK)
    reader.database = database or _database_of(path) or dumped_database(start)
    for text, line in _statements(start, stream, limits):
        reader.take(text, f"{path} line {line}")


def _database_of(path: Path) -> str | None:
    """Return the database in the name of a file."""
    found = _OF_TABLE.fullmatch(path.name)
    return None if found is None else unquote(found[1])


def _statements(start: bytes, stream: BinaryIO, limits: Limits) -> Iterator[DumpStatement]:
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DdlNotUnderstood("line 1: it is UTF-16; it must be UTF-8")
    head = start.removeprefix(b"\xef\xbb\xbf")
    if shown_statements(head[:4096].decode(errors="replace")) is not None:
        rest = stream.read(_LONGEST_SHOWN)
        shown = shown_statements((head + rest).decode(errors="replace"))
        yield from shown or ()
        return
    for statement in statements(_chunks(head, stream), limits.ddl_bytes):
        yield from separate(statement)


def _chunks(start: bytes, stream: BinaryIO) -> Iterator[bytes]:
    yield start
    while chunk := stream.read(_CHUNK):
        yield chunk
