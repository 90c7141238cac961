"""Large messages of TiCDC's formats, read and written: compression, handle-key-only, claim check.

A codec that reads calls `decompressed` for every compressed part, `claim_checked` for the object that a
message refers to, and `claim_check_parts` to parse it. A codec that writes calls `compressed` for every part,
and uses one `SizeLimit`, which handles a row above `max-message-bytes`; the codec only re-encodes the row
with the handle key's columns.

Sources: pingcap/ticdc pkg/sink/codec/common and pkg/sink/kafka/claimcheck (2026-08), and captured records.
According to TiCDC's manual only large messages are compressed; the code compresses every one.
"""

from __future__ import annotations

import enum
import hashlib
import re
import uuid
from collections.abc import Callable
from typing import Annotated, Final, NamedTuple

import cramjam
import msgspec
from msgspec import Meta

from relay.codecs.codec import EncodedRecord, ZonedOptions
from relay.codecs.losses import Loss
from relay.codecs.shared.lenient_json import REFUSED
from relay.model.errors import Malformed, MessageTooLarge, Problem, UnsupportedMessage
from relay.model.events import ABSENT, Op, RowChange
from relay.model.limits import Budget, Limits, check_levels, exceeded
from relay.model.lookups import ClaimCheck, LookupCache
from relay.model.records import Blob, ConsumerRecord
from relay.text.redaction import shown_uri

# ---------------------------------------------------------------- options


class LargeMessageCompression(enum.StrEnum):
    """The compression of values: LZ4 frames, snappy as a raw block. AUTO detects it when reading, and writes
    plain.
    """

    AUTO = "auto"
    NONE = "none"
    LZ4 = "lz4"
    SNAPPY = "snappy"


class Handling(enum.StrEnum):
    """The handling of a row whose message is larger than `max-message-bytes`."""

    NONE = "none"
    HANDLE_KEY_ONLY = "handle-key-only"
    CLAIM_CHECK = "claim-check"


class CompressionOptions(ZonedOptions, frozen=True):
    """The option of every TiCDC format that can be compressed."""

    large_message_handle_compression: Annotated[
        LargeMessageCompression,
        Meta(
            description="compression of each value within its message; "
            "auto: detected when reading, none when writing"
        ),
    ] = LargeMessageCompression.AUTO


class LargeMessageOptions(CompressionOptions, frozen=True):
    """The options of TiCDC's formats that can write a row larger than Kafka accepts."""

    large_message_handle_option: Annotated[
        Handling,
        Meta(
            description="handling of a row above `max-message-bytes`: an error, only its handle "
            "key, or an object in storage"
        ),
    ] = Handling.NONE
    max_message_bytes: Annotated[int, Meta(ge=1, description="maximum bytes of a written message")] = (
        10_485_760
    )
    claim_check_storage_uri: Annotated[
        str,
        Meta(
            description="storage for claim-check objects: a folder, "
            "or file://, s3://, gcs://, azure:// and a path"
        ),
    ] = ""

    @property
    def unlimited_bytes(self) -> int:
        """Return the bytes that every message may have, whatever its framing."""
        return self.max_message_bytes - RECORD_OVERHEAD - _MOST_FRAMING

    def without_effect(self) -> dict[str, str]:
        """Report claim-check options without claim checks."""
        found, handling = super().without_effect(), self.large_message_handle_option
        if handling is not Handling.CLAIM_CHECK:
            found["claim-check-storage-uri"] = f"large-message-handle-option is {handling}"
        return found

    def writing_problems(self) -> list[Problem]:
        """Report a claim check without a storage; see `Options.writing_problems`."""
        if self.claim_check_storage_uri or self.large_message_handle_option is not Handling.CLAIM_CHECK:
            return []
        message = "is missing: claim-check needs a storage for its objects"
        hint = "set it to a folder or to an object store's URI, such as s3://bucket/prefix, "
        return [Problem("claim-check-storage-uri", message, hint + "that the readers can open")]


# ---------------------------------------------------------------- compression

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
#: Maximum growth of an LZ4 block in decompression, and of a snappy block: three bytes become 64.
_LZ4_MAX_GROWTH: Final = 255
_SNAPPY_MAX_GROWTH: Final = 22
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class Decompression(Budget):
    """The shared budget of all compressed parts of one record.

    Their size does not limit the memory of the JSON: an empty object is two bytes, and thirty times as many
    in Python. So large parts are scanned before they are parsed.
    """

    __slots__ = ("_limits",)

    def __init__(self, limits: Limits) -> None:
        super().__init__("decompressed_bytes", limits.decompressed_bytes)
        self._limits = limits

    def check(self, protocol: str, path: str, text: bytes) -> None:
        """Raise LimitExceeded if a text has far more objects and arrays than allowed rows and columns."""
        most = 4 * self._limits.rows + 16 * self._limits.columns
        if text.count(b"{") + text.count(b"[") <= most:
            return
        found = 0
        for part in _STRING_OR_BEGIN(text):
            found += text[part.start()] != _QUOTE
            if found > most:
                raise exceeded(protocol, path, "objects", "rows", self._limits.rows)


#: A string, or the beginning of an object or array. The closing quote may be missing, so that every byte of a
#: broken document is scanned once.
_STRING_OR_BEGIN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[{\[]', re.DOTALL).finditer
_QUOTE: Final = ord('"')
#: Parts up to this size are parsed without a scan.
_SMALL: Final = 1 << 20


def decompressed(
    protocol: str, path: str, data: bytes, setting: LargeMessageCompression, budget: Decompression
) -> bytes:
    """Return the data before the producer's compression.

    With AUTO, data that is neither an LZ4 frame nor a snappy block is returned unchanged, for the caller to
    refuse. Raises Malformed for data in another compression than the setting, or damaged data; LimitExceeded
    for data that grows above the rest of the budget, before memory is allocated for it. A text that is nested
    too deeply is malformed, too.
    """
    if setting is LargeMessageCompression.NONE:
        return data
    text = _READERS[setting](protocol, path, data, budget)
    if text is not data:
        check_levels(protocol, path, text)
        if len(text) > _SMALL:
            budget.check(protocol, path, text)
    return text


def compressed(data: bytes, setting: LargeMessageCompression) -> bytes:
    """Return the data with the compression of the setting; AUTO is NONE."""
    if setting is LargeMessageCompression.LZ4:
        return bytes(cramjam.lz4.compress(data))
    if setting is LargeMessageCompression.SNAPPY:
        return bytes(cramjam.snappy.compress_raw(data))
    return data


def _recognized(protocol: str, path: str, data: bytes, budget: Budget) -> bytes:
    # A brace alone may be the length of a snappy block, 123. No quote follows it in such a block: it would
    # mean a copy of bytes that are not there yet.
    if data[:2] == b'{"':
        return data
    if data.startswith(_LZ4_MAGIC):
        return _from_lz4(protocol, path, data, budget)
    if data[:1] != b"{" and data.removeprefix(_BYTE_ORDER_MARK).lstrip()[:1] == b"{":
        return data
    try:
        return _from_snappy(protocol, path, data, budget)
    except Malformed:
        return data


def _from_lz4(protocol: str, path: str, data: bytes, budget: Budget) -> bytes:
    if not data.startswith(_LZ4_MAGIC):
        raise Malformed(protocol, path, "not an LZ4 frame, which large-message-handle-compression requires")
    # A frame need not have the length of its content. The system allocates memory only as far as the buffer
    # is written to.
    buffer = bytearray(min(budget.left, len(data) * _LZ4_MAX_GROWTH))
    try:
        size = cramjam.lz4.decompress_into(data, buffer)
    except cramjam.DecompressionError as error:
        if "whole buffer" in str(error):
            raise budget.exceeded(protocol, path, _WHAT) from None
        raise Malformed(protocol, path, f"a damaged LZ4 frame ({error})") from None
    budget.spend(protocol, path, _WHAT, size)
    return bytes(memoryview(buffer)[:size])


def _from_snappy(protocol: str, path: str, data: bytes, budget: Budget) -> bytes:
    try:
        size = cramjam.snappy.decompress_raw_len(data)
        if size <= len(data) * _SNAPPY_MAX_GROWTH:
            budget.spend(protocol, path, _WHAT, size)
            return bytes(cramjam.snappy.decompress_raw(data))
    except cramjam.DecompressionError:
        raise _no_snappy(protocol, path) from None
    raise _no_snappy(protocol, path)


_READERS: Final = {
    LargeMessageCompression.AUTO: _recognized,
    LargeMessageCompression.LZ4: _from_lz4,
    LargeMessageCompression.SNAPPY: _from_snappy,
}


def _no_snappy(protocol: str, path: str) -> Malformed:
    return Malformed(protocol, path, "not a snappy block, which large-message-handle-compression requires")


#: The unit of the budget in errors.
_WHAT: Final = "bytes after decompression"


# ---------------------------------------------------------------- claim check, read

_OBJECT_NAME: Final = re.compile(r"[0-9a-f-]{36}\.json").fullmatch


class ClaimCheckParts(NamedTuple):
    """The content of a claim-check object: the Kafka record's key (None if the format has none) and value."""

    key: bytes | None
    value: bytes


class _Document(msgspec.Struct):
    value: bytes
    key: bytes | None = None


_read_document = msgspec.json.Decoder(_Document).decode


def claim_check_name(protocol: str, path: str, location: object) -> str:
    """Return the object's name in a message's location: its last path element. The rest is untrusted and
    never used.

    Raises Malformed for a name that is not a UUID with `.json`.
    """
    name = location.rpartition("/")[2] if isinstance(location, str) else ""
    if not _OBJECT_NAME(name):
        raise Malformed(protocol, path, "does not end in the name of a claim-check object, a UUID and .json")
    return name


def claim_checked(
    protocol: str, path: str, location: object, answers: LookupCache, options: LargeMessageOptions
) -> bytes:
    """Return the bytes of the object that a message's `location` (of any type: untrusted) refers to.

    Raises the need for it as long as there is no answer, Malformed for a location that names no object,
    UnsupportedMessage if no storage is configured, LimitExceeded for an object above `claim_check_bytes`.
    """
    name = claim_check_name(protocol, path, location)
    if not options.claim_check_storage_uri:
        hint = "set the source option claim-check-storage-uri to the producer's storage"
        raise UnsupportedMessage(protocol, path, f"the row is in external storage; {hint}")
    most = answers.limits.claim_check_bytes
    found = answers.find(ClaimCheck(options.claim_check_storage_uri, name, most))
    if len(found) > most:
        raise exceeded(protocol, path, "bytes in its object", "claim_check_bytes", most)
    return found


def claim_check_parts(data: bytes) -> ClaimCheckParts | None:
    """Return key and value in an object `{"key": base64 or null, "value": base64}`, still compressed and
    framed as in Kafka.

    None for any other document: it is the Kafka value itself (`claim-check-raw-value`), or damaged.
    """
    try:
        document = _read_document(data)
    except REFUSED:
        return None
    return ClaimCheckParts(document.key, document.value)


def claim_check_document(key: bytes | None, value: bytes) -> bytes:
    """Return the object that `claim_check_parts` reads."""
    return _to_json({"key": key, "value": value})


# ---------------------------------------------------------------- rows above the limit, written

#: Maximum bytes that Kafka adds to a key and a value, in TiCDC's count.
RECORD_OVERHEAD: Final = 36
#: Maximum bytes of any format's frames in key and value.
_MOST_FRAMING: Final = 64
_OPTION: Final = "large-message-handle-option"


class SizeLimit:
    """The handling of rows above `max-message-bytes` in a target.

    `free_bytes`: the bytes that the limit leaves for a message's key and value together; `framing`: the bytes
    that the protocol itself puts around one event (Open Protocol: 24).
    """

    def __init__(self, protocol: str, options: LargeMessageOptions, framing: int = 0) -> None:
        self._protocol = protocol
        self._handling = options.large_message_handle_option
        self._limit = options.max_message_bytes
        self._storage = options.claim_check_storage_uri
        self.free_bytes = options.max_message_bytes - RECORD_OVERHEAD - framing

    def exceeded(self, payload: EncodedRecord) -> bool:
        """Return whether this message, already compressed, is above the limit."""
        return _size(payload) > self.free_bytes

    def reduce(
        self,
        payload: EncodedRecord,
        change: RowChange,
        source_record: ConsumerRecord,
        losses: list[Loss],
        *,
        reduced: Callable[[str | None], EncodedRecord],
        stored: Callable[[EncodedRecord], bytes],
    ) -> EncodedRecord:
        """Return the message to write instead of one above the limit, with the blob to store before it.

        `reduced` encodes the row with the handle key's columns only, marked with the location of its
        claim-check object, or as handle-key-only if that is None; `stored` returns the content of the object
        for the whole message. Raises MessageTooLarge.
        """
        if self._handling is Handling.NONE:
            raise self._too_large(
                payload, f"{_OPTION}=none; handle-key-only or claim-check would write it, or raise the limit"
            )
        if not change.schema.handle_key():
            raise self._too_large(payload, "its table has no handle key to write instead; raise the limit")
        if not _has_handle_key(change):
            raise self._too_large(
                payload, "the row lacks its handle key, to be written instead; raise the limit"
            )
        location: str | None = None
        blobs: tuple[Blob, ...] = ()
        if self._handling is Handling.CLAIM_CHECK:
            data = stored(payload)
            blob = Blob(self._storage, object_name(source_record, data), data)
            location, blobs = object_location(self._storage, blob.name), (blob,)
        small = reduced(location)
        if self.exceeded(small):
            raise self._too_large(small, "although it has only the handle key's columns; raise the limit")
        if location is None:
            losses.append(Loss.COLUMNS_ABSENT)
        return EncodedRecord(small.key, small.value, blobs)

    def _too_large(self, payload: EncodedRecord, why: str) -> MessageTooLarge:
        size = _size(payload) + self._limit - self.free_bytes
        return MessageTooLarge(
            self._protocol, "", f"{size} bytes where max-message-bytes is {self._limit}: {why}"
        )


def _has_handle_key(change: RowChange) -> bool:
    row = change.before if change.op is Op.DELETE else change.after
    columns = zip(change.schema.columns, row or (), strict=row is not None)
    present = {column.name for column, cell in columns if cell is not ABSENT}
    return present.issuperset(change.schema.handle_key())


def _size(payload: EncodedRecord) -> int:
    return len(payload.key or b"") + len(payload.value or b"")


def object_name(source_record: ConsumerRecord, data: bytes) -> str:
    """Return a claim-check object's name, from the source position and the content: equal in every run."""
    digest = hashlib.sha256(f"{source_record.position}/".encode())
    digest.update(data)
    return f"{uuid.UUID(bytes=digest.digest()[:16], version=5)}.json"


def object_location(storage: str, name: str) -> str:
    """Return the URI of an object in a message."""
    base = shown_uri(storage)
    return f"file://{base}/{name}" if base.startswith("/") else f"{base}/{name}"


_to_json = msgspec.json.Encoder().encode
