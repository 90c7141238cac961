"""Observability of a run: status, metrics, HTTP."""
