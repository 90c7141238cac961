"""Faults of a real Kafka, and how soon relay's page, checks, metrics and alerts show them (`make faults`)."""
