"""The protocols. A new one is a module of a family and a line here.

A codec may also come from another package, as an entry point of the group `relay.protocols`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import chain
from typing import Final

from relay.codecs.codec import SIDES, Codec
from relay.codecs.plugins import Plugin, installed, unusable
from relay.model.errors import ConfigError, Problem
from relay.text.hints import hint_for
from relay.text.redaction import quoted

#: relay's own protocols, each with the module of `relay.codecs` whose `CODEC` it is.
_MODULES: Final = {
    "ticdc-canal-json": "canal.ticdc.protocol",
    "canal-json": "canal.canal_json.protocol",
    "canal-protobuf": "canal.canal_protobuf.protocol",
    "ckafka-json": "canal.ckafka.protocol",
    "ticdc-open-protocol": "open_protocol.protocol",
    "ticdc-debezium": "debezium.ticdc.protocol",
    "debezium-json": "debezium.native.protocol",
    "debezium-avro": "debezium.native.avro",
    "ticdc-simple-json": "simple.simple_json",
    "ticdc-simple-avro": "simple.simple_avro",
    "ticdc-avro": "ticdc_avro.protocol",
    "ticdc-debezium-avro": "debezium.ticdc.avro",
    "maxwell-json": "maxwell.protocol",
    "ogg-json": "ogg.protocol",
    "flat-json": "flat.protocol",
}


class _BuiltInCodecs(Mapping[str, Codec]):
    """relay's own codecs by name. A codec's module is imported when the codec is first requested."""

    def __getitem__(self, name: str) -> Codec:
        codec: Codec = import_module(f"relay.codecs.{_MODULES[name]}").CODEC
        return codec

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


class _AllCodecs(_BuiltInCodecs):
    """relay's own codecs and those of other packages. The latter are loaded when one, or the whole list, is
    requested; unusable ones are left out (`plugin_problems`).
    """

    def __getitem__(self, name: str) -> Codec:
        return super().__getitem__(name) if name in _MODULES else plugin_codecs()[name]

    def __iter__(self) -> Iterator[str]:
        return chain(_MODULES, plugin_codecs())

    def __len__(self) -> int:
        return len(_MODULES) + len(plugin_codecs())


#: relay's own codecs, by name.
BUILT_IN: Final[Mapping[str, Codec]] = _BuiltInCodecs()
#: All codecs, by name.
PROTOCOLS: Final[Mapping[str, Codec]] = _AllCodecs()


@functools.cache
def protocol_plugins() -> list[Plugin[Codec]]:
    """Load the codecs of other packages. One with the name of another protocol has a problem."""
    names, found = set(_MODULES), list[Plugin[Codec]]()
    for plugin in installed("relay.protocols", Codec):
        codec = plugin.found
        if codec is not None and codec.name in names:
            problem = unusable(plugin.reference, f"has the name of another protocol, {codec.name!r}")
            found.append(plugin._replace(found=None, problem=problem))
            continue
        names |= set() if codec is None else {codec.name}
        found.append(plugin)
    return found


@functools.cache
def plugin_codecs() -> dict[str, Codec]:
    """Return the codecs of other packages that can be used."""
    return {each.found.name: each.found for each in protocol_plugins() if each.found is not None}


def plugin_problems() -> list[Problem]:
    """Return the problems of other packages' codecs that cannot be used."""
    return [each.problem for each in protocol_plugins() if each.problem is not None]


def codec_named(name: str, key_path: str) -> Codec:
    """Return the codec of this name. `key_path`: the key with the name; `from` is a source, which must be
    readable, `to` a target, which must be writable.

    Raises ConfigError: with similar names if there is none, with those that can be read or written, or with
    the problem of the package that provides it.
    """
    side = SIDES.get(key_path)
    codec = PROTOCOLS.get(name)
    if codec is not None and codec.serves(side):
        return codec
    names = [each.name for each in PROTOCOLS.values() if each.serves(side)]
    if codec is not None:
        can, cannot = ("written", "read") if side == "source" else ("read", "written")
        hint = f"protocols that can be {cannot}: " + ", ".join(names)
        raise ConfigError([Problem(key_path, f"{name} can only be {can}, not {cannot}", hint)])
    broken = [each.problem for each in protocol_plugins() if each.name == name and each.problem is not None]
    if broken:
        raise ConfigError(broken)
    hint = hint_for(name, names, "protocols: " + ", ".join(names), cutoff=0.4)
    problems = [Problem(key_path, f"unknown protocol {quoted(name)}", hint)]
    raise ConfigError([*problems, *plugin_problems()])
