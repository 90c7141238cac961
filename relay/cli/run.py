"""`relay run`: the relay in this process, or in several that this one supervises."""

from __future__ import annotations

from relay.config import Config


def run(config: Config) -> int:
    """Run the relay until SIGTERM or SIGINT, and return the exit status.

    Each way imports what it needs: a supervisor loads no Kafka client.
    """
    if config.delivery.processes > 1:
        from relay.service.processes.supervisor import supervise

        return supervise(config)
    from relay.service.app import run_service

    return run_service(config)
