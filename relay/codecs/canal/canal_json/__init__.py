"""JSON of upstream Canal (flatMessage=true)."""
