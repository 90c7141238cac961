"""A real Apache Kafka on this machine, captured TiCDC records, and the relay between two topics: `relay
demo`.
"""
