"""The canonical model: events, Kafka records, errors, limits, and external lookups."""
