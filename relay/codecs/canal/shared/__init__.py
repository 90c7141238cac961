"""Shared by the protocols of the Canal family."""
