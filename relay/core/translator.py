"""`Translator` is the public entry point: it translates one Kafka record into records of another protocol.

The result depends only on the record, its position, the options and earlier records: two runs return the same
bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Final, TypeVar

import msgspec

from relay.catalog import Catalog, Unknown
from relay.catalog.definitions import apply_definition, definition_in, is_definition, storable
from relay.catalog.redacted_records import apply_redacted, is_redacted
from relay.codecs import encoder_of
from relay.codecs.given_options import OptionValue, option_texts
from relay.codecs.losses import Loss
from relay.core.allowed_templates import AllowedTemplates
from relay.core.column_path import ColumnPath, TranslatedRows
from relay.core.counts import CountsByTable, EventCounts, UnwrittenStatement
from relay.core.deduplication import Deduplicator
from relay.core.fast_path import FastPath, open_fast_path
from relay.core.pipeline import Pipeline, State
from relay.core.route import Route, RouteRules
from relay.core.run_path import RunPath
from relay.core.selection import Selection
from relay.model.errors import ConfigError, DecodeError
from relay.model.events import Bootstrap, Event, RowChange, SchemaChange, TableId
from relay.model.limits import DEDUPLICATE_ROWS, DEFAULT_LIMITS, Limits
from relay.model.lookups import LookupCache, Need, RegisteredSchema, SchemaById
from relay.model.records import TIME_END_MS, ConsumerRecord, ProducerRecord
from relay.routing import Router, TopicRule, routing_problems
from relay.routing.partitioning import Partitioning
from relay.rules.columns import ColumnRule
from relay.rules.rows import RowRule
from relay.rules.tables import TableRule
from relay.templates.batches import SourceBatch, TargetBatch
from relay.templates.columns import RecordColumns
from relay.templates.engine import Engine
from relay.templates.route.policy import DEFAULT_POLICY, TemplatePolicy

Answer = TypeVar("Answer")
#: A target for any source, without required options.
_UNUSED_TARGET: Final = "flat-json"


class Translator:
    """Translates records of one protocol into another, one by one.

    source, target: Codec names (`relay formats` lists them).
    source_options, target_options: The producers' options by name; values are texts, or equivalent bools,
        numbers or lists.
    topic: Target topic, with the placeholders `{topic}` (the source's), `{database}` and `{table}`.
    partitions: Number of target partitions; None keeps the source's partition.
    partition_by: How rows are distributed over the partitions.
    rules: Separate topics for tables.
    reserved: Topics that no table may use.
    selection: Selects events. Omitted events still update the catalog.
    columns: Column rules, which drop or rename columns of the target, or replace their values.
    hash_key: The secret of the rules that hash values.
    rows: Row rules, which select the rows of tables. They apply before column rules.
    tables: Table rules, which give databases and tables other names in the target, or merge shards.
    deduplicate: Whether rows that TiCDC sends again are dropped, if they are below the watermark and this
        translator has written them.
    deduplicate_rows: Maximum number of written rows that are remembered for this, about 175 bytes each.
    limits: Limits on the cost of one record.
    engine: Applies templates (`relay.templates`); None disables them. The output is the same.

    Raises ConfigError.
    """

    #: When templates are derived and dropped; a subclass may have another policy.
    _template_policy: ClassVar[TemplatePolicy] = DEFAULT_POLICY
    #: Whether templates may translate many rows at once; a subclass may need each record.
    _has_columns: ClassVar[bool] = True

    def __init__(  # noqa: PLR0913 - the parts of a route
        self,
        source: str,
        target: str,
        source_options: Mapping[str, OptionValue] | None = None,
        target_options: Mapping[str, OptionValue] | None = None,
        *,
        topic: str = "{topic}",
        partitions: int | None = None,
        partition_by: Partitioning | None = None,
        rules: Sequence[TopicRule] = (),
        reserved: frozenset[str] = frozenset(),
        selection: Selection | None = None,
        columns: Sequence[ColumnRule] = (),
        hash_key: bytes = b"",
        rows: Sequence[RowRule] = (),
        tables: Sequence[TableRule] = (),
        deduplicate: bool = False,
        deduplicate_rows: int = DEDUPLICATE_ROWS,
        limits: Limits = DEFAULT_LIMITS,
        engine: type[Engine] | None = None,
    ) -> None:
        reading = source, option_texts(source_options or {})
        writing = target, option_texts(target_options or {})
        given = RouteRules(columns, hash_key, rows, tables)
        try:
            self.route = route = Route.parse(reading, writing, selection, given)
        except ConfigError as error:
            problems = [*error.problems, *routing_problems(topic, partitions, partition_by, rules)]
            raise ConfigError(problems) from None
        self._router = router = Router(
            topic,
            partitions,
            partition_by,
            rules,
            reads_ddl_everywhere=route.source.ddl_everywhere,
            writes_ddl_everywhere=route.target.ddl_everywhere,
            reserved=reserved,
            selects=None if selection is None or selection.tables is None else selection.has_table,
            renaming=route.table_names,
        )
        route.check_keys(router, rules)
        deduplicator = None
        if deduplicate:
            route.check_watermarks()
            deduplicator = Deduplicator(deduplicate_rows, selection)
        self._answers, self._counts = LookupCache(limits), EventCounts()
        decoder = route.source.open_decoder(route.source_options, self._answers)
        key_of = router.key_of if router.chooses_keys else None
        encoder = encoder_of(route.target, route.target_options, self._answers, key_of)
        self._line = Pipeline(route, router, decoder, encoder, self._answers, self._counts, deduplicator)
        self._fast = None
        if engine is not None:
            self._fast = open_fast_path(self._line, decoder, encoder, engine, self._template_policy)
        self._translate = self._line.translate if self._fast is None else self._fast.translate
        self._allowed = self._columns = self._runs = None
        if self._has_columns and isinstance(self._fast, FastPath):
            self._allowed = AllowedTemplates(self._line, self._fast.templates)
            self._columns = ColumnPath(self._line, self._fast.templates, self._allowed)
            self._runs = RunPath(self._line, self._fast.templates, self._allowed)

    @classmethod
    def reader(
        cls, source: str, options: Mapping[str, OptionValue] | None = None, *, limits: Limits = DEFAULT_LIMITS
    ) -> Translator:
        """Return a translator that is used only for reading (`inspect`, `learn`). Raises ConfigError."""
        return cls(source, _UNUSED_TARGET, options, limits=limits)

    def translate(self, record: ConsumerRecord) -> list[ProducerRecord]:
        """Return the target's records for one source record, in order; [] if it has no output.

        The call is atomic: after a DecodeError, EncodeError or Need the translator is unchanged, and the call
        may be repeated. Raises TypeError for a record whose members do not have their declared types.
        """
        return self._translate(record)

    @property
    def has_columns(self) -> bool:
        """Whether `translate_columns` can translate rows."""
        return self._columns is not None

    def translate_columns(  # noqa: PLR0913, PLR0917 - called often; keywords would cost more than a short run
        self,
        topic: str,
        partition: int,
        columns: RecordColumns,
        first: int,
        end: int,
        most_bytes: int,
        most_row_bytes: int,
    ) -> TranslatedRows | None:
        """Translate rows of columns like records without headers, as far as templates translate them alone.

        `columns`: records of this topic and partition, in the order of their offsets. The rows are those
        from `first` on and before `end`; fewer are translated if one needs `translate`, if its key and value
        have more than `most_row_bytes` bytes, or if the keys and values so far have `most_bytes` bytes. None:
        the first row needs `translate`.
        """
        if self._columns is None:
            return None
        return self._columns.translate(topic, partition, columns, first, end, most_bytes, most_row_bytes)

    @property
    def has_runs(self) -> bool:
        """Whether `translate_batch` can translate rows."""
        return self._runs is not None

    def translate_batch(
        self,
        topic: str,
        partition: int,
        source: SourceBatch,
        first: int,
        end: int,
        targets: list[TargetBatch | None],
    ) -> int:
        """Translate rows of a batch like records, into target batches, as far as templates translate them
        alone; return how many.

        The rows are those from `first` on and before `end`. The next one needs `translate`, or does not fit
        into its batch; or enough bytes were read. `targets`: the batches that take more records of topics in
        this partition, each at the place of its topic (`target_index`).
        """
        if self._runs is None:
            return 0
        return self._runs.translate(topic, partition, source, first, end, targets)

    def target_index(self, topic: str) -> int:
        """Return the place of a target topic's batch in the `targets` of `translate_batch`."""
        return 0 if self._allowed is None else self._allowed.target_index(topic)

    def inspect(self, record: ConsumerRecord) -> list[Event]:
        """Decode one record and return its canonical events. Atomic like `translate`."""
        losses: list[Loss] = []
        events, self.catalog = self._line.decoded(record, losses)
        if record.timestamp_ms >= TIME_END_MS:
            losses.append(Loss.RECORD_TIME)
        self._counts.add_losses(losses)
        return events

    def learn(self, record: ConsumerRecord) -> tuple[TableId, ...]:
        """Apply a record's DDL and schemas to the catalog, and nothing else; return the tables concerned.

        It is for records from a schema history, including definitions from outside the stream, and for
        records that cannot be translated. Raises DecodeError, Need.
        """
        names = self.route.table_names
        if is_redacted(record):
            self.catalog, events = apply_redacted(self.catalog, record)
        elif is_definition(record):
            definition = definition_in(record)
            self.catalog = apply_definition(self.catalog, definition)
            if names is not None:
                self._line.taken = names.defined(definition.table, self._line.taken)
            return (definition.table,)
        else:
            events, self.catalog = self._line.decoded(record, [])
        if any(isinstance(event, SchemaChange) for event in events):
            self._line.forget_rows()
        if names is not None:
            self._line.taken = names.learned(events, self._line.taken)
        return _tables_in(events)

    def storable(self, record: ConsumerRecord) -> ConsumerRecord | None:
        """Return the record to store for one that has just changed the catalog, without hidden values.

        It is the same record if the route hides nothing. None if another one has changed the catalog since.
        """
        return storable(record, self.catalog)

    @property
    def name_conflicts(self) -> list[tuple[TableId, list[TableId]]]:
        """The names in the target that table rules give to several known tables, each with these tables."""
        names = self.route.table_names
        return [] if names is None else names.conflicts(self.catalog.existing_tables())

    def tables_of(self, record: ConsumerRecord) -> tuple[TableId, ...]:
        """Return a record's tables; () if it cannot be read. Changes nothing."""
        try:
            events, _ = self._line.decoded(record, [])
        except (DecodeError, Need):
            return ()
        return _tables_in(events)

    def row_time_ms(self, record: ConsumerRecord) -> int | None:
        """Return the commit time of a record's newest row, in milliseconds since 1970.

        None if it has no rows or no time, or cannot be read. Changes nothing.
        """
        losses: list[Loss] = []
        try:
            events, _ = self._line.decoded(record, losses)
        except (DecodeError, Need):
            return None
        if Loss.EVENT_TIME in losses:  # a substituted time is not the row's
            return None
        times = [event.source.time_ms for event in events if isinstance(event, RowChange)]
        return max(times, default=0) or None

    # ------------------------------------------------------------ state

    @property
    def catalog(self) -> Catalog:
        """The definitions of all tables. A value, which may be replaced by another one."""
        return self._line.catalog

    @catalog.setter
    def catalog(self, catalog: Catalog) -> None:
        redaction = self.route.redaction
        if catalog.redaction != redaction:
            catalog = msgspec.structs.replace(catalog, redaction=redaction)
        self._line.catalog = catalog

    @property
    def copied_topics(self) -> set[str]:
        """The topics whose statements were omitted as copies of those in partition 0."""
        return self._line.copied_topics

    @property
    def watermarks_ms(self) -> dict[tuple[str, int], int]:
        """The time of the last watermark of each source partition, in ms since 1970.

        It includes watermarks that were not written.
        """
        return self._line.watermarks_ms

    @property
    def state(self) -> State:
        """The complete state after the records so far. A value that `restore` accepts repeatedly."""
        return self._line.state

    def restore(self, state: State) -> None:
        """Return to `state`, in order to translate the records after it again."""
        self._line.restore(state)

    def start_over(self) -> None:
        """Return to the state and the counts of a new translator.

        Templates and answers, which change no output, stay; the counts in `paths` go on.
        """
        counts = self._settled()
        if self._fast is not None:
            self._fast.templates.start_over()
        if self._allowed is not None:
            self._allowed.start_over()
        counts.tables = None
        counts.become(EventCounts())
        self._line.start_over()

    def provide(self, need: Need[Answer], answer: Answer) -> None:
        """Provide the answer that a call requested by raising `need`; it is cached within limits
        (`LookupCache`).

        Raises TypeError for an answer of another type.
        """
        self._answers.provide(need, answer)

    def known_schema(self, id: int | str) -> RegisteredSchema | None:
        """Return a provided schema of the source's registry; None if it was not provided or was evicted."""
        return self._answers.known(SchemaById("source", id))

    @property
    def remembered_rows(self) -> int | None:
        """The number of written rows that are remembered; None without `deduplicate`."""
        deduplicator = self._line.deduplicator
        return None if deduplicator is None else len(deduplicator)

    def forget_rows(self) -> None:
        """Forget which rows were written, and the watermarks (`deduplicate`).

        This is required when other translators may have translated records of the same partitions since:
        they may have written older rows again. The rows stay forgotten if an earlier state is restored.
        """
        self._line.forget_rows()
        self._line.progress = {}

    def expect_partitions(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Set all source partitions (topic, number).

        This is required if rows are repartitioned, so that no watermark passes before all partitions have
        reached it, and if DDL is copied (`copies_ddl`), so that each partition gets a copy. Without it,
        watermarks depend only on partitions seen so far, and DDL stays in its own partition.
        """
        self._line.expect_partitions(partitions)

    def partitions_of(self, topic: str) -> int | None:
        """Return the number of partitions over which a table's rows are distributed in this target topic.

        None if they keep the source's. The table must have been translated just before.
        """
        return self._router.partitions_of(topic)

    @property
    def copies_ddl(self) -> bool:
        """Whether a statement is written to every partition of the source (`expect_partitions`)."""
        selection = self.route.selection
        return self._router.makes_copies and (selection is None or selection.ddl)

    @property
    def needs_all_partitions(self) -> bool:
        """Whether valid watermarks require all source partitions, because rows are repartitioned."""
        return self._line.gate is not None and self.route.passes_watermarks

    # ------------------------------------------------------------ counts

    @property
    def paths(self) -> Counter[str]:
        """The counts by path: rows by template (`fast`), and records on the slow path (`slow`).

        The latter include refused records, and records of which some rows went by template. Empty without an
        engine.
        """
        if self._fast is None:
            return Counter()
        return Counter(fast=self._fast.templates.uses, slow=self._fast.templates.misses)

    @property
    def events(self) -> Counter[str]:
        """The number of translated events by kind (as `kind_of` names it)."""
        return self._settled().events

    @property
    def losses(self) -> Counter[Loss]:
        """The number of losses by kind."""
        return self._settled().losses

    @property
    def inferred_tables(self) -> Mapping[TableId, int]:
        """The first tables without known DDL whose rows were translated, with their number of rows.

        They are in the order of their first rows; none is ever removed.
        """
        return MappingProxyType(self._settled().inferred)

    def inferred_after(self, number: int) -> list[TableId]:
        """Return the tables of `inferred_tables` after the first `number`."""
        inferred = self._counts.inferred
        return list(inferred)[number:] if len(inferred) > number else []

    def why_unknown(self, table: TableId) -> str:
        """Return the reason, as text, why one of the `inferred_tables` had no definition at its first row."""
        return str(self._counts.unknown.get(table, Unknown.NO_DDL))

    @property
    def unwritten_statements(self) -> list[UnwrittenStatement]:
        """The first statements that removed rows and were not written to the target, without copies."""
        return list(self._counts.unwritten.values())

    def unwritten_after(self, number: int) -> list[UnwrittenStatement]:
        """Return the `unwritten_statements` after the first `number`."""
        unwritten = self._counts.unwritten
        return list(unwritten.values())[number:] if len(unwritten) > number else []

    @property
    def tables(self) -> Counter[tuple[TableId, str]] | None:
        """Translated rows and DDL by table and kind (as `kind_of` names it).

        They are counted only if a caller sets a Counter here.
        """
        return self._settled().tables

    @tables.setter
    def tables(self, counter: Counter[tuple[TableId, str]] | None) -> None:
        self._settled().tables = counter

    def count_tables(self, most: int) -> None:
        """Count rows and DDL by table from now on, separately for the first `most` tables."""
        self._settled().by_table = CountsByTable(most)

    @property
    def counts_by_table(self) -> Mapping[TableId, Counter[str]]:
        """Translated rows and DDL by table and kind (as `kind_of` names it).

        Further tables are counted together as `OTHER_TABLES`. Empty unless `count_tables` was called.
        """
        by_table = self._settled().by_table
        return {} if by_table is None else by_table.tables

    def _settled(self) -> EventCounts:
        """Return the counts, including records that fitted templates."""
        if self._fast is not None:
            self._fast.templates.settle()
        return self._counts


def _tables_in(events: Iterable[Event]) -> tuple[TableId, ...]:
    """Return the tables of events without duplicates."""
    found: dict[TableId, None] = {}
    for event in events:
        if isinstance(event, RowChange):
            found[event.table] = None
        elif isinstance(event, Bootstrap):
            found[event.schema.id] = None
        elif isinstance(event, SchemaChange):
            found |= dict.fromkeys(event.targets or (event.table,))
    return tuple(found)
