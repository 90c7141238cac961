"""TiCDC Canal-JSON."""
