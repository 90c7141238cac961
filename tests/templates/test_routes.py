"""Templates change nothing: every captured file on every route, with the engine in Python and without."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from output_digests import OPTION_SETS
from support import CAPTURED, captured, protocol_of, reading_options

from relay import CodecError, ConsumerRecord, ProducerRecord, Translator
from relay.codecs import BUILT_IN
from relay.needs import Need
from relay.selection import Selection
from relay.templates.interpreter import Interpreter

#: Files of the protocols of which templates are made, and the protocols that they are made for.
FOLDERS = sorted({file.rpartition("/")[0] for file in CAPTURED if BUILT_IN[protocol_of(file)].marker})
TARGETS = [name for name, codec in BUILT_IN.items() if not codec.uses_registry]
ROUNDS = 3


def told(translator: Translator, records: Sequence[ConsumerRecord]) -> list[object]:
    """What becomes of each record, again and again: templates are made of shapes that were met before."""
    return [outcome(translator, record) for _ in range(ROUNDS) for record in records]


def outcome(translator: Translator, record: ConsumerRecord) -> list[ProducerRecord] | str:
    try:
        return translator.translate(record)
    except (CodecError, Need) as error:
        return repr(error)


def translators(file: str, target: str, options: dict[str, str], **settings: Any) -> list[Translator]:
    """A translator of a file's records without an engine, and one with it."""
    return [
        Translator(protocol_of(file), target, reading_options(file), options, engine=engine, **settings)
        for engine in (None, Interpreter)
    ]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("options", ["default", "full"])
def test_the_same_comes_out(folder: str, target: str, options: str) -> None:
    partitions, by_target = OPTION_SETS[options]
    for file in [file for file in CAPTURED if file.rpartition("/")[0] == folder]:
        records = captured(file)
        plain, templated = translators(file, target, by_target[target], partitions=partitions)
        assert told(templated, records) == told(plain, records)
        assert templated.lossy == plain.lossy
        assert templated.events == plain.events
        assert templated.guessed_tables == plain.guessed_tables


@pytest.mark.parametrize("folder", FOLDERS)
def test_events_out_of_bounds_are_left_out(folder: str) -> None:
    """A template is met by messages of any time: the bounds are among its conditions."""
    for file in [file for file in CAPTURED if file.rpartition("/")[0] == folder]:
        records = captured(file)
        middle = middle_tso(file, records)
        for bounds in (Selection(since_commit_ts=middle), Selection(before_commit_ts=middle)):
            plain, templated = translators(file, "canal-json", {}, selection=bounds)
            assert told(templated, records) == told(plain, records)
            assert templated.events == plain.events


def middle_tso(file: str, records: Sequence[ConsumerRecord]) -> int:
    """The commit ts of the event in the middle of a file."""
    reader = Translator(protocol_of(file), "canal-json", reading_options(file))
    found: list[int] = []
    for record in records:
        with suppress(Need):
            found += [event.source.tso for event in reader.inspect(record)]
    return sorted(found)[len(found) // 2]
