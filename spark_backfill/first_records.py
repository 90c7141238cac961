"""Check the first records of a run before anything is written.

Every record of a wrong source format fails. With the policies `skip` and `dead-letter` a run would skip all
of them, or write all of them as dead letters, and still succeed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from relay.catalog import Catalog
from relay.config import Config
from relay.config.keys import OverBudget
from relay.config.wiring import error_policies_of, translator_of
from relay.core.counts import changes_in
from relay.core.detection import FormatHints
from relay.core.error_policies import Policy, nothing_relayed
from relay.core.translator import Translator
from relay.io.resolver import Resolver
from relay.model.errors import RelayError, TooManyFailures
from relay.model.records import ConsumerRecord
from spark_backfill.counts import BackfillCounts
from spark_backfill.files import Captured
from spark_backfill.frames import read_records
from spark_backfill.registries import NO_ANSWERS, RegistryAnswers, task_resolver
from spark_backfill.terms import Bounds

#: Records to check: control messages may precede the first row.
_LOOKED_AT: Final = 1_000


def stops_at_every_failure(config: Config) -> bool:
    """Return whether every failed record ends the run, so that the number of failures needs no limit."""
    return all(policy is Policy.STOP for policy in config.errors.by_class.values())


def check_first_records(
    config: Config, records: Captured, catalog: Catalog, bounds: Bounds, known: RegistryAnswers = NO_ANSWERS
) -> None:
    """Raise TooManyFailures, like the service, if the first records indicate a wrong source format.

    That is, if none of them can be translated and more than `max_initial_failures` fail.
    """
    most = config.errors.max_initial_failures
    if (
        stops_at_every_failure(config)
        or not most
        or config.errors.on_max_initial_failures is not OverBudget.STOP
    ):
        return
    policies = error_policies_of(config, 1)
    translator = translator_of(config, config.backfill.end_commit_ts or None)
    translator.catalog = catalog
    resolver = task_resolver(config, known)
    failed = 0
    for record in _first_of(records, bounds, max(_LOOKED_AT, 2 * most)):
        error = _failure(translator, resolver, record)
        if error is not None:
            if policies.policy_of(error) is Policy.STOP:
                return
            failed += 1
            if failed > most:
                named = FormatHints(translator.known_schema).named(error, record)
                raise nothing_relayed(failed, named, config.route.from_) from error
        if changes_in(translator.events):
            return


def _first_of(records: Captured, bounds: Bounds, most: int) -> Iterator[ConsumerRecord]:
    """Yield those of the first `most` records that are within the bounds."""
    for batch in records.frame.limit(most).toArrow().to_batches():
        yield from filter(bounds.contains, read_records(records.reader, batch))


def _failure(translator: Translator, resolver: Resolver, record: ConsumerRecord) -> RelayError | None:
    """Translate a record. Return why it failed, None if it did not."""
    try:
        resolver.translate(translator, record)
    except RelayError as error:
        return error
    return None


def ratio_exceeded(config: Config, counts: BackfillCounts) -> str:
    """Return the message for a step if more than `max_failure_ratio` failed; "" for any other step."""
    errors = config.errors
    failed = sum(codes.total() for codes in counts.failed.values())
    read = failed + changes_in(counts.events)
    if failed < errors.min_failures or failed <= errors.max_failure_ratio * read:
        return ""
    return (
        f"{failed} of {read} records, rows and statements failed, more than the ratio of "
        f"{errors.max_failure_ratio:g}"
    )


def check_ratio(config: Config, counts: BackfillCounts) -> None:
    """Raise TooManyFailures if more than `max_failure_ratio` of a step failed."""
    if problem := ratio_exceeded(config, counts):
        hint = "`max_failure_ratio` and `on_max_failure_ratio` in [errors] say what happens"
        raise TooManyFailures(f"{problem}; the step was not written. {hint}")


def ratio_stops(config: Config) -> bool:
    """Return whether a step is counted before it is written: `on_max_failure_ratio = "stop"`.

    Such a step is translated twice.
    """
    return not stops_at_every_failure(config) and config.errors.on_max_failure_ratio is OverBudget.STOP
