"""Text for people: redaction and escaping, durations."""
