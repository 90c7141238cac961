"""The canonical model: events, Kafka records, errors, limits, and the lookups that a codec may need."""
