"""Oracle GoldenGate's JSON. Its internals are for this package only."""
