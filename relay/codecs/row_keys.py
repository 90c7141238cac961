"""Keys of a target's rows chosen by options or rules, and their conflicts with other options."""

from __future__ import annotations

from collections.abc import Container, Iterable

from relay.codecs.codec import Codec, Options, types_of_options
from relay.codecs.losses import Keys
from relay.model.errors import KeyColumnsMissing, Problem
from relay.model.events import TableId
from relay.text.redaction import printable, quoted


def has_row_keys(options: Options) -> bool:
    """Return whether the Kafka key of a row is its primary key, whatever the target's producer writes."""
    return getattr(options, "key", "producer") == "primary-key"


def keys_of(codec: Codec, options: Options) -> Keys:
    """Return the meaning of a row's Kafka key with these options."""
    return Keys.ROW if has_row_keys(options) else codec.keys.meaning


def key_problems(codec: Codec, options: Options) -> list[Problem]:
    """Report conflicts of `key` and `tombstones`, in codecs that have them, with other options."""
    has_tombstones = getattr(options, "tombstones", False)
    asked = {"key": has_row_keys(options), "tombstones": has_tombstones}
    problems = []
    if getattr(options, "max_batch_size", 1) > 1:
        problems += [
            Problem(name, "a message of several rows has no key of one row", "set max-batch-size=1")
            for name, is_asked in asked.items()
            if is_asked
        ]
    if has_tombstones and codec.keys.meaning is not Keys.ROW and not asked["key"]:
        message = f"{codec.name} has no keys of rows, which tombstones need"
        problems.append(Problem("tombstones", message, "set key=primary-key"))
    return problems


def key_rule_problem(codec: Codec, options: Options) -> tuple[str, str] | None:
    """Return why keys of chosen columns are impossible, and a hint; None if they are possible."""
    names = types_of_options(codec.options)
    if codec.keys.encoder is None and "key" not in names:
        return f"the keys of {codec.name} are part of its messages", "leave it out, or write another protocol"
    if getattr(options, "max_batch_size", 1) > 1:
        return "a message of several rows has no key of one row", "set max-batch-size=1 in to_options"
    return None


def without_key(
    protocol: str, table: TableId, wanted: Iterable[str], has: Container[str]
) -> KeyColumnsMissing:
    """Return the error for a row that lacks columns of the key chosen by a rule."""
    lacking = ", ".join(quoted(name) for name in wanted if name not in has)
    reason = (
        f"a row of {printable(str(table))} has no column {lacking}, and its rule in [[target.topics]] uses "
        "it for the key"
    )
    return KeyColumnsMissing(protocol, "key", reason)
