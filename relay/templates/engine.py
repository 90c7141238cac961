"""What fills templates: an engine."""

from __future__ import annotations

from typing import Final, Protocol

from relay.templates.ops import Marker, Template

#: How many templates one marker's text has at most, and so how many are tried with one message.
MOST_TRIED: Final = 8
#: What an engine gives: the number of the template that fitted with what lost values have added to it
#: (`relay.templates.ops.Put`), the target's key and value, and its mark.
Translation = tuple[int, bytes | None, bytes | None, bytes]


class Engine(Protocol):
    """Keeps templates, and translates the messages that fit one."""

    def __init__(self, marker: Marker) -> None:
        """Make an engine without templates; all of them are found by this marker."""

    def add(self, template: Template) -> int:
        """Keep a template, and return its number.

        Of the templates with the same text at the marker, the one that fitted last is tried first, and a new
        one before all. There are at most `MOST_TRIED` of them: the one that fitted least recently gives its
        place and its number to the new one. Raises ValueError if the template is not one that this engine can
        fill: the marker is not in its constants, or the engine has no conversion of a name in it.
        """

    def remove(self, number: int) -> None:
        """Forget a template; an unknown number is none."""

    def clear(self) -> None:
        """Forget all templates."""

    def translate(
        self, key: bytes | None, value: bytes | None, offset: int, time_ms: int, place: bytes
    ) -> Translation | None:
        """Translate the key and value of a record; None if they fit no template.

        `offset` and `time_ms` are the record's own, within 64 bits. The mark says where the message comes
        from: `place`, the offset in digits, and `/0` (`relay.records.SOURCE_HEADER`). Raises nothing,
        whatever the message is.
        """
