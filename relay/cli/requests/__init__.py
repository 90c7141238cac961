"""The requests of the commands: their arguments, options and help."""
