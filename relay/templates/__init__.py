"""Templates: how a message of a shape that was met before is translated by copying and a few conversions.

Contract: a `Template` (`relay.templates.ops`) says which bytes of a source message are the same in all
messages of its shape, which are values, and what of them the target's message is made of. It is derived from
what decoder, plans and encoder do with one message (`relay.templates.tracing`), never written by hand. What
does not fit a template exactly takes the slow path, which alone says what is right. The kernel
(`relay-cdc-kernel`) fills templates; the reference engine (`tests/reference_engine`) is its
specification.
"""
