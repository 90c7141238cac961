"""The interface of engines, which apply templates."""

from __future__ import annotations

from typing import Final, Protocol

from relay.templates.avro_ops import AvroOp
from relay.templates.batches import SourceBatch, TargetBatch, WrittenRun
from relay.templates.columns import RecordColumns, WrittenColumns
from relay.templates.ops import Framing, Marker, Template

#: Maximum templates with the same text at the marker, and so the attempts per message.
MAX_TRIED: Final = 8
#: A message that fits a template adds `CREDIT_PER_MATCH` to a credit of at most `MAX_CREDIT`; each failed
#: attempt takes 1. Without credit, only one message in `TRY_INTERVAL` is tried.
CREDIT_PER_MATCH: Final = 8
MAX_CREDIT: Final = 64
TRY_INTERVAL: Final = 16
#: A translated message: the template's number plus the additions for lossy values
#: (`relay.templates.ops.Put`), the target's key and value, and its source mark.
Translation = tuple[int, bytes | None, bytes | None, bytes]
#: The key and value of a target message.
Message = tuple[bytes | None, bytes | None]
#: Adjacent rows that fit the same template with the same losses: the template's number plus the additions for
#: lossy values, and the resulting messages.
Run = tuple[int, list[Message]]


class AvroReader(Protocol):
    """Converts values in Avro with one schema to JSON."""

    def text(self, data: bytes, start: int) -> bytes | None:
        """Return the JSON of the value in `data` from `start` on; None if it is invalid or not supported.

        Raises nothing for any bytes; `start` must not be negative.
        """


class AvroWriter(Protocol):
    """Converts JSON to Avro with one schema."""

    def body(self, text: bytes) -> bytes | None:
        """Return the Avro of the value in a text; None if it is invalid or not supported.

        Raises nothing for any text.
        """


class Engine(Protocol):
    """Keeps templates, and translates messages that fit one."""

    @staticmethod
    def avro_reader(head: bytes, op: AvroOp, end: bytes) -> AvroReader:
        """Return a converter from Avro to JSON between `head` and `end`. Raises ValueError for an invalid
        op.
        """

    @staticmethod
    def avro_writer(head: bytes, op: AvroOp, end: bytes) -> AvroWriter:
        """Return a converter from JSON between `head` and `end` to Avro. Raises ValueError for an invalid
        op.
        """

    def __init__(self, marker: Marker, framing: Framing | None = None) -> None:
        """Create an engine without templates. `marker`: looks up all its templates. `framing`: that of
        several messages in a record, if the format has one.
        """

    def add(self, template: Template) -> int:
        """Add a template and return its number.

        Of the templates with the same text at the marker, a new one is tried first, and then the most
        recently used. If there are already `MAX_TRIED` of them, the least recently used is replaced and its
        number is reused. A template that exists already keeps its number. Afterwards, messages are tried
        again that were skipped before (`MAX_CREDIT`).

        Raises ValueError if this engine cannot apply the template: the marker is not in its constants, or the
        engine lacks one of its conversions.
        """

    def remove(self, number: int) -> None:
        """Remove a template; ignore an unknown number."""

    def clear(self) -> None:
        """Remove all templates."""

    def translate(
        self, key: bytes | None, value: bytes | None, offset: int, time_ms: int, mark_prefix: bytes
    ) -> Translation | None:
        """Translate the key and value of a record with one row that becomes one message; return None if it
        fits no such template.

        After too many failed attempts with messages of the same text at the marker, a message may not be
        tried (`MAX_CREDIT`), so that it costs hardly more than without templates. `offset` and `time_ms` are
        the record's own, within 64 bits. The source mark consists of `mark_prefix`, the offset in digits, and
        `/0` (`relay.model.records.SOURCE_HEADER`). Raises nothing for any message.
        """

    def translate_rows(
        self,
        key: bytes | None,
        value: bytes | None,
        offset: int,
        time_ms: int,
        max_output_bytes: int,
        shared: int,
    ) -> list[Run] | int:
        """Translate a record of any number of rows that become any number of messages, in order.

        Each row is translated like a record with only that row. The rows of one message (`Repeated`) fit
        templates with the same source ops, of which the most recently used is tried first; in a
        framed record (`Framing`) each message has its own.

        If not all rows fit, return the number of rows before the first that does not, for the source ops that
        fit most rows; 0 for a record without rows. `max_output_bytes`: maximum total bytes of the target's
        messages, each with `shared` bytes in addition to key and value; a record beyond that does not fit.
        """

    def allow(self, number: int, has_tombstone: bool, target: int) -> None:
        """Allow `translate_columns` and `translate_batch` to translate rows with this number.

        An unknown number has no effect.

        The number includes the additions for lossy values. The permission ends when the template is removed
        or replaced, or at `disallow`. `has_tombstone`: whether a tombstone, a record with the same key and no
        value, follows each row. `target`: the place of the batch that takes the rows, for `translate_batch`.
        """

    def disallow(self) -> None:
        """Withdraw all permissions of `allow`."""

    def translate_columns(
        self,
        columns: RecordColumns,
        first: int,
        end: int,
        most_bytes: int,
        most_row_bytes: int,
        mark_prefix: bytes,
    ) -> WrittenColumns:
        """Translate the rows from `first` on and before `end`, each like `translate`.

        Stops at the first row that does not fit, that fits a template which is not allowed, whose key and
        value have more than `most_row_bytes` bytes, or whose offset is below that of the row before; and when
        the keys and values so far have `most_bytes` bytes. An engine may lower both limits, so that offsets
        into a column have 32 bits. Raises TypeError for columns of other types.
        """

    def translate_batch(
        self,
        source: SourceBatch,
        first: int,
        end: int,
        targets: list[TargetBatch | None],
        most_row_bytes: int,
        mark_prefix: bytes,
    ) -> WrittenRun:
        """Translate the rows from `first` on and before `end`, each like `translate`, into target batches.

        Each message has the time of its source, and its source mark as its only header. Stops at the first
        row that has headers, that does not fit a template, that fits one which is not allowed, whose key and
        value have more than `most_row_bytes` bytes, whose batch is not among the `targets` or is empty, whose
        messages do not all fit into it, or whose offset is below that of the row before; and after enough
        bytes. The row at which it stops counts as not tried (`MAX_CREDIT`). The batches are of the engine's
        own types.
        """

    def translate_groups(
        self,
        key: bytes | None,
        value: bytes | None,
        offset: int,
        time_ms: int,
        max_output_bytes: int,
        shared: int,
    ) -> list[Run | bytes]:
        """Translate those groups of a record of `MessageFields` that fit, and return the rest.

        A group is a begin, the messages after it and their end; without either, each message is one. It fits
        if each of its messages does, as in `translate_rows`. The groups are in order; the bytes are a rest:
        the value of a record with adjacent groups that do not fit. Empty for a record without messages, and
        for one whose messages of the target exceed `max_output_bytes`.
        """
