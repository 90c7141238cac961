"""Protocol Buffers of upstream Canal (flatMessage=false)."""
