"""TiCDC Avro: rows as Avro records with schemas in a registry."""
