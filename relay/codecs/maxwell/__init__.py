"""Maxwell's JSON. Its inside is for this package alone."""
