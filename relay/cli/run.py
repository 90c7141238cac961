"""`relay run`: the relay in this process, or in several under its supervision; and `relay demo`."""

from __future__ import annotations

import sys

from relay.cli.requests.route import DemoRequest, RunRequest
from relay.model.errors import ConfigError


def run(request: RunRequest) -> int:
    """Run the relay until SIGTERM or SIGINT, and return the exit status. A dry run is one process.

    Each mode imports only its modules: a supervisor loads no Kafka client.
    """
    options = {"log__level": request.log_level, "log__format": request.log_format}
    try:
        config = request.config.load(delivery__processes=request.processes, **options)
    except ConfigError as error:
        if not _logs_json(request):
            raise
        return _logged(error)
    if not request.dry_run and config.delivery.processes > 1:
        from relay.service.processes.supervisor import supervise

        return supervise(config)
    from relay.service.app import run_service

    return run_service(config, dry_run=request.dry_run)


def _logs_json(request: RunRequest) -> bool:
    """Return whether this run logs JSON: by its configuration or, with `auto`, without a terminal."""
    from relay.config.loading import log_format
    from relay.io.log_text import LogFormat

    settings = request.config.with_keys(log__format=request.log_format)
    found = log_format(request.config.file, settings)
    if found is not LogFormat.AUTO:
        return found is LogFormat.JSON
    return not (sys.stdout.isatty() or sys.stderr.isatty())


def _logged(error: ConfigError) -> int:
    """Log the problems of the configuration as `config.invalid`. Return the exit status."""
    from relay.io.log_text import LogFormat, LogSettings
    from relay.io.logs import Log

    problems = [str(problem) for problem in error.problems]
    log = Log(settings=LogSettings(format=LogFormat.JSON))
    log.error("config.invalid", code=error.code, message="; ".join(problems), problems=problems)
    return error.exit_status


def demo(request: DemoRequest) -> int:
    """Show the relay at work on a temporary Kafka. Return the exit status."""
    from relay.demo.play import play

    return play(keep=request.keep)
