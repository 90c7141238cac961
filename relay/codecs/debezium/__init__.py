"""The Debezium family: an envelope around typed JSON rows, with or without Connect schemas."""
