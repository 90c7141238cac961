"""`relay dead-letters replay`: translates dead letters again and writes what comes of them to the target."""

from __future__ import annotations

import asyncio
import sys

from relay.cli.event_text import printable
from relay.cli.exits import say
from relay.cli.letters import Progress, Request, letter_config, now_ms, read_letters, with_values
from relay.config import Config
from relay.dead_letters import DeadLetter, Filter, by_original
from relay.kafka.reading import quiet_client
from relay.service.commands.offline import learned_translator
from relay.service.commands.replay import Outcome, Replay, target_limits

FAILED = 2
_BEHIND = (
    "Replayed records stand behind newer ones of the same key: a reader that applies them in order may go back to an older row. "
    "They have the header relay.source of their first position."
)


def replay_letters(request: Request, *, dry_run: bool) -> int:
    """Replay the letters that are meant; gives 2 if some failed again. Raises ConfigError, ServiceError."""
    wanted = request.filter(now_ms())
    config = letter_config(request.config)
    with quiet_client():
        outcome = asyncio.run(_replay(config, wanted, request, dry_run=dry_run))
    for failure in outcome.failed:
        error = failure.error
        sys.stdout.write(f"{printable(f'{failure.letter.source}  {error.code}  {error}')}\n")
    return FAILED if outcome.failed else 0


async def _replay(config: Config, wanted: Filter, request: Request, *, dry_run: bool) -> Outcome:
    quiet = request.quiet
    chosen = await _chosen(config, wanted, request)
    if not chosen:
        _say("There are no dead letters to replay.", quiet=quiet)
        return Outcome()
    own = filter(None, (config.errors.dead_letter_topic, config.history_topic))
    limits = await target_limits(config, {*config.target_topics.values(), *own})
    learned = await learned_translator(config)
    if learned.failed:
        _say(
            f"records of the schema history that cannot be read with this route: {learned.failed} of {learned.records}",
            quiet=quiet,
        )
    if not dry_run:
        _say(_BEHIND, quiet=quiet)
    letters = await with_values(config, chosen, quiet=quiet)
    replay = Replay(config, learned.translator, limits, writes=not dry_run)
    try:
        return await replay.run(letters, Progress("replaying", quiet=quiet))
    finally:
        _say(_summary(replay.outcome, dry_run=dry_run), quiet=quiet)


async def _chosen(config: Config, wanted: Filter, request: Request) -> list[DeadLetter]:
    """The letters to replay: those of this route, or of the one that is asked for, of which `--limit` takes
    the first originals.

    Only letters of the route's topics; those of relays that named no route may be anyone's.
    """
    quiet = request.quiet
    letters = wanted.of((await read_letters(config, lambda _: False, quiet=quiet)).found())
    mine = [letter for letter in letters if letter.original.topic in config.target_topics]
    if len(mine) < len(letters):
        topics = ", ".join(
            sorted({letter.original.topic for letter in letters} - config.target_topics.keys())
        )
        _say(
            f"letters of other topics ({printable(topics)}), left alone: {len(letters) - len(mine)}",
            quiet=quiet,
        )
    names = {"", config.route_name} if wanted.route is None else {wanted.route}
    ours = [letter for letter in mine if letter.route in names]
    if len(ours) < len(mine):
        routes = "; ".join(sorted({letter.route for letter in mine} - names))
        hint = "--route NAME takes those of one of them"
        _say(
            f"letters of other routes ({printable(routes)}), left alone: {len(mine) - len(ours)}; {hint}",
            quiet=quiet,
        )
    return [letter for same in by_original(ours)[: request.limit] for letter in same]


def _summary(outcome: Outcome, *, dry_run: bool) -> str:
    if dry_run:
        return (
            f"letters that can be replayed: {outcome.letters}, records to write: {outcome.records}, "
            f"letters that fail again: {len(outcome.failed)}; nothing was written"
        )
    return f"letters replayed: {outcome.letters}, records written: {outcome.records}, failed again and kept: {len(outcome.failed)}"


def _say(text: str, *, quiet: bool) -> None:
    if not quiet:
        say(text)
