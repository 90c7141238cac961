"""`relay run`: the relay in this process, or in several that this one supervises; and `relay demo`."""

from __future__ import annotations

from relay.cli.requests.route import DemoRequest, RunRequest


def run(request: RunRequest) -> int:
    """Run the relay until SIGTERM or SIGINT, and return the exit status. A dry run is one process.

    Each way imports what it needs: a supervisor loads no Kafka client.
    """
    config = request.config.load(
        delivery__processes=request.processes, log__level=request.log_level, log__format=request.log_format
    )
    if not request.dry_run and config.delivery.processes > 1:
        from relay.service.processes.supervisor import supervise

        return supervise(config)
    from relay.service.app import run_service

    return run_service(config, dry_run=request.dry_run)


def demo(request: DemoRequest) -> int:
    """Show the relay at work on a Kafka of its own. Return the exit status."""
    from relay.demo.play import play

    return play(keep=request.keep)
