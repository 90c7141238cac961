"""The Kafka room: everything that knows aiokafka, without the relay loop."""
