"""DDL of MySQL and TiDB: `read_ddl` parses statements, `kinds_of` returns the kinds of a statement,
`define_table` and `alter_table` build definitions.
"""

from relay.mysql.ddl.apply import alter_table, define_table
from relay.mysql.ddl.reader import kinds_of, read_ddl

__all__ = ["alter_table", "define_table", "kinds_of", "read_ddl"]
