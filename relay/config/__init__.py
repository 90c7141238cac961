"""The relay's configuration: a TOML file, overridden by environment and flags, as frozen and typed tables."""

from relay.config.choices import Mode
from relay.config.config import Config
from relay.config.loading import load_config
from relay.config.tables import Security
from relay.io.kafka.settings import Compression, Start

__all__ = ["Compression", "Config", "Mode", "Security", "Start", "load_config"]
