"""The Spark job: the relay's translation, of history of any size. It drives the core, and writes with the
service's sink.
"""
