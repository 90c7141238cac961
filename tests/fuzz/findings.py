"""Findings: each is reported once, with the records that reproduce it."""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import orjson

import relay
from relay import ConsumerRecord, Translator
from relay.core.selection import Selection, chosen_tables
from relay.io.record_lines import format_record, parse_record
from relay.model.lookups import RegisteredSchema
from relay.routing import TopicRule
from relay.routing.partitioning import Partitioning
from relay.templates.engine import Engine

_RELAY: Final = str(Path(relay.__file__).parent)
_RECORDS, _SETTING = "records.jsonl", "setting.json"


class Setting(NamedTuple):
    """A route, the good records before those that matter, and what lies in the source's storage; the target
    topic's template, and how rows are spread over the partitions; tables with topics of their own, and globs
    of the tables that are chosen, and that are not. `schemas`: those that a registry has, by id.
    """

    source: str
    target: str
    source_options: Mapping[str, str]
    target_options: Mapping[str, str]
    partitions: int | None
    prefix: tuple[ConsumerRecord, ...]
    objects: Mapping[str, bytes]
    topic: str = "{topic}"
    spread_by: str | None = None
    rules: tuple[TopicRule, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    schemas: Mapping[int, RegisteredSchema] = {}

    @property
    def route(self) -> str:
        """Its name for people."""
        options = " ".join(f"{name}={value}" for name, value in self.target_options.items())
        spread = "" if self.partitions is None else f" partitions={self.partitions}"
        spread += "" if self.spread_by is None else f" partition_by={self.spread_by}"
        spread += "" if self.topic == "{topic}" else f" topic={self.topic}"
        spread += "".join(f" topics={_of_rule(rule)}" for rule in self.rules)
        spread += "".join(f" include={glob}" for glob in self.include)
        spread += "".join(f" exclude={glob}" for glob in self.exclude)
        return f"{self.source} -> {self.target}{spread} {options}".rstrip()

    def chosen(self) -> Selection | None:
        """What is chosen, None for everything."""
        tables = chosen_tables(self.include, self.exclude)
        return None if tables is None else Selection(tables=tables)

    def translator(
        self, made: type[Translator], target_options: Mapping[str, str], engine: type[Engine] | None = None
    ) -> Translator:
        """Return a translator of this route. Raises ConfigError."""
        return made(
            self.source,
            self.target,
            self.source_options,
            target_options,
            topic=self.topic,
            partitions=self.partitions,
            partition_by=None if self.spread_by is None else Partitioning(self.spread_by),
            rules=self.rules,
            selection=self.chosen(),
            engine=engine,
        )


def _of_rule(rule: TopicRule) -> dict[str, Any]:
    """What a rule says, as JSON."""
    by = None if rule.partition_by is None else str(rule.partition_by)
    found = {**rule._asdict(), "partition_by": by, "key": list(rule.key)}
    return {name: value for name, value in found.items() if value}


def _rule(entry: Mapping[str, Any]) -> TopicRule:
    by = entry.get("partition_by")
    more = {"partition_by": None if by is None else Partitioning(by), "key": tuple(entry.get("key", ()))}
    return TopicRule(**{**entry, **more})


class BrokenError(Exception):
    """A check that does not hold: its name, what kind of failure it is, where, and more about it."""

    def __init__(self, check: str, kind: str, location: str, detail: str = "") -> None:
        super().__init__(f"{check}: {kind} at {location}: {detail[:400]}")
        self.check, self.kind, self.location, self.detail = check, kind, location, detail

    @property
    def identity(self) -> tuple[str, str, str]:
        """Equal for findings that are one."""
        return self.check, self.kind, self.location


class Finding(NamedTuple):
    """A broken check with what shows it: cases, each taken back before the next one, then good records."""

    check: str
    kind: str
    location: str
    detail: str
    setting: Setting
    cases: tuple[tuple[ConsumerRecord, ...], ...]
    good: tuple[ConsumerRecord, ...]
    origin: str = ""

    @property
    def identity(self) -> tuple[str, str, str]:
        """As `BrokenError.identity`."""
        return self.check, self.kind, self.location

    @property
    def slug(self) -> str:
        """A name for a folder."""
        return re.sub(r"[^A-Za-z0-9.]+", "-", "-".join(self.identity)).strip("-")[:120]

    def text(self, folder: Path | None = None) -> str:
        """What is printed of it."""
        size = sum(
            len(record.value or b"") + len(record.key or b"") for case in self.cases for record in case
        )
        lines = [
            f"FINDING {self.check}: {self.kind} at {self.location}",
            f"  {_shown(self.detail)}",
            f"  route {self.setting.route}; {len(self.setting.prefix)} good records before, {size} bytes; {self.origin}",
        ]
        if folder is not None:
            lines.append(f"  again: make fuzz RECORD={folder}")
        return "\n".join(lines)


def _shown(text: str) -> str:
    return text.encode("unicode_escape", errors="backslashreplace").decode()[:600]


def location_of(error: BaseException) -> str:
    """The innermost line of relay's own code in a traceback, or of what called it."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(_RELAY)] or frames
    if not own:
        return "?"
    last = own[-1]
    return f"{last.filename.removeprefix(_RELAY).lstrip('/')}:{last.lineno} {last.name}"


def write(finding: Finding, folder: Path) -> Path:
    """Write a finding as a record file, which relay's own commands read too, and its setting."""
    target = folder / finding.slug
    target.mkdir(parents=True, exist_ok=True)
    parts = [("before", record) for record in finding.setting.prefix]
    parts += [(f"case {at}", record) for at, case in enumerate(finding.cases) for record in case]
    parts += [("good", record) for record in finding.good]
    with (target / _RECORDS).open("wb") as file:
        for part, record in parts:
            file.write(_line(record, part))
    setting = finding.setting
    about = {
        "check": finding.check,
        "kind": finding.kind,
        "location": finding.location,
        "detail": _shown(finding.detail),
        "origin": finding.origin,
        "from": setting.source,
        "to": setting.target,
        "from_options": dict(setting.source_options),
        "to_options": dict(setting.target_options),
        "partitions": setting.partitions,
        "topic": setting.topic,
        "partition_by": setting.spread_by,
        "topics": [_of_rule(rule) for rule in setting.rules],
        "include": setting.include,
        "exclude": setting.exclude,
        "schemas": {str(id): msgspec.to_builtins(schema) for id, schema in setting.schemas.items()},
        "objects": {name: data.hex() for name, data in setting.objects.items()},
    }
    (target / _SETTING).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    return target


def _line(record: ConsumerRecord, part: str) -> bytes:
    """A line of a record file that also says what the record is there for."""
    headers = tuple((name.encode(errors="replace").decode(), value) for name, value in record.headers)
    plain = ConsumerRecord(
        record.topic, record.partition, record.offset, record.timestamp_ms, record.key, record.value, headers
    )
    return orjson.dumps({"part": part, **orjson.loads(format_record(plain, record.offset))}) + b"\n"


def read(folder: Path) -> Finding:
    """Read what `write` has written."""
    about: dict[str, Any] = json.loads((folder / _SETTING).read_text(encoding="utf-8"))
    lines = (folder / _RECORDS).read_bytes().split(b"\n")
    parts = [(orjson.loads(line)["part"], parse_record(line)) for line in lines if line]
    objects = {name: bytes.fromhex(data) for name, data in about["objects"].items()}
    setting = Setting(
        about["from"],
        about["to"],
        about["from_options"],
        about["to_options"],
        about["partitions"],
        tuple(record for part, record in parts if part == "before"),
        objects,
        about.get("topic", "{topic}"),
        about.get("partition_by"),
        tuple(map(_rule, about.get("topics", ()))),
        tuple(about.get("include", ())),
        tuple(about.get("exclude", ())),
        {
            int(id): msgspec.convert(schema, RegisteredSchema)
            for id, schema in about.get("schemas", {}).items()
        },
    )
    names = dict.fromkeys(part for part, _ in parts if part.startswith("case"))
    cases = tuple(tuple(record for part, record in parts if part == name) for name in names)
    good = tuple(record for part, record in parts if part == "good")
    return Finding(
        about["check"],
        about["kind"],
        about["location"],
        about["detail"],
        setting,
        cases,
        good,
        about["origin"],
    )


def smaller(sequence: Sequence[Any]) -> list[Sequence[Any]]:
    """What to try instead of a sequence: nothing of it, its halves, and all but one."""
    if not sequence:
        return []
    half = len(sequence) // 2
    found = [sequence[:0], sequence[half:], sequence[:half]]
    if len(sequence) <= 12:
        found += [[*sequence[:at], *sequence[at + 1 :]] for at in range(len(sequence))]
    return [each for each in found if len(each) < len(sequence)]
