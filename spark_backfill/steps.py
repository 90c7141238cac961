"""The size of the steps of a run over topics."""

from __future__ import annotations

from relay.config import Config
from relay.config.wiring import translator_of
from spark_backfill.joined import joining_of
from spark_backfill.registries import TARGET, sides_of


def records_of_step(config: Config) -> int:
    """Return the maximum number of records of a step; 0 for no limit.

    The default of `batch_records` has no effect if steps would change the output.
    """
    backfill = config.backfill
    is_chosen = "batch_records" in backfill.model_fields_set
    return backfill.batch_records if is_chosen or not _depends_on_steps(config) else 0


def _depends_on_steps(config: Config) -> bool:
    """Return whether a run in several steps may write other bytes than one in a single step.

    Joined messages end with their step. DDL of partition 0 is copied among the rows of its own step. Rows
    that do not wait for DDL do not know that of later steps. A registry numbers schemas in the order of
    steps.
    """
    translator = translator_of(config)
    lacks_ddl = translator.route.source.sends_ddl_once and not config.waits_for_ddl
    return lacks_ddl or translator.copies_ddl or joining_of(config) is not None or TARGET in sides_of(config)
