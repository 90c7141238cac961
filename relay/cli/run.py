"""`relay run` and `relay check`: plain functions, called by the command line in `relay.cli`."""

from __future__ import annotations

import sys
from pathlib import Path

from relay.codecs._large_messages import shown_uri
from relay.config import Config, load_config
from relay.service.app import run_service


def run(config_path: Path) -> int:
    """Run the relay until it is stopped; gives the exit status. Raises ConfigError with every problem of the configuration."""
    return run_service(load_config(config_path))


def check(config_path: Path) -> int:
    """Say what a configuration does. Raises ConfigError with every problem; no broker is asked."""
    config = load_config(config_path)
    sys.stdout.write(f"configuration is valid\n{summary(config)}\n")
    return 0


def summary(config: Config) -> str:
    """Describe the route in a few lines."""
    route, source, target = config.route, config.source, config.target
    pairs = [f"  {name} → {target_name}" for name, target_name in config.target_topics.items()]
    spread = (
        f"spread over {target.partitions} partitions by primary key" if target.partitions else "in the partition of their source"
    )
    return "\n".join(
        [
            f"from    {route.from_}{_options(route.from_options)} at {source.bootstrap_servers}, group {source.group_id}",
            f"to      {route.to}{_options(route.to_options)} at {config.target_servers}, {spread}",
            "topics",
            *pairs,
        ]
    )


def _options(options: dict[str, str]) -> str:
    shown = {name: shown_uri(value) if name.endswith("-uri") else value for name, value in options.items()}
    return " (" + ", ".join(f"{name}={value}" for name, value in sorted(shown.items())) + ")" if options else ""
