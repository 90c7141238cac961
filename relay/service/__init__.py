"""The service: reads a source, translates, writes a target, commits; everything that waits is here and not in
the core.
"""
