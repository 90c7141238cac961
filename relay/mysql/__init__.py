"""What relay knows of MySQL and TiDB: types, values and DDL. The only place that knows it."""
