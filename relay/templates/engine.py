"""What fills templates: an engine."""

from __future__ import annotations

from typing import Final, Protocol

from relay.templates.avro_ops import AvroOp
from relay.templates.ops import Frames, Marker, Template

#: How many templates one marker's text has at most, and so how many are tried with one message.
MOST_TRIED: Final = 8
#: Each message that fits a template pays for `PAID_BY_ONE` vain attempts with others; at most `MOST_PAID` are
#: paid for in advance. Once those are used up, only one message in `TRIED_EVERY` is tried.
PAID_BY_ONE: Final = 8
MOST_PAID: Final = 64
TRIED_EVERY: Final = 16
#: What an engine gives: the number of the template that fitted with what lost values have added to it
#: (`relay.templates.ops.Put`), the target's key and value, and its mark.
Translation = tuple[int, bytes | None, bytes | None, bytes]
#: Key and value of one message of the target.
Message = tuple[bytes | None, bytes | None]
#: Rows beside each other that fit one template and lose the same: its number with what each row's lost values
#: have added, and the messages that they become.
Run = tuple[int, list[Message]]


class AvroReader(Protocol):
    """Makes JSON of values in Avro with one schema."""

    def text(self, data: bytes, start: int) -> bytes | None:
        """Return the JSON of the value that `data` holds from `start` to its end; None if that is none, or
        one that is not read here. Raises nothing, whatever the bytes are; `start` is not negative.
        """


class AvroWriter(Protocol):
    """Makes Avro of JSON with one schema."""

    def body(self, text: bytes) -> bytes | None:
        """Return the Avro of the value that a text holds; None if it has no such value, or one that is not
        written here. Raises nothing, whatever the text is.
        """


class Engine(Protocol):
    """Keeps templates, and translates the messages that fit one."""

    @staticmethod
    def avro_reader(head: bytes, op: AvroOp, end: bytes) -> AvroReader:
        """Return what makes JSON of Avro, between two texts. Raises ValueError for what is no op."""

    @staticmethod
    def avro_writer(head: bytes, op: AvroOp, end: bytes) -> AvroWriter:
        """Return what makes Avro of JSON between two texts. Raises ValueError for what is no op."""

    def __init__(self, marker: Marker, frames: Frames | None = None) -> None:
        """Make an engine without templates; all of them are found by this marker. `frames`: how messages
        stand together in a record, if they may.
        """

    def add(self, template: Template) -> int:
        """Keep a template, and return its number.

        Of the templates with the same text at the marker, the one that fitted last is tried first, and a new
        one before all. There are at most `MOST_TRIED` of them: the one that fitted least recently gives its
        place and its number to the new one. A template that is there already keeps its number. After this,
        messages are tried again that were not (`MOST_PAID`).
        Raises ValueError if the template is not one that this engine can fill: the marker is not in its
        constants, or the engine has no conversion of a name in it.
        """

    def remove(self, number: int) -> None:
        """Forget a template; an unknown number is none."""

    def clear(self) -> None:
        """Forget all templates."""

    def translate(
        self, key: bytes | None, value: bytes | None, offset: int, time_ms: int, place: bytes
    ) -> Translation | None:
        """Translate the key and value of a record of one row that becomes one message; None if it fits no
        template of that kind. Where messages with its text at the marker were tried with too many without
        success, it may not be tried (`MOST_PAID`): they are to cost hardly more than without templates.

        `offset` and `time_ms` are the record's own, within 64 bits. The mark says where the message comes
        from: `place`, the offset in digits, and `/0` (`relay.model.records.SOURCE_HEADER`). Raises nothing,
        whatever the message is.
        """

    def translate_rows(
        self, key: bytes | None, value: bytes | None, offset: int, time_ms: int, room: int, shared: int
    ) -> list[Run] | int:
        """Translate a record of any number of rows that become any number of messages, in order.

        Each row is what a record with that row alone would be. Rows of one message (`Repeated`) fit
        templates with the same source ops, of which the one that fitted last is tried first; in a record of
        frames each frame is a message. If not all rows fit: how many do before the first that does not, of
        the source of which most do; 0 for what has no rows.
        `room`: how many bytes the target's messages may have together, each with `shared` beside key and
        value; with more, the record does not fit.
        """
