"""What commands do with topics, beside a relay at work."""
