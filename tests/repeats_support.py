"""A producer that sends rows again as TiCDC does, and a reader that applies what it gets, for `deduplicate`.

Each table is sent by a sender of its own, in the order of commit ts. A row may fail to be sent, and later ones
of its table arrive all the same. A restart begins again at a checkpoint that was stored earlier, at or below
which every row has arrived.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from support import record, row_message

from relay import ConsumerRecord, ProducerRecord
from relay.codecs.losses import Loss

TYPES: Final = {"id": "int", "email": "varchar(20)"}
TABLES: Final = ("a", "b")
#: The first commit ts of a story; commit ts after it are consecutive.
FIRST_TS: Final = 1_700_000_000_000 << 18

Cells = tuple[int, int]


class SentRow(NamedTuple):
    """A change of a row: its id and email before and after."""

    commit_ts: int
    table: str
    old: Cells | None
    new: Cells | None

    @property
    def message(self) -> dict[str, Any]:
        """The message of TiCDC Canal-JSON."""
        op = "INSERT" if self.old is None else "DELETE" if self.new is None else "UPDATE"
        data, old = (_cells(self.new or self.old), None if op != "UPDATE" else [_cells(self.old)])
        text = row_message(TYPES, data, op=op, old=old, table=self.table, pkNames=["id"])
        codes = {"sqlType": {"id": 4, "email": 12}}
        return text | codes | {"_tidb": {"commitTs": self.commit_ts}}


def _cells(cells: Cells | None) -> dict[str, str]:
    identity, email = cells or (0, 0)
    return {"id": str(identity), "email": f"e{email}"}


class SentWatermark(NamedTuple):
    """A watermark: every row with a smaller commit ts has been sent."""

    watermark: int

    @property
    def message(self) -> dict[str, Any]:
        """The message of TiCDC Canal-JSON."""
        text = row_message({}, op="TIDB_WATERMARK", database="", table="", data=None)
        return text | {"sqlType": None, "mysqlType": None, "_tidb": {"watermarkTs": self.watermark}}


class SentStatement(NamedTuple):
    """A TRUNCATE TABLE."""

    commit_ts: int
    table: str

    @property
    def message(self) -> dict[str, Any]:
        """The message of TiCDC Canal-JSON."""
        text = row_message({}, op="TRUNCATE", table=self.table, isDdl=True, data=None)
        sql = {"sql": f"TRUNCATE TABLE {self.table}", "sqlType": None, "mysqlType": None}
        return text | sql | {"_tidb": {"commitTs": self.commit_ts}}


Sent = SentRow | SentWatermark | SentStatement


def records_of(sent: Iterable[Sent]) -> list[ConsumerRecord]:
    """The records of messages, one after the other; printed like TiCDC's, so that they may have templates."""
    return [record(msgspec.json.encode(each.message), offset=at) for at, each in enumerate(sent)]


class Log:
    """Random changes of rows, in the order of their commits: no email is in a table twice."""

    def __init__(self, chance: random.Random, transactions: int) -> None:
        self._chance, self.rows = chance, list[SentRow]()
        self._tables: dict[str, dict[int, int]] = {table: {} for table in TABLES}
        for at in range(transactions):
            self._add(FIRST_TS + at, chance.choice(TABLES))

    @property
    def end_ts(self) -> int:
        """A commit ts after all rows."""
        return self.rows[-1].commit_ts + 1 if self.rows else FIRST_TS

    def _add(self, commit_ts: int, table: str) -> None:
        chance, rows = self._chance, self._tables[table]
        made: list[tuple[Cells | None, Cells | None]] = []
        identity, email = chance.randrange(5), chance.randrange(5)
        is_free = email not in rows.values()
        if len(rows) > 1 and chance.random() < 0.2:
            # Two rows exchange their emails: updates split into deletes and inserts.
            one, other = chance.sample(sorted(rows), 2)
            made = [((one, rows[one]), None), ((other, rows[other]), None)]
            made += [(None, (one, rows[other])), (None, (other, rows[one]))]
        elif identity not in rows and is_free:
            made = [(None, (identity, email))]
        elif identity in rows and chance.random() < 0.3:
            made = [((identity, rows[identity]), None)]
        elif identity in rows and is_free:
            moved = chance.choice([each for each in range(7) if each == identity or each not in rows])
            made = [((identity, rows[identity]), (moved, email))]
        for old, new in made:
            if old is not None:
                del rows[old[0]]
            if new is not None:
                rows[new[0]] = new[1]
            self.rows.append(SentRow(commit_ts, table, old, new))


class Producer:
    """Sends a log to one partition: `sent`."""

    def __init__(self, log: Log, chance: random.Random) -> None:
        self.sent: list[Sent] = []
        self._log, self._chance = log, chance
        self._rows = {table: [row for row in log.rows if row.table == table] for table in TABLES}
        self._next = dict.fromkeys(TABLES, 0)
        self._failed: dict[str, int] = {}
        self._stored = FIRST_TS

    def run(self, steps: int) -> list[Sent]:
        """Send rows and watermarks, with failures and restarts; at last, everything is sent."""
        for _ in range(steps):
            table, chosen = self._chance.choice(TABLES), self._chance.random()
            if chosen < 0.7:
                self._send(table)
            elif chosen < 0.9:
                self._send_watermark()
            elif chosen < 0.95 or self._failed:
                self._begin_again(TABLES, self._stored)
            else:
                self._begin_again([table], self._checkpoint())
        if self._failed:
            self._begin_again(TABLES, self._stored)
        for table in TABLES:
            self.sent += self._rows[table][self._next[table] :]
            self._next[table] = len(self._rows[table])
        self._send_watermark()
        return self.sent

    def _send(self, table: str) -> None:
        at = self._next[table]
        if at == len(self._rows[table]):
            return
        if self._chance.random() < 0.1:
            self._failed.setdefault(table, at)
        else:
            self.sent.append(self._rows[table][at])
        self._next[table] = at + 1

    def _checkpoint(self) -> int:
        reached = [self._log.end_ts]
        for table, rows in self._rows.items():
            at = self._failed.get(table, self._next[table])
            if at < len(rows):
                reached.append(rows[at].commit_ts)
        return min(reached)

    def _send_watermark(self) -> None:
        checkpoint = self._checkpoint()
        self.sent.append(SentWatermark(checkpoint))
        if self._chance.random() < 0.5:
            self._stored = checkpoint

    def _begin_again(self, tables: Sequence[str], checkpoint: int) -> None:
        for table in tables:
            self._failed.pop(table, None)
            rows = self._rows[table]
            self._next[table] = sum(row.commit_ts < checkpoint for row in rows)


def without_repeats(sent: Sequence[Sent]) -> list[SentRow]:
    """The rows without those that came before, and are below the watermark."""
    found: list[SentRow] = []
    watermark, seen = 0, set[SentRow]()
    for each in sent:
        if isinstance(each, SentWatermark):
            watermark = max(watermark, each.watermark)
        elif isinstance(each, SentRow):
            if each not in seen or each.commit_ts >= watermark:
                found.append(each)
            seen.add(each)
    return found


def split(rows: Iterable[SentRow]) -> list[SentRow]:
    """The rows as TiCDC's encoder writes them: an update of a key is a delete and an insert."""
    found: list[SentRow] = []
    for row in rows:
        if row.old is not None and row.new is not None and row.old[0] != row.new[0]:
            found += [row._replace(new=None), row._replace(old=None)]
        else:
            found.append(row)
    return found


def rows_in(written: Iterable[ProducerRecord]) -> list[SentRow]:
    """The rows in messages of TiCDC Canal-JSON."""
    return [_row_in(message) for message in map(_parsed, written) if message["data"]]


def _parsed(written: ProducerRecord) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(written.value or b"")
    return found


def _row_in(message: dict[str, Any]) -> SentRow:
    new: Cells | None = _read(message["data"][0])
    old = _read(message["old"][0]) if message["old"] else None
    if message["type"] == "DELETE":
        old, new = new, None
    return SentRow(message["_tidb"]["commitTs"], message["table"], old, new)


def _read(cells: dict[str, str]) -> Cells:
    return int(cells["id"]), int(cells["email"][1:])


class Tables:
    """The tables of a reader that writes by key, and replaces rows with the same email."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[int, int]] = {table: {} for table in TABLES}

    def apply(self, changes: Iterable[SentRow]) -> Tables:
        """Apply changes in their order."""
        for change in changes:
            rows = self.rows[change.table]
            if change.old is not None:
                rows.pop(change.old[0], None)
            if change.new is not None:
                identity, email = change.new
                for other in [at for at, found in rows.items() if found == email]:
                    del rows[other]
                rows[identity] = email
        return self


COUNTED: Final = (Loss.ROWS_DEDUPLICATED, Loss.ROWS_BELOW_WATERMARK, Loss.REPEATS_ABOVE_WATERMARK)
