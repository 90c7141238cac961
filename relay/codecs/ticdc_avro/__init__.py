"""TiCDC Avro: rows as Avro records whose schemas a registry has."""
