"""A schema registry in a file: what a line may be, and how new ones are added."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from relay.io.registry import SchemaFile, SchemaList
from relay.model.errors import ConfigError
from relay.model.lookups import RegisteredSchema

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


@pytest.mark.parametrize(
    ("second", "fault"),
    [
        (line(schema=OTHER), "line 2 has the id 1 of another schema"),
        (line(schemaType="JSON"), "line 2 has the id 1 of another schema"),
        (line(id=0), "line 2 has the id 0"),
        (line(id=-1), "line 2 has the id -1"),
        (line(id=1 << 31), "line 2 has the id 2147483648"),
        (
            line(id=2, references=[{"name": "S", "subject": "s", "version": 1}]),
            "line 2 refers to other schemas",
        ),
    ],
)
def test_lines_that_cannot_be_meant_are_named(second: bytes, fault: str) -> None:
    with pytest.raises(ConfigError) as raised:
        SchemaList([line(), second], "--from-registry")
    (problem,) = raised.value.problems
    assert (problem.path, problem.message, bool(problem.hint)) == ("--from-registry", fault, True)


def test_a_schema_may_stand_in_several_subjects_however_it_is_spelled() -> None:
    spelled = json.dumps(json.loads(ONE), indent=1)
    found = SchemaList([line(), line(subject="u-value", schema=spelled, references=[])])
    assert found.id_of("u-value", RegisteredSchema(ONE)) == 1
    assert SchemaList([line(id=(1 << 31) - 1)]).schema((1 << 31) - 1) == RegisteredSchema(ONE)
