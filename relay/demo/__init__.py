"""`relay demo`: a real Apache Kafka on this machine, captured TiCDC records, and the relay at work."""
