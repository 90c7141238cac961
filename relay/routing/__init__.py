"""Routing: selects the topic and partition of each outgoing record.

By default a record keeps its source's topic and partition, and so the order of its source. With a configured
number of partitions, rows are distributed (`relay.routing.partitioning`) and watermarks are written to every
partition.

Rules give tables separate topics, and templates may contain the table's name (`relay.routing.topic_names`).
Events about a table go to the same topic as its rows. Events about no table go to every topic in use: the
topics of tables that the catalog knows at that position of the stream, and those of earlier rows without a
definition. A topic that does not depend on the table is always in use.

DDL goes to the partitions in which the target's readers expect it. A protocol has either one copy of a
statement, in partition 0, or a copy in every partition. Of a source's copies only the one in partition 0
counts; the others are written only if every partition keeps its own.
"""

from relay.routing.router import Destinations, Group, RoutedEvents, Router, TopicsInUse, WatermarkGate
from relay.routing.rules import TopicRule, partitions_by_name, routing_problems, templates_of

__all__ = [
    "Destinations",
    "Group",
    "RoutedEvents",
    "Router",
    "TopicRule",
    "TopicsInUse",
    "WatermarkGate",
    "partitions_by_name",
    "routing_problems",
    "templates_of",
]
