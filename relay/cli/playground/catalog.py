"""Choices in the playground: protocols, options, profiles, and examples."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import msgspec

from relay.cli.formats import options_of, profile_options, title_of
from relay.codecs import PROTOCOLS
from relay.codecs.codec import Codec
from relay.codecs.given_options import PROFILE


class Example(msgspec.Struct, frozen=True):
    """A captured record: the lines of `message`, and earlier ones that define its table."""

    title: str
    message: str
    before: str


class _Line(msgspec.Struct):
    """The description of a record in an example's file. Without a title, it only precedes others."""

    title: str = ""
    definition: bool = False


@functools.cache
def catalog() -> dict[str, Any]:
    """Return all choices of the page, as JSON."""
    return {"protocols": [protocol_entry(codec) for codec in PROTOCOLS.values()]}


def protocol_entry(codec: Codec) -> dict[str, Any]:
    """Return a protocol as the page shows it."""
    return {
        "name": codec.name,
        "title": title_of(codec),
        "readable": codec.is_readable,
        "writable": codec.is_writable,
        "registry": codec.uses_registry,
        "options": [msgspec.structs.asdict(option) for option in options_of(codec) if option.name != PROFILE],
        "profiles": {
            name: [msgspec.structs.asdict(each) for each in profile_options(codec, name, {})]
            for name in codec.profiles
        },
        "examples": [msgspec.structs.asdict(example) for example in examples(codec.name)],
        "schemas": _shipped(f"{codec.name}.schemas.jsonl"),
    }


def examples(protocol: str) -> Iterator[Example]:
    """Yield the examples of a protocol, if any."""
    before: list[str] = []
    for line in _shipped(f"{protocol}.jsonl").splitlines():
        about = msgspec.json.decode(line, type=_Line)
        record = _without_our_members(line)
        if about.title:
            yield Example(about.title, record, "\n".join(before))
        if about.definition:
            before.append(record)


def _without_our_members(line: str) -> str:
    members: dict[str, msgspec.Raw] = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    kept = {name: value for name, value in members.items() if name not in _Line.__struct_fields__}
    return msgspec.json.encode(kept).decode()


def _shipped(name: str) -> str:
    """Return the text of a file of examples; "" for an unknown name."""
    file = files("relay.cli.playground").joinpath("examples", name)
    return file.read_text(encoding="utf-8") if file.is_file() else ""
