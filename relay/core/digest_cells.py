"""The commit ts and the key of a row, written and read beside the message of a template, for `deduplicate`.

A template prints them before the value of its message, after their length, as a JSON array: the commit ts,
and the cells of the key of each image as an object. The digest of a row is the same as on the slow path.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from relay.core.condition_cells import CellWriter
from relay.core.deduplication import digest_of
from relay.model.events import Op, RowChange
from relay.model.records import ConsumerRecord
from relay.routing.partitioning import key_indexes
from relay.templates.route.deriving import CELLS_LENGTH_BYTES
from relay.templates.route.known import TemplateInfo
from relay.templates.tracing import NotTemplatable, mark_of

#: Types of which a cell in flat JSON is the same as in the model.
_SAME: Final = frozenset(
    {"tinyint", "smallint", "mediumint", "int", "bigint", "year"}
    | {"char", "varchar", "tinytext", "text", "mediumtext", "longtext"}
    | {"date", "datetime", "timestamp", "time"}
)
_encode: Final = msgspec.json.Encoder(enc_hook=mark_of).encode
_read: Final = msgspec.json.Decoder().decode


class DigestCellWriter:
    """Writes the commit ts and the key of rows."""

    def __init__(self, cells: CellWriter) -> None:
        self._cells = cells

    def write(self, change: RowChange, record: ConsumerRecord) -> bytes:
        """Return the commit ts of a traced row, and the key of each of its images: {} without a key.

        Raises NotTemplatable if the digest needs more.
        """
        key = key_indexes(change.schema, change.images.message_key_columns)
        if any(change.schema.columns[at].type.base not in _SAME for at in key):
            raise NotTemplatable
        images = self._cells.texts(change, key, record) if key else [b"{}"]
        return b"[%b,%b]" % (_encode(change.source.commit_ts), b",".join(images))


class ReadDigest(NamedTuple):
    """The identity of a row that fits a template.

    digest: None if only the slow path can identify the row; b"" if its table has no key.
    value: The message's value, without these cells.
    """

    commit_ts: int | None
    digest: bytes | None
    value: bytes


def read_digest(record: ConsumerRecord, known: TemplateInfo, value: bytes) -> ReadDigest:
    """Return the identity of a row from the output of its template."""
    change = known.events[0]
    op = change.op if isinstance(change, RowChange) else Op.READ
    end = CELLS_LENGTH_BYTES + int.from_bytes(value[:CELLS_LENGTH_BYTES], "big")
    commit_ts, *images = _read(value[CELLS_LENGTH_BYTES:end])
    rest = value[end:]
    first = [*images[0].values()]
    if not first:
        return ReadDigest(commit_ts, b"", rest)
    last = [*images[1].values()] if len(images) > 1 else first
    if commit_ts is None or None in first or None in last:
        return ReadDigest(commit_ts, None, rest)
    old = None if op is Op.INSERT or op is Op.READ else first
    new = None if op is Op.DELETE else last
    return ReadDigest(commit_ts, digest_of(record, known.table, op, commit_ts, (old, new)), rest)
