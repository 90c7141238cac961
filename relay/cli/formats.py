"""`relay formats`: the protocols, their options, and a route's losses, as the codecs declare them."""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
import orjson
import typer

from relay.cli import layout
from relay.cli.exits import say_warning
from relay.cli.option_names import USUAL
from relay.cli.parsing import key_values
from relay.cli.requests.files import FormatsRequest
from relay.codecs import PROTOCOLS, codec_named, plugin_problems
from relay.codecs.codec import SIDES, Codec, Options, side_of
from relay.codecs.given_options import PROFILE, parse_options
from relay.codecs.losses import Before, Capabilities
from relay.core.loss_texts import RouteLoss, large_row_losses, route_losses
from relay.model.errors import ConfigError, Problem

_COUNTED = (
    "relay counts losses under the names in brackets; with the target option strict it refuses all or some."
)
_PROFILE = "preset options for one kind of reader; options that you set explicitly take precedence"


class Option(msgspec.Struct, frozen=True):
    """One option of a protocol, as the user writes it. `side`: `source`, `target` or `both`."""

    name: str
    type: str
    default: str
    side: str
    description: str


def formats(request: FormatsRequest) -> None:
    """Print a route's losses, one protocol if only one side is named, or all if none is.

    With a profile, print the options that the target's profile sets. Raises ConfigError with every problem.
    """
    profile, as_json, target_options = request.profile, request.as_json, request.target_options
    problems: list[Problem] = []
    if profile is not None:
        problems += _profile_problems(request.target, target_options)
        target_options = (*target_options, f"{PROFILE}={profile}")
    if problems:
        raise ConfigError(problems)
    from_side = _side(request.source, request.source_options, "from", problems)
    to_side = _side(request.target, target_options, "to", problems)
    if problems:
        raise ConfigError(problems)
    if from_side is not None and to_side is not None:
        (source_codec, _), (target_codec, options) = from_side, to_side
        lost = route_losses(source_codec.decodes, target_codec.output(options)) + large_row_losses(options)
        _print_route(source_codec.name, target_codec.name, lost, as_json=as_json)
        return
    if profile is not None and to_side is not None:
        given = key_values(target_options, "--to-option", problems)
        show_profile(to_side[0], profile, given, as_json=as_json)
        return
    chosen = from_side or to_side
    if chosen is None:
        for problem in plugin_problems():
            say_warning(str(problem))
    codecs = list(PROTOCOLS.values()) if chosen is None else [chosen[0]]
    carries = None if chosen is None else chosen[0].output(chosen[1])
    if as_json:
        _print_json(codecs, carries)
    else:
        _print_protocols(codecs, carries)


def _profile_problems(target: str | None, target_options: Sequence[str]) -> Iterator[Problem]:
    if target is None:
        yield Problem("--profile", "needs a protocol", "add --to PROTOCOL")
    if any(text.startswith(f"{PROFILE}=") for text in target_options):
        yield Problem("--profile", "is also in --to-option", "keep one")


def _side(
    name: str | None, texts: Sequence[str], side: str, problems: list[Problem]
) -> tuple[Codec, Options] | None:
    options = key_values(texts, f"--{side}-option", problems)
    if name is None:
        if texts:
            problems.append(Problem(f"--{side}-option", "needs a protocol", f"add --{side} PROTOCOL"))
        return None
    try:
        codec = codec_named(name, side)
        parsed = parse_options(codec, options, f"{side}.option", SIDES[side])
    except ConfigError as error:
        problems += USUAL.of_problems(error.problems)
        return None
    if side == "to":
        found = parsed.writing_problems()
        problems += USUAL.of_problems(each._replace(path=f"to.option.{each.path}") for each in found)
    return codec, parsed


def options_of(codec: Codec) -> list[Option]:
    """Return a codec's options with type, default and description.

    These are the profiles, if it has any, and the fields of its `Options`, without those of an unsupported
    side.
    """
    profiles = [Option(PROFILE, " | ".join(codec.profiles), "", "target", _PROFILE)] if codec.profiles else []
    return profiles + [
        Option(
            field.encode_name,
            type_name(field.type),
            _text(field.default),
            side_of(field.type) or "both",
            _description(field.type),
        )
        for field in msgspec.structs.fields(codec.options)
        if codec.serves(side_of(field.type))
    ]


class ProfileOption(msgspec.Struct, frozen=True):
    """The value of an option in a profile, and why.

    `is_given`: the user set the option as well, which overrides the profile.
    """

    name: str
    value: str
    reason: str
    is_given: bool


def profile_options(codec: Codec, profile: str, given: Mapping[str, str]) -> list[ProfileOption]:
    """Return the options of a profile, in its order, with the options that the user set as well."""
    reasons = {option.name: option.description for option in options_of(codec)}
    reasons |= codec.profile_reasons.get(profile, {})
    return [
        ProfileOption(name, given.get(name, value), reasons[name], name in given)
        for name, value in codec.profiles[profile].items()
    ]


def show_profile(codec: Codec, profile: str, given: Mapping[str, str], *, as_json: bool) -> None:
    """Print the options of a profile, with reasons."""
    found = profile_options(codec, profile, given)
    if as_json:
        options = [msgspec.structs.asdict(option) for option in found]
        _echo_json({"protocol": codec.name, "profile": profile, "options": options})
        return
    typer.echo(f"{codec.name}, profile {profile}:")
    rows = [
        (f"{option.name}={option.value}", "set explicitly" if option.is_given else option.reason)
        for option in found
    ]
    for line in layout.pairs(rows, layout.width()):
        typer.echo(line)
    typer.echo("Options that you set explicitly take precedence.")


def _description(annotation: Any) -> str:  # noqa: ANN401 - any annotation
    metas = [meta for meta in getattr(annotation, "__metadata__", ()) if isinstance(meta, msgspec.Meta)]
    return next((meta.description for meta in metas if meta.description), "")


def type_name(annotation: Any) -> str:  # noqa: ANN401 - any annotation
    """Return a type as users write its values: `integer`, `a | b`."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _form(annotation) or type_name(arguments[0])
    if origin is Literal:
        return " | ".join(str(choice) for choice in arguments)
    if origin in {typing.Union, types.UnionType}:
        return " | ".join(type_name(choice) for choice in arguments if choice is not type(None))
    if annotation is bool:
        return "true | false"
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return " | ".join(str(choice.value) for choice in annotation)
    return {int: "integer", str: "text", float: "number"}.get(
        annotation, getattr(annotation, "__name__", str(annotation))
    )


def _form(annotation: Any) -> str:  # noqa: ANN401 - any annotation
    """Return an option's own description of its values; "" where its type suffices."""
    metas = [meta for meta in annotation.__metadata__ if isinstance(meta, msgspec.Meta)]
    return next((str(meta.extra["form"]) for meta in metas if meta.extra and "form" in meta.extra), "")


def _text(value: object) -> str:
    """Return an option's default as the user would write it; "" for none."""
    if value is None or value is msgspec.NODEFAULT:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value.value) if isinstance(value, enum.Enum) else str(value)


def _print_protocols(codecs: Sequence[Codec], carries: Capabilities | None) -> None:
    columns = layout.page_width()
    for number, codec in enumerate(codecs):
        if number:
            typer.echo()
        name = typer.style(codec.name, bold=True)
        title, *rest = layout.wrapped(title_of(codec), f"{codec.name}  ", "  ", columns)
        typer.echo(name + title.removeprefix(codec.name))
        for line in (*rest, *_option_lines(codec, columns)):
            typer.echo(line)
    if carries is not None:
        typer.echo("\nWith these options it carries:")
        for line in layout.pairs(list(_carries_texts(carries).items()), columns):
            typer.echo(line)


def title_of(codec: Codec) -> str:
    """Return the title of a protocol, with its side if it supports only one."""
    if codec.is_readable and codec.is_writable:
        return codec.title
    return f"{codec.title}; only {'read' if codec.is_readable else 'written'}"


def _option_lines(codec: Codec, columns: int | None) -> list[str]:
    """Return the options of a protocol: name, default, values and side, and below it their meaning."""
    lines: list[str] = []
    for option in options_of(codec):
        default = f"={option.default}" if option.default else ""
        side = "" if option.side == "both" else f" ({option.side} only)"
        lines += layout.wrapped(f"{option.type}{side}", f"  {option.name}{default}  ", "      ", columns)
        lines += layout.wrapped(option.description, "      ", "      ", columns)
    return lines


def _carries_texts(carries: Capabilities) -> dict[str, str]:
    return {name.replace("_", " "): _yes_no(value) for name, value in msgspec.structs.asdict(carries).items()}


def _yes_no(value: object) -> str:
    return str(value) if isinstance(value, Before) else ("yes" if value else "no")


def _print_route(source: str, target: str, lost: list[RouteLoss], *, as_json: bool) -> None:
    if as_json:
        _echo_json({"from": source, "to": target, "lost": [msgspec.structs.asdict(loss) for loss in lost]})
    elif not lost:
        typer.echo(f"{source} -> {target}: no losses.")
    else:
        columns = layout.width()
        typer.echo(f"{source} -> {target} loses, where a message has it:")
        for loss in lost:
            kinds = f" [{', '.join(loss.kinds)}]" if loss.kinds else ""
            for line in layout.wrapped(loss.text + kinds, "  - ", "    ", columns):
                typer.echo(line)
        for line in layout.wrapped(_COUNTED, "", "", columns):
            typer.echo(line)


def _print_json(codecs: Sequence[Codec], carries: Capabilities | None) -> None:
    protocols = []
    for codec in codecs:
        entry: dict[str, Any] = {
            "name": codec.name,
            "title": title_of(codec),
            "readable": codec.is_readable,
            "writable": codec.is_writable,
            "options": [msgspec.structs.asdict(option) for option in options_of(codec)],
        }
        if carries is not None:
            entry["carries"] = msgspec.to_builtins(carries)
        protocols.append(entry)
    _echo_json({"protocols": protocols})


def _echo_json(document: object) -> None:
    typer.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2))
