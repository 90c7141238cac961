"""TiCDC Simple: rows, statements and watermarks that refer to definitions, which travel apart."""
