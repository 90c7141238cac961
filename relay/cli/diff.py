"""`relay diff`: compare two files of change events by their meaning."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final, NamedTuple

import msgspec
import typer

from relay.catalog import Catalog
from relay.catalog.definitions import is_definition
from relay.cli.detect import chosen_source
from relay.cli.diff_explained import Explainer
from relay.cli.diff_written import written_change
from relay.cli.event_text import Line, aligned, cell_text
from relay.cli.exits import DIFFERENT, ProgressReport, describe, say, say_error, say_warning
from relay.cli.files import STANDARD, Input
from relay.cli.inputs import open_inputs
from relay.cli.inspect import exact, line_printer
from relay.cli.option_names import SIDES, USUAL, Spelling
from relay.cli.parsing import key_values, limits_of
from relay.cli.record_files import RecordReader
from relay.cli.requests.files import DiffRequest
from relay.cli.requests.options import AUTO
from relay.cli.rule_options import GivenRules, checked_rules
from relay.cli.schemas import apply_schema_dumps, resolver_with
from relay.codecs import PROTOCOLS, codec_named
from relay.codecs.given_options import parse_options, reading_options
from relay.codecs.losses import Loss
from relay.core.comparison import Cells, Change, Comparison, Difference, Explain, changes_of
from relay.core.detection import FormatHints
from relay.core.selection import Selection, chosen_tables
from relay.core.summaries import listed
from relay.core.translator import Translator
from relay.io.resolver import Resolver
from relay.io.storage import storage_problems
from relay.model.errors import ClaimCheckMissing, CodecError, ConfigError, Problem, SchemaMissing
from relay.model.events import ABSENT, Event, RowChange, SchemaChange, TableId
from relay.model.limits import Limits
from relay.model.records import ConsumerRecord
from relay.rules.columns import ColumnRules
from relay.text.redaction import printable, to_json

_NAMES: Final = tuple(side.input for side in SIDES)
#: Unreadable records that are reported one by one.
_REPORTED: Final = 20
#: Maximum number of statements kept to recognize copies in other partitions.
_STATEMENTS: Final = 10_000


class SideRequest(msgspec.Struct, frozen=True):
    """A side: a file, its protocol with options, and its registry."""

    input: str
    protocol: str
    options: tuple[str, ...] = ()
    registry: str | None = None


def diff(request: DiffRequest) -> int:
    """Compare A and B, and print the differences.

    Returns 0 if there are none, 4 if there are some, 2 if records were not readable. Raises ConfigError with
    every problem of the request.
    """
    asked = _sides(request)
    _prepared(request, asked)  # before a file is opened
    with ExitStack() as stack:
        inputs, sides = list[Input](), list[SideRequest]()
        for side, spelling in zip(asked, SIDES, strict=True):
            source = open_inputs([side.input], request.input_format, option=spelling.input)
            opened, chosen = stack.enter_context(
                chosen_source(
                    stack.enter_context(source),
                    side.protocol,
                    side.options,
                    side.registry,
                    spelling=spelling,
                    quiet=request.quiet,
                )
            )
            inputs.append(opened)
            sides.append(msgspec.structs.replace(side, protocol=chosen.protocol, options=chosen.options))
        return _diff(request, sides, inputs)


def _sides(request: DiffRequest) -> tuple[SideRequest, SideRequest]:
    """Return A and B.

    B takes over the protocol of A with its options and its registry, unless it sets one.
    """
    has_own = request.b is not None or request.b_options
    return (
        SideRequest(request.left, request.a, request.a_options, request.a_registry),
        SideRequest(
            request.right,
            request.b or request.a,
            request.b_options if has_own else request.a_options,
            request.b_registry or request.a_registry,
        ),
    )


class _Prepared(NamedTuple):
    """The parsed request; for sides whose protocol is known."""

    options: list[dict[str, str]]
    limits: Limits
    keys: dict[TableId, tuple[str, ...]]
    chosen: Selection
    translators: list[Translator]
    rules: GivenRules


def _prepared(request: DiffRequest, asked: Sequence[SideRequest]) -> _Prepared:
    """Read the request. Raises ConfigError with every problem."""
    problems: list[Problem] = []
    # Settings of A hold for B, too, unless B sets a protocol.
    one, other = (msgspec.structs.replace(side, input="") for side in asked)
    sides = list(zip(asked, SIDES if one != other else SIDES[:1] * 2, strict=True))
    options = [key_values(side.options, spelling.option, problems) for side, spelling in sides]
    limits, keys = limits_of(request.limits, problems), _keys(request.keys, problems)
    if request.left == request.right == STANDARD:
        problems.append(Problem("B", "is stdin, which A already reads", "name a file"))
    chosen, rules = Selection(), checked_rules(request.columns, request.hash_key_file, problems)
    try:
        chosen = Selection(tables=chosen_tables(request.include_tables, request.exclude_tables))
    except ConfigError as error:
        problems += USUAL.of_problems(error.problems)
    translators = list[Translator]()
    writes = _written_side(asked)
    if writes is not None:
        problems += _written_problems(request, asked, writes)
        translators += _writers(asked, options, writes, limits, rules, problems)
    for (side, spelling), given in zip(sides, options, strict=True):
        if side.protocol != AUTO and writes is None:
            translators += _translators(side, spelling, given, limits, problems)
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
    return _Prepared(options, limits, keys, chosen, translators, rules)


def _written_problems(request: DiffRequest, asked: Sequence[SideRequest], writes: int) -> Iterator[Problem]:
    """Yield the options that cannot be used if the protocol of side `writes` can only be written."""
    for option, globs in (
        ("--include-table", request.include_tables),
        ("--exclude-table", request.exclude_tables),
    ):
        if globs:
            message = f"cannot be used: messages of {asked[writes].protocol} do not name their tables"
            yield Problem(option, message, "leave it out")
    if request.columns and not writes:
        message = f"applies to A, and messages of {asked[0].protocol} can only be written"
        yield Problem("--column", message, "swap A and B")


def _diff(request: DiffRequest, asked: Sequence[SideRequest], inputs: Sequence[Input]) -> int:
    """Compare opened inputs. The protocols are known."""
    options, limits, keys, chosen, translators, rules = _prepared(request, asked)
    resolvers = [
        resolver_with({"source": (side.protocol, side.registry)}, spelling)
        for side, spelling in zip(asked, SIDES, strict=True)
    ]
    explain: Explain = _unexplained
    writes = _written_side(asked)
    if not request.strict and writes is None:
        named = [(side.protocol, given) for side, given in zip(asked, options, strict=True)]
        explainer = Explainer(named, resolvers, limits, rules)
        explain = explainer
        if explainer.problem and not request.quiet:
            say_warning(f"cannot distinguish protocol losses from other differences: {explainer.problem}")
    comparison = Comparison(explain, request.window, request.examples, keys)
    sides = []
    for number, opened in enumerate(inputs):
        translator = translators[number]
        if writes != number:
            apply_schema_dumps(request.dumps, translator, quiet=request.quiet or number > 0)
        reader = RecordReader.of(opened)
        made = _Side if writes is None else _WrittenSide if writes == number else _TranslatedSide
        side = made(SIDES[number].input, opened, reader, translator, resolvers[number], chosen)
        if not number and writes is None:
            side.rules = rules.applied(asked[1].protocol)
        sides.append(side)
    _compare(sides, comparison, quiet=request.quiet)
    _show(request, sides, comparison)
    if any(side.unreadable for side in sides):
        return CodecError.exit_status
    return 0 if comparison.is_equal else DIFFERENT


def _written_side(asked: Sequence[SideRequest]) -> int | None:
    """Return the number of the side whose protocol can only be written, if the other's can be read."""
    found = [PROTOCOLS.get(side.protocol) for side in asked]
    only = [number for number, codec in enumerate(found) if codec is not None and not codec.is_readable]
    return only[0] if len(only) == 1 and asked[1 - only[0]].protocol != AUTO else None


def _writers(
    asked: Sequence[SideRequest],
    options: Sequence[Mapping[str, str]],
    writes: int,
    limits: Limits,
    rules: GivenRules,
    problems: list[Problem],
) -> list[Translator]:
    """Make the translator into the protocol that can only be written, for both sides."""
    try:
        translator = Translator(
            asked[1 - writes].protocol,
            asked[writes].protocol,
            options[1 - writes],
            options[writes],
            columns=rules.rules,
            hash_key=rules.hash_key,
            limits=limits,
        )
    except ConfigError as error:
        spellings = {"from": SIDES[1 - writes], "to": SIDES[writes]}
        for problem in error.problems:
            side, _, rest = problem.path.partition(".")
            path = f"from.{rest}" if side == "to" else problem.path
            problems += spellings.get(side, USUAL).of_problems([problem._replace(path=path)])
        return []
    return [translator, translator]


def _unexplained(_: Change, __: Change | None, ___: int) -> None:
    """Explain no difference."""


def _keys(texts: Sequence[str], problems: list[Problem]) -> dict[TableId, tuple[str, ...]]:
    """Read `database.table=column,column`."""
    found = {}
    for name, columns in key_values(texts, "--key", problems, "shop.orders=id").items():
        database, dot, table = name.partition(".")
        names = tuple(each.strip() for each in columns.split(",") if each.strip())
        if not (database and dot and table and names):
            problems.append(Problem("--key", f"{printable(name)} is not of the form DB.TABLE=COLUMN,COLUMN"))
        found[TableId(database, table)] = names
    return found


def _translators(
    side: SideRequest,
    spelling: Spelling,
    options: Mapping[str, str],
    limits: Limits,
    problems: list[Problem],
) -> list[Translator]:
    """Make a translator that only reads; none if there are problems, which are appended to `problems`.

    Options may also be those with which the side was written.
    """
    try:
        codec = codec_named(side.protocol, "from")
        parse_options(codec, options, "from.option")
        translator = Translator.reader(side.protocol, reading_options(codec, options), limits=limits)
    except ConfigError as error:
        problems += spelling.of_problems(error.problems)
        return []
    problems += spelling.of_problems(storage_problems(translator.route.storages))
    return [translator]


class _Side:
    """A side that is read, record by record. `rules`: the column rules to apply to it; None for none."""

    rules: ColumnRules | None = None

    def __init__(
        self,
        name: str,
        opened: Input,
        reader: RecordReader,
        translator: Translator,
        resolver: Resolver,
        chosen: Selection,
    ) -> None:
        self.name, self.opened, self.reader = name, opened, reader
        self._translator, self._resolver, self._chosen = translator, resolver, chosen
        self._hints = FormatHints(translator.known_schema)
        self._records: Iterator[ConsumerRecord] = iter(reader)
        self._statements: dict[tuple[int, TableId, str], int] = {}
        self.records = self.rows = self.statements = self.others = self.copies = self.unreadable = 0
        self.is_ended = False

    @property
    def protocol(self) -> str:
        """Return the protocol of the side's records."""
        return self._translator.route.source.name

    @property
    def changes(self) -> int:
        """Return the number of changes read."""
        return self.rows + self.statements

    def next(self) -> list[Change]:
        """Return the changes of the next record; none at the end, or if it cannot be read."""
        record = next(self._records, None)
        if record is None:
            self.is_ended = True
            return []
        self.records += 1
        catalog = self._translator.catalog
        try:
            if is_definition(record):  # an export of the schema history has them
                self._translator.learn(record)
                return []
            return self._changes(record, catalog)
        except (CodecError, ClaimCheckMissing, SchemaMissing) as error:
            self._report(error, record)
            return []

    def _changes(self, record: ConsumerRecord, catalog: Catalog) -> list[Change]:
        events = self._resolver.inspect(self._translator, record)
        if self.rules is not None:
            events, _ = self.rules.apply(events)
        return [
            change
            for event in events
            if self._counts(event, record)
            for change in changes_of(event, record, catalog)
            if self._chosen.has_table(change.table)
        ]

    def _report(self, error: Exception, record: ConsumerRecord) -> None:
        self.unreadable += 1
        error.add_note(f"{self.name}: {self.reader.where(record)}")
        if self.unreadable <= _REPORTED:
            say_error(describe(self._hints.sampled(error, record)))
        elif self.unreadable == _REPORTED + 1:
            say(f"Further errors of {self.name} are only counted.")

    def _counts(self, event: Event, record: ConsumerRecord) -> bool:
        """Count an event, and return whether it is compared: copies of a statement are not."""
        if isinstance(event, RowChange):
            self.rows += 1
            return True
        if not isinstance(event, SchemaChange):
            self.others += 1
            return False
        identity = event.source.tso, event.table, event.ddl
        if self._statements.setdefault(identity, record.partition) != record.partition:
            self.copies += 1
            return False
        if len(self._statements) > _STATEMENTS:
            del self._statements[next(iter(self._statements))]
        self.statements += 1
        return True


class _TranslatedSide(_Side):
    """A side that is translated into the other's protocol, which can only be written."""

    def _changes(self, record: ConsumerRecord, catalog: Catalog) -> list[Change]:  # noqa: ARG002 - as of a row
        made = self._resolver.translate(self._translator, record)
        self.rows += len(made)
        return [written_change(out, record, self._translator.route.target.name) for out in made]


class _WrittenSide(_Side):
    """A side whose protocol can only be written."""

    @property
    def protocol(self) -> str:
        """Return the protocol of the side's records."""
        return self._translator.route.target.name

    def _changes(self, record: ConsumerRecord, catalog: Catalog) -> list[Change]:  # noqa: ARG002 - as of a row
        self.rows += 1
        return [written_change(record, record, self.protocol)]


def _compare(sides: Sequence[_Side], comparison: Comparison, *, quiet: bool) -> None:
    """Read both sides in step: the next record comes from the side with fewer changes so far."""
    sizes = [side.opened.size for side in sides]
    progress = ProgressReport("bytes read", quiet=quiet or None in sizes)
    total = sum(size or 0 for size in sizes)
    while alive := [number for number, side in enumerate(sides) if not side.is_ended]:
        number = min(alive, key=lambda each: sides[each].changes)
        for change in sides[number].next():
            comparison.add(change, number)
        progress(sum(side.reader.bytes_read for side in sides), total)
    comparison.finish()


def _show(request: DiffRequest, sides: Sequence[_Side], comparison: Comparison) -> None:
    if request.as_json:
        typer.echo(to_json(_object(request, sides, comparison), exact))
        return
    table: list[Line] = [
        [(text, "") for text in (side.name, printable(side.opened.name), side.protocol, _read(side))]
        for side in sides
    ]
    counts: list[Line] = [
        [("equal", "green"), (str(comparison.equal), ""), ("", "")],
        [("explained", ""), (str(comparison.explained), ""), (_lost(comparison.losses), "dim")],
        _count("different", comparison.different),
        *(_count(f"only in {name}", only) for name, only in zip(_NAMES, comparison.only, strict=True)),
    ]
    print_lines = line_printer()
    print_lines([*aligned(table), *aligned(counts)])
    for example in comparison.examples:
        print_lines(_example(example, values=request.values))
    sys.stdout.flush()


def _count(what: str, tables: Counter[TableId]) -> Line:
    shown = listed({_name(table): count for table, count in tables.most_common(10)})
    return [(what, "red"), (str(tables.total()), ""), (shown, "dim")]


def _name(table: TableId) -> str:
    return printable(str(table) if table.table else table.database)


def _read(side: _Side) -> str:
    summary = f"records {side.records}, rows {side.rows}, statements {side.statements}"
    copies, others = ("copies of these", side.copies), ("others", side.others)
    for what, count in (copies, others, ("unreadable", side.unreadable)):
        summary += f", {what} {count}" if count else ""
    return summary


def _lost(losses: Counter[Loss]) -> str:
    return (
        f"caused by protocol losses: {listed({str(loss): count for loss, count in losses.items()})}"
        if losses
        else ""
    )


def _example(example: Difference, *, values: bool) -> list[Line]:
    one, other = example.changes
    shown = one or other
    if shown is None:
        return []
    what = "different" if one and other else f"only in {_NAMES[one is None]}"
    positions = "  ".join(
        f"{name} {each.record.position}" for name, each in zip(_NAMES, example.changes, strict=True) if each
    )
    kinds = " / ".join(dict.fromkeys(each.kind for each in example.changes if each))
    heading: Line = [(what, "bold"), (f"  {kinds}  {_name(shown.table)}  {printable(positions)}", "")]
    if example.what:
        heading.append((f"  {printable(', '.join(example.what))}", "yellow"))
    return [heading, *(_values(example, shown) if values else ())]


def _values(example: Difference, shown: Change) -> Iterator[Line]:
    """Yield the differing values, or all of a change that one side lacks."""
    one, other = example.changes
    if shown.kind == "schema-change":
        for name, each in zip(_NAMES, example.changes, strict=True):
            if each is not None:
                yield [(f"    {name}  {printable(each.ddl)}", "")]
        return
    key = ", ".join(f"{name} {cell_text(shown.row[name])}" for name in shown.key_columns if name in shown.row)
    yield [(f"    key  {printable(key or 'none', longest=None)}", "")]
    rows: list[Line] = []
    for image in ("before", "after"):
        cells = [None if each is None else getattr(each, image) for each in (one, other)]
        names = dict.fromkeys(name for each in cells if each is not None for name in each)
        rows += [
            [(text, "") for text in (image, printable(name), *(_cell(each, name) for each in cells))]
            for name in names
            if not (one and other) or _cell(cells[0], name) != _cell(cells[1], name)
        ]
    if rows:
        yield from aligned([[(text, "dim") for text in ("", "column", *_NAMES)], *rows])


def _cell(cells: Cells | None, name: str) -> str:
    """Return a cell as text; "" where the row is missing."""
    return "" if cells is None else cell_text(cells.get(name, ABSENT))


def _object(request: DiffRequest, sides: Sequence[_Side], comparison: Comparison) -> dict[str, Any]:
    return {
        "sides": [
            {
                "input": side.opened.name,
                "protocol": side.protocol,
                "records": side.records,
                "rows": side.rows,
                "statements": side.statements,
                "copies": side.copies,
                "others": side.others,
                "unreadable": side.unreadable,
            }
            for side in sides
        ],
        "equal": comparison.equal,
        "explained": comparison.explained,
        "losses": {str(loss): count for loss, count in comparison.losses.items()},
        "different": {str(table): count for table, count in comparison.different.items()},
        "only_in_a": {str(table): count for table, count in comparison.only[0].items()},
        "only_in_b": {str(table): count for table, count in comparison.only[1].items()},
        "examples": [_example_object(each, values=request.values) for each in comparison.examples],
    }


def _example_object(example: Difference, *, values: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"what": list(example.what)}
    for name, change in zip("ab", example.changes, strict=True):
        if change is None:
            found[name] = None
            continue
        found[name] = {
            "kind": change.kind,
            "table": str(change.table),
            "position": change.record.position._asdict(),
        }
        if values:
            found[name] |= {"before": change.before, "after": change.after, "ddl": change.ddl or None}
    return found
