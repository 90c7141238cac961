"""Where an outgoing record goes: topic and partition.

By default a record keeps its source's topic and partition, and so the order of its source. With another
number of partitions, rows are spread (`relay.routing.partitioning`) and watermarks go to every partition.

Rules give tables topics of their own, and templates may name the table (`relay.routing.topic_names`). What
is about a table goes where its rows go. What is about no table goes to every topic that is in use: those of
the tables that the catalog knows at that place of the stream, and those of rows that came before without
a definition. A topic that does not depend on the table is always in use.

DDL goes where the target's readers look for it. A protocol has a statement once, in partition 0, or
everywhere: a copy in every partition. Of a source's copies only the one in partition 0 counts; the
others are written only where every partition keeps its own.
"""

from relay.routing.router import Group, Places, Router, SeenTopics, Spread
from relay.routing.rules import TopicRule, partitions_by_name, routing_problems, templates_of
from relay.routing.watermarks import WatermarkGate

__all__ = [
    "Group",
    "Places",
    "Router",
    "SeenTopics",
    "Spread",
    "TopicRule",
    "WatermarkGate",
    "partitions_by_name",
    "routing_problems",
    "templates_of",
]
