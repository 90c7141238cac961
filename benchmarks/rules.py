"""What column and row rules cost a row: with an engine and without, next to the same rows without rules.

Each sample is a pass of a warm translator over the rows of one table of 12 columns, in processor time; the
rules take turns.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from benchmarks import wide
from relay.core.translator import Translator
from relay.io.kernel import engine, mode
from relay.model.records import ConsumerRecord
from relay.rules.columns import ColumnAction, ColumnRule
from relay.rules.rows import RowRule
from relay.templates.engine import Engine

_WORKLOAD: Final = "wide_12"
_KEY: Final = b"a secret key of the benchmark"
#: Two text columns of the table, and one of each other kind.
_TEXT, _ANY = ("*_2", "*_10"), ("*_1", "*_3")
NONE: Final = "no rules"


def _rule(action: ColumnAction, *columns: str, tables: str = "*.*", **more: str | int) -> ColumnRule:
    given = {"tables": (tables,), "columns": columns, "action": action, **more}
    return msgspec.convert(given, ColumnRule)


RULES: Final[Mapping[str, Sequence[ColumnRule | RowRule]]] = {
    NONE: (),
    "rules of other tables": (_rule(ColumnAction.DROP, "*", tables="other.*"),),
    "drop of two columns": (_rule(ColumnAction.DROP, *_ANY),),
    "rename of one": (_rule(ColumnAction.RENAME, "*_3", name="other"),),
    "fixed value of two": (_rule(ColumnAction.FIXED, *_TEXT, value="***"),),
    "hash of two": (_rule(ColumnAction.HASH, *_TEXT),),
    "condition on one, with distinct values": (RowRule(tables=("*.*",), where="id > 0"),),
    "conditions of other tables": (RowRule(tables=("other.*",), where="id > 0"),),
}


class RulesCost(msgspec.Struct, frozen=True):
    """The cost of some rules on a route: microseconds of processor time a row, with an engine and without.

    Ratios are the medians of the rounds' own: the speed of the same rows without rules is 1.
    """

    target: str
    name: str
    relay_us: float
    slow_us: float
    speed: float
    slow_speed: float


def measure(
    rounds: int,
    rows: int,
    progress: Callable[[str], None],
    targets: Sequence[str] = ("canal-json", "debezium-json"),
) -> list[RulesCost]:
    """Measure all rules on routes from TiCDC's Canal-JSON to these targets."""
    records = list(wide.messages(_WORKLOAD, rows))
    found: list[RulesCost] = []
    for target in targets:
        progress(f"rules: {wide.PROTOCOL} -> {target}")
        found += _measured(target, records, rounds)
    return found


def _measured(target: str, records: Sequence[ConsumerRecord], rounds: int) -> list[RulesCost]:
    ways = (engine(mode()), None)
    warm = {(name, way): _warm(target, name, way, records) for name in RULES for way in ways}
    samples: dict[tuple[str, type[Engine] | None], list[float]] = {each: [] for each in warm}
    for number in range(rounds):
        order = list(warm)
        for each in order[::-1] if number % 2 else order:
            samples[each].append(_seconds(warm[each], records) * 1e6 / len(records))
    found = []
    for name in RULES:
        relay, slow = (samples[name, way] for way in ways)
        plain, plain_slow = (samples[NONE, way] for way in ways)
        found.append(
            RulesCost(
                target,
                name,
                statistics.median(relay),
                statistics.median(slow),
                _speed(plain, relay),
                _speed(plain_slow, slow),
            )
        )
    return found


def _speed(without: Sequence[float], with_rules: Sequence[float]) -> float:
    return statistics.median(one / other for one, other in zip(without, with_rules, strict=True))


def _warm(
    target: str, name: str, fills: type[Engine] | None, records: Sequence[ConsumerRecord]
) -> Translator:
    """A translator that has translated the rows once."""
    columns = [rule for rule in RULES[name] if isinstance(rule, ColumnRule)]
    rows = [rule for rule in RULES[name] if isinstance(rule, RowRule)]
    translator = Translator(wide.PROTOCOL, target, columns=columns, rows=rows, hash_key=_KEY, engine=fills)
    for record in records:
        translator.translate(record)
    return translator


def _seconds(translator: Translator, records: Sequence[ConsumerRecord]) -> float:
    gc.collect()
    began = time.process_time()
    for record in records:
        translator.translate(record)
    return time.process_time() - began
