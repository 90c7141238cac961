"""The format of dead letters: records that could not be relayed, kept in a separate topic.

A dead letter has key, value (null stays null), timestamp and headers of the original record, followed by a
block of headers:

    relay.source            topic/partition/offset of the original
    relay.error.code        stable text, such as decode.malformed
    relay.error.protocol    the protocol that could not be read or written; empty for other errors
    relay.error.path        the path in the message, such as data[0].price; may be empty
    relay.error.detail      the reason, never a row's value
    relay.error.tables      JSON, [["database", "table"], …]; only if they are known
    relay.error.payload     "omitted": without key, value and headers of the original, which a route does not
                            write because it hides values; `relay.source` has its position
    relay.route             the route that could not relay it (`route_name`); older dead letters lack it

An original that has such headers already, because it was a dead letter before, keeps them: only the last
block is about the dead letter itself.

A marker records that a dead letter was replayed. It is in the same partition and has neither key nor value.
Its header `relay.replayed` is topic/partition/offset of the dead letter, its timestamp the time of the
replay.

A replay announces itself and its end in partition 0, by records that have neither key nor value. Their header
`relay.replay` or `relay.replay.end` is the replay's name, their timestamp the time of writing.

`relay translate --on-error dead-letter` writes the same headers into a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

import msgspec

from relay.model.errors import CodecError, RelayError
from relay.model.events import TableId
from relay.model.records import SOURCE_HEADER, ConsumerRecord, Header, ProducerRecord, RecordPosition
from relay.text.redaction import printable

CODE_HEADER = "relay.error.code"
PROTOCOL_HEADER = "relay.error.protocol"
PATH_HEADER = "relay.error.path"
DETAIL_HEADER = "relay.error.detail"
TABLES_HEADER = "relay.error.tables"
PAYLOAD_HEADER = "relay.error.payload"
ROUTE_HEADER = "relay.route"
REPLAYED_HEADER = "relay.replayed"
REPLAY_HEADER = "relay.replay"
REPLAY_END_HEADER = "relay.replay.end"

_ERROR_HEADERS = frozenset(
    {CODE_HEADER, PROTOCOL_HEADER, PATH_HEADER, DETAIL_HEADER, TABLES_HEADER, PAYLOAD_HEADER, ROUTE_HEADER}
)
#: Limits of the headers added to a record, which still has to fit into the dead-letter topic; names in
#: garbage can be of any length.
_MAX_TEXT_BYTES = 2_000
_CUT = "…".encode()
_OMITTED = b"omitted"
_MAX_TABLES_BYTES = 4_000


def route_name(text: str) -> str:
    """Return the text in its form for a dead letter's route header."""
    return _bytes(text).decode()


def error_headers(
    record: ConsumerRecord, error: RelayError, tables: Sequence[TableId] = (), route: str = ""
) -> tuple[Header, ...]:
    """Return the headers that a dead letter adds to its original. `route`: the route's name, "" for none."""
    protocol, path, detail = "", "", str(error)
    if isinstance(error, CodecError):
        protocol, path, detail = error.protocol, error.path, error.reason
    headers = [
        (SOURCE_HEADER, _bytes(str(record.position))),
        (CODE_HEADER, error.code.encode()),
        (PROTOCOL_HEADER, _shown(protocol)),
        (PATH_HEADER, _shown(path)),
        (DETAIL_HEADER, _shown(detail)),
    ]
    if known := _tables_json(tables):
        headers.append((TABLES_HEADER, known))
    if route:
        headers.append((ROUTE_HEADER, route.encode()))
    return tuple(headers)


def _shown(text: str) -> bytes:
    """Encode a text that may come from garbage, with its unprintable characters escaped."""
    return _bytes(printable(text, longest=None))


def _bytes(text: str) -> bytes:
    """Encode a text as UTF-8. One above `_MAX_TEXT_BYTES` loses its middle, because errors state their cause
    at the end.

    Lone surrogates, which UTF-8 cannot encode, are escaped.
    """
    data = text.encode(errors="backslashreplace")
    if len(data) <= _MAX_TEXT_BYTES:
        return data
    half = (_MAX_TEXT_BYTES - len(_CUT)) // 2
    return b"".join(
        [
            data[:half].decode(errors="ignore").encode(),
            _CUT,
            data[-half:].decode(errors="ignore").encode(),
        ]
    )


def _tables_json(tables: Sequence[TableId]) -> bytes:
    """Return as many of the tables as fit; nothing if there is none."""
    shown: list[bytes] = []
    remaining = _MAX_TABLES_BYTES
    for table in tables:
        names = [name.encode(errors="backslashreplace").decode() for name in (table.database, table.table)]
        shown.append(msgspec.json.encode(names))
        remaining -= len(shown[-1])
        if remaining < 0:
            shown.pop()
            break
    return b"[" + b",".join(shown) + b"]" if shown else b""


def dead_letter_partition(partition: int, partitions: int) -> int:
    """Return the dead-letter partition of a source partition, by modulo: dead letters keep their order."""
    return partition % partitions


def dead_letter(
    record: ConsumerRecord,
    error: RelayError,
    topic: str,
    tables: Sequence[TableId] = (),
    partitions: int = 1,
    route: str = "",
) -> ProducerRecord:
    """Return the dead letter of a record. `partitions`: how many the dead-letter topic has."""
    partition = dead_letter_partition(record.partition, partitions)
    headers = (*record.headers, *error_headers(record, error, tables, route))
    return ProducerRecord(topic, partition, record.timestamp_ms, record.key, record.value, headers)


def without_payload(letter: ProducerRecord, record: ConsumerRecord) -> ProducerRecord:
    """Return a record's dead letter without key, value and headers of the record."""
    headers = (*letter.headers[len(record.headers) :], (PAYLOAD_HEADER, _OMITTED))
    return msgspec.structs.replace(letter, key=None, value=None, headers=headers)


class DeadLetter(msgspec.Struct, frozen=True):
    """A dead letter as read: its position, the original with its position, and the error.

    The timestamp is the dead letter's, which equals the original's unless the topic sets its own.

    replayed_ms: Time of its replay, in milliseconds since 1970; None if it was not replayed.
    route: The name of its route; "" if it has none.
    has_payload: Whether it has key, value and headers of the original.
    """

    position: RecordPosition
    original: ConsumerRecord
    code: str
    protocol: str
    path: str
    detail: str
    tables: tuple[TableId, ...] = ()
    replayed_ms: int | None = None
    route: str = ""
    has_payload: bool = True

    @property
    def source(self) -> RecordPosition:
        """The position of the original."""
        return self.original.position


def read_dead_letter(record: ConsumerRecord) -> DeadLetter | None:
    """Read a record of a dead-letter topic; None if it is not a dead letter."""
    block = _error_block(record.headers)
    if block is None:
        return None
    texts = {name: (value or b"").decode(errors="replace") for name, value in record.headers[block]}
    source = RecordPosition.parse(texts[SOURCE_HEADER])
    if source is None:
        return None
    headers = record.headers[: block.start] + record.headers[block.stop :]
    return DeadLetter(
        position=record.position,
        original=ConsumerRecord(*source, record.timestamp_ms, record.key, record.value, headers),
        code=texts[CODE_HEADER],
        protocol=texts.get(PROTOCOL_HEADER, ""),
        path=texts.get(PATH_HEADER, ""),
        detail=texts.get(DETAIL_HEADER, ""),
        tables=_read_tables(texts.get(TABLES_HEADER, "[]")),
        route=texts.get(ROUTE_HEADER, ""),
        has_payload=PAYLOAD_HEADER not in texts,
    )


def _error_block(headers: Sequence[Header]) -> slice | None:
    """Find the last block of error headers."""
    names = [name for name, _ in headers]
    for start in reversed(range(len(names) - 1)):
        if names[start : start + 2] == [SOURCE_HEADER, CODE_HEADER]:
            stop = start + 2
            while stop < len(names) and names[stop] in _ERROR_HEADERS:
                stop += 1
            return slice(start, stop)
    return None


def _read_tables(text: str) -> tuple[TableId, ...]:
    try:
        return tuple(TableId(*names) for names in msgspec.json.decode(text, type=list[tuple[str, str]]))
    except msgspec.DecodeError:
        return ()


def marker(position: RecordPosition, replayed_ms: int) -> ProducerRecord:
    """Return the record that marks the dead letter at this position as replayed."""
    headers = ((REPLAYED_HEADER, str(position).encode()),)
    return ProducerRecord(position.topic, position.partition, replayed_ms, None, None, headers)


def read_marker(record: ConsumerRecord) -> RecordPosition | None:
    """Return the position of a marker's dead letter; None if the record is no marker."""
    if record.value is not None or len(record.headers) != 1 or record.headers[0][0] != REPLAYED_HEADER:
        return None
    return RecordPosition.parse((record.headers[0][1] or b"").decode(errors="replace"))


class ReplayClaim(NamedTuple):
    """The announcement of a replay, or of its end."""

    name: str
    ends: bool


def replay_claim(topic: str, name: str, now_ms: int, *, ends: bool) -> ProducerRecord:
    """Return the record that announces a replay, or its end."""
    header = REPLAY_END_HEADER if ends else REPLAY_HEADER
    return ProducerRecord(topic, 0, now_ms, None, None, ((header, name.encode()),))


def read_claim(record: ConsumerRecord) -> ReplayClaim | None:
    """Read the announcement of a replay; None if the record is not one."""
    if record.value is not None or len(record.headers) != 1:
        return None
    ((header, name),) = record.headers
    if header not in {REPLAY_HEADER, REPLAY_END_HEADER}:
        return None
    return ReplayClaim((name or b"").decode(errors="replace"), header == REPLAY_END_HEADER)


class DeadLetterIndex:
    """The dead letters of a topic, collected from its records in the order of each partition.

    `keeps_content`: whether to keep key and value at a position. All others are dropped to save memory.
    """

    def __init__(self, keeps_content: Callable[[RecordPosition], bool]) -> None:
        self._keeps_content = keeps_content
        self._dead_letters: dict[RecordPosition, DeadLetter] = {}
        self._replayed_ms: dict[RecordPosition, int] = {}
        #: Records that were neither dead letters nor markers.
        self.other_records = 0

    def add(self, record: ConsumerRecord) -> None:
        """Add the next record."""
        replayed = read_marker(record)
        if replayed is not None:
            self._replayed_ms[replayed] = record.timestamp_ms
            return
        if read_claim(record) is not None:
            return
        found = read_dead_letter(record)
        if found is None:
            self.other_records += 1
            return
        if not self._keeps_content(found.position):
            original = msgspec.structs.replace(found.original, key=None, value=None)
            found = msgspec.structs.replace(found, original=original)
        self._dead_letters[found.position] = found

    def dead_letters(self) -> list[DeadLetter]:
        """Return all dead letters, the oldest first: by timestamp, then by position."""
        replayed = self._replayed_ms
        found = (
            msgspec.structs.replace(each, replayed_ms=replayed[at]) if at in replayed else each
            for at, each in self._dead_letters.items()
        )
        return sorted(found, key=lambda each: (each.original.timestamp_ms, each.position))


class DeadLetterFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions on dead letters. All must hold; an unset one holds for every dead letter.

    codes: Whole codes, or their first parts (`decode`).
    tables: Globs `database.table` with `*`, `?` and `[…]`; one must match one of a dead letter's tables.
    since_ms, until_ms: The original's timestamp in milliseconds since 1970, inclusive and exclusive.
    topic, partition, offset: Position of the original.
    route: The name of the route; "" for dead letters without one.
    replayed: Whether to include replayed ones.
    """

    codes: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    since_ms: int | None = None
    until_ms: int | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    route: str | None = None
    replayed: bool = False

    def filter(self, dead_letters: Iterable[DeadLetter]) -> list[DeadLetter]:
        """Return the dead letters that meet the conditions, in order."""
        return [each for each in dead_letters if self._matches(each)]

    def _matches(self, found: DeadLetter) -> bool:
        wanted = (self.topic, self.partition, self.offset)
        at = found.original.timestamp_ms
        return (
            (self.replayed or found.replayed_ms is None)
            and all(want is None or want == given for want, given in zip(wanted, found.source, strict=True))
            and (self.route is None or found.route == self.route)
            and (self.since_ms is None or at >= self.since_ms)
            and (self.until_ms is None or at < self.until_ms)
            and (not self.codes or any(f"{found.code}.".startswith(f"{code}.") for code in self.codes))
            and (not self.tables or self._matches_a_table(found))
        )

    def _matches_a_table(self, found: DeadLetter) -> bool:
        return any(fnmatchcase(str(table), name) for table in found.tables for name in self.tables)


def by_original(dead_letters: Iterable[DeadLetter]) -> list[list[DeadLetter]]:
    """Group dead letters by route and original, in the order of the source.

    After a crash a record may have become a dead letter twice. A source topic that was deleted and created
    anew has other records at the same positions. So two originals are the same only if their bytes are, too.
    """
    found: dict[tuple[object, ...], list[DeadLetter]] = {}
    for each in sorted(dead_letters, key=lambda each: (each.source, each.position)):
        original = each.original
        # Without the timestamp: a topic that sets its own assigns a different one to each dead letter.
        same = each.route, each.source, original.key, original.value, original.headers
        found.setdefault(same, []).append(each)
    return list(found.values())
