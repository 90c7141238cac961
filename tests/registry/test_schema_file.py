"""A schema registry in a file: what a line may be, and how new ones are added."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from relay.needs import RegisteredSchema
from relay.registry import SchemaFile

ONE, OTHER = '{"type":"record","name":"R","fields":[]}', '{"type":"record","name":"S","fields":[]}'


def line(**members: Any) -> bytes:
    return json.dumps({"id": 1, "subject": "t-value", "version": 1, "schema": ONE, **members}).encode()


def test_a_last_line_without_its_end_is_ended_before_another(tmp_path: Path) -> None:
    path = tmp_path / "schemas.jsonl"
    path.write_bytes(line())
    written = SchemaFile(path, "--to-registry", is_new=True)
    assert [written.id_of("u-value", RegisteredSchema(OTHER)) for _ in range(2)] == [2, 2]
    assert written.id_of("t-value", RegisteredSchema(OTHER)) == 2
    assert len(path.read_bytes().splitlines()) == 3
    assert SchemaFile(path, "--to-registry").schema(2) == RegisteredSchema(OTHER)


def test_a_new_file_begins_with_its_first_schema(tmp_path: Path) -> None:
    path = tmp_path / "schemas.jsonl"
    assert SchemaFile(path, "--to-registry", is_new=True).id_of("t-value", RegisteredSchema(ONE)) == 1
    assert path.read_bytes()[:8] == b'{"id":1,'
