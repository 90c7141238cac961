"""Text for people: escaping and redaction, log lines, durations."""
