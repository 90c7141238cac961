"""`relay run`: the relay in this process, or in several that this one supervises."""

from __future__ import annotations

from relay.config import Config


def run(config: Config, *, dry_run: bool = False) -> int:
    """Run the relay until SIGTERM or SIGINT, and return the exit status. A dry run is one process.

    Each way imports what it needs: a supervisor loads no Kafka client.
    """
    if not dry_run and config.delivery.processes > 1:
        from relay.service.processes.supervisor import supervise

        return supervise(config)
    from relay.service.app import run_service

    return run_service(config, dry_run=dry_run)
