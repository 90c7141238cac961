"""`relay demo`: a plain function, called by the command line in `relay.cli`."""

from __future__ import annotations

from relay.demo.play import play


def demo(keep: bool) -> int:
    """Show the relay at work on a real Apache Kafka; with `keep` stay up until Ctrl-C. Gives the exit status."""
    return play(keep=keep)
