"""Definitions as statements: in the spelling of SHOW CREATE TABLE, and read back as they were."""

from __future__ import annotations

import msgspec
import pytest
from support import captured

from relay import Translator
from relay.model.events import Bootstrap, Index, TableId, TableSchema
from relay.mysql.ddl import define_table, read_ddl
from relay.mysql.ddl.printed import create_statement
from relay.mysql.ddl.statements import CreateTable

SHOWN = r"""CREATE TABLE `o``dd` (
  `id` bigint unsigned NOT NULL AUTO_INCREMENT,
  `name` varchar(32) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL DEFAULT 'it''s \\ "x"' COMMENT 'it''s',
  `state` enum('a,b','it''s','back\\slash') DEFAULT 'it''s',
  `bits` bit(5) NOT NULL DEFAULT b'10001',
  `raw` binary(2) DEFAULT 0x80ff,
  `code` varbinary(9) DEFAULT 'ab',
  `y` year(4) DEFAULT NULL,
  `price` decimal(12,2) unsigned DEFAULT '0.10',
  `at` timestamp(3) NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
  `u` char(36) DEFAULT (uuid()),
  `doc` json,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uk` (`name`,`price`),
  KEY `k` (`at`)
) DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='a ''table'''"""


def defined(text: str) -> TableSchema:
    (statement,) = read_ddl(text).statements
    assert isinstance(statement, CreateTable)
    schema = define_table(TableId("d", statement.table.table), statement.changes)
    assert schema is not None
    return schema


def test_a_definition_is_spelled_as_show_create_table_does() -> None:
    assert create_statement(defined(SHOWN)) == SHOWN


def test_the_index_of_a_foreign_key_is_shown_as_any_other() -> None:
    """SHOW CREATE TABLE has it, in MySQL and TiDB, though no statement made it."""
    table = defined("CREATE TABLE t (id INT, p INT, CONSTRAINT f FOREIGN KEY (p) REFERENCES u (id))")
    shown = create_statement(table) or ""
    assert "KEY `f` (`p`)" in shown
    assert defined(shown).indexes == (Index("f", ("p",)),)


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE t (a INT, b INT GENERATED ALWAYS AS (a + 1) STORED)",
        "CREATE TABLE t (a TEXT, KEY k (a(10)))",
        "CREATE TABLE t (a BLOB, id INT, UNIQUE KEY k (id, a(10)))",
    ],
)
def test_what_a_definition_does_not_know_is_not_made_up(text: str) -> None:
    assert create_statement(defined(text)) is None


def test_a_definition_that_is_not_whole_is_not_printed() -> None:
    assert (
        create_statement(msgspec.structs.replace(defined("CREATE TABLE t (a INT)"), complete=False)) is None
    )


def test_tables_of_a_server_are_read_back_as_they_were() -> None:
    reader = Translator("debezium-json", "canal-json")
    records = captured("mysql/debezium.snapshot/10_ddl")
    found = [event for one in records for event in reader.inspect(one) if isinstance(event, Bootstrap)]
    schemas = [event.schema for event in found]
    assert schemas
    for schema in schemas:
        text = create_statement(schema)
        assert text is not None
        assert msgspec.structs.replace(defined(text), id=schema.id) == schema
