"""Templates change nothing: every captured file on every route, with the engine in Python and without."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from output_digests import OPTION_SETS
from support import CAPTURED, captured, protocol_of, reading_options

from relay import CodecError, ConsumerRecord, ProducerRecord, Translator
from relay.codecs import BUILT_IN
from relay.needs import Need
from relay.templates.interpreter import Interpreter

FOLDERS = sorted({file.rpartition("/")[0] for file in CAPTURED})
ROUNDS = 3


def told(translator: Translator, records: Sequence[ConsumerRecord]) -> list[object]:
    """What becomes of each record, again and again: templates are made of shapes that were met before."""
    return [outcome(translator, record) for _ in range(ROUNDS) for record in records]


def outcome(translator: Translator, record: ConsumerRecord) -> list[ProducerRecord] | str:
    try:
        return translator.translate(record)
    except (CodecError, Need) as error:
        return repr(error)


@pytest.mark.parametrize("target", BUILT_IN)
@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("options", ["default", "full"])
def test_the_same_comes_out(folder: str, target: str, options: str) -> None:
    partitions, by_target = OPTION_SETS[options]
    for file in [file for file in CAPTURED if file.rpartition("/")[0] == folder]:
        records = captured(file)
        plain, templated = (
            Translator(
                protocol_of(file),
                target,
                reading_options(file),
                by_target[target],
                partitions=partitions,
                engine=engine,
            )
            for engine in (None, Interpreter)
        )
        assert told(templated, records) == told(plain, records)
        assert templated.lossy == plain.lossy
        assert templated.events == plain.events
        assert templated.guessed_tables == plain.guessed_tables
