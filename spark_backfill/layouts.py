"""The folders of an output, and the assignment of records to them.

    topic       topic=…/partition=…
    date        date=YYYY-MM-DD                     the day of the record's timestamp, in UTC
    table       database=…/table=…                  the table that the record is about

A record for which a layout has no name goes to Hive's folder for NULL, `__HIVE_DEFAULT_PARTITION__`: a record
without a timestamp; one about no table (a watermark) or about several; DDL of a whole database, which has its
`database=…`; in a protocol that is only written, the results of a source record about several tables. Topic
and partition are columns where they are no folders, and offsets count in each target partition, whatever the
folders are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql import functions as F

from relay.codecs.given_options import reading_options
from relay.config import Config
from relay.config.keys import OutputLayout
from relay.config.wiring import translator_of
from relay.core.translator import Translator
from relay.model.events import TableId
from relay.model.records import ConsumerRecord, ProducerRecord

FOLDERS: Final[Mapping[OutputLayout, tuple[str, ...]]] = {
    OutputLayout.TOPIC: ("topic", "partition"),
    OutputLayout.DATE: ("date",),
    OutputLayout.TABLE: ("database", "table"),
}
_MS_A_DAY: Final = 86_400_000


def day() -> Any:
    """Return the day of `timestamp_ms` as text, whatever the zone of the session; NULL without one (-1)."""
    days = F.floor(F.col("timestamp_ms") / F.lit(_MS_A_DAY)).cast("int")
    date = F.date_add(F.lit("1970-01-01").cast("date"), days)
    return F.when(F.col("timestamp_ms") >= 0, date.cast("string"))


class TableFinder:
    """Find the table of each record that was made of a source record."""

    def __init__(self, config: Config) -> None:
        target = translator_of(config).route.target
        options = reading_options(target, config.route.to_options)
        self._reader = Translator.reader(target.name, options) if target.is_readable else None

    def find(self, produced: Sequence[ProducerRecord], tables: Sequence[TableId]) -> list[TableId | None]:
        """Return the tables of these records.

        `tables`: those of their source record; if there are several, the target's own decoder distinguishes
        them, where there is one. A record without a value, a tombstone, is about the table of the one before
        it.
        """
        if len(tables) < 2 or self._reader is None:
            return [_only(tables)] * len(produced)
        found: list[TableId | None] = []
        for out in produced:
            is_tombstone = out.value is None and bool(found)
            found.append(found[-1] if is_tombstone else _only(self._reader.tables_of(_read(out))))
        return found


def _only(tables: Sequence[TableId]) -> TableId | None:
    return tables[0] if len(tables) == 1 else None


def _read(out: ProducerRecord) -> ConsumerRecord:
    return ConsumerRecord(out.topic, out.partition, 0, out.timestamp_ms, out.key, out.value)


__all__ = ["FOLDERS", "TableFinder", "day"]
