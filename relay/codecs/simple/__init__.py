"""TiCDC Simple: rows, statements and watermarks, with table definitions in separate messages."""
