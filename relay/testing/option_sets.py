"""The options of any codec: sets of them that are worth a test, found through the codec itself."""

from __future__ import annotations

import enum
import typing
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from relay.codecs.codec import Codec, side_of
from relay.codecs.given_options import parse_options
from relay.model.errors import ConfigError

OptionTexts = dict[str, str]


def option_sets(codec: Codec) -> list[OptionTexts]:
    """Return the defaults, every other choice of an option by itself, and as many as can be combined."""
    found: list[OptionTexts] = [{}]
    combined: OptionTexts = {}
    choices = list(other_choices(codec))
    for name, value in choices * 2:  # some can only be chosen after others
        if name not in combined and fits(codec, combined | {name: value}):
            combined |= {name: value}
    for name, value in choices:
        found += [{name: value}] if fits(codec, {name: value}) else []
    for name, value in choices:
        either = combined | {name: value}
        if {name: value} not in found and either != combined and fits(codec, either):
            found.append(either)
    return found if combined in found else [*found, combined]


def other_choices(codec: Codec) -> Iterator[tuple[str, str]]:
    """Yield non-default values of an encoder's options; texts mostly have an external meaning."""
    for field in msgspec.structs.fields(codec.options):
        if field.name == "strict" or side_of(field.type) == "source":
            continue
        for value in _values(field.type, field.default):
            if value != field.default:
                text = str(value.value if isinstance(value, enum.Enum) else value)
                yield field.encode_name, text.lower() if isinstance(value, bool) else text


def _values(kind: Any, default: Any) -> Sequence[object]:
    plain = typing.get_args(kind)[0] if typing.get_origin(kind) is typing.Annotated else kind
    if plain in {bool, bool | None}:
        return [True, False]
    if plain is int:
        return [default * 16]
    if typing.get_origin(plain) is Literal:
        return typing.get_args(plain)
    if isinstance(plain, type) and issubclass(plain, enum.Enum):
        return list(plain)
    return ["prod"] if side_of(kind) == "target" else []


def fits(codec: Codec, options: OptionTexts) -> bool:
    """Return whether these options can be combined on the target side."""
    try:
        return not parse_options(codec, options, "to", "target").writing_problems()
    except ConfigError:
        return False
