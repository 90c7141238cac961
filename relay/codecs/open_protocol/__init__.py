"""TiCDC Open Protocol: typed cells with flags, in a binary framing."""
