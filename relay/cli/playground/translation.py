"""The playground's answer to a request: events, records and losses of the pasted messages, or errors.

Pure: the same request has the same answer. No request touches a file, object, topic or registry: claim checks
and needs of other packages are refused, schemas are those in the request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import orjson

from relay.catalog import DdlMessage, apply_ddl
from relay.cli.event_text import Line, event_lines
from relay.cli.inspect import event_object, exact
from relay.cli.playground.pasted import Pasted, PastedStatement, is_sql, records_in, statements_in
from relay.cli.rule_options import NO_RULES, GivenRules
from relay.codecs.detection import Strength
from relay.codecs.losses import INFORMATIONAL, Loss
from relay.core.config_lint import advice
from relay.core.detection import detect
from relay.core.loss_texts import LOSS_TEXTS, large_row_losses, route_losses
from relay.core.selection import kind_of
from relay.core.translator import Translator
from relay.io.record_lines import DECODE_ERRORS, format_record
from relay.io.registry import SchemaLine, SchemaList
from relay.io.resolver import Answer, Resolver
from relay.model.errors import (
    CodecError,
    ConfigError,
    DdlNotUnderstood,
    LimitExceeded,
    NeedUnanswered,
    Problem,
    RelayError,
    SchemaMissing,
)
from relay.model.events import Event, Position, Source, TableId
from relay.model.limits import Limits
from relay.model.lookups import Need, RegisteredSchema, SchemaById, SchemaId
from relay.model.records import ConsumerRecord, Header, ProducerRecord
from relay.mysql.ddl import read_ddl
from relay.text.redaction import plain_json, printable, to_json

#: Records of a request that are translated; the rest is counted.
MAX_RECORDS: Final = 100
MAX_SHOWN_BYTES: Final = 4 << 20
_LIMITS: Final = Limits(
    decompressed_bytes=4 << 20,
    values=200_000,
    rows=1_000,
    output_bytes=8 << 20,
    lenient_json_bytes=1 << 20,
    cache_bytes=16 << 20,
)
#: Statements precede every record.
_BEFORE_ALL_NS: Final = -(1 << 62)
#: Bytes of a line of a hex dump.
_DUMP_BYTES: Final = 8
#: Maximum bytes before JSON: a version and a length.
_LONGEST_FRAME: Final = 16


class TranslationRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The page's request: protocols and their options as texts, and the pasted texts.

    `before`: statements, or records of the source protocol, that come first and are not shown; `key`: of
    message values; `schemas`: those of the source's registry, one a line.
    """

    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    from_options: dict[str, str] = {}
    to_options: dict[str, str] = {}
    message: str = ""
    before: str = ""
    key: str = ""
    schemas: str = ""


def answer(
    request: TranslationRequest, max_shown_bytes: int = MAX_SHOWN_BYTES, rules: GivenRules = NO_RULES
) -> dict[str, Any]:
    """Return the page's content, as JSON: `problems` alone, or `records` with `lost` and `notes`.

    Events are shown as column rules leave them, with all rows and the source's names of tables. Records
    beyond `max_shown_bytes` of all records together are only counted.
    """
    try:
        return _answered(request, max_shown_bytes, rules)
    except ConfigError as error:
        return {"problems": [_problem(each) for each in error.problems]}


def _answered(request: TranslationRequest, max_shown_bytes: int, rules: GivenRules) -> dict[str, Any]:
    translator = Translator(
        request.source,
        request.target,
        request.from_options,
        request.to_options,
        columns=rules.rules,
        hash_key=rules.hash_key,
        rows=rules.rows,
        tables=rules.tables,
        limits=_LIMITS,
    )
    schemas = SchemaList(request.schemas.encode().split(b"\n"), "schemas")
    playing = _PastedMessages(translator, _LocalAnswers(schemas))
    pasted = records_in(request.message, "message", request.key)
    if not pasted:
        raise ConfigError([Problem("message", "is empty", "paste a message, or choose an example")])
    translator.expect_partitions((each.record.topic, each.record.partition) for each in pasted)
    playing.go_before(request.before, pasted)
    shown = playing.shown(pasted, max_shown_bytes)
    return {
        "problems": [],
        "records": shown,
        "left_out": len(pasted) - len(shown),
        "advice": [
            *map(_problem, advice(request.target, request.to_options)),
            *_joining_advice(translator),
        ],
        "route_losses": _route_loss_texts(translator),
        "looks_like": _looks_like(request.source, pasted, schemas),
    }


class _NewSchemas(SchemaList):
    """A registry without schemas, and those that a translation has registered in it since they were taken."""

    def __init__(self) -> None:
        self._new: list[SchemaLine] = []
        super().__init__()

    def keep(self, line: SchemaLine) -> None:
        """Store a new schema."""
        self._new.append(line)

    def taken(self) -> list[dict[str, Any]]:
        """Return those that are new since the last call."""
        found, self._new = self._new, []
        return [
            {"id": each.id, "subject": printable(each.subject), **part(each.schema.encode(errors="replace"))}
            for each in found
        ]


class _LocalAnswers(Resolver):
    """Answers out of the request alone."""

    def __init__(self, schemas: SchemaList) -> None:
        self.registered = _NewSchemas()
        super().__init__(registries={"source": schemas, "target": self.registered})

    def fetch(self, need: Need[Answer]) -> Answer:
        """Return a schema. Raises SchemaMissing, and NeedUnanswered for everything else."""
        if not _is_of_a_side(need):
            raise NeedUnanswered(f"{need.what()} is needed, but the playground does not fetch anything")
        return super().fetch(need)


def _is_of_a_side(need: Need[Any]) -> bool:
    """Return whether the registry of the source or the target must have a schema.

    Needs of other packages name other registries.
    """
    return isinstance(need, SchemaById | SchemaId) and need.registry in {"source", "target"}


class _PastedMessages:
    """A translator for pasted messages."""

    def __init__(self, translator: Translator, answers: _LocalAnswers) -> None:
        self._translator, self._answers = translator, answers
        self._shown_bytes = 0

    def go_before(self, text: str, pasted: Sequence[Pasted]) -> None:
        """Learn the statements or records that come first. Raises ConfigError with the unreadable ones."""
        if not text.strip():
            return
        if is_sql(text):
            self._learn(statements_in(text, "before"), pasted)
            return
        problems = []
        for record, line in records_in(text, "before"):
            try:
                self._answers.inspect(self._translator, record)
            except RelayError as error:
                problems.append(Problem(f"before, line {line}", str(error)))
        if problems:
            raise ConfigError(problems)

    def _learn(self, statements: Sequence[PastedStatement], pasted: Sequence[Pasted]) -> None:
        """Add these statements to the catalog, in the database of the pasted rows if they name none."""
        session = self._database_of(pasted)
        problems = []
        for number, (text, named, line) in enumerate(statements, 1):
            database, path = named or session, f"before, line {line}"
            try:
                problem = self._learn_one(text, database, number)
            except LimitExceeded as error:
                problem = Problem("", error.reason)
            if problem is not None:
                problems.append(problem._replace(path=path))
        if problems:
            raise ConfigError(problems)

    def _learn_one(self, text: str, database: str, number: int) -> Problem | None:
        try:
            read_ddl(text, most_statements=_LIMITS.ddl_statements)
        except DdlNotUnderstood as error:
            return Problem("", f"is not understood: {error}")
        at = Position(number, _BEFORE_ALL_NS + number, "statements", 0, number)
        source = Source("playground", at.event_time_ns)
        message = DdlMessage(text, TableId(database, ""), "QUERY", source, at, at.event_time_ns)
        catalog, change = apply_ddl(self._translator.catalog, message)
        if any(not table.database for table in change.targets):
            return Problem("", "names no database", "write database.table, or USE database; before it")
        self._translator.catalog = catalog
        return None

    def _database_of(self, pasted: Sequence[Pasted]) -> str:
        """Return the database of the first row that names one without a definition of its table."""
        for record, _ in pasted[:MAX_RECORDS]:
            for table in self._tables_of(record):
                if table.database:
                    return table.database
        return ""

    def _tables_of(self, record: ConsumerRecord) -> tuple[TableId, ...]:
        before = self._translator.state
        try:
            return self._answers.learn(self._translator, record)
        except (RelayError, Need):
            return ()
        finally:
            self._translator.restore(before)

    def shown(self, pasted: Sequence[Pasted], max_bytes: int) -> list[dict[str, Any]]:
        """Translate the records, one after the other, and return their display data, of about `max_bytes`."""
        found = []
        for each in pasted[:MAX_RECORDS]:
            if self._shown_bytes > max_bytes:
                break
            found.append(self._one(each))
        return found

    def _one(self, pasted: Pasted) -> dict[str, Any]:
        record, line = pasted
        translator, before = self._translator, self._translator.state
        events: Sequence[Event] = ()
        written: Sequence[ProducerRecord] = ()
        error: RelayError | None = None
        try:
            events = self._answers.inspect(translator, record)
            if translator.route.column_rules is not None:
                events, _ = translator.route.column_rules.apply(list(events))
        except RelayError as raised:
            events, error = (), raised
        learned = translator.state
        shown = [_event(event, record) for event in events]
        translator.restore(before)
        counted = Counter(translator.losses)
        try:
            written = self._answers.translate(translator, record)
        except RelayError as raised:
            error = error or raised
            # Messages that cannot be written update definitions all the same.
            translator.restore(learned)
        output = [self._output(out) for out in written]
        return {
            "position": printable(str(record.position)),
            "line": line,
            "key": part(record.key),
            "value": part(record.value),
            "headers": _headers(record.headers),
            "events": shown,
            "output": output,
            "schemas": self._answers.registered.taken(),
            "lost": _losses(Counter(translator.losses) - counted),
            "error": None if error is None else _error(error),
        }

    def _output(self, out: ProducerRecord) -> dict[str, Any]:
        line = format_record(out, 0)
        self._shown_bytes += len(line)
        return {
            "topic": printable(out.topic),
            "partition": out.partition,
            "key": part(out.key),
            "value": part(out.value),
            "headers": _headers(out.headers),
            "objects": [f"{printable(blob.name)}, {len(blob.data)} bytes" for blob in out.blobs],
            "line": plain_json(line).decode().rstrip("\n"),
        }


def _event(event: Event, record: ConsumerRecord) -> dict[str, Any]:
    """Return an event in the formats of `relay inspect`, with and without `--json`."""
    try:
        lines = event_lines(event, str(record.position))
        found = to_json(event_object(event, record), exact)
    except CodecError as error:
        return {"kind": kind_of(event), "lines": [], "json": "", "error": _error(error)}
    indented = msgspec.json.format(found, indent=2).decode()
    return {"kind": kind_of(event), "lines": [_shown_line(line) for line in lines], "json": indented}


def _shown_line(line: Line) -> list[tuple[str, str]]:
    """Return a line without empty pieces; blanks between columns belong to the piece before them."""
    found: list[tuple[str, str]] = []
    for text, style in line:
        if found and not text.strip(" "):
            before, its_style = found[-1]
            found[-1] = before + text, its_style
        elif text:
            found.append((printable(text, longest=None), style))
    return found


def part(data: bytes | None) -> dict[str, Any]:
    """Return key, value or header as readable text, its size, and its form.

    The form is `null`, `json`, `text`, `hex`, or `framed`, which is JSON after a few bytes.
    """
    if data is None:
        return {"form": "null", "text": "null", "bytes": 0}
    form, text = _readable(data)
    return {"form": form, "text": text, "bytes": len(data)}


def _readable(data: bytes) -> tuple[str, str]:
    begin = data.find(b"{", 0, _LONGEST_FRAME + 1)
    document = None if begin < 0 else _indented(data[begin:])
    if document is None:
        begin, document = 0, _indented(data) if data[:1] == b"[" else None
    if document is not None and not begin:
        return "json", document
    text = _text(data)
    if text is not None:
        return "text", printable(text, "\n", None)
    if document is not None:
        return "framed", f"{_dump(data[:begin])}\n{document}"
    return "hex", _dump(data)


def _text(data: bytes) -> str | None:
    """Return bytes as text; None if they are not readable text."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if any(ord(char) < 0x20 and char not in "\t\r\n" for char in text) else text


def _headers(headers: Sequence[Header]) -> list[dict[str, Any]]:
    return [{"name": printable(name), **part(value)} for name, value in headers]


def _indented(data: bytes) -> str | None:
    """Return JSON with an indent, its numbers and texts unchanged; None if the bytes are not JSON."""
    try:
        return plain_json(msgspec.json.format(data, indent=2)).decode()
    except DECODE_ERRORS:
        return None


def _dump(data: bytes) -> str:
    """Return bytes as lines of offset, hex, and ASCII."""
    lines = []
    for at in range(0, len(data), _DUMP_BYTES):
        some = data[at : at + _DUMP_BYTES]
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "·" for byte in some)
        lines.append(f"{at:04x}  {some.hex(' '):{3 * _DUMP_BYTES - 1}}  {text}")
    return "\n".join(lines)


def _losses(counted: Mapping[Loss, int]) -> list[dict[str, Any]]:
    """Return the losses and assumptions with their descriptions; losses first."""
    found = [
        {"what": str(kind), "count": count, "text": LOSS_TEXTS[kind], "is_note": kind in INFORMATIONAL}
        for kind, count in counted.items()
    ]
    return sorted(found, key=lambda each: (each["is_note"], each["what"]))


def _error(error: RelayError) -> dict[str, Any]:
    protocol, path, reason = "", "", str(error)
    if isinstance(error, CodecError):
        protocol, path, reason = error.protocol, error.path, error.reason
    return {
        "code": error.code,
        "protocol": printable(protocol),
        "path": printable(path),
        "reason": printable(reason),
    }


def _problem(problem: Problem) -> dict[str, str]:
    return {
        "path": printable(problem.path),
        "message": printable(problem.message),
        "hint": printable(problem.hint),
    }


def _looks_like(source: str, pasted: Sequence[Pasted], schemas: SchemaList) -> dict[str, Any] | None:
    """Return the detected protocols of the records instead of the source's, with their producer's settings.

    They are certain or likely. None if the records may be of the source's protocol, or of no other that is
    known.
    """

    def find_schema(id: int | str) -> RegisteredSchema | None:
        try:
            return schemas.schema(id)
        except SchemaMissing:
            return None

    found = detect([each.record for each in pasted[:MAX_RECORDS]], find_schema)
    if not found.dialects:
        return None
    dialect = found.dialects[0]
    if source in dialect.protocols or not dialect.protocols or dialect.strength is Strength.POSSIBLE:
        return None
    return {
        "protocols": dialect.protocols,
        "options": dialect.options,
        "evidence": [printable(each) for each in dialect.evidence],
    }


def _joining_advice(translator: Translator) -> list[dict[str, str]]:
    if translator.route.joining is None:
        return []
    message = "joins rows of neighboring source records; here each record is shown alone"
    return [_problem(Problem("to.option.max-batch-size", message))]


def _route_loss_texts(translator: Translator) -> list[str]:
    """Return descriptions of the facts that the route never carries."""
    route = translator.route
    losses = route_losses(route.source.decodes, route.target.output(route.target_options))
    return [loss.text for loss in losses + large_row_losses(route.target_options)]


def encoded(found: Mapping[str, Any]) -> bytes:
    """Return an answer as bytes of JSON."""
    return to_json(found, option=orjson.OPT_APPEND_NEWLINE)
