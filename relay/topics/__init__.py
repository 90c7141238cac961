"""The topics that a route needs: their requirements, and the creation of missing ones."""
