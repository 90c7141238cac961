"""Faults on purpose: a real Kafka, real relay processes, and a verifier. See `chaos.__main__`."""
