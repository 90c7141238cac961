"""Types, values and DDL of MySQL and TiDB. No other package duplicates this knowledge."""
