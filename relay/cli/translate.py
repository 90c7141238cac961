"""`relay translate`: translate record files from one protocol into another, without Kafka."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import ExitStack

import msgspec

from relay.catalog.definitions import is_definition
from relay.cli.detect import chosen_source
from relay.cli.exits import REPORTED, describe, say, say_error, say_warning
from relay.cli.files import STANDARD, Input, OutputFile, open_output, same_file
from relay.cli.inputs import open_files_or_topic
from relay.cli.option_names import USUAL
from relay.cli.parsing import key_values, limits_of
from relay.cli.progress import progress_of, stdout_is_seen
from relay.cli.record_files import RecordReader, RecordWriter, with_partitions
from relay.cli.requests.files import TranslateRequest
from relay.cli.requests.options import AUTO
from relay.cli.rule_options import given_rules
from relay.cli.schemas import apply_schema_dumps, resolver_with
from relay.core import summaries
from relay.core.batching import Joiner
from relay.core.config_lint import advice
from relay.core.detection import FormatHints
from relay.core.error_policies import ERROR_CLASSES, ErrorPolicies, Policy, Refused, error_class
from relay.core.selection import Selection
from relay.core.translator import Translator
from relay.io.kernel import translator_class
from relay.io.resolver import Resolver
from relay.io.storage import storage_problems
from relay.model.errors import ConfigError, Problem
from relay.model.records import ConsumerRecord, ProducerRecord


def translate(request: TranslateRequest) -> int:
    """Translate INPUT into the output. Return the exit status: not 0 if no record could be translated.

    Raises ConfigError with every problem of the request, before anything is written.
    """
    with ExitStack() as stack:
        if request.source == AUTO:
            if problems := _problems(request):
                raise ConfigError(problems)
            source = _opened(request, stack)
            source, chosen = stack.enter_context(
                chosen_source(
                    source, AUTO, request.source_options, request.source_registry, quiet=request.quiet
                )
            )
            request = msgspec.structs.replace(request, source=chosen.protocol, source_options=chosen.options)
            return _translate(request, stack, source)
        return _translate(request, stack, None)


def _translate(request: TranslateRequest, stack: ExitStack, opened: Input | None) -> int:
    """Translate an opened input, or else INPUT. Return the exit status."""
    translator = _translator(request)
    apply_schema_dumps(request.dumps, translator, quiet=request.quiet)
    resolver = resolver_with(
        {
            "source": (request.source, request.source_registry),
            "target": (request.target, request.target_registry),
        }
    )
    if not request.quiet:
        for problem in _advice(request):
            say_warning(str(problem))
    source = opened or _opened(request, stack)
    live = source.size is None
    output = stack.enter_context(open_output(request.output, "--output"))
    writer = RecordWriter(output, "stdout" if request.output == STANDARD else request.output, live=live)
    dead_letters = None
    if request.dead_letters is not None:
        dead_file = stack.enter_context(open_output(request.dead_letters, "--dead-letters"))
        dead_letters = RecordWriter(dead_file, request.dead_letters, live=True)
    lines: Iterable[bytes] = source.stream
    if translator.copies_ddl:
        lines, partitions = stack.enter_context(with_partitions(source))
        translator.expect_partitions(partitions)
    reader = RecordReader.of(source, lines)
    run = _Run(translator, resolver, reader, writer, dead_letters, request.on_error)
    try:
        hides_bar = request.quiet or (request.output == STANDARD and stdout_is_seen())
        run.all_records(source, quiet=hides_bar)
    except BaseException as error:
        run.ended_by(error)
        raise
    finally:
        if not request.quiet:
            for line in run.summary():
                say(line)
    if run.exit_status and isinstance(output, OutputFile):
        output.is_done = False  # nothing could be translated
    return run.exit_status


def _opened(request: TranslateRequest, stack: ExitStack) -> Input:
    """Open INPUT, or the records of a topic instead, until the stack closes it."""
    topic = request.source_topic.in_place_of(request.inputs)
    return stack.enter_context(
        open_files_or_topic(request.inputs, request.input_format, topic, quiet=request.quiet)
    )


def _translator(request: TranslateRequest) -> Translator:
    problems = _problems(request)
    selection = _selection(request, problems)
    source_options = key_values(request.source_options, "--from-option", problems)
    target_options = key_values(request.target_options, "--to-option", problems)
    limits = limits_of(request.limits, problems)
    rules = given_rules(
        request.columns, request.hash_key_file, problems, where=request.where, tables=request.tables
    )
    try:
        translator = translator_class()(
            request.source,
            request.target,
            source_options,
            target_options,
            topic=request.topic,
            partitions=request.partitions,
            partition_by=request.partition_by,
            selection=selection,
            columns=rules.rules,
            hash_key=rules.hash_key,
            rows=rules.rows,
            tables=rules.tables,
            deduplicate=request.deduplicate,
            deduplicate_rows=request.deduplicate_rows,
            limits=limits,
        )
    except ConfigError as error:
        raise ConfigError([*problems, *USUAL.of_problems(error.problems)]) from error
    problems += USUAL.of_problems(storage_problems(translator.route.storages))
    if problems:
        raise ConfigError(problems)
    return translator


def _advice(request: TranslateRequest) -> list[Problem]:
    """Return the advice about a valid request."""
    found = advice(
        request.target,
        key_values(request.target_options, "--to-option", []),
        topic=request.topic,
        include_tables=request.include_tables,
        exclude_tables=request.exclude_tables,
        include_events=request.include_events,
        exclude_events=request.exclude_events,
    )
    return USUAL.of_problems(found)


def _selection(request: TranslateRequest, problems: list[Problem]) -> Selection | None:
    """Return which events are translated, None for all; append errors to `problems`."""
    try:
        found = Selection.choosing(
            include_tables=request.include_tables,
            exclude_tables=request.exclude_tables,
            include_events=request.include_events,
            exclude_events=request.exclude_events,
        )
    except ConfigError as error:
        problems += USUAL.of_problems(error.problems)
        return None
    return None if found == Selection() else found


def _problems(request: TranslateRequest) -> list[Problem]:
    problems = []
    if request.on_error is Policy.DEAD_LETTER and request.dead_letters is None:
        problems.append(
            Problem("--on-error", "dead-letter needs a file to write to", "add --dead-letters FILE")
        )
    if request.on_error is not Policy.DEAD_LETTER and request.dead_letters is not None:
        problems.append(
            Problem("--dead-letters", "nothing would be written there", "add --on-error dead-letter")
        )
    if request.dead_letters == STANDARD:
        problems.append(
            Problem("--dead-letters", "cannot be stdout, which receives the output", "name a file")
        )
    inputs = request.inputs or (STANDARD,)
    files = {
        **{"INPUT" if not number else f"INPUT {number + 1}": name for number, name in enumerate(inputs)},
        "--output": request.output,
        "--dead-letters": request.dead_letters or STANDARD,
    }
    names = list(files)
    problems += [
        Problem(second, f"is the same file as {first}", "name another file")
        for index, first in enumerate(names)
        for second in names[index + 1 :]
        if not second.startswith("INPUT") and same_file(files[first], files[second])
    ]
    return problems


class _Run:
    """One pass over the input."""

    def __init__(
        self,
        translator: Translator,
        resolver: Resolver,
        reader: RecordReader,
        writer: RecordWriter,
        dead_letters: RecordWriter | None,
        on_error: Policy,
    ) -> None:
        self._translator = translator
        self._reader = reader
        self._writer = writer
        self._dead_letters = dead_letters
        has_payload = not translator.route.hides_values
        self._errors = ErrorPolicies(dict.fromkeys(ERROR_CLASSES, on_error), has_payload=has_payload)
        self._resolver, self._hints = resolver, FormatHints(translator.known_schema)
        joining = translator.route.joining
        self._joiner: Joiner[None] | None = None if joining is None else Joiner(joining)
        self._read = 0
        self._with_partition_0: set[str] = set()
        self._failed = 0
        self._worst_status = 0
        #: Beginning and end of a summary if the run did not reach the end of its input.
        self._end = "", ""
        self._began = time.perf_counter()

    def all_records(self, source: Input, *, quiet: bool) -> None:
        """Translate every record. Translations are written even if a later record stops the run."""
        try:
            with progress_of(source, quiet=quiet) as progress:
                for record in self._reader:
                    self._read += 1
                    if not record.partition and record.topic not in self._with_partition_0:
                        self._with_partition_0.add(record.topic)
                    self._one(record)
                    progress.at(self._reader.bytes_read)
        finally:
            if self._joiner is not None:
                self._write(out for out, _ in self._joiner.close())
            self._writer.flush()

    def _one(self, record: ConsumerRecord) -> None:
        if is_definition(record):  # an export of the schema history has them
            self._translator.learn(record)
            return
        try:
            translated = self._resolver.translate(self._translator, record)
        except Exception as error:
            error.add_note(self._reader.where(record))
            refused = self._errors.apply(error, record, self._translator)
            if refused.policy is Policy.STOP:
                self._end = (
                    "stopped: ",
                    "; use --on-error skip or dead-letter to continue after such a record",
                )
                named = self._hints.named(error, record)
                raise named from named.__cause__
            self._go_on(record, error, refused)
            return
        if self._joiner is None:
            self._write(translated)
            return
        for each in translated:
            self._write(out for out, _ in self._joiner.add(each, None))

    def _write(self, translated: Iterable[ProducerRecord]) -> None:
        for out in translated:
            for blob in out.blobs:
                self._resolver.store(blob)
            self._writer.write(out)

    def _go_on(self, record: ConsumerRecord, error: Exception, refused: Refused) -> None:
        self._failed += 1
        self._worst_status = max(self._worst_status, getattr(error, "exit_status", 0))
        if self._dead_letters is not None:
            for letter in refused.dead_letters:
                self._dead_letters.write_original(record, letter.headers[len(record.headers) :])
        if self._failed <= REPORTED:
            say_error(describe(self._hints.sampled(error, record)))
        elif self._failed == REPORTED + 1:
            say("Further errors are only counted.")

    def ended_by(self, error: BaseException) -> None:
        """Note the error that ended the run before the end of its input. A closed pipe is no error."""
        if isinstance(error, KeyboardInterrupt):
            self._end = "interrupted: ", f"; the rest of {self._reader.name} was not read"
        elif error_class(error) is not None:
            self._end = self._end if self._end[0] else ("stopped: ", "; the rest of the input was not read")
        elif not isinstance(error, BrokenPipeError):
            self._end = "failed: ", "; the output is not complete"

    @property
    def exit_status(self) -> int:
        """Return 0 if some records were translated, or there were none; else the worst error's status."""
        return self._worst_status if self._failed == self._read else 0

    def summary(self) -> list[str]:
        """Return the summary in a few lines.

        It has the end of the run, records, events by kind, losses, assumptions, and failures.
        """
        seconds = time.perf_counter() - self._began
        before, behind = self._end
        counts = f"{self._read} records read, {self._writer.records} written in {seconds:.1f} s"
        lines = [f"{before}{counts}{behind}"]
        lines += summaries.counted("events", self._translator.events)
        lines += summaries.lost(self._translator.losses)
        lines += summaries.unwritten_ddl(self._translator.copied_topics - self._with_partition_0)
        lines += summaries.unwritten_statements([*map(str, self._translator.unwritten_statements)])
        inferred = self._translator.inferred_tables
        lines += summaries.inferred(
            {str(table): rows for table, rows in inferred.items()},
            {str(table): self._translator.why_unknown(table) for table in inferred},
            has_row_keys=self._translator.route.has_row_keys,
        )
        if self._failed:
            what = "written to the dead letters" if self._dead_letters is not None else "skipped"
            if self._failed == self._read:
                what += ": none could be translated"
            lines.append(f"  failed   {self._failed} {what}")
        return lines
