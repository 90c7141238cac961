"""The Spark job: translate history of any size with relay's core, and write it with relay's sink."""
