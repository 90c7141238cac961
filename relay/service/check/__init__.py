"""`relay check --connect`: check brokers, topics and permissions before a start."""
