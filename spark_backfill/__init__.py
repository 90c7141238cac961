"""The Spark job: the same translation as the relay's, of history of any size. It drives the core, and never the service's loop."""
