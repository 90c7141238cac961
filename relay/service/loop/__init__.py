"""The relay loop: from a poll to committed offsets."""
