"""The service: read a source, translate, write a target and commit.

All waiting happens here; the core never waits.
"""
