"""`relay explain`: trace one source record from its bytes to the target's records, or to error and policy."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec
import orjson
import typer

from relay.cli import layout
from relay.cli.event_text import Line, bytes_text, event_lines, header_lines, wall_time
from relay.cli.inspect import event_object, exact, line_printer
from relay.cli.requests.route import ExplainRequest
from relay.cli.source_positions import parse_position, source_topic
from relay.codecs.losses import INFERRED, INFORMATIONAL, Loss
from relay.config import Config
from relay.config.kafka import source_cluster
from relay.config.keys import OverBudget
from relay.config.registries import resolver_of
from relay.config.wiring import error_policies_of
from relay.core.detection import FormatHints
from relay.core.error_policies import Policy, error_class, tables_in
from relay.core.loss_texts import LOSS_TEXTS
from relay.core.translator import Translator
from relay.io.kafka.clients import Brokers
from relay.io.kafka.reading import Lookup, look_up, quiet_client
from relay.io.kafka.sizes import misfit_error
from relay.io.record_lines import format_record
from relay.model.errors import CodecError, ConfigError, NotRepresentable, Problem, RelayError, ServiceError
from relay.model.events import Event, TableId
from relay.model.records import ConsumerRecord, ProducerRecord, RecordPosition
from relay.service.commands.offline import HistoryTranslator, learned_translator
from relay.service.commands.replay import misfit_of
from relay.text.redaction import printable, to_json

_POLICIES: Mapping[Policy, str] = {
    Policy.STOP: "relay stops before this record",
    Policy.SKIP: "relay skips this record and counts it",
    Policy.DEAD_LETTER: "relay writes this record to {topic} and continues",
}
#: Applies to every policy but `stop`.
_BUDGET: Final = "; it stops before this record if more records fail than [errors] allows ({keys})"


#: Counters by meaning: headings, their styles and the kinds below them.
_LOSS_GROUPS: Final = (
    ("lost", "bold yellow", frozenset(Loss) - INFORMATIONAL),
    ("assumed", "bold cyan", INFERRED),
    ("notes", "bold", INFORMATIONAL - INFERRED),
)


class CountedLoss(msgspec.Struct, frozen=True):
    """A value that could not be carried: the counter's name, how often, and its description."""

    what: Loss
    count: int
    text: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The known facts about one record.

    `unchecked`: why it is unknown whether the target accepts the output. `window`: the number of records
    whose rows are joined to messages. `letter_misfit`: why the dead-letter topic refuses the record's dead
    letter, at which relay stops. `hides_record`: the original is not shown, because it has hidden values.
    `renamed`: the record's tables that have another name in the target, with that name.
    """

    record: ConsumerRecord
    learned: HistoryTranslator
    events: Sequence[Event]
    output: Sequence[ProducerRecord] = ()
    losses: Sequence[CountedLoss] = ()
    error: RelayError | None = None
    unchecked: str = ""
    window: int = 1
    letter_misfit: str = ""
    hides_record: bool = False
    renamed: Sequence[tuple[TableId, TableId]] = ()


def position_of(request: ExplainRequest, config: Config) -> RecordPosition:
    """Return the position of the requested record. Raises ConfigError."""
    parts = (request.topic, request.partition, request.offset)
    if request.position is None:
        return _of_parts(*parts, config)
    if any(part is not None for part in parts):
        message, hint = "cannot be combined with --topic, --partition or --offset", "keep one of the two"
        raise ConfigError([Problem("POSITION", message, hint)])
    return parse_position(request.position, config, "POSITION")


def _of_parts(topic: str | None, partition: int | None, offset: int | None, config: Config) -> RecordPosition:
    if partition is None or offset is None:
        hint = "write TOPIC/PARTITION/OFFSET, or --partition N --offset N"
        raise ConfigError([Problem("POSITION", "is missing", hint)])
    return RecordPosition(source_topic(config, topic, "--topic"), partition, offset)


def explain(request: ExplainRequest) -> None:
    """Print the trace of a record. Raises ConfigError if the record does not exist, ServiceError."""
    config = request.config.load()
    position = position_of(request, config)
    with quiet_client():
        explanation = asyncio.run(_explain(config, position, unmasked=request.unmasked))
    if request.as_json:
        typer.echo(to_json(_object(explanation, config), exact))
    else:
        line_printer()(explanation_lines(explanation, config))


async def _explain(config: Config, position: RecordPosition, *, unmasked: bool) -> Explanation:
    record = _record_of(await look_up(Brokers.from_settings(source_cluster(config)), *position), position)
    learned = await learned_translator(config, position)
    translator, resolver = learned.translator, resolver_of(config)
    before = translator.state
    produced: Sequence[ProducerRecord] = ()
    error: RelayError | None = None
    try:
        produced = resolver.translate(translator, record)
    except RelayError as raised:
        error = FormatHints(translator.known_schema).named(raised, record)
    losses = [CountedLoss(kind, count, LOSS_TEXTS[kind]) for kind, count in translator.losses.most_common()]
    translator.restore(before)
    try:
        events = resolver.inspect(translator, record)
    except RelayError as raised:
        error, events = error or raised, []
    rules = None if unmasked else translator.route.column_rules
    hides = translator.route.hides_values and not unmasked
    if rules is not None:
        try:
            events, _ = rules.apply(list(events))
        except CodecError as raised:
            error, events = error or raised, []
    unchecked = letter_misfit = ""
    try:
        if misfit := await misfit_of(config, produced):
            error = misfit_error(record, misfit, config.route.to, tables_in(record, translator))
        letter_misfit = await _letter_misfit(config, error, record, translator)
    except ServiceError as raised:
        unchecked = str(raised)
    joining = translator.route.joining
    return Explanation(
        window=1 if joining is None else joining.most_rows,
        record=msgspec.structs.replace(record, key=None, value=None, headers=()) if hides else record,
        hides_record=hides,
        renamed=_renamed(record, translator),
        learned=learned,
        events=events,
        output=produced,
        losses=losses,
        error=error,
        unchecked=unchecked,
        letter_misfit=letter_misfit,
    )


def _renamed(record: ConsumerRecord, translator: Translator) -> list[tuple[TableId, TableId]]:
    """Return the tables of a record that have another name in the target, each with that name."""
    names = translator.route.table_names
    found: list[tuple[TableId, TableId]] = []
    if names is None:
        return found
    for table in translator.tables_of(record):
        with suppress(NotRepresentable):
            if (target := names.target_of(table)) != table:
                found.append((table, target))
    return found


async def _letter_misfit(
    config: Config, error: RelayError | None, record: ConsumerRecord, translator: Translator
) -> str:
    """Return why the dead-letter topic refuses a record's dead letter; "" if it accepts it, or gets none."""
    if error is None:
        return ""
    letters = error_policies_of(config, 1).apply(error, record, translator).dead_letters
    misfit = await misfit_of(config, letters)
    return "" if misfit is None else str(misfit_error(record, misfit, config.route.to))


def _record_of(found: Lookup, position: RecordPosition) -> ConsumerRecord:
    """Return the record at a position. Raises ConfigError that describes the partition's offsets."""
    if position.partition >= found.partitions:
        raise ConfigError(
            [Problem("POSITION", f"{position.topic} has the partitions 0 to {found.partitions - 1}")]
        )
    if found.record is not None and found.record.offset == position.offset:
        return found.record
    where = f"{position.topic}/{position.partition}"
    held = "it is empty"
    if found.first < found.end:
        held = f"it holds the offsets {found.first} to {found.end - 1}"
    if position.offset < found.first:
        problem = f"{where} no longer has offset {position.offset}: {held}"
    elif position.offset >= found.end:
        problem = f"{where} does not have offset {position.offset} yet: {held}"
    else:
        why = "a transaction marker, aborted, or compacted"
        following = "there is none after it"
        if found.record is not None:
            following = f"the next one is {found.record.offset}"
        problem = f"{where} has no record at {position.offset} ({why}): {following}"
    raise ConfigError([Problem("POSITION", problem)])


def _object(explanation: Explanation, config: Config) -> dict[str, Any]:
    error = explanation.error
    found: dict[str, Any] = {
        **_record_members(explanation),
        "definitions": {"records": explanation.learned.records, "unreadable": explanation.learned.failed},
        "renamed": [{"table": str(table), "target": str(name)} for table, name in explanation.renamed],
        "events": _event_objects(explanation),
        "output": [_output_object(out) for out in explanation.output],
        **{
            title: [msgspec.to_builtins(loss) for loss in explanation.losses if loss.what in kinds]
            for title, _, kinds in _LOSS_GROUPS
        },
        "error": None,
    }
    if error is not None:
        protocol, path, reason = "", "", str(error)
        if isinstance(error, CodecError):
            protocol, path, reason = error.protocol, error.path, error.reason
        policy = error_policies_of(config, 1).policy_of(error)
        found["error"] = {
            "code": error.code,
            "protocol": protocol,
            "path": path,
            "reason": reason,
            "class": error_class(error),
            "policy": str(Policy.STOP if explanation.letter_misfit else policy),
        }
    return found


def _record_members(explanation: Explanation) -> dict[str, Any]:
    """Return the original and its sizes; nulls if it is not shown."""
    record = explanation.record
    if explanation.hides_record:
        return {"record": None, "key_bytes": None, "value_bytes": None}
    return {
        "record": orjson.Fragment(format_record(record, record.offset)),
        "key_bytes": None if record.key is None else len(record.key),
        "value_bytes": None if record.value is None else len(record.value),
    }


def _event_objects(explanation: Explanation) -> list[object]:
    """Return events in the format of `relay inspect --json`.

    Unreadable ones are left out; `error` has the reason.
    """
    found: list[object] = []
    for event in explanation.events:
        try:
            found.append(orjson.Fragment(to_json(event_object(event, explanation.record), exact)))
        except CodecError:
            continue
    return found


def _output_object(out: ProducerRecord) -> dict[str, Any]:
    members: dict[str, Any] = orjson.loads(format_record(out, 0))
    del members["offset"]  # the broker assigns it
    return members


def explanation_lines(explanation: Explanation, config: Config) -> list[Line]:
    """Return an explanation for people."""
    lines = [*_source_lines(explanation, config), *_event_lines(explanation)]
    error = explanation.error
    if explanation.output or error is None:
        lines += _output_lines(explanation)
    for title, style, kinds in _LOSS_GROUPS:
        found = [loss for loss in explanation.losses if loss.what in kinds]
        if found:
            lines += [[], [(title, style)]]
        for loss in found:
            wrapped_lines = layout.wrapped(
                loss.text, f"  {loss.what}  {loss.count}  ", "      ", layout.width()
            )
            lines += [[(line, "")] for line in wrapped_lines]
    return lines if error is None else lines + _error_lines(error, explanation.letter_misfit, config)


def _source_lines(explanation: Explanation, config: Config) -> list[Line]:
    record, learned = explanation.record, explanation.learned
    history = (
        f"from {learned.records} records of {config.history_topic}"
        if config.history_topic
        else "no schema history is kept"
    )
    if learned.failed:
        history += f", {learned.failed} of them cannot be read"
    rows = {
        "time": wall_time(record.timestamp_ms * 1_000_000),
        "size": f"key {_size(record.key)}, value {_size(record.value)}",
        "tables": history,
        "key": bytes_text(record.key),
        "value": bytes_text(record.value),
    }
    if explanation.renamed:
        rows["renamed"] = ", ".join(f"{table} -> {name}" for table, name in explanation.renamed)
    if explanation.hides_record:
        rows = {name: rows[name] for name in ("time", "tables", "renamed") if name in rows}
        rows["record"] = "not shown, because rules of this route hide values; --unmasked shows it"
    return [
        [("source", "bold"), (f"  {printable(str(record.position))}", "bold")],
        *([(f"  {name:10}", "dim"), (printable(text, longest=None), "")] for name, text in rows.items()),
        *header_lines(record.headers),
    ]


def _size(data: bytes | None) -> str:
    return "null" if data is None else f"{len(data)} bytes"


def _event_lines(explanation: Explanation) -> list[Line]:
    lines: list[Line] = []
    for event in explanation.events:
        lines.append([])
        try:
            lines += event_lines(event, str(explanation.record.position))
        except CodecError as error:
            lines.append([(f"an event that cannot be shown: {printable(str(error))}", "red")])
    if not lines and explanation.error is None:
        lines = [[], [("no events", "dim")]]
    return lines


def _output_lines(explanation: Explanation) -> list[Line]:
    if not explanation.output:
        return [[], [("no output", "bold"), ("  nothing is written for this record", "dim")]]
    lines: list[Line] = []
    for out in explanation.output:
        lines += [
            [],
            [("output", "bold green"), (f"  {printable(out.topic)}/{out.partition}", "bold")],
            [(f"  {'key':10}", "dim"), (bytes_text(out.key), "")],
            [(f"  {'value':10}", "dim"), (bytes_text(out.value), "")],
            *header_lines(out.headers),
        ]
        lines += [
            [(f"  {'object':10}", "dim"), (f"{printable(blob.name)}, {len(blob.data)} bytes", "")]
            for blob in out.blobs
        ]
    if joins := _joins(explanation):
        lines.append([(f"  {joins}", "dim")])
    if explanation.unchecked:
        lines.append(
            [(f"  unknown whether the target accepts it: {printable(explanation.unchecked)}", "yellow")]
        )
    return lines


def _joins(explanation: Explanation) -> str:
    """Return the records whose rows may be in one message with this one's, as text; "" if none."""
    size, offset = explanation.window, explanation.record.offset
    if size < 2:
        return ""
    first = offset - offset % size
    return f"its rows may be in one message with those of the offsets {first} to {first + size - 1}"


def _outcome(policy: Policy, letter_misfit: str, config: Config) -> str:
    """Return the handling of a failed record, as text."""
    if letter_misfit:
        return f"relay stops before this record, as its dead letter does not fit: {letter_misfit}"
    text = _POLICIES[policy].format(topic=config.dead_letter_topic)
    keys = [
        name
        for name, over in (
            ("max_initial_failures", config.errors.on_max_initial_failures),
            ("max_failure_ratio", config.errors.on_max_failure_ratio),
        )
        if over is OverBudget.STOP
    ]
    return text if policy is Policy.STOP or not keys else text + _BUDGET.format(keys=", ".join(keys))


def _error_lines(error: RelayError, letter_misfit: str, config: Config) -> list[Line]:
    rows = {"code": error.code}
    if isinstance(error, CodecError):
        rows |= {
            "protocol": error.protocol,
            "path": error.path or "the whole message",
            "reason": error.reason,
        }
    else:
        rows["reason"] = str(error)
    name = error_class(error)
    policy = error_policies_of(config, 1).policy_of(error)
    setting = "no error policy applies" if name is None else f'{name} = "{policy}" in [errors]'
    rows["policy"] = f"{setting}: {_outcome(policy, letter_misfit, config)}"
    return [
        [],
        [("error", "bold red")],
        *([(f"  {key:10}", "dim"), (printable(text), "")] for key, text in rows.items()),
    ]
