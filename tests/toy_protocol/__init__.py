"""A protocol in a package of its own, made by the recipe in docs/architecture.md and found by its entry points.

What no protocol of relay has yet: schemas in a registry, transactions, definitions without a statement,
heartbeats; no DDL, no watermarks, no zone.
"""
