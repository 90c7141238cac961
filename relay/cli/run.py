"""`relay run`: a plain function, called by the command line in `relay.cli`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from relay.config import load_config
from relay.service.app import run_service


def run(config_path: Path, settings: Sequence[str] = ()) -> int:
    """Run the relay until it is stopped; gives the exit status. Raises ConfigError with every problem of the
    configuration.
    """
    return run_service(load_config(config_path, settings))
