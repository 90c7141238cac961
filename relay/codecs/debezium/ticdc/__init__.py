"""TiCDC's dialect of Debezium, in JSON and in Avro."""
