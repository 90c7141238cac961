"""The protocols, and the public names of the codecs. A new protocol is a module here and a line in the table.

A codec may also come from another package, as an entry point of the group `relay.protocols`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Final

from relay.codecs.canal import canal_json, ckafka_json, ticdc_canal_json
from relay.codecs.codec import Codec
from relay.codecs.debezium import ticdc as ticdc_debezium
from relay.codecs.open_protocol import codec as ticdc_open_protocol
from relay.codecs.wire.large_messages import Handling, LargeMessageOptions, object_location, shown_uri
from relay.errors import ConfigError, Problem

_GROUP: Final = "relay.protocols"


def _installed() -> Iterator[Codec]:
    """The codecs of other packages. Raises ConfigError for what is no codec, or cannot be loaded."""
    for entry_point in entry_points(group=_GROUP):
        try:
            codec = entry_point.load()
        except Exception as error:  # another package's code: anything may be wrong with it
            raise _unusable(
                entry_point.value, f"cannot be loaded: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(codec, Codec):
            raise _unusable(entry_point.value, "is not a Codec")
        if codec.name in _BUILT_IN:
            raise _unusable(entry_point.value, f"has the name of relay's own protocol {codec.name!r}")
        yield codec


def _unusable(value: str, why: str) -> ConfigError:
    hint = "uninstall or update the package that brings it"
    return ConfigError([Problem(f"entry point {value}", why, hint)])


_BUILT_IN: Final = {
    codec.name: codec
    for codec in (
        ticdc_canal_json.CODEC,
        canal_json.CODEC,
        ckafka_json.CODEC,
        ticdc_open_protocol.CODEC,
        ticdc_debezium.CODEC,
    )
}
PROTOCOLS: Final[dict[str, Codec]] = _BUILT_IN | {codec.name: codec for codec in _installed()}


def codec_named(name: str, key_path: str) -> Codec:
    """The codec of this name. Raises ConfigError, with the near names, if there is none."""
    if name in PROTOCOLS:
        return PROTOCOLS[name]
    near = difflib.get_close_matches(name, PROTOCOLS, n=3, cutoff=0.4)
    hint = "did you mean " + " or ".join(near) + "?" if near else "protocols: " + ", ".join(PROTOCOLS)
    raise ConfigError([Problem(key_path, f"there is no protocol {name!r}", hint)])


__all__ = [
    "PROTOCOLS",
    "Codec",
    "Handling",
    "LargeMessageOptions",
    "codec_named",
    "object_location",
    "shown_uri",
]
