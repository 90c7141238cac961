"""The protocols. A new one is a module here and a line in this table."""

from __future__ import annotations

import difflib
from typing import Final

from relay.codecs.canal import canal_json, ckafka_json, ticdc_canal_json
from relay.codecs.codec import Codec
from relay.codecs.debezium import ticdc as ticdc_debezium
from relay.codecs.open_protocol import codec as ticdc_open_protocol
from relay.errors import ConfigError, Problem

PROTOCOLS: Final[dict[str, Codec]] = {
    codec.name: codec
    for codec in (
        ticdc_canal_json.CODEC,
        canal_json.CODEC,
        ckafka_json.CODEC,
        ticdc_open_protocol.CODEC,
        ticdc_debezium.CODEC,
    )
}


def codec_named(name: str, key_path: str) -> Codec:
    """The codec of this name. Raises ConfigError, with the near names, if there is none."""
    if name in PROTOCOLS:
        return PROTOCOLS[name]
    near = difflib.get_close_matches(name, PROTOCOLS, n=3, cutoff=0.4)
    hint = "did you mean " + " or ".join(near) + "?" if near else "protocols: " + ", ".join(PROTOCOLS)
    raise ConfigError([Problem(key_path, f"there is no protocol {name!r}", hint)])
