"""Records that many routes read alike are decoded once.

What a decoder makes of a record depends on the record, the catalog, and the source's options: neither on the
target nor on its options. So translators of one source share it, in suites that take every record through every
route. Whether a decoder keeps to that is tested elsewhere: `codecs/test_warm_and_cold.py`,
`codecs/test_independent_records.py`, and the contract (`codecs/test_contract.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

from relay import ConsumerRecord, DecodeError, Event, Loss, Translator
from relay.catalog import Catalog


class _Outcome(NamedTuple):
    """The result of a record: the catalog before it, which is kept alive so that its id stays its own; events
    and the catalog after it, or the error; and the losses.
    """

    before: Catalog
    record: ConsumerRecord
    events: list[Event]
    after: Catalog
    error: DecodeError | None
    losses: list[Loss]


class DecodedOnce:
    """What was decoded of one source, with its options, for any number of translators."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, int], _Outcome] = {}
        self._empty: Catalog | None = None

    def share(self, translator: Translator) -> Translator:
        """Let a translator that has translated nothing yet take part. Events and catalogs are values: no
        translator changes those of another one.
        """
        if self._empty is None:
            self._empty = translator.catalog
        translator.catalog = self._empty
        line: Any = translator._line
        line.decode = _Decode(self._found, line.decode)
        return translator


@functools.cache
def _of_file(file: str, protocol: str, options: frozenset[tuple[str, str]]) -> DecodedOnce:
    return DecodedOnce()


def decoded_once(file: str, translator: Translator, options: Mapping[str, str]) -> Translator:
    """Let a translator of a captured file's records take part, with the source's options; give it back."""
    return _of_file(file, translator.route.source.name, frozenset(options.items())).share(translator)


class _Decode:
    """Stands for the `decode` of a decoder."""

    def __init__(self, found: dict[tuple[int, int], _Outcome], decode: Any) -> None:
        self._found, self._decode = found, decode

    def __call__(
        self, record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
    ) -> tuple[list[Event], Catalog]:
        key = id(record), id(catalog)
        outcome = self._found.get(key)
        if outcome is None:
            outcome = self._found[key] = self._decoded(record, catalog)
        losses += outcome.losses
        if outcome.error is not None:
            raise outcome.error.with_traceback(None)
        return list(outcome.events), outcome.after

    def _decoded(self, record: ConsumerRecord, catalog: Catalog) -> _Outcome:
        losses: list[Loss] = []
        try:
            events, after = self._decode(record, catalog, losses)
        except DecodeError as error:
            return _Outcome(catalog, record, [], catalog, error, losses)
        return _Outcome(catalog, record, events, after, None, losses)
