"""The relay's configuration: a TOML file, overridden by the environment and by flags, as frozen and typed tables."""

from relay.config.loading import Config, load_config
from relay.config.tables import Compression, Mode, Policy, Security, Start

__all__ = ["Compression", "Config", "Mode", "Policy", "Security", "Start", "load_config"]
