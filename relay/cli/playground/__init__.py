"""`relay playground`: a local page on which messages are pasted, and translated before one's eyes.

`pasted` reads what was pasted, `translation` makes the answer of it, `catalog` tells what there is to
choose, `server` serves the page and both. Nothing is read but what the request holds: no topic, no file, no
registry.
"""
