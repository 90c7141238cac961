"""`relay playground`: a local page that translates pasted messages.

`pasted` parses the input, `translation` makes the answer, `catalog` has the available choices, `server`
serves the page and both. Only the request is read: no topic, no file, no registry.
"""
