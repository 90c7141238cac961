"""Parse options from command line, configuration or program into a codec's own."""

from __future__ import annotations

import enum
import typing
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec

from relay.codecs.codec import Codec, Options, Side, side_of, types_of_options
from relay.codecs.losses import Loss, strict_problems
from relay.codecs.row_keys import key_problems
from relay.model.errors import ConfigError, Problem
from relay.text.hints import hint_for
from relay.text.redaction import quoted, shown_name

#: The option that sets a group of others (`Codec.profiles`).
PROFILE: Final = "profile"
#: Earlier names of options, so that the error about an old name gives the new one.
RENAMED_OPTIONS: Final[Mapping[str, str]] = {"unknown-before": "missing-before"}
#: An option's value from a program or a TOML file.
OptionValue = str | bool | int | float | Sequence[str]


def option_texts(given: Mapping[str, OptionValue]) -> dict[str, str]:
    """Return options with their values as the texts that `parse_options` reads: `True` is `true`, a list has
    commas between its items. Raises TypeError for values that are neither, by their option's name alone.
    """
    texts: dict[str, str] = {}
    for name, value in given.items():
        text = option_text(value)
        if not isinstance(text, str):
            message = f"the option {shown_name(str(name))} must be text, a bool, a number or a list of texts"
            raise TypeError(f"{message}, not {type(value).__name__}")
        texts[name] = text
    return texts


def option_text(value: object) -> object:
    """Return an option's value as text; a value of an unsupported type is returned unchanged."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, enum.Enum):
        return str(value.value)
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list | tuple | set | frozenset) and all(isinstance(item, str) for item in value):
        return ",".join(sorted(value) if isinstance(value, set | frozenset) else value)
    return value


def parse_options(codec: Codec, given: Mapping[str, str], key_path: str, side: Side | None = None) -> Options:
    """Parse `name=value` texts into the codec's frozen options, for one side of a route or (None) for no
    certain one. An option given alongside a profile takes precedence over it.

    Raises ConfigError with every problem: an unknown name (with similar ones), an option of the other side,
    an invalid value, options that contradict each other.
    """
    types = types_of_options(codec.options)
    problems: list[Problem] = []
    values: dict[str, Any] = {}
    for name, text in _with_profile(codec, given, key_path, side, problems).items():
        if name not in types:
            names = [*types, PROFILE] if codec.profiles and side != "source" else list(types)
            problems.append(_unknown_option(codec, name, names, key_path))
            continue
        only = side_of(types[name])
        if side is not None and only not in {None, side}:
            problems.append(_wrong_side(f"{key_path}.{name}", only, side))
            continue
        try:
            values[name] = msgspec.convert(text, types[name], strict=False)
        except msgspec.ValidationError as error:
            message = f"{quoted(text)} does not fit"
            if choices := _choices(types[name]):
                problems.append(Problem(f"{key_path}.{name}", message, f"choices: {', '.join(choices)}"))
            else:
                problems.append(Problem(f"{key_path}.{name}", f"{message}: {error}"))
    options = msgspec.convert(values, codec.options)
    found = [*strict_problems(options.strict), *options.problems()]
    if side == "target":
        found = [*found, *key_problems(codec, options)]
    problems += [problem._replace(path=f"{key_path}.{problem.path}") for problem in found]
    if problems:
        raise ConfigError(problems)
    return options


def option_names(codec: Codec, side: Side) -> list[str]:
    """Return the names of the options that a codec takes on a side."""
    names = [name for name, kind in types_of_options(codec.options).items() if side_of(kind) in {None, side}]
    return [PROFILE, *names] if codec.profiles and side == "target" else names


def _choices(annotation: Any) -> list[str]:  # noqa: ANN401 - a type annotation can be anything
    """Return the texts that an option of this type accepts; none if they are not a list."""
    if annotation is bool:
        return ["true", "false"]
    arguments = typing.get_args(annotation)
    if typing.get_origin(annotation) is Literal:
        return [str(choice) for choice in arguments]
    if typing.get_origin(annotation) is Annotated:
        return _choices(arguments[0])
    return [text for each in arguments for text in _choices(each)]


def reading_options(codec: Codec, given: Mapping[str, str]) -> dict[str, str]:
    """Return the options with which a source reads the output of a target with these options; these are known
    to be valid.
    """
    types = types_of_options(codec.options)
    options = _with_profile(codec, given, "", None, [])
    return {name: text for name, text in options.items() if side_of(types[name]) != "target"}


def writing_options(codec: Codec, given: Mapping[str, str]) -> dict[str, str]:
    """Return the options that a target takes, of those for both sides; these are known to be valid."""
    types = types_of_options(codec.options)
    return {name: text for name, text in given.items() if name == PROFILE or side_of(types[name]) != "source"}


def _with_profile(
    codec: Codec, given: Mapping[str, str], key_path: str, side: Side | None, problems: list[Problem]
) -> Mapping[str, str]:
    """Return the options with those of the profile that they name; options given explicitly win."""
    if PROFILE not in given:
        return given
    rest, path = {name: text for name, text in given.items() if name != PROFILE}, f"{key_path}.{PROFILE}"
    if side == "source":
        problems.append(_wrong_side(path, "target", side))
        return rest
    found = codec.profiles.get(given[PROFILE])
    if found is None:
        message = f"{codec.name} has no profile {quoted(given[PROFILE])}"
        profiles = sorted(codec.profiles)
        otherwise = "profiles: " + ", ".join(profiles) if profiles else "it has none"
        hint = hint_for(given[PROFILE], profiles, otherwise)
        problems.append(Problem(path, message, hint))
        return rest
    return {**found, **rest}


def _unknown_option(codec: Codec, name: str, names: Sequence[str], key_path: str) -> Problem:
    shown, known = shown_name(name), sorted(names)
    hint = hint_for(name, known, "options: " + ", ".join(known), new_name=RENAMED_OPTIONS.get(name))
    return Problem(f"{key_path}.{shown}", f"{codec.name} has no option {shown!r}", hint)


def _wrong_side(path: str, only: Side | None, side: Side) -> Problem:
    message = f"applies to the {only} side and has no effect on the {side} side"
    return Problem(path, message, f"give it to the {only}, or leave it out")


def idle_options(codec: Codec, given: Mapping[str, str], key_path: str) -> list[Problem]:
    """Find options of a target that are given and have no effect: with the others, or in this format, or a
    profile whose every option is given explicitly. The options are known to be valid.
    """
    options = parse_options(codec, given, key_path, "target")
    says, most, reasons = codec.encodes(options), codec.decodes, options.without_effect()
    for name, is_given, may_be, loss in (
        ("ddl", says.ddl, most.ddl, Loss.DDL),
        ("watermarks", says.watermark, most.watermark, Loss.WATERMARK),
    ):
        # `strict` ignores events left out on purpose.
        if not is_given and not (loss in options.refused_losses and given.get(name) == "drop"):
            reasons[name] = f"{codec.name} writes none" + (" with these options" if may_be else "")
    profile = codec.profiles.get(given.get(PROFILE, ""))
    if profile is not None and profile.keys() <= given.keys():
        reasons[PROFILE] = "every option that it sets is also given"
    return [
        Problem(f"{key_path}.{name}", f"has no effect: {reasons[name]}") for name in given if name in reasons
    ]
