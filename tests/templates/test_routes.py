"""Templates change nothing: every captured file on some routes and some of them on every route, with the engine
in Python and without.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from decoded_once import decoded_once
from output_digests import OPTION_SETS
from reference_engine import Interpreter
from support import ALL_ROUTES, CAPTURED, captured, protocol_of, reading_options

from relay import CodecError, ConsumerRecord, ProducerRecord, Resolver, Translator
from relay.catalog import Catalog
from relay.codecs import BUILT_IN
from relay.core.selection import Selection
from relay.model.events import RowChange, TableId, TransactionMark
from relay.model.lookups import Need

#: Files of the protocols of which templates are made, and the protocols that they are made for.
FOLDERS = sorted(
    {file.rpartition("/")[0] for file in CAPTURED if BUILT_IN[protocol_of(file)].templates.marker}
)
TARGETS = [name for name, codec in BUILT_IN.items() if codec.is_writable and not codec.uses_registry]
ROUNDS = 3


def routes() -> Iterator[tuple[str, str, str]]:
    """A folder, a target and a set of its options: every fifth for the first folder of each protocol, every
    twentieth for the others, each folder beginning with another one. `make routes` takes all of them, and
    `make fuzz-templates` compares the same on mutated messages.
    """
    for at, (_, folders) in enumerate(
        itertools.groupby(FOLDERS, key=lambda folder: protocol_of(f"{folder}/"))
    ):
        for number, folder in enumerate(folders):
            chosen = list(itertools.product(TARGETS, ("default", "full")))
            part = chosen[number % 20 :: 20] if number else chosen[at % 5 :: 5]
            for target, options in chosen if ALL_ROUTES else part:
                yield folder, target, options


def outcomes(translator: Translator, records: Sequence[ConsumerRecord]) -> list[object]:
    """What becomes of each record, again and again: templates are made of shapes that were met before."""
    return [outcome(translator, record) for _ in range(ROUNDS) for record in records]


def outcome(translator: Translator, record: ConsumerRecord) -> list[ProducerRecord] | str:
    try:
        return translator.translate(record)
    except (CodecError, Need) as error:
        return repr(error)


def translators(file: str, target: str, options: dict[str, str], **settings: Any) -> list[Translator]:
    """A translator of a file's records without an engine, and one with it."""
    reading = reading_options(file)
    return [
        decoded_once(
            file, Translator(protocol_of(file), target, reading, options, engine=engine, **settings), reading
        )
        for engine in (None, Interpreter)
    ]


@pytest.mark.parametrize(("folder", "target", "options"), list(routes()))
def test_the_same_comes_out(folder: str, target: str, options: str) -> None:
    partitions, by_target = OPTION_SETS[options]
    for file in [file for file in CAPTURED if file.rpartition("/")[0] == folder]:
        records = captured(file)
        plain, templated = translators(file, target, by_target[target], partitions=partitions)
        assert outcomes(templated, records) == outcomes(plain, records)
        assert templated.losses == plain.losses
        assert templated.events == plain.events
        assert templated.inferred_tables == plain.inferred_tables


@pytest.mark.parametrize("folder", FOLDERS)
def test_events_out_of_bounds_are_left_out(folder: str) -> None:
    """A template is met by messages of any time: the bounds are among its conditions."""
    for file in [file for file in CAPTURED if file.rpartition("/")[0] == folder]:
        records = captured(file)
        middle = middle_tso(file, records)
        for bounds in (Selection(since_commit_ts=middle), Selection(before_commit_ts=middle)):
            plain, templated = translators(file, "canal-json", {}, selection=bounds)
            assert outcomes(templated, records) == outcomes(plain, records)
            assert templated.events == plain.events


def middle_tso(file: str, records: Sequence[ConsumerRecord]) -> int:
    """The commit ts of the event in the middle of a file."""
    reader = Translator(protocol_of(file), "canal-json", reading_options(file))
    resolver, found = Resolver(), list[int]()
    for record in records:
        found += [event.source.tso for event in resolver.inspect(reader, record)]
    return sorted(found)[len(found) // 2]


#: What a catalog is asked by the name of a table.
_ASKED = ("table", "created_at_same_instant", "has", "newest", "effective_schema", "definitions", "dropped")


@pytest.mark.parametrize("folder", FOLDERS)
def test_rows_depend_on_the_definition_of_their_own_table(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Templates are kept when other tables change."""
    asked: set[TableId] = set()
    for name in _ASKED:
        monkeypatch.setattr(Catalog, name, _noting(getattr(Catalog, name), asked))
    for file in [file for file in CAPTURED if file.rpartition("/")[0] == folder]:
        translator = Translator(protocol_of(file), "canal-json", reading_options(file))
        for record in captured(file):
            asked.clear()
            try:
                found = translator.inspect(record)
            except (CodecError, Need):
                continue
            tables = {event.table for event in found if isinstance(event, RowChange)}
            if tables and all(isinstance(event, RowChange | TransactionMark) for event in found):
                assert asked <= tables
            translator.learn(record)


def _noting(ask: Callable[..., object], asked: set[TableId]) -> Callable[..., object]:
    def noting(catalog: Catalog, id: TableId, *more: object) -> object:
        asked.add(id)
        return ask(catalog, id, *more)

    return noting
