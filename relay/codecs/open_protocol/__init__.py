"""TiCDC Open Protocol: typed cells with flags, in frames of its own."""
