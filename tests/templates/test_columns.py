"""Rows of columns become what they become as records: messages, events, losses, and how many by template."""

from __future__ import annotations

import itertools
import re
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import pytest
from engine_support import ENGINE, ENGINES, KERNEL, needs_kernel, template
from reference_engine import Interpreter
from reference_engine.columns import text_column, text_of
from support import CANAL, OPEN, TICDC, captured, captured_files, protocol_of, reading_options, row_message
from templates_support import translator_class

from benchmarks.spark_load import ALTERED, Load, messages
from relay import CodecError, ConsumerRecord, ProducerRecord, Translator
from relay.catalog import Catalog
from relay.core.column_path import TranslatedRows
from relay.core.verification import ShadowTranslator
from relay.model.records import SOURCE_HEADER
from relay.routing.partitioning import Partitioning
from relay.templates.columns import RecordColumns, TextColumn, WrittenColumns
from relay.templates.engine import MAX_TRIED, Engine
from relay.templates.ops import LOSS, Constant, Marker, Put, Take, Template
from relay.templates.route.policy import DEFAULT_POLICY, EAGER_POLICY

NO_LIMIT = 1 << 40


def columns_of(records: Sequence[ConsumerRecord]) -> RecordColumns:
    """The columns of records of one partition."""
    return RecordColumns(
        text_column([record.key for record in records]),
        text_column([record.value for record in records]),
        struct.pack(f"<{len(records)}q", *[record.offset for record in records]),
        struct.pack(f"<{len(records)}q", *[record.timestamp_ms for record in records]),
    )


def messages_of(found: TranslatedRows, records: Sequence[ConsumerRecord]) -> Iterator[ProducerRecord]:
    """The messages that rows of these records became."""
    sources = iter(records)
    source = records[0]
    for at, is_tombstone in enumerate(found.are_tombstones):
        source = source if is_tombstone else next(sources)
        (topic,) = struct.unpack_from("<I", found.topic_of_message, 4 * at)
        key, value, mark = (text_of(column, at) for column in (found.keys, found.values, found.marks))
        header = SOURCE_HEADER, mark
        yield ProducerRecord(
            found.topics[topic], source.partition, source.timestamp_ms, key, value, (header,)
        )


def by_record(translator: Translator, record: ConsumerRecord) -> list[ProducerRecord] | str:
    try:
        return translator.translate(record)
    except CodecError as error:
        return repr(error)


def by_columns(
    translator: Translator, records: Sequence[ConsumerRecord], most_bytes: int = NO_LIMIT
) -> tuple[list[object], int]:
    """What records become where their rows are translated by columns as far as possible; and how many are."""
    out: list[object] = []
    rows = 0
    for (topic, partition, has_headers), group in itertools.groupby(records, key=_stretch):
        stretch = list(group)
        columns, row = columns_of(stretch), 0
        while row < len(stretch):
            found = None
            if not has_headers:
                found = translator.translate_columns(
                    topic, partition, columns, row, len(stretch), most_bytes, NO_LIMIT
                )
            if found is not None:
                out += messages_of(found, stretch[row : row + found.rows]) if found.rows else ()
                row, rows = row + found.rows, rows + found.rows
            if found is None or found.is_blocked:
                out += [by_record(translator, stretch[row])]
                row += 1
    return [*_flat(out)], rows


def _stretch(record: ConsumerRecord) -> tuple[str, int, bool]:
    return record.topic, record.partition, bool(record.headers)


def _flat(found: Iterable[object]) -> Iterator[object]:
    for each in found:
        yield from each if isinstance(each, list) else [each]


def counts(translator: Translator) -> list[object]:
    return [translator.events, translator.losses, dict(translator.inferred_tables), translator.tables]


def compare(
    records: Sequence[ConsumerRecord],
    file: str,
    target: str,
    engine: type[Engine],
    most_bytes: int = NO_LIMIT,
    **settings: Any,
) -> int:
    """Translate records by columns and one by one, several times; return how many were rows of columns."""
    made = translator_class(EAGER_POLICY)
    columns, plain = (
        made(protocol_of(file), target, reading_options(file), engine=each, **settings)
        for each in (engine, None)
    )
    columns.count_tables(100)
    plain.count_tables(100)
    rows = 0
    for _ in range(3):
        found, more = by_columns(columns, records, most_bytes)
        assert found == [*_flat([by_record(plain, record) for record in records])]
        assert counts(columns) == counts(plain)
        assert columns.counts_by_table == plain.counts_by_table
        rows += more
    return rows


FILES = [
    *captured_files("ticdc/canal-json"),
    *captured_files("ticdc/canal-json.3-partitions"),
    *captured_files("ticdc/canal-json.tidb-extension"),
    *captured_files("ticdc/open-protocol"),
    *captured_files("ticdc/open-protocol.batch"),
    *captured_files("ticdc/debezium"),
    *captured_files("ticdc/simple.json"),
    *captured_files("mysql/debezium"),
    *captured_files("mysql/maxwell"),
    *captured_files("mysql/canal-protobuf"),
]
TARGETS = [CANAL, TICDC, OPEN, "debezium-json", "ticdc-debezium", "flat-json"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("file", FILES)
def test_columns_become_what_records_become(engine: type[Engine], file: str) -> None:
    records = captured(file)
    target = TARGETS[FILES.index(file) % len(TARGETS)]
    compare(records, file, target, engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("target", [CANAL, "debezium-json"])
@pytest.mark.parametrize("topic", ["out", "of-{table}"])
def test_most_rows_are_translated_by_columns(engine: type[Engine], target: str, topic: str) -> None:
    """Also those with a tombstone, and those of several topics."""
    records = captured("ticdc/canal-json/09_dml")
    rows = compare(records, "ticdc/canal-json/09_dml", target, engine, topic=topic)
    assert rows > len(records)


def without_commit_ts(records: Iterable[ConsumerRecord]) -> list[ConsumerRecord]:
    return [
        msgspec.structs.replace(each, value=re.sub(rb',"_tidb":\{.*?\}', b"", each.value or b""))
        for each in records
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_at_earlier_offsets_have_the_definition_of_their_offset(engine: type[Engine]) -> None:
    """As in files that are not sorted: without commit ts, a row's offset decides which DDL it follows."""
    in_order = without_commit_ts(messages(800))[:-1]
    rows = [each for each in in_order if b'"isDdl":false' in (each.value or b"")]
    compare([*in_order, *reversed(rows), *rows], "ticdc/canal-json/09_dml", CANAL, engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_stop_when_there_are_enough_bytes(engine: type[Engine]) -> None:
    records = captured("ticdc/canal-json/09_dml")
    assert compare(records, "ticdc/canal-json/09_dml", CANAL, engine, most_bytes=1000) > len(records)


def learned(engine: type[Engine], **settings: Any) -> tuple[Translator, list[ConsumerRecord]]:
    """A translator that has templates for the rows of a file, and these rows."""
    records = [
        each for each in captured("ticdc/canal-json/09_dml") if b'"isDdl":false' in (each.value or b"")
    ]
    translator = translator_class(EAGER_POLICY)(TICDC, CANAL, engine=engine, **settings)
    for _ in range(3):
        by_columns(translator, records)
    return translator, records


@pytest.mark.parametrize("engine", ENGINES)
def test_a_row_that_becomes_too_large_is_left_to_translate(engine: type[Engine]) -> None:
    translator, records = learned(engine)
    columns, (first, *_) = columns_of(records), records
    (message,) = translator.translate(first)
    size, end = len(message.value or b""), len(records)
    found = translator.translate_columns(first.topic, 0, columns, 0, end, NO_LIMIT, size - 1)
    assert found is not None
    assert (found.rows, found.is_blocked) == (0, True)
    found = translator.translate_columns(first.topic, 0, columns, 0, 1, NO_LIMIT, size)
    assert found is not None
    assert (found.rows, found.is_blocked) == (1, False)


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_that_change_their_partition_are_left_to_translate(engine: type[Engine]) -> None:
    translator, records = learned(engine, partitions=8, partition_by=Partitioning.TABLE)
    assert by_columns(translator, records)[1] == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_a_translator_starts_over_with_its_templates(engine: type[Engine]) -> None:
    """Those of tables whose definition is known: of others, the first row says why it is not."""
    translator, records = learned(engine)
    new = Translator(TICDC, CANAL)
    translator.start_over()
    assert counts(translator) == counts(new)
    known, slow = catalog_of_file(), []
    for catalog in (new.catalog, known, known, new.catalog):
        translator.start_over()
        before = translator.paths["slow"]
        new = Translator(TICDC, CANAL)
        for each in (translator, new):
            each.tables, each.catalog = Counter(), catalog
        found, _ = by_columns(translator, records)
        assert found == [*_flat([by_record(new, record) for record in records])]
        assert counts(translator) == counts(new)
        slow.append(translator.paths["slow"] - before)
    unknown, first, again, unknown_again = slow
    assert again < min(unknown, first, unknown_again)


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_of_many_short_tasks_get_templates(engine: type[Engine]) -> None:
    """Each task has fewer rows of a table than it takes to derive a template."""
    rows = [each for each in captured("ticdc/canal-json/09_dml") if b'"type":"INSERT"' in (each.value or b"")]
    slow_rows = DEFAULT_POLICY.first_derivation
    translator = translator_class(DEFAULT_POLICY)(TICDC, CANAL, engine=engine)
    plain, known, fast = Translator(TICDC, CANAL), catalog_of_file(), []
    for number in range(2 * slow_rows):
        translator.start_over()
        translator.catalog = plain.catalog = known
        task = [msgspec.structs.replace(rows[0], offset=rows[0].offset + number)]
        found, by_engine = by_columns(translator, task)
        assert found == [*_flat([by_record(plain, record) for record in task])]
        fast.append(by_engine)
    assert fast == [0] * slow_rows + [1] * slow_rows


class CallsCounted(Interpreter):
    """An engine that counts calls for columns."""

    calls = 0

    def translate_columns(self, *args: Any) -> Any:
        type(self).calls += 1
        return super().translate_columns(*args)


def test_the_templates_of_many_tables_are_allowed_with_few_calls() -> None:
    """Rows of 200 tables alternate, and the engine stops at a template that is not allowed yet."""
    rows = [*Load(2000, tables=200, alters=0).records()]
    translator = translator_class(EAGER_POLICY)(TICDC, CANAL, engine=CallsCounted)
    for each in rows:
        translator.learn(each)
    known, rows = translator.catalog, rows[-1000:]
    by_columns(translator, rows)
    CallsCounted.calls = 0
    translator.start_over()
    translator.catalog = known
    assert by_columns(translator, rows)[1] == len(rows)
    assert CallsCounted.calls < 40


def catalog_of_file() -> Catalog:
    """The definitions of the tables of `learned`."""
    translator = Translator(TICDC, CANAL)
    for each in captured("ticdc/canal-json/09_dml"):
        translator.learn(each)
    return translator.catalog


@pytest.mark.parametrize("engine", ENGINES)
def test_a_translator_that_starts_over_allows_its_templates_anew(engine: type[Engine]) -> None:
    """The next task may begin before DDL that the last one has passed."""
    in_order = without_commit_ts(messages(800))[:-1]
    made = translator_class(EAGER_POLICY)
    columns, plain = made(TICDC, CANAL, engine=engine), Translator(TICDC, CANAL)
    for each in in_order:
        plain.learn(each)
    catalog = plain.catalog
    rows = [each for each in in_order if b'"isDdl":false' in (each.value or b"")]
    for task in (rows, rows, rows[-20:], rows[:-20]):
        columns.start_over()
        plain.start_over()
        columns.catalog = plain.catalog = catalog
        found, _ = by_columns(columns, task)
        assert found == [*_flat([by_record(plain, record) for record in task])]
        assert counts(columns) == counts(plain)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("topic", ["out", "of-{table}"])
def test_many_combinations_of_losses_are_counted_and_routed(engine: type[Engine], topic: str) -> None:
    """More than are kept: their facts are dropped while rows of them are translated."""
    columns = [f"c{number}" for number in range(40)]
    types = dict.fromkeys(columns, "datetime")
    records = []
    for offset in range(600):
        zeros = offset * 7 % 41
        values = ["0000-00-00 00:00:00"] * zeros + ["2026-01-01 00:00:00"] * (40 - zeros)
        row = {"id": str(offset), **dict(zip(columns, values, strict=True))}
        message = row_message({"id": "int", **types}, row, table=f"t{offset % 3}", pkNames=["id"])
        records.append(ConsumerRecord("t", 0, offset, 1_700_000_000_000, None, msgspec.json.encode(message)))
    policy = msgspec.structs.replace(EAGER_POLICY, loss_sets=4, loss_sets_per_template=0)
    made = translator_class(policy)
    fast, plain = (made(TICDC, "debezium-json", engine=each, topic=topic) for each in (engine, None))
    found, rows = by_columns(fast, records)
    assert found == [*_flat([by_record(plain, record) for record in records])]
    assert counts(fast) == counts(plain)
    assert rows > 0


def test_translators_that_compare_each_record_have_no_columns() -> None:
    translator = ShadowTranslator(TICDC, CANAL, engine=Interpreter)
    records = captured("ticdc/canal-json/09_dml")
    assert not translator.has_columns
    assert by_columns(translator, records)[1] == 0


# ------------------------------------------------------------ engines

MARKER = Marker("value", b"", b',"v":')


def numbered(number: int, kind: str = "integer") -> Template:
    """A template of messages such as `{"t":1,"v":5}`, by the number of their t."""
    source = Constant(b'{"t":%d,"v":' % number), Take((kind,)), Constant(b"}")  # type: ignore[arg-type] # names that are not there, too
    return template(source, (Constant(b"%d " % number), Put((0,))))


def rows_of(engine: Engine, *values: bytes | None) -> WrittenColumns:
    records = [ConsumerRecord("t", 3, at, 0, None, value) for at, value in enumerate(values)]
    written = WrittenColumns(
        *engine.translate_columns(columns_of(records), 0, len(records), NO_LIMIT, NO_LIMIT, b"t/3/")
    )
    return written._replace(values=TextColumn(*written.values), marks=TextColumn(*written.marks))


def values_of(written: WrittenColumns) -> list[bytes | None]:
    return [text_of(written.values, at) for at in range(len(written.are_tombstones))]


@pytest.mark.parametrize("make", ENGINES)
def test_engines_translate_rows_of_allowed_templates_alone(make: type[Engine]) -> None:
    engine = make(MARKER)
    one, other = engine.add(numbered(1)), engine.add(numbered(2))
    messages = [b'{"t":1,"v":5}', b'{"t":1,"v":6}', b'{"t":2,"v":7}', b'{"t":1,"v":8}']
    written = rows_of(engine, *messages)
    assert (written.rows, written.refused) == (0, one)
    engine.allow(one, False, 0)
    written = rows_of(engine, *messages)
    assert (written.rows, written.refused, values_of(written)) == (2, other, [b"1 5", b"1 6"])
    assert [text_of(written.marks, at) for at in (0, 1)] == [b"t/3/0/0", b"t/3/1/0"]
    engine.allow(other, True, 0)
    written = rows_of(engine, *messages)
    assert (written.rows, written.refused, written.uses) == (4, None, [(one, 3), (other, 1)])
    assert values_of(written) == [b"1 5", b"1 6", b"2 7", None, b"1 8"]
    assert (written.are_tombstones, written.use_of_message[::4]) == (
        bytes([0, 0, 0, 1, 0]),
        bytes([0, 0, 1, 1, 0]),
    )
    assert text_of(written.marks, 3) == b"t/3/2/1"
    engine.disallow()
    assert rows_of(engine, *messages).rows == 0


@pytest.mark.parametrize("make", ENGINES)
def test_a_template_that_takes_a_number_over_is_not_allowed(make: type[Engine]) -> None:
    engine = make(MARKER)
    for end in (engine.remove, lambda _: engine.clear()):
        number = engine.add(numbered(1))
        engine.allow(number, False, 0)
        engine.allow(number + LOSS, False, 0)
        assert rows_of(engine, b'{"t":1,"v":5}').rows == 1
        end(number)
        assert engine.add(numbered(1, "string")) == number
        written = rows_of(engine, b'{"t":1,"v":"5"}')
        assert (written.rows, written.refused) == (0, number)
        engine.remove(number)


@pytest.mark.parametrize("make", ENGINES)
def test_rows_without_a_value_or_a_template_end_a_run(make: type[Engine]) -> None:
    engine = make(MARKER)
    engine.allow(engine.add(numbered(1)), False, 0)
    engine.allow(77, False, 0)
    assert rows_of(engine, b'{"t":1,"v":5}', None, b'{"t":1,"v":5}').rows == 1
    assert rows_of(engine, b'{"t":1,"v":5}', b'{"t":3,"v":5}').rows == 1
    assert values_of(rows_of(engine)) == []


@needs_kernel
@pytest.mark.parametrize(
    "broken",
    [
        {"offsets": b""},
        {"times_ms": bytes(7)},
        {"values": TextColumn(b"", b"", None)},
        {"values": TextColumn(struct.pack("<2i", 0, 100), b"short", None)},
        {"values": TextColumn(struct.pack("<2i", -1, 4), b"12345", None)},
        {"values": TextColumn(struct.pack("<2i", 4, 1), b"12345", None)},
        {"values": TextColumn(struct.pack("<2i", 0, 13), b'{"t":1,"v":5}', b"")},
        {"keys": TextColumn(b"", b"", b"")},
    ],
)
def test_columns_whose_bytes_do_not_fit_together_have_no_rows(broken: dict[str, Any]) -> None:
    assert KERNEL is not None
    engine = KERNEL(MARKER)
    engine.allow(engine.add(numbered(1)), False, 0)
    columns = columns_of([ConsumerRecord("t", 3, 0, 0, None, b'{"t":1,"v":5}')])
    assert engine.translate_columns(columns, 0, 1, NO_LIMIT, NO_LIMIT, b"")[0] == 1
    assert engine.translate_columns(columns._replace(**broken), 0, 1, NO_LIMIT, NO_LIMIT, b"")[0] == 0


def test_starting_over_with_more_versions_than_are_kept_costs_no_more_than_the_first_time() -> None:
    """Tasks of several partitions pass through the versions of a table again and again."""
    assert ALTERED > 2 * MAX_TRIED
    records = list(messages(2400))
    translator = Translator(TICDC, CANAL, engine=ENGINE)
    for each in records:
        translator.learn(each)
    catalog, slow = translator.catalog, [0]
    for _ in range(4):
        translator.start_over()
        translator.catalog = catalog
        by_columns(translator, records)
        slow.append(translator.paths["slow"])
    first, *others = [after - before for before, after in itertools.pairwise(slow)]
    assert max(others) <= first < len(records) / 2
