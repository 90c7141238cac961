"""Messages in Avro are read and written as those of the same dialect in JSON: what both codecs share."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from relay.model.errors import CodecError

Error = TypeVar("Error", bound=CodecError)


def error_of(protocol: str, error: Error) -> Error:
    """Return an error of the JSON that a message stands for as one of this protocol."""
    return type(error)(protocol, error.path, error.reason)


class Wrapped(msgspec.Struct):
    """A message of Kafka Connect's JsonConverter, with its schema block."""

    schema: msgspec.Raw
    payload: msgspec.Raw


#: Parses a key or a value. Raises what msgspec raises.
unwrapped: Final = msgspec.json.Decoder(Wrapped).decode
