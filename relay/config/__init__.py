"""The relay's configuration: a TOML file, overridden by environment and flags, as frozen and typed tables."""

from relay.config.config import Config
from relay.config.keys import DeliveryMode, SecurityConfig
from relay.config.loading import load_config
from relay.io.kafka.settings import Compression, Start

__all__ = ["Compression", "Config", "DeliveryMode", "SecurityConfig", "Start", "load_config"]
