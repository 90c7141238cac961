"""What relay costs: `python -m benchmarks` measures the codecs, and the relay on a real Apache Kafka, next to
a floor.
"""
