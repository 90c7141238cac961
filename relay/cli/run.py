"""`relay run` and `relay check`: plain functions, called by the command line in `relay.cli`."""

from __future__ import annotations

import sys
from pathlib import Path

from relay.config import Config, load_config
from relay.errors import ConfigError, Problem
from relay.service.app import run_service

VALID = 0


def run(config_path: Path) -> int:
    """Run the relay until it is stopped; gives the exit status."""
    try:
        config = load_config(config_path)
    except ConfigError as error:
        _print_problems(config_path, error.problems)
        return error.exit_status
    return run_service(config)


def check(config_path: Path) -> int:
    """Print every problem of a configuration, or what it says; gives the exit status. No broker is asked."""
    try:
        config = load_config(config_path)
    except ConfigError as error:
        _print_problems(config_path, error.problems)
        return error.exit_status
    sys.stdout.write(f"configuration is valid\n{summary(config)}\n")
    return VALID


def problems_of(config_path: Path) -> list[Problem]:
    """Give everything that is wrong with a configuration."""
    try:
        load_config(config_path)
    except ConfigError as error:
        return error.problems
    return []


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
    return " (" + ", ".join(f"{name}={value}" for name, value in sorted(options.items())) + ")" if options else ""


def _print_problems(path: Path, problems: list[Problem]) -> None:
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    lines = "\n".join(f"  {problem}" for problem in problems)
    sys.stderr.write(f"{path}: {count}\n{lines}\n")
