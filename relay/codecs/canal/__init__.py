"""The Canal family: text cells, and `sqlType` and `mysqlType` beside them."""
