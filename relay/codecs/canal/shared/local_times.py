"""Rows of a Canal source whose TIMESTAMP is not in UTC: counts local times that do not exist or are ambiguous
in its zone.
"""

from __future__ import annotations

from datetime import UTC, tzinfo

from relay.catalog import Catalog
from relay.codecs.canal.shared.messages import CanalMessage, Cells
from relay.codecs.canal.shared.row_readers import TextReaders
from relay.codecs.canal.shared.rows import TextReader, TextRows
from relay.codecs.losses import Loss
from relay.codecs.shared.local_times import LocalTimes, is_local_time
from relay.model.events import Event, Op, RowChange, Source
from relay.model.records import ConsumerRecord
from relay.mysql.values import TextStyle


class ZonedReaders:
    """A decoder's readers, which also count local times."""

    def __init__(self, readers: TextReaders, zone: tzinfo) -> None:
        self._readers, self._times = readers, LocalTimes(zone)

    def changes(  # noqa: PLR0913, PLR0917 - as in `TextReaders`
        self,
        message: CanalMessage,
        op: Op,
        source: Source,
        emitted_at_ns: int,
        record: ConsumerRecord,
        catalog: Catalog,
        losses: list[Loss],
    ) -> list[Event]:
        """Return the row changes of a message, which must have rows."""
        changes = self._readers.changes(message, op, source, emitted_at_ns, record, catalog, losses)
        for change in changes:
            if isinstance(change, RowChange) and isinstance(images := change.images, TextRows):
                cells = local_times(images.reader, images.cells, images.old)
                self._times.count(cells, losses)
        return changes


def local_times(reader: TextReader, *images: Cells | None) -> list[str | None]:
    """Return the cells of a change's images whose text is in the zone of the source."""
    names: list[str] | None = reader.plans.get(ZonedReaders)
    if names is None:
        columns = zip(reader.wire.names, reader.indexes, strict=True)
        local = [name for name, at in columns if is_local_time(reader.schema.columns[at])]
        names = reader.plans[ZonedReaders] = local
    return [cells[name] for cells in images if cells for name in names if name in cells]


def zoned(readers: TextReaders, style: TextStyle) -> TextReaders | ZonedReaders:
    """Return the readers for this style; they count no local times if TIMESTAMP is in UTC."""
    return readers if style.zone is UTC else ZonedReaders(readers, style.zone)
