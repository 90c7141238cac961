"""Templates of one route: deriving them, keeping them, and finding the one that a record fits.

`TopicTemplates.translate` returns the target's key and value of a record that fits a template, and the number
of the facts that all such records share, its `Known`. `RouteTemplates.learn` takes records that took the slow
path, and derives a template once their shape has come often enough. `relay.core.fast_path` uses both.

Templates are a cache: nothing depends on them but time. Each is of one table, and is dropped when the
definition of that table changes. They take up to a set number of bytes, roughly; after that no new ones
are made until some have gone unused for a while.

A template is derived from a message of one row. `TopicTemplates.translate` is for such messages that become
one; `RouteTemplates.find_rows` for those of any number of rows that become any number.
"""
