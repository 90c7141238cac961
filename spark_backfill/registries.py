"""Schemas of registries: the driver requests each once, and registers those that the target needs.

It does so before a task needs them. Tasks have its answers, and send no requests. The schemas of messages
follow from their bytes (`FindNamed`). The target's schemas are not known before the rows are translated, so
they are translated once without being written (`FindWritten`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from relay.catalog import Catalog
from relay.config import Config
from relay.config.registries import resolver_of
from relay.config.wiring import translator_of
from relay.io.resolver import Registry, Resolver
from relay.model.errors import NeedUnanswered, RelayError, SchemaMissing
from relay.model.lookups import Need, RegisteredSchema, SchemaById, SchemaId
from relay.model.records import ConsumerRecord
from spark_backfill.files import Captured
from spark_backfill.frames import Reader, read_records
from spark_backfill.terms import Bounds, Broadcast, Terms

SOURCE, TARGET = "source", "target"
#: A registry's answer, or that it lacks a schema.
RegistryAnswers = Mapping[Need[Any], RegisteredSchema | int | SchemaMissing]
NO_ANSWERS: Final[RegistryAnswers] = {}
#: A record's Kafka time, topic, partition and offset.
_SortKey = tuple[int, str, int, int]
_NAMED: Final = "id string"
#: A schema of a subject, and the position of the first record that needs it.
_WRITTEN: Final = "subject string, text string, time_ms bigint, topic string, partition int, offset bigint"


def sides_of(config: Config) -> list[str]:
    """Return the sides of a route that have a registry."""
    tables = {SOURCE: config.source.schema_registry, TARGET: config.target.schema_registry}
    return [side for side, table in tables.items() if table.urls]


def task_resolver(config: Config, known: RegistryAnswers) -> Resolver:
    """Return the resolver for the needs of a task."""
    return Resolver(registries={side: _KnownAnswers(side, known) for side in sides_of(config)})


class _KnownAnswers:
    """A registry with the answers that the driver has received."""

    def __init__(self, side: str, known: RegistryAnswers) -> None:
        self._side, self._known = side, known

    def schema(self, id: int | str) -> RegisteredSchema:
        """Return the schema of an id. Raises SchemaMissing, NeedUnanswered."""
        found: RegisteredSchema = self._find(SchemaById(self._side, id))
        return found

    def id_of(self, subject: str, schema: RegisteredSchema) -> int:
        """Return the id of a schema in a subject. Raises NeedUnanswered."""
        found: int = self._find(SchemaId(self._side, subject, schema))
        return found

    def _find(self, need: Need[Any]) -> Any:
        found = self._known.get(need)
        if found is None:
            raise NeedUnanswered(f"{need.what()} is needed, but the driver did not find it before")
        return _given(found)


def _given(found: RegisteredSchema | int | SchemaMissing) -> Any:
    if isinstance(found, SchemaMissing):
        # A new object: an error that is raised again and again keeps all its tracebacks.
        raise SchemaMissing(*found.args)
    return found


class _AskingRegistry:
    """A registry that sends each request only once."""

    def __init__(self, side: str, ask: Callable[[Need[Any]], Any]) -> None:
        self._side, self._ask = side, ask

    def schema(self, id: int | str) -> RegisteredSchema:
        """Return the schema of an id. Raises the errors of `RegistrySchemas.ask`."""
        found: RegisteredSchema = self._ask(SchemaById(self._side, id))
        return found

    def id_of(self, subject: str, schema: RegisteredSchema) -> int:
        """Return the id of a schema in a subject. Raises the errors of `RegistrySchemas.ask`."""
        found: int = self._ask(SchemaId(self._side, subject, schema))
        return found


class _NotingRegistry(_KnownAnswers):
    """The target's registry for rows that are not written: any schema has an id, and is noted."""

    def __init__(self, known: RegistryAnswers) -> None:
        super().__init__(TARGET, known)
        #: The first record that needs each schema of a subject.
        self.written: dict[tuple[str, str], _SortKey] = {}
        #: That of the record being translated.
        self.current: _SortKey = (0, "", 0, 0)

    def id_of(self, subject: str, schema: RegisteredSchema) -> int:
        """Return a placeholder id."""
        found = subject, schema.text
        self.written[found] = min(self.current, self.written.get(found, self.current))
        return 1


def _names_none(_: ConsumerRecord) -> Sequence[int | str]:
    return ()


class FindNamed:
    """Find the ids of the schemas that the records of a task name, each once."""

    def __init__(self, config: Config, reader: Reader, name: str) -> None:
        self.config, self.reader, self.name = config, reader, name

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield `_NAMED`."""
        registry = translator_of(self.config).route.source.registry
        named = _names_none if registry is None else registry.named_schemas
        found: dict[str, None] = {}
        for batch in batches:
            for record in read_records(self.reader, batch, self.name):
                found.update((str(id), None) for id in named(record))
        yield pa.RecordBatch.from_arrays([pa.array(found, pa.string())], names=["id"])


class FindWritten:
    """Find the schemas that the target needs for the records of a task, each once."""

    def __init__(
        self,
        config: Config,
        reader: Reader,
        catalog: Broadcast,
        bounds: Bounds,
        terms: Terms,
        known: RegistryAnswers,
    ) -> None:
        self.config, self.reader, self.catalog, self.known = config, reader, catalog, known
        self.bounds, self.terms = bounds, terms

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield `_WRITTEN`."""
        config = self.config
        translator = translator_of(config, config.backfill.end_commit_ts or None)
        translator.catalog = self.catalog.value
        translator.expect_partitions(self.terms.sources)
        noting = _NotingRegistry(self.known)
        registries: dict[str, Registry] = {TARGET: noting}
        if SOURCE in sides_of(config):
            registries[SOURCE] = _KnownAnswers(SOURCE, self.known)
        resolver = Resolver(registries=registries)
        watch = self.terms.watch
        for batch in batches:
            known, left_out = translator.catalog, 0
            for record in read_records(self.reader, batch):
                if not self.bounds.contains(record):
                    left_out += 1
                    continue
                noting.current = record.timestamp_ms, record.topic, record.partition, record.offset
                try:
                    resolver.translate(translator, record)
                except RelayError:
                    continue  # the task that writes it reports it
            if watch is not None and (left_out or translator.catalog is not known):
                watch.check(batch)
        found = [(*schema, *first) for schema, first in noting.written.items()]
        names = [field.partition(" ")[0] for field in _WRITTEN.split(", ")]
        types = (pa.string(), pa.string(), pa.int64(), pa.string(), pa.int32(), pa.int64())
        columns = [[each[at] for each in found] for at in range(len(names))]
        arrays = [pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=names)


class RegistrySchemas:
    """The driver's answers from the registries of a run. `known` grows from step to step."""

    def __init__(self, config: Config) -> None:
        self._config, self._sides, self._asks = config, sides_of(config), resolver_of(config)
        self.known: dict[Need[Any], RegisteredSchema | int | SchemaMissing] = {}
        #: For the driver, which reads records of earlier runs, too.
        self.resolver = Resolver(registries={side: _AskingRegistry(side, self.ask) for side in self._sides})

    def find_named(self, captured: Captured, name: str = "input") -> None:
        """Ask for the schemas that records name. Raises RegistryUnavailable, SchemaRefused."""
        if SOURCE not in self._sides:
            return
        found = captured.frame.mapInArrow(FindNamed(self._config, captured.reader, name), _NAMED)
        for (id,) in _rows(found.distinct()):
            need = SchemaById(SOURCE, int(id) if id.isdigit() else id)
            with contextlib.suppress(SchemaMissing):
                self.ask(need)

    def register_written(
        self, spark: SparkSession, captured: Captured, catalog: Catalog, bounds: Bounds, terms: Terms
    ) -> None:
        """Register as `register` does, with a catalog that Spark sends to every worker once."""
        if TARGET not in self._sides:
            return
        shared = spark.sparkContext.broadcast(catalog)
        try:
            self.register(captured, shared, bounds, terms)
        finally:
            shared.destroy()

    def register(self, captured: Captured, catalog: Broadcast, bounds: Bounds, terms: Terms) -> None:
        """Register the schemas of the target's records, in the order of the records that need them first.

        So a subject has the versions that the relay would have registered. Raises RegistryUnavailable,
        SchemaRefused.
        """
        if TARGET not in self._sides:
            return
        find = FindWritten(self._config, captured.reader, catalog, bounds, terms, dict(self.known))
        first = F.min(F.struct("time_ms", "topic", "partition", "offset")).alias("first")
        written = captured.frame.mapInArrow(find, _WRITTEN).groupBy("subject", "text").agg(first)
        found = _rows(written.select("first.*", "subject", "text"))
        for *_, subject, text in sorted(found):
            self.ask(SchemaId(TARGET, subject, RegisteredSchema(text)))

    def ask(self, need: Need[Any]) -> Any:
        """Return an answer, which is requested from a registry once.

        Raises RegistryUnavailable, SchemaMissing, SchemaRefused.
        """
        if need not in self.known:
            try:
                self.known[need] = self._asks.fetch(need)
            except SchemaMissing as error:
                self.known[need] = error
        return _given(self.known[need])


def _rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Return the rows of a frame."""
    table = frame.toArrow()
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
