"""The templates of one route: deriving and keeping them, and finding the one that a record fits.

`TopicTemplates.translate` returns the target's key and value of a record that fits a template, and the number
of its `TemplateInfo`, the facts shared by all such records. `RouteTemplates.learn` takes records that used
the slow path, and derives a template after their shape has occurred often enough. `relay.core.fast_path` uses
both.

Templates are a cache: they affect only speed. Each belongs to one table, and is dropped when the table's
definition changes. Their total size is limited approximately; at the limit, no new ones are created until
some have been unused for a while.

A template is derived from a message of one row. `TopicTemplates.translate` is for such messages that become
one message; `RouteTemplates.find_rows` for any number of rows that become any number of messages.
"""
