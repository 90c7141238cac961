"""The flat family: a row as a plain object of its columns, for readers that load tables."""
