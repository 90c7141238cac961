"""Shared by both dialects of Debezium: rows, schemas, Connect's Avro."""
