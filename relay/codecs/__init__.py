"""The protocols, and the public names of the codecs. A new protocol is a module of a family and a line here.

A codec may also come from another package, as an entry point of the group `relay.protocols`.
"""

from __future__ import annotations

import difflib
import functools
from typing import Final

from relay.codecs.canal import canal_json, canal_protobuf, ckafka_json, ticdc_canal_json
from relay.codecs.codec import SIDES, Codec
from relay.codecs.debezium import signs as debezium_signs
from relay.codecs.debezium import ticdc as ticdc_debezium
from relay.codecs.debezium import ticdc_avro as ticdc_debezium_avro
from relay.codecs.debezium.native import avro as debezium_avro
from relay.codecs.debezium.native import codec as debezium_json
from relay.codecs.flat import flat_json
from relay.codecs.maxwell import codec as maxwell_json
from relay.codecs.open_protocol import codec as ticdc_open_protocol
from relay.codecs.signs import Message, Sighting
from relay.codecs.simple import simple_avro, simple_json
from relay.codecs.ticdc_avro import codec as ticdc_avro
from relay.codecs.wire import lookalikes
from relay.codecs.wire.large_messages import Handling, LargeMessageOptions, object_location
from relay.codecs.wire.lookalikes import message_of
from relay.codecs.wire.shaped import encoder_of
from relay.errors import ConfigError, Problem
from relay.plugins import installed, unusable
from relay.shown import quoted

#: relay's own, by name.
BUILT_IN: Final = {
    codec.name: codec
    for codec in (
        ticdc_canal_json.CODEC,
        canal_json.CODEC,
        canal_protobuf.CODEC,
        ckafka_json.CODEC,
        ticdc_open_protocol.CODEC,
        ticdc_debezium.CODEC,
        debezium_json.CODEC,
        debezium_avro.CODEC,
        simple_json.CODEC,
        simple_avro.CODEC,
        ticdc_avro.CODEC,
        ticdc_debezium_avro.CODEC,
        maxwell_json.CODEC,
        flat_json.CODEC,
    )
}
#: Formats that relay does not read, and can name.
UNREADABLE: Final = (*debezium_signs.UNREADABLE, *lookalikes.UNREADABLE)
#: All of them, also those of other packages, which are loaded when somebody asks: they import this package.
PROTOCOLS: dict[str, Codec]


def __getattr__(name: str) -> dict[str, Codec]:
    """Give `PROTOCOLS`. Raises ConfigError if a codec of another package cannot be used."""
    if name == "PROTOCOLS":
        return _protocols()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@functools.cache
def _protocols() -> dict[str, Codec]:
    found = dict(BUILT_IN)
    for place, codec in installed("relay.protocols", Codec):
        if codec.name in found:
            raise unusable(place, f"has the name of another protocol, {codec.name!r}")
        found[codec.name] = codec
    return found


def sightings(message: Message) -> list[Sighting]:
    """Return what each room sees in a message."""
    rooms = [(codec.name if codec.is_readable else "", codec.signs) for codec in _protocols().values()]
    rooms += [("", signs) for signs in UNREADABLE]
    found = [(name, signs(message)) for name, signs in rooms]
    return [Sighting(name, sign) for name, sign in found if sign is not None]


lookalikes.watch(sightings)


def codec_named(name: str, key_path: str) -> Codec:
    """The codec of this name. `key_path`: where the name stands; `from` is a source, which must be readable.

    Raises ConfigError: with the near names if there is none, or with those that can be read.
    """
    is_source = SIDES.get(key_path) == "source"
    # relay's own are found whatever else is installed.
    codec = BUILT_IN.get(name) or _protocols().get(name)
    if codec is not None and (codec.is_readable or not is_source):
        return codec
    names = [each.name for each in _protocols().values() if each.is_readable or not is_source]
    if codec is not None:
        hint = "protocols that can be read: " + ", ".join(names)
        raise ConfigError([Problem(key_path, f"{name} can only be written, not read", hint)])
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    hint = "did you mean " + " or ".join(near) + "?" if near else "protocols: " + ", ".join(names)
    raise ConfigError([Problem(key_path, f"there is no protocol {quoted(name)}", hint)])


__all__ = [
    "BUILT_IN",
    "PROTOCOLS",
    "Codec",
    "Handling",
    "LargeMessageOptions",
    "codec_named",
    "encoder_of",
    "message_of",
    "object_location",
    "sightings",
]
