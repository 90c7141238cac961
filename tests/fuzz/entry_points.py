"""Other ways in for bytes that relay has not made: lines of record files, dead letters, the schema history,
configuration files, and the commands that read them.

What comes out is what the entry point documents: a value, or its own documented error. A command ends with
status 0 or 2.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from typer.testing import CliRunner

from fuzz.findings import BrokenError, Finding, location_of
from fuzz.mutations import changed_bytes, mutated
from fuzz.oracle import MAX_ERROR_TEXT
from fuzz.words import CANARY, TEXTS
from relay import ConsumerRecord, Malformed, RelayError, Translator
from relay.cli.commands import app
from relay.config import load_config
from relay.core.dead_letters import dead_letter, marker, read_dead_letter, read_marker
from relay.io.record_lines import format_record, parse_record
from relay.model.errors import ConfigError, TopicUnusable
from relay.model.events import TableId
from relay.model.records import ProducerRecord, RecordPosition
from relay.service.loop.history import apply_records, history_record, source_records

if TYPE_CHECKING:
    from fuzz.session import Session

_EXAMPLE: Final = (Path(__file__).parents[2] / "config.example.toml").read_text(encoding="utf-8")
#: Most bytes that dead letters add to their original.
MAX_LETTER_BYTES: Final = 16_000
#: What a command ends with: all is well, or its input is not.
_STATUSES: Final = frozenset({0, 2})
_TIMES: Final = {"commands": 3, "configuration": 20}
#: Seconds of CPU after which an entry point is not tried again: changed records may be large, and outlining them is slow.
_SECONDS: Final = 5.0

EntryPoint = Callable[[Sequence[ConsumerRecord], "Session", random.Random], None]


def tried(session: Session) -> list[Finding]:
    """Try every entry point with the session's records; give what was found, one finding for each at most."""
    found = []
    for name, entry_point in ENTRY_POINTS.items():
        chance = random.Random((session.seed << 32) ^ session.number)
        began = time.process_time()
        for _ in range(_TIMES.get(name, 100)):
            if time.process_time() - began > _SECONDS:
                break
            records = _changed(session, chance)
            try:
                entry_point(records, session, chance)
            except BrokenError as error:
                found.append(_finding(error, records, session, name))
                break
            except Exception as error:  # an undocumented exception
                broken = BrokenError(
                    "entry point", f"{name}: {type(error).__name__}", location_of(error), str(error)
                )
                found.append(_finding(broken, records, session, name))
                break
    return found


def _finding(error: BrokenError, records: Sequence[ConsumerRecord], session: Session, name: str) -> Finding:
    origin = f"seed {session.seed} session {session.number}, {name} with {session.sample.name}"
    setting = session.setting._replace(prefix=())
    return Finding(
        error.check, error.kind, error.location, error.detail, setting, (tuple(records),), (), origin
    )


def _changed(session: Session, chance: random.Random) -> list[ConsumerRecord]:
    records = session.sample.records
    return [mutated(chance.choice(records), records, chance) for _ in range(3)]


def record_lines(records: Sequence[ConsumerRecord], _session: Session, chance: random.Random) -> None:
    """A line gives the record that was written, a damaged one a record or a ValueError without values."""
    for record in records:
        clean = _writable(record)
        line = format_record(clean, clean.offset)
        if parse_record(line) != clean:
            raise BrokenError("entry point", "record lines: another record", "record_lines")
        as_value = ConsumerRecord("lines", 0, 0, 0, None, line.rstrip())
        damaged = mutated(as_value, [as_value], chance).value or b""
        try:
            parse_record(damaged)
        except ValueError as error:
            if CANARY in str(error) or len(str(error)) > MAX_ERROR_TEXT:
                raise BrokenError(
                    "entry point", "record lines: error text", "record_lines", str(error)
                ) from error


def _writable(record: ConsumerRecord) -> ConsumerRecord:
    """The record with names that can stand in Kafka."""
    headers = tuple((name.encode(errors="replace").decode(), value) for name, value in record.headers)
    timestamp_ms = max(-1, record.timestamp_ms)
    return msgspec.structs.replace(record, headers=headers, timestamp_ms=timestamp_ms)


def dead_letters(records: Sequence[ConsumerRecord], session: Session, chance: random.Random) -> None:
    """A dead letter of any error is bounded, and gives its original back; a damaged one is one or none."""
    for record in records:
        error = Malformed(chance.choice(TEXTS), chance.choice(TEXTS) * 50, chance.choice(TEXTS) * 50)
        tables = [
            TableId(chance.choice(TEXTS), chance.choice(TEXTS)) for _ in range(chance.choice((0, 1, 500)))
        ]
        letter = dead_letter(record, error, "letters", tables, 3, session.setting.source)
        added = letter.headers[len(record.headers) :]
        size = sum(len(name.encode(errors="replace")) + len(value or b"") for name, value in added)
        if size > MAX_LETTER_BYTES:
            raise BrokenError("entry point", "dead letters: too many bytes", "dead_letters", str(size))
        read = read_dead_letter(_consumed(letter))
        if read is None or read.original != record:
            raise BrokenError("entry point", "dead letters: another original", "dead_letters")
        headers = [
            (name, changed_bytes(value or b"", chance)) if chance.random() < 0.3 else (name, value)
            for name, value in added
        ]
        if chance.random() < 0.3:
            chance.shuffle(headers)
        read_dead_letter(_consumed(msgspec.structs.replace(letter, headers=tuple(headers))))
        mark = marker(RecordPosition("letters", 0, 5), 1)
        name, value = mark.headers[0]
        read_marker(
            _consumed(msgspec.structs.replace(mark, headers=((name, changed_bytes(value or b"", chance)),)))
        )


def _consumed(out: ProducerRecord) -> ConsumerRecord:
    return ConsumerRecord(out.topic, out.partition, 0, out.timestamp_ms, out.key, out.value, out.headers)


def schema_history(records: Sequence[ConsumerRecord], session: Session, chance: random.Random) -> None:
    """A history of any records teaches, or says that it is none."""
    kept = [_consumed(history_record(_writable(record), "history")) for record in records]
    if chance.random() < 0.5:
        kept = [mutated(record, kept, chance) for record in kept]
    try:
        found = source_records(kept)
    except TopicUnusable as error:
        if CANARY in str(error):
            raise BrokenError("entry point", "schema history: error text", "history", str(error)) from error
        return
    apply_records(
        Translator(session.setting.source, session.setting.target, session.setting.source_options), found
    )


def configuration(_records: Sequence[ConsumerRecord], _session: Session, chance: random.Random) -> None:
    """A configuration file is taken, or refused with its problems."""
    lines = _EXAMPLE.split("\n")
    keys = [at for at, line in enumerate(lines) if " = " in line and not line.startswith("# ")]
    for _ in range(chance.choice((1, 2, 5))):
        at = chance.choice(keys)
        key = lines[at].lstrip("#").partition(" = ")[0]
        value = chance.choice((chance.choice(_TOML), json.dumps(chance.choice(TEXTS))))
        lines[at] = chance.choice(
            (f"{key} = {value}", f"{key} = {value}", lines[at].lstrip("#"), "", f"[{key}]")
        )
    data = "\n".join(lines).encode(errors="replace")
    if chance.random() < 0.1:
        data = changed_bytes(data, chance)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "relay.toml"
        path.write_bytes(data)
        try:
            load_config(path)
        except ConfigError:
            return


_TOML: Final = (
    *("-1", "0", "1", "65536", "9223372036854775807", "1e400", "-0.0", "nan", "0x10", '"a=b"', '"${HOME}"'),
    *("true", "[]", "{}", '["a", "b"]', "[1, 2]", "1979-05-27", "inf", "{a = 1}", '["", ""]', "0.1"),
)


def commands(records: Sequence[ConsumerRecord], session: Session, chance: random.Random) -> None:
    """`relay translate` and `relay inspect` of a file with damaged records, whatever they do about errors."""
    lines = b"".join(format_record(_writable(record), record.offset) for record in records)
    if chance.random() < 0.2:
        lines = changed_bytes(lines, chance)
    options = [f"--from-option={name}={value}" for name, value in session.setting.source_options.items()]
    options = [option for option in options if "storage" not in option]
    arguments = ["inspect", "--from", session.setting.source, *options]
    if chance.random() < 0.6:
        arguments = ["translate", "--from", session.setting.source, "--to", session.setting.target, *options]
        arguments += ["--on-error", chance.choice(("stop", "skip"))]
    elif chance.random() < 0.5:
        arguments.append("--json")
    result = CliRunner().invoke(app, arguments, input=lines)
    text = f"{result.stdout} {result.stderr}"
    if isinstance(result.exception, Exception) and not isinstance(result.exception, (RelayError, SystemExit)):
        raise result.exception
    if result.exit_code not in _STATUSES or "a bug in relay" in result.stderr:
        kind = f"{arguments[0]}: status {result.exit_code}"
        raise BrokenError("entry point", kind, _where(result.stderr), f"{' '.join(arguments)}: {text[-400:]}")
    # What is translated goes to a file as it is.
    shown = text if arguments[0] == "inspect" else result.stderr
    if controls := [at for at, character in enumerate(shown) if "\x7f" <= character <= "\x9f"]:
        near = ascii(shown[max(0, controls[0] - 200) : controls[0] + 100])
        raise BrokenError("entry point", f"{arguments[0]}: controls on the terminal", "", near)


def _where(text: str) -> str:
    """The error's name in what a command says of a bug."""
    return text.partition("RELAY_TRACEBACK=1 shows where: ")[2][:60] or text[:60]


ENTRY_POINTS: Final[dict[str, EntryPoint]] = {
    "record lines": record_lines,
    "dead letters": dead_letters,
    "schema history": schema_history,
    "configuration": configuration,
    "commands": commands,
}
