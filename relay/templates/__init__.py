"""Templates: the fast path. A message of a known shape is translated by copying and a few conversions.

A `Template` (`relay.templates.ops`) describes which bytes of a source message are constant for its shape,
which are values, and how the target's message is built from them. It is derived by tracing one message
through decoder, plans and encoder (`relay.templates.tracing`), never written by hand. A message that does not
fit a template exactly takes the slow path, which is authoritative. The kernel (`relay-cdc-kernel`) applies
templates; the reference engine (`tests/reference_engine`) is its specification.
"""
