"""Shared by both dialects' Avro codecs, which read and write Avro messages as those in JSON."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from relay.model.errors import CodecError

Error = TypeVar("Error", bound=CodecError)


def error_of(protocol: str, error: Error) -> Error:
    """Return an error of the equivalent JSON message as one of this protocol."""
    return type(error)(protocol, error.path, error.reason)


class Wrapped(msgspec.Struct):
    """A message of Kafka Connect's JsonConverter, with its schema block."""

    schema: msgspec.Raw
    payload: msgspec.Raw


#: Parses a key or a value. Raises msgspec's errors.
unwrapped: Final = msgspec.json.Decoder(Wrapped).decode
