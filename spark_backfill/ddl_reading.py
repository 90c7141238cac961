"""Read only the partitions that have DDL, where a source sends it once (`Codec.sends_ddl_once`).

Then the schema pass reads partition 0 of the topics with DDL instead of all records. A topic may have DDL
elsewhere nevertheless, for example from an earlier producer. So every task that translates looks for DDL that
the pass has not read (`DdlWatch`), and ends with `DdlUnread`. The driver then repeats the step with a pass
over all records (`with_all_ddl`). Nothing has been written by then: records are redistributed by their target
partitions before they are written, and Spark begins to write when all translating tasks are done.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from relay.config import Config
from relay.config.wiring import translator_of
from relay.model.errors import TooManyFailures
from spark_backfill.checkpoint import ends_of_step
from spark_backfill.files import Captured
from spark_backfill.frames import Columns
from spark_backfill.registries import RegistryAnswers, RegistrySchemas
from spark_backfill.schema_pass import DdlRecord, FindDdl, find_ddl
from spark_backfill.task_errors import DdlUnread, unread_ddl
from spark_backfill.topics import SourceTopics, captured

_Result = TypeVar("_Result")


class DdlWatch:
    """Look for DDL outside partition 0 of the topics with DDL, in a task.

    `topics`: these topics, or None for all.
    """

    def __init__(self, find: FindDdl, topics: frozenset[str] | None = None) -> None:
        self._find, self._topics = find, topics

    def check(self, batch: pa.RecordBatch) -> None:
        """Raise DdlUnread if a batch of `RECORDS` has DDL that the schema pass has not read."""
        is_read = pc.equal(batch.column("partition"), 0)
        if self._topics is not None:
            names = pa.array(sorted(self._topics), pa.string())
            is_read = pc.and_(is_read, pc.is_in(batch.column("topic"), value_set=names))
        for found in self._find([batch.filter(pc.invert(is_read))]):
            position = [str(found.column(name)[0]) for name in ("topic", "partition", "offset")]
            raise DdlUnread("/".join(position))


def watch_of(
    config: Config, records: Captured, known: RegistryAnswers, topics: frozenset[str] | None = None
) -> DdlWatch | None:
    """Return the watch of the tasks if the schema pass may read only the partitions with DDL, else None.

    Record files must be read completely to find the partitions of their lines. Objects of a claim-check
    storage are stored during the translation, which must therefore not be repeated.
    """
    route = translator_of(config).route
    is_apart = route.source.sends_ddl_once and isinstance(records.reader, Columns)
    if not is_apart or "to" in route.storages:
        return None
    return DdlWatch(FindDdl(config, records.reader, known=known), topics)


def in_first_partitions(records: Captured) -> Captured:
    """Return the records of partition 0 of every topic."""
    return records._replace(frame=records.frame.where(F.col("partition") == 0))


def with_all_ddl(
    translate: Callable[[DdlWatch | None], _Result],
    watch: DdlWatch | None,
    warn: Callable[[str], object],
) -> _Result:
    """Translate with the DDL of the partitions that `watch` expects it in, and again with all if necessary.

    `translate` gets None to read all records for DDL.
    """
    if watch is not None:
        try:
            return translate(watch)
        except Exception as error:
            position = unread_ddl(str(error))
            if position is None and not isinstance(error, TooManyFailures):
                raise
            if position:
                reason = f"{position} has DDL, expected only in partition 0"
            else:
                reason = "a record failed, perhaps because its DDL is not in partition 0"
            warn(f"{reason}: the step begins again, and reads DDL from all partitions")
    return translate(None)


class StepsDdl:
    """The DDL of a run over topics, step by step; `enter` begins a step."""

    def __init__(
        self, spark: SparkSession, config: Config, source: SourceTopics, schemas: RegistrySchemas
    ) -> None:
        self._spark, self._config, self._source, self._schemas = spark, config, source, schemas
        #: Whether all records are read for DDL, because a step had DDL elsewhere.
        self._reads_all = False
        #: The offset up to which each partition with DDL has been read.
        self._read: dict[str, int] = {}
        #: DDL that was read before its step.
        self._found_ahead: list[DdlRecord] = []
        #: DDL of the current step that was read before it.
        self._found: list[DdlRecord] = []
        #: The offsets where the unread DDL of the current step begins and ends; None if they are not known.
        self._unread: tuple[dict[str, int], dict[str, int]] | None = None

    def read(self, source: SourceTopics) -> None:
        """Take the source with topics that were found since."""
        self._source, self._config = source, source.config

    def enter(self, step: int) -> None:
        """Begin a step."""
        ends_before = partial(ends_of_step, self._spark, self._config.backfill.checkpoint)
        begin, end = (self._source.first if step == 0 else ends_before(step - 1)), ends_before(step)
        self._unread, self._found = None, []
        if begin is None or end is None:
            return
        names = [f"{topic}/0" for topic in self._source.ddl_topics if f"{topic}/0" in end]
        first = self._source.first
        starts = {name: max(begin.get(name, first[name]), self._read.get(name, 0)) for name in names}
        self._unread = (
            {name: min(starts[name], end[name]) for name in names},
            {name: end[name] for name in names},
        )
        self._read |= {name: max(end[name], self._read.get(name, 0)) for name in names}
        self._found = [each for each in self._found_ahead if _is_before(each, end)]
        self._found_ahead = [each for each in self._found_ahead if not _is_before(each, end)]

    def watch(self, records: Captured) -> DdlWatch | None:
        """Return the watch for the step's tasks; None if all its records must be read for DDL."""
        topics = frozenset(self._source.ddl_topics)
        is_everything = sum(self._source.partitions.values()) == len(topics)
        if self._reads_all or self._unread is None or is_everything:
            return None
        return watch_of(self._config, records, self._schemas.known, topics)

    def of_step(self, records: Captured, watch: DdlWatch | None) -> list[DdlRecord]:
        """Return the DDL of the step: all of it, or that in the partitions where `watch` expects it."""
        if watch is None or self._unread is None:
            self._reads_all = True
            return self._find(records)
        frame = self._source.between(self._spark, *self._unread)
        return self._found if frame is None else [*self._found, *self._find(captured(frame))]

    def ahead(self) -> list[DdlRecord]:
        """Return the DDL for rows of other partitions that no step has reached, with `wait_for_ddl`.

        All rows of this step were sent before now. DDL that was returned before is left out.
        """
        if not self._config.waits_for_ddl:
            return []
        frame, ends = self._source.ahead(self._spark, self._read)
        self._read |= ends
        found = [] if frame is None else self._find(captured(frame))
        self._found_ahead += found
        return found

    def before(self) -> list[DdlRecord]:
        """Return the DDL before the first step, in any partition: no task translates these records."""
        older = self._source.before(self._spark)
        return [] if older is None else self._find(captured(older))

    def _find(self, records: Captured) -> list[DdlRecord]:
        self._schemas.find_named(records)
        return find_ddl(records, self._config, known=self._schemas.known)


def _is_before(found: DdlRecord, ends: dict[str, int]) -> bool:
    topic, partition, offset = found.position
    return offset < ends.get(f"{topic}/{partition}", 0)
