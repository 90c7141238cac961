"""Build commands from request structs.

The docstring of a request is the command's help, its fields are the arguments and options, and `WORK` names
the function that does its work. Request modules import nothing slow; the module of `WORK` is imported when
the command runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any, ClassVar, Final, get_args, get_origin, get_type_hints

import msgspec
import typer

from relay.cli.exits import finish

#: Separates the name of a group from that of an option in the name of a parameter.
_PART: Final = "__"


class CommandOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options that several commands share. A request with a field of such a type gets its options."""


class CommandRequest(CommandOptions, frozen=True, kw_only=True):
    """The arguments and options of a command.

    WORK: the function that does the work, as `module:function`. It returns the exit status, None for 0.
    EXAMPLE: a command line that ends the help.
    """

    WORK: ClassVar[str]
    EXAMPLE: ClassVar[str] = ""

    def run(self) -> int | None:
        """Call `WORK`. Raises its errors."""
        module, _, function = self.WORK.partition(":")
        status: int | None = getattr(import_module(module), function)(self)
        return status


def add_command(app: typer.Typer, name: str, request: type[CommandRequest]) -> None:
    """Add the command of a request to a program or to a group of commands."""
    parameters = list(_parameters(request))

    def command(context: typer.Context, **given: object) -> None:
        raise finish(lambda: _filled(request, given).run(), show_traceback=context.obj)

    context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    # typer reads the signature and the annotations.
    vars(command)["__signature__"] = inspect.Signature([context, *parameters])
    command.__annotations__ = {each.name: each.annotation for each in (context, *parameters)}
    epilog = f"Example: {request.EXAMPLE}" if request.EXAMPLE else None
    app.command(name, help=paragraphs(inspect.getdoc(request) or ""), epilog=epilog)(command)


def paragraphs(text: str) -> str:
    """Join the lines of each paragraph: help is wrapped to the width of the terminal."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _parameters(request: type[CommandOptions], group: str = "") -> Iterator[inspect.Parameter]:
    """Yield the parameters of a request, with groups of options flattened."""
    for name, hint, default in _fields(request):
        if _is_group(hint):
            yield from _parameters(hint, f"{group}{name}{_PART}")
        else:
            yield inspect.Parameter(
                group + name,
                inspect.Parameter.KEYWORD_ONLY,
                default=_default(default),
                annotation=_as_list(hint),
            )


def _default(default: object) -> object:
    """Return the default in typer's form: None for an option that was not repeated."""
    if default is msgspec.NODEFAULT:
        return inspect.Parameter.empty
    return None if default == () else default


def _filled(request: type[Any], given: Mapping[str, Any], group: str = "") -> Any:  # noqa: ANN401 - of that type
    """Build a request from parameters."""
    values: dict[str, Any] = {}
    for name, hint, _ in _fields(request):
        if _is_group(hint):
            values[name] = _filled(hint, given, f"{group}{name}{_PART}")
        else:
            value = given[group + name]
            values[name] = tuple(value or ()) if _is_tuple(hint) else value
    return request(**values)


def _fields(request: type[CommandOptions]) -> Iterator[tuple[str, Any, Any]]:
    hints = get_type_hints(request, include_extras=True)
    for field in msgspec.structs.fields(request):
        yield field.name, hints[field.name], field.default


def _is_group(hint: object) -> bool:
    return isinstance(hint, type) and issubclass(hint, CommandOptions)


def _is_tuple(hint: object) -> bool:
    return get_origin(hint) is Annotated and get_origin(get_args(hint)[0]) is tuple


def _as_list(hint: object) -> object:
    """Return the annotation in typer's form: lists for repeatable options."""
    if not _is_tuple(hint):
        return hint
    kind, option = get_args(hint)
    return Annotated[list[get_args(kind)[0]] | None, option]  # type: ignore[misc]  # a type made at run time
