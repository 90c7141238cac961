"""Kafka clients: all code that uses aiokafka, without the relay loop."""
