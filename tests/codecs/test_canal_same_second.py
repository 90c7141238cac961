"""Rows of Canal in the second of a statement that is in another partition: nothing tells which came first."""

from __future__ import annotations

import json
from typing import Any

import pytest
from edge_cases.canal_family import ddl
from support import record, row_message

from relay import Loss, Translator

SECOND = 1700000001000
CREATE = ddl("CREATE TABLE t (id INT PRIMARY KEY, c DECIMAL(9,2))", "CREATE", es=SECOND)
EARLIER = ddl("CREATE TABLE t (id INT PRIMARY KEY, c DECIMAL(9,4))", "CREATE", es=SECOND - 5000)


def written(*statements: dict[str, Any], es: int, type_: str = "decimal") -> tuple[str, bool]:
    """The output for a row of partition 1, and whether its types were inferred."""
    options = {"schemas.enable": "false", "decimal.handling.mode": "string"}
    translator = Translator("canal-json", "debezium-json", None, options)
    for at, statement in enumerate(statements):
        translator.translate(record(statement, offset=at))
    message = row_message({"id": "int", "c": type_}, {"id": "1", "c": "1.5"}, pkNames=["id"], es=es)
    (out,) = translator.translate(record(message, partition=1))
    return json.loads(out.value or b"")["after"]["c"], Loss.SCHEMA_INFERRED in translator.losses


@pytest.mark.parametrize(
    ("statements", "es", "expected"),
    [
        ((CREATE,), SECOND, ("1.50", False)),
        ((CREATE,), SECOND + 1000, ("1.50", False)),
        ((CREATE,), SECOND - 1000, ("1.5", True)),
        ((EARLIER, ddl("ALTER TABLE t MODIFY c DECIMAL(9,2)", es=SECOND)), SECOND, ("1.5000", False)),
        ((ddl("DROP TABLE t", "ERASE", es=SECOND),), SECOND, ("1.5", True)),
    ],
)
def test_a_table_that_was_made_then_is_known(
    statements: tuple[dict[str, Any], ...], es: int, expected: tuple[str, bool]
) -> None:
    assert written(*statements, es=es) == expected


def test_a_definition_that_contradicts_the_row_is_not_taken() -> None:
    assert written(CREATE, es=SECOND, type_="varchar(9)") == ("1.5", True)
