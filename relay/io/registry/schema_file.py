"""A schema registry in a file, or in memory: a JSON object a line, `{"id", "subject", "version", "schema"}`.

Behaves as `SchemaRegistry`, without a network. A new schema is added at the end, under the next free number;
one that another subject already has keeps its id. `schemaType` is present unless it is AVRO. No line refers
to others. Several programs must not write one file at the same time.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from relay.io.files import open_regular
from relay.model.errors import ConfigError, Problem, RegistryUnavailable, SchemaMissing
from relay.model.lookups import LARGEST_SCHEMA_ID, RegisteredSchema


class SchemaLine(msgspec.Struct, rename="camel", omit_defaults=True):
    """A schema as stored in a line."""

    id: int
    schema: str
    subject: str = ""
    version: int = 0
    schema_type: str = "AVRO"
    references: list[Any] | None = None


class SchemaList:
    """The schemas of some lines, in memory. Raises ConfigError, with `key_path`, for an invalid line."""

    name = "the list of schemas"

    def __init__(self, lines: Iterable[bytes] = (), key_path: str = "") -> None:
        #: By id; and ids by the canonical form of a schema.
        self._schemas: dict[int, RegisteredSchema] = {}
        self._ids: dict[tuple[str, bytes], int] = {}
        self._versions: dict[str, dict[int, int]] = {}
        self._take_all(lines, key_path)

    def _take_all(self, lines: Iterable[bytes], key_path: str) -> None:
        for number, line in enumerate(lines, 1):
            if line.strip():
                self._take(line, number, key_path)

    def _take(self, text: bytes, number: int, key_path: str) -> None:
        try:
            line = msgspec.json.decode(text, type=SchemaLine)
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            hint = 'each line is {"id": …, "schema": "…"}, with "subject" and "version"'
            raise ConfigError([Problem(key_path, f"line {number} is not a schema", hint)]) from None
        fault, hint = self._fault(line)
        if fault:
            raise ConfigError([Problem(key_path, f"line {number} {fault}", hint)])
        self._add(line)

    def _fault(self, line: SchemaLine) -> tuple[str, str]:
        """Return the problem with a line, and the remedy; two empty texts if none."""
        if not 0 < line.id <= LARGEST_SCHEMA_ID:
            return f"has the id {line.id}", f"ids are from 1 to {LARGEST_SCHEMA_ID}"
        if line.references:
            return "refers to other schemas", "define them within the schema, or name the URL of the registry"
        known = self._schemas.get(line.id)
        if known is not None and _meaning(known) != _meaning(_schema_of(line)):
            return f"has the id {line.id} of another schema", "use schemas of only one registry"
        return "", ""

    def _add(self, line: SchemaLine) -> None:
        schema = _schema_of(line)
        self._schemas.setdefault(line.id, schema)
        self._ids.setdefault(_meaning(schema), line.id)
        self._versions.setdefault(line.subject, {})[line.id] = line.version

    def schema(self, id: int | str) -> RegisteredSchema:
        """Return the schema of an id. Raises SchemaMissing."""
        found = self._schemas.get(id) if isinstance(id, int) else None
        if found is None:
            raise SchemaMissing(f"{self.name} has no schema {id}")
        return found

    def id_of(self, subject: str, schema: RegisteredSchema) -> int:
        """Return the id of a schema, which is added if it is new. Raises RegistryUnavailable."""
        id = self._ids.get(_meaning(schema))
        versions = self._versions.get(subject, {})
        if id is not None and id in versions:
            return id
        if id is None:
            id = next(free for free in itertools.count(len(self._schemas) + 1) if free not in self._schemas)
        line = SchemaLine(id, schema.text, subject, 1 + max(versions.values(), default=0), schema.kind)
        self.keep(line)
        self._add(line)
        return id

    def keep(self, line: SchemaLine) -> None:
        """Store a new schema. Raises RegistryUnavailable, and then it is not added."""


class SchemaFile(SchemaList):
    """The schemas of a file. Raises ConfigError, with `key_path`, for a file that cannot be read.

    `is_new`: the file may be missing, and is made with the first schema.
    """

    def __init__(self, path: Path, key_path: str, *, is_new: bool = False) -> None:
        super().__init__()
        self._path, self.name = path, str(path)
        try:
            with open_regular(path) as file:
                self._take_all(file, key_path)
        except FileNotFoundError:
            if not is_new:
                raise ConfigError([Problem(key_path, f"{path} does not exist")]) from None
        except OSError as error:
            raise ConfigError([Problem(key_path, f"{path} cannot be read: {error.strerror}")]) from error

    def keep(self, line: SchemaLine) -> None:
        """Append it to the file. Raises RegistryUnavailable."""
        try:
            with self._path.open("a+b") as file:
                file.write(_missing_line_end(file) + msgspec.json.encode(line) + b"\n")
        except OSError as error:
            raise RegistryUnavailable(f"{self._path} cannot be written: {error.strerror}") from error


def _missing_line_end(file: BinaryIO) -> bytes:
    """Return the line end that the last line of a file lacks, as some editors leave it."""
    if file.tell() == 0:
        return b""
    file.seek(-1, os.SEEK_END)
    return b"" if file.read() == b"\n" else b"\n"


def _schema_of(line: SchemaLine) -> RegisteredSchema:
    return RegisteredSchema(line.schema, line.schema_type)


def _meaning(schema: RegisteredSchema) -> tuple[str, bytes]:
    """Return the canonical form of a schema, independent of white space and the order of members."""
    try:
        document: Any = msgspec.json.decode(schema.text)
        return schema.kind, msgspec.json.encode(document, order="sorted")
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return schema.kind, schema.text.encode(errors="surrogatepass")
