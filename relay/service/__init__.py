"""The service: reads a source, translates, writes a target and commits. The core never waits; this does."""
