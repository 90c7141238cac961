"""DDL of MySQL and TiDB: `read_ddl` reads statements, `kinds_of` says what one does, `define_table` and
`alter_table` make definitions.
"""

from relay.mysql.ddl.apply import alter_table, define_table
from relay.mysql.ddl.reader import kinds_of, read_ddl

__all__ = ["alter_table", "define_table", "kinds_of", "read_ddl"]
