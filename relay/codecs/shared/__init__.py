"""Shared by the families of protocols. Imported by codecs only."""
