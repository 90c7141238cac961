"""Dead letters: records that could not be relayed, kept in a topic of their own. Format and policy only: no
I/O, no Kafka client.

A letter has key, value (null stays null), timestamp and headers of the original record, and behind these a
block of headers:

    relay.source            topic/partition/offset of the original
    relay.error.code        stable text, such as decode.malformed
    relay.error.protocol    the protocol that could not be read or written; empty for other errors
    relay.error.path        the place in the message, such as data[0].price; may be empty
    relay.error.detail      the reason, never a row's value
    relay.error.tables      JSON, [["database", "table"], …]; only if they are known
    relay.route             the route that could not relay it (`route_name`); older letters lack it

An original that has such headers already, because it was a dead letter before, keeps them: the last block is
the letter's.

A marker says that a letter was replayed. It stands in the letter's partition and has neither key nor value;
its header `relay.replayed` is the letter's own topic/partition/offset, its timestamp the time of the replay.

`relay translate --on-error dead-letter` writes the same headers into a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

import msgspec

from relay.errors import CodecError, RelayError
from relay.model import TableId
from relay.records import SOURCE_HEADER, ConsumerRecord, Header, ProducerRecord

CODE_HEADER = "relay.error.code"
PROTOCOL_HEADER = "relay.error.protocol"
PATH_HEADER = "relay.error.path"
DETAIL_HEADER = "relay.error.detail"
TABLES_HEADER = "relay.error.tables"
ROUTE_HEADER = "relay.route"
REPLAYED_HEADER = "relay.replayed"

_ERROR_HEADERS = frozenset(
    {CODE_HEADER, PROTOCOL_HEADER, PATH_HEADER, DETAIL_HEADER, TABLES_HEADER, ROUTE_HEADER}
)
#: Limits of what is added to a record, which still has to fit into the dead-letter topic; names in garbage
#: can be of any length.
_MOST_TEXT_BYTES = 2_000
_MOST_TABLES_BYTES = 4_000
_MOST_DIGITS = 19


def route_name(text: str) -> str:
    """The text as it stands in a letter's route header."""
    return _bytes(text).decode()


class Place(NamedTuple):
    """Where a record stands, written `topic/partition/offset`."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"

    @classmethod
    def of(cls, record: ConsumerRecord) -> Place:
        """The place of a record."""
        return cls(record.topic, record.partition, record.offset)

    @classmethod
    def read(cls, text: str) -> Place | None:
        """Read `topic/partition/offset`; None if it is something else."""
        topic, *numbers = text.rsplit("/", 2)
        if len(numbers) != 2 or not topic or not all(map(_is_number, numbers)):
            return None
        return cls(topic, int(numbers[0]), int(numbers[1]))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS


def error_headers(
    record: ConsumerRecord, error: RelayError, tables: Sequence[TableId] = (), route: str = ""
) -> tuple[Header, ...]:
    """The headers that a dead letter has more than its original. `route`: the route's name; "" leaves it out."""
    protocol, path, detail = (
        (error.protocol, error.path, error.reason) if isinstance(error, CodecError) else ("", "", str(error))
    )
    headers = [
        (SOURCE_HEADER, _bytes(str(Place.of(record)))),
        (CODE_HEADER, error.code.encode()),
        (PROTOCOL_HEADER, _bytes(protocol)),
        (PATH_HEADER, _bytes(path)),
        (DETAIL_HEADER, _bytes(detail)),
    ]
    if known := _tables_json(tables):
        headers.append((TABLES_HEADER, known))
    if route:
        headers.append((ROUTE_HEADER, route.encode()))
    return tuple(headers)


def _bytes(text: str) -> bytes:
    """The text as UTF-8, cut where it is too long; halves of characters, which UTF-8 cannot hold, are
    escaped.
    """
    data = text.encode(errors="backslashreplace")
    return (
        data
        if len(data) <= _MOST_TEXT_BYTES
        else data[:_MOST_TEXT_BYTES].decode(errors="ignore").encode() + "…".encode()
    )


def _tables_json(tables: Sequence[TableId]) -> bytes:
    """As many of the tables as there is room for; nothing if there is none."""
    shown: list[bytes] = []
    room = _MOST_TABLES_BYTES
    for table in tables:
        names = [name.encode(errors="backslashreplace").decode() for name in (table.database, table.table)]
        shown.append(msgspec.json.encode(names))
        room -= len(shown[-1])
        if room < 0:
            shown.pop()
            break
    return b"[" + b",".join(shown) + b"]" if shown else b""


def dead_letter_partition(partition: int, partitions: int) -> int:
    """Where letters of a source partition go, so that they keep its order: its number modulo that of the
    dead-letter topic's.
    """
    return partition % partitions


def dead_letter(
    record: ConsumerRecord,
    error: RelayError,
    topic: str,
    tables: Sequence[TableId] = (),
    partitions: int = 1,
    route: str = "",
) -> ProducerRecord:
    """The record to write for one that could not be relayed. `partitions`: how many the dead-letter topic
    has.
    """
    partition = dead_letter_partition(record.partition, partitions)
    headers = (*record.headers, *error_headers(record, error, tables, route))
    return ProducerRecord(topic, partition, record.timestamp_ms, record.key, record.value, headers)


class DeadLetter(msgspec.Struct, frozen=True):
    """A letter as it was read: its own place, the original at the place where that stood, and the error.

    The original has the letter's timestamp, which is the original's unless the topic sets its own.
    `replayed_ms`: when the letter was replayed, in milliseconds since 1970; None if it was not. `route`: the
    name of its route, "" if the letter has none.
    """

    place: Place
    original: ConsumerRecord
    code: str
    protocol: str
    path: str
    detail: str
    tables: tuple[TableId, ...] = ()
    replayed_ms: int | None = None
    route: str = ""

    @property
    def source(self) -> Place:
        """Where the original stood."""
        return Place.of(self.original)


def read_letter(record: ConsumerRecord) -> DeadLetter | None:
    """Read a record of a dead-letter topic; None if it is no letter."""
    block = _block(record.headers)
    if block is None:
        return None
    texts = {name: (value or b"").decode(errors="replace") for name, value in record.headers[block]}
    source = Place.read(texts[SOURCE_HEADER])
    if source is None:
        return None
    headers = record.headers[: block.start] + record.headers[block.stop :]
    return DeadLetter(
        place=Place.of(record),
        original=ConsumerRecord(*source, record.timestamp_ms, record.key, record.value, headers),
        code=texts[CODE_HEADER],
        protocol=texts.get(PROTOCOL_HEADER, ""),
        path=texts.get(PATH_HEADER, ""),
        detail=texts.get(DETAIL_HEADER, ""),
        tables=_read_tables(texts.get(TABLES_HEADER, "[]")),
        route=texts.get(ROUTE_HEADER, ""),
    )


def _block(headers: Sequence[Header]) -> slice | None:
    """Where the last block of error headers stands."""
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


def marker(letter: Place, replayed_ms: int) -> ProducerRecord:
    """The record that says that a letter was replayed."""
    headers = ((REPLAYED_HEADER, str(letter).encode()),)
    return ProducerRecord(letter.topic, letter.partition, replayed_ms, None, None, headers)


def read_marker(record: ConsumerRecord) -> Place | None:
    """The letter that this record says was replayed; None if it is no marker."""
    if record.value is not None or len(record.headers) != 1 or record.headers[0][0] != REPLAYED_HEADER:
        return None
    return Place.read((record.headers[0][1] or b"").decode(errors="replace"))


class Letters:
    """The letters of a topic, from its records in the order of their partitions.

    `keeps` tells of which letters key and value are kept; those of all others are left out of the original,
    to save memory.
    """

    def __init__(self, keeps: Callable[[Place], bool]) -> None:
        self._keeps = keeps
        self._letters: dict[Place, DeadLetter] = {}
        self._replayed: dict[Place, int] = {}
        #: How many records were neither letters nor markers.
        self.others = 0

    def add(self, record: ConsumerRecord) -> None:
        """Take the next record."""
        replayed = read_marker(record)
        if replayed is not None:
            self._replayed[replayed] = record.timestamp_ms
            return
        letter = read_letter(record)
        if letter is None:
            self.others += 1
            return
        if not self._keeps(letter.place):
            letter = msgspec.structs.replace(
                letter, original=msgspec.structs.replace(letter.original, key=None, value=None)
            )
        self._letters[letter.place] = letter

    def found(self) -> list[DeadLetter]:
        """All letters, oldest first: by timestamp, then by place."""
        marks: Mapping[Place, int] = self._replayed
        letters = (
            msgspec.structs.replace(letter, replayed_ms=marks[place]) if place in marks else letter
            for place, letter in self._letters.items()
        )
        return sorted(letters, key=lambda letter: (letter.original.timestamp_ms, letter.place))


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which letters are meant. What is not given holds for all.

    `codes`: whole codes, or the first parts of some (`decode`). `tables`: names `database.table`, with `*`,
    `?` and `[…]`; one of a letter's tables must match one of them. `since_ms`, `until_ms`: the original's
    timestamp in milliseconds since 1970, from and before. `topic`, `partition`, `offset`: where the original
    stood. `route`: the name of the letter's route, "" for letters without one. `replayed`: those that were
    replayed, too.
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

    def of(self, letters: Iterable[DeadLetter]) -> list[DeadLetter]:
        """The letters that are meant, in their order."""
        return [letter for letter in letters if self._takes(letter)]

    def _takes(self, letter: DeadLetter) -> bool:
        wanted = (self.topic, self.partition, self.offset)
        at = letter.original.timestamp_ms
        return (
            (self.replayed or letter.replayed_ms is None)
            and all(want is None or want == given for want, given in zip(wanted, letter.source, strict=True))
            and (self.route is None or letter.route == self.route)
            and (self.since_ms is None or at >= self.since_ms)
            and (self.until_ms is None or at < self.until_ms)
            and (not self.codes or any(f"{letter.code}.".startswith(f"{code}.") for code in self.codes))
            and (
                not self.tables
                or any(fnmatchcase(str(table), name) for table in letter.tables for name in self.tables)
            )
        )


def by_original(letters: Iterable[DeadLetter]) -> list[list[DeadLetter]]:
    """Letters by route and original, in the source's order: after a crash a record may have become a letter
    twice.

    A source topic that was made anew has other records at the same positions: only what has the same bytes is
    one original.
    """
    found: dict[tuple[object, ...], list[DeadLetter]] = {}
    for letter in sorted(letters, key=lambda letter: (letter.source, letter.place)):
        original = letter.original
        # Without the timestamp: a topic that sets its own gives each letter another.
        same = letter.route, letter.source, original.key, original.value, original.headers
        found.setdefault(same, []).append(letter)
    return list(found.values())
