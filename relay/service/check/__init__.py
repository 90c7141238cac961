"""`relay check --connect`: what can be known of brokers, topics and rights before a start."""
