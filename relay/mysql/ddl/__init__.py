"""DDL of MySQL and TiDB: `read_ddl` parses statements, `locate_statements` also finds their places,
`kinds_of` returns the kinds of a statement, `define_table` and `alter_table` build definitions.
"""

from relay.mysql.ddl.apply import alter_table, define_table
from relay.mysql.ddl.reader import Located, kinds_of, locate_statements, read_ddl

__all__ = ["Located", "alter_table", "define_table", "kinds_of", "locate_statements", "read_ddl"]
