"""All access to the outside: Kafka, registries, object storage, files."""
