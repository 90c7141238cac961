"""Everything that reaches outside of the process: Kafka, registries, object storage, files."""
