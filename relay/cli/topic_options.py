"""The options that name a topic and which of its records are read, for every command that takes a topic in
place of files.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from relay.cli.arguments import STANDARD, Settings
from relay.cli.topic_request import TopicRequest
from relay.errors import ConfigError, Problem

_HELP: Final = (
    "The topic to read; no group is joined. With --config it may be left out if that names only one."
)
_FromTopic = Annotated[str | None, typer.Option("--from-topic", metavar="TOPIC", help=_HELP)]
#: The same, of commands whose --topic can mean nothing else. Help names one spelling.
_Topic = Annotated[str | None, typer.Option("--topic", metavar="TOPIC", hidden=True)]
Brokers = Annotated[
    str | None,
    typer.Option("--brokers", "-b", metavar="HOST:PORT", help="The brokers, if they need no login or TLS."),
]
TopicConfig = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", metavar="FILE", help="A configuration with the brokers, TLS and login of the topic."
    ),
]
_Last = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1_000_000,
        metavar="N",
        help="The newest N records of the topic.",
        show_default="100, if nothing else says which",
    ),
]
Since = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Only records from this time on: 2026-11-26T10:00 (UTC), or how long ago: 90s, 15m, 2h, 1d.",
    ),
]
Until = Annotated[
    str | None, typer.Option(metavar="TIME", help="Only records before this time, written like --since.")
]


class TopicOptions(NamedTuple):
    """What these options say. A command that has a parameter of this type has the options in its place."""

    from_topic: str | None
    brokers: str | None
    config: Path | None
    settings: list[str] | None
    last: int | None
    since: str | None

    @property
    def request(self) -> TopicRequest:
        """What they ask for, complete or not."""
        return TopicRequest(
            topic=self.from_topic,
            bootstrap=self.brokers,
            config=self.config,
            settings=tuple(self.settings or ()),
            last=self.last,
            since=self.since,
        )

    def in_place_of(self, inputs: Sequence[str]) -> TopicRequest | None:
        """Return what is asked for, None if files are to be read. Raises ConfigError for both."""
        topic = {"--from-topic": self.from_topic, "--brokers": self.brokers, "--config": self.config}
        named = [option for option, value in topic.items() if value is not None]
        if named and any(name != STANDARD for name in inputs):
            raise ConfigError([Problem("INPUT", f"cannot stand beside {named[0]}", "leave one of them out")])
        if named:
            return self.request
        others = {"--set": self.settings, "--last": self.last, "--since": self.since}
        problems = [
            Problem(option, "is about a topic, and none is named", "add --from-topic TOPIC")
            for option, value in others.items()
            if value
        ]
        if problems:
            raise ConfigError(problems)
        return None


_SHORT: Final = "topic"
_KINDS: Final = {
    "from_topic": _FromTopic,
    "brokers": Brokers,
    "config": TopicConfig,
    "settings": Settings,
    "last": _Last,
    "since": Since,
}


def with_topic_options(*, short: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options in place of its parameter of the type TopicOptions.

    `short`: the topic may also be named with `--topic`.
    """
    kinds = {**_KINDS, _SHORT: _Topic} if short else _KINDS

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        parameters: list[inspect.Parameter] = []
        place = ""
        for each in inspect.signature(command, eval_str=True).parameters.values():
            if each.annotation is not TopicOptions:
                parameters.append(each)
                continue
            place = each.name
            parameters += [
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
                for name, kind in kinds.items()
            ]

        def with_options(**given: object) -> None:
            options = {name: given.pop(name) for name in kinds}
            short_name = options.pop(_SHORT, None)
            if None not in (short_name, options["from_topic"]):
                raise typer.BadParameter("--topic is another word for --from-topic: give one of them")
            options["from_topic"] = short_name if options["from_topic"] is None else options["from_topic"]
            command(**given, **{place: TopicOptions(**options)})  # type: ignore[arg-type]  # typer has checked them

        with_options.__doc__ = command.__doc__
        with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
        with_options.__annotations__ = {each.name: each.annotation for each in parameters}
        return with_options

    return decorated
