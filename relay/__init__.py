"""relay: whole change events from one CDC format to another."""
