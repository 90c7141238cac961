"""`python -m relay` is the `relay` program."""

from __future__ import annotations

from relay.cli import main

if __name__ == "__main__":
    main()
