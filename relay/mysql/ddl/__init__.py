"""DDL of MySQL and TiDB: `read_ddl` reads statements, `define_table` and `alter_table` make definitions."""

from relay.mysql.ddl.apply import alter_table, define_table
from relay.mysql.ddl.reader import read_ddl

__all__ = ["alter_table", "define_table", "read_ddl"]
