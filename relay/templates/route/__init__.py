"""Templates of one route: deriving them, keeping them, and finding the one that a record fits.

`TopicTemplates.translate` gives the target's key and value of a record that fits a template, and the number
of what is the same for all of them, its `Known`. `RouteTemplates.learn` is told of records that took the
slow path, and makes a template once a shape has come often enough. `FastPath` and `SealedFastPath` are the
ways through both.

Templates are a cache: nothing depends on them but time. Each is of one table, and is dropped when the
catalog says something else of that. They take up to a set number of bytes, roughly; after that no new ones
are made until some have gone unused for a while.

A template is derived from a message of one row. `TopicTemplates.translate` is for such messages that become
one; `RouteTemplates.find_rows` for those of any number of rows that become any number.
"""
