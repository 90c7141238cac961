"""Log a configuration before it is used."""

from __future__ import annotations

from relay.config import Config
from relay.config.config_lint import config_advice
from relay.io.kernel import engine_name, installed
from relay.io.logs import Log


def announce(config: Config, log: Log) -> None:
    """Log the route to run, and settings that have no effect or may be a mistake."""
    count = config.delivery.processes
    log.info(
        "relay.starting",
        source=config.source.bootstrap_servers,
        target=config.target_servers,
        topics=list(config.source.topics),
        group=config.source.group_id,
        mode=str(config.delivery.mode),
        translation=f"{config.route.from_} to {config.route.to}",
        kernel=engine_name() or None,
        **({"processes": count} if count > 1 else {}),
    )
    if unusable := installed().problem:
        log.warning("kernel.unusable", message=unusable)
    for problem in config_advice(config):
        log.warning("configuration.warning", key=problem.path, message=problem.text)
