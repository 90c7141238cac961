"""The commit ts and the key of a row, written and read beside the message of a template, for `deduplicate`.

A template prints them before the value of its message, each after its length: the commit ts, and the cells of
the key of each image as flat JSON. The digest of a row is the same as on the slow path.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from relay.core.condition_cells import CellWriter
from relay.core.deduplication import digest_of
from relay.model.events import Op, RowChange
from relay.model.records import ConsumerRecord
from relay.routing.partitioning import key_indexes
from relay.templates.route.deriving import split_condition_cells
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

    def write(self, change: RowChange, record: ConsumerRecord) -> list[bytes]:
        """Return the commit ts of a traced row, and the key of each of its images: {} without a key.

        Raises NotTemplatable if the digest needs more.
        """
        key = key_indexes(change.schema, change.images.message_key_columns)
        if any(change.schema.columns[at].type.base not in _SAME for at in key):
            raise NotTemplatable
        images = self._cells.texts(change, key, record) if key else [b"{}"] * (parts_of(change.op) - 1)
        return [_encode(change.source.commit_ts), *images]


def parts_of(op: Op) -> int:
    """Return the number of parts that a template prints for `deduplicate`."""
    return 3 if op is Op.UPDATE else 2


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
    (change, *_) = known.events
    op = change.op if isinstance(change, RowChange) else Op.READ
    (time, *images), value = split_condition_cells(value, parts_of(op))
    commit_ts: int | None = _read(time)
    keys: list[list[Any]] = [list(_read(image).values()) for image in images]
    if commit_ts is None or any(None in key for key in keys):
        return ReadDigest(commit_ts, None, value)
    if not keys[0]:
        return ReadDigest(commit_ts, b"", value)
    old = None if op is not Op.UPDATE and op is not Op.DELETE else keys[0]
    new = None if op is Op.DELETE else keys[-1]
    return ReadDigest(commit_ts, digest_of(record, known.table, op, commit_ts, (old, new)), value)
