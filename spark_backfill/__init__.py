"""The Spark job: it translates history of any size with relay's core, and writes it with relay's sink."""
