"""The relay's configuration: a TOML file, overridden by the environment and by flags, as frozen and typed
tables.
"""

from relay.config.choices import Compression, Mode, Start
from relay.config.loading import Config, load_config
from relay.config.tables import Security

__all__ = ["Compression", "Config", "Mode", "Security", "Start", "load_config"]
