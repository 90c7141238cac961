"""Maxwell's JSON. Its internals are for this package only."""
