"""The topics that a route needs: what they must be like, and making those that are missing."""
