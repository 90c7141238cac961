"""Topic operations of the commands, outside a running relay."""
