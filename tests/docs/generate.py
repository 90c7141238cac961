"""The generated parts of the documentation, read from the code itself. `python -m docs.generate` in `tests`
writes them anew.

A generated part is between `<!-- generated: NAME -->` or `<!-- generated: NAME ARGUMENT -->` and
`<!-- end -->`; `test_documentation.py` compares.
"""

from __future__ import annotations

import itertools
import re
import typing
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import annotated_types
import msgspec
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from relay.cli.formats import options_of, profile_options, title_of
from relay.codecs import BUILT_IN
from relay.codecs.codec import Codec
from relay.codecs.given_options import parse_options
from relay.codecs.losses import Before, Capabilities
from relay.config import Config
from relay.core.loss_texts import route_losses

ROOT = Path(__file__).parents[2]
_PART = re.compile(r"(<!-- generated: ([a-z-]+)(?: ([a-z/-]+))? -->\n).*?(<!-- end -->)", re.DOTALL)
_EXAMPLE_KEY = re.compile(r"(?:# )?([a-z_]+) = ")


class Setting(NamedTuple):
    """An option of a target with which it carries more than by default, or the defaults (no text)."""

    text: str
    carries: Capabilities


def added_by_options(codec: Codec) -> Iterator[tuple[str, str, set[str]]]:
    """The options with which a protocol carries more than by default, and the fields of `Capabilities` they add."""
    default = msgspec.structs.asdict(_encodes(codec, {}))
    for option in options_of(codec):
        values = option.type.split(" | ")
        for value in values if len(values) > 1 else ():
            carried = msgspec.structs.asdict(_encodes(codec, {option.name: value}))
            added = {name for name, what in carried.items() if what is True and not default[name]}
            if added:
                yield option.name, value, added


def _encodes(codec: Codec, given: dict[str, str]) -> Capabilities:
    return codec.encodes(parse_options(codec, given, "options"))


def settings(codec: Codec) -> list[Setting]:
    """The default options of a target, then each option that makes it carry more; what a source without an encoder
    carries.
    """
    if not codec.is_writable:
        return [Setting("", codec.decodes)]
    options = [(name, value) for name, value, _ in added_by_options(codec)]
    return [
        Setting("", _encodes(codec, {})),
        *(Setting(f"`{name}={value}`", _encodes(codec, {name: value})) for name, value in options),
    ]


def protocols_part(folder: str) -> str:
    """The protocols by name, each with a link to its page in `folder`."""
    rows = [
        (f"[`{codec.name}`]({folder}{codec.name}.md)", _sentence(title_of(codec)))
        for codec in BUILT_IN.values()
    ]
    return table(("protocol", "messages"), rows)


def options_part(protocol: str) -> str:
    """The options of a protocol."""
    rows = [
        (
            f"`{option.name}`",
            option.type,
            option.default and f"`{option.default}`",
            option.side,
            option.description,
        )
        for option in options_of(BUILT_IN[protocol])
    ]
    return table(("option", "type", "default", "side", "meaning"), rows)


def profiles_part(protocol: str) -> str:
    """The options that each profile of a protocol sets, with the reasons."""
    codec = BUILT_IN[protocol]
    parts = []
    for profile in codec.profiles:
        rows = [(f"`{one.name}={one.value}`", one.reason) for one in profile_options(codec, profile, {})]
        parts.append(f"### `profile={profile}`\n\n{table(('sets', 'because'), rows)}")
    return "\n".join(parts)


def capabilities_part(protocol: str) -> str:
    """The facts that a protocol's messages carry: with the default options, and with others."""
    default, *others = settings(BUILT_IN[protocol])
    rows = []
    for name in Capabilities.__struct_fields__:
        by_default = _yes_no(getattr(default.carries, name))
        changed = [
            f"{_yes_no(getattr(other.carries, name))} with {other.text}"
            for other in others
            if getattr(other.carries, name) != getattr(default.carries, name)
        ]
        rows.append((name.replace("_", " "), by_default, "; ".join(changed)))
    return table(("fact", "by default", "with options"), rows)


def all_capabilities_part(_: str) -> str:
    """The facts that each protocol carries by default; `option` where an option adds them."""
    columns = [settings(codec) for codec in BUILT_IN.values() if codec.is_writable]
    rows = [
        (name.replace("_", " "), *(_default_or_option(found, name) for found in columns))
        for name in Capabilities.__struct_fields__
    ]
    names = (f"`{codec.name}`" for codec in BUILT_IN.values() if codec.is_writable)
    return table(("", *names), rows)


def _default_or_option(found: list[Setting], name: str) -> str:
    by_default, *others = (getattr(setting.carries, name) for setting in found)
    if isinstance(by_default, Before):
        return by_default.name.lower()
    return "yes" if by_default else "option" if any(others) else "no"


def losses_part(protocol: str) -> str:
    """The facts that a target loses: from which sources, and with which of its options."""
    sources = [codec for codec in BUILT_IN.values() if codec.is_readable]
    found = settings(BUILT_IN[protocol])
    losing: dict[str, dict[str, set[str]]] = {}
    for source, setting in itertools.product(sources, found):
        for loss in route_losses(source.decodes, setting.carries):
            losing.setdefault(loss.text, {}).setdefault(source.name, set()).add(setting.text)
    rows = []
    for words, by_source in losing.items():
        grouped: dict[tuple[str, ...], list[str]] = {}
        for name in (codec.name for codec in sources if codec.name in by_source):
            texts = tuple(setting.text for setting in found if setting.text in by_source[name])
            grouped.setdefault(texts, []).append(name)
        for texts, names in grouped.items():
            rows.append((words, _sources(names, len(sources)), _options(texts, found)))
    return table(("lost", "from", "options"), rows)


def _sources(names: list[str], of: int) -> str:
    return "all" if len(names) == of else ", ".join(f"`{name}`" for name in names)


def _options(losing: tuple[str, ...], found: list[Setting]) -> str:
    """With which options a fact is lost; empty if with all."""
    keeping = [setting.text for setting in found if setting.text not in losing]
    if not keeping:
        return ""
    return f"kept with {' or '.join(keeping)}" if "" in losing else f"lost only with {' or '.join(losing)}"


def configuration_part(_: str) -> str:
    """A table of keys for each table of the configuration; the words come from config.example.toml."""
    words = _example_words()
    parts = []
    for name, model in _tables(Config):
        rows = [
            (f"`{key.alias or attribute}`", _type(key), _default(key), words[name, key.alias or attribute])
            for attribute, key in model.model_fields.items()
            if not _is_table(key.annotation)
        ]
        parts.append(f"### [{name}]\n\n{table(('key', 'type', 'default', 'meaning'), rows)}")
    return "\n".join(parts)


def _is_table(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _tables(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, type[BaseModel]]]:
    """All tables by their dotted names, an inner one behind the one that holds it."""
    for name, field in model.model_fields.items():
        if _is_table(field.annotation):
            inner = typing.cast("type[BaseModel]", field.annotation)
            yield path + name, inner
            yield from _tables(inner, f"{path}{name}.")


def _example_words() -> dict[tuple[str, str], str]:
    """The explanation above every key of config.example.toml."""
    found: dict[tuple[str, str], str] = {}
    name, words = "", ""
    for line in (ROOT / "config.example.toml").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            name, words = line.strip("[]"), ""
        elif line.startswith("## "):
            words = f"{words} {line[3:]}".strip()
        elif key := _EXAMPLE_KEY.match(line):
            found[name, key[1]] = words
        elif not line:
            words = ""
    return found


_TYPE_NAMES: dict[object, str] = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "boolean",
    SecretStr: "secret",
}


def _type(field: FieldInfo) -> str:
    annotation = field.annotation
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return ", ".join(f"`{choice.value}`" for choice in annotation)
    origin = typing.get_origin(annotation)
    if origin is dict:
        return "table of options" if typing.get_args(annotation)[1] is str else "table of integers"
    name = _list_type(annotation) if origin is tuple else _TYPE_NAMES[annotation]
    for item in field.metadata:
        name += f" > {item.gt}" if isinstance(item, annotated_types.Gt) else ""
        name += f" ≥ {item.ge}" if isinstance(item, annotated_types.Ge) else ""
        name += f", ≤ {item.le}" if isinstance(item, annotated_types.Le) else ""
    return name


def _list_type(annotation: object) -> str:
    member = typing.get_args(annotation)[0]
    return "list of tables" if isinstance(member, type) and issubclass(member, BaseModel) else "list of text"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "must be set"
    default = field.default.get_secret_value() if isinstance(field.default, SecretStr) else field.default
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, tuple):
        return f"`{list(default)}`"
    text = str(default) if isinstance(default, int | float) else "{}" if default == {} else f'"{default}"'
    return f"`{text}`"


def _yes_no(value: object) -> str:
    return str(value) if isinstance(value, Before) else ("yes" if value else "no")


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}." if not text.startswith("TiCDC") else f"{text}."


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


PARTS: dict[str, Callable[[str], str]] = {
    "protocols": protocols_part,
    "all-capabilities": all_capabilities_part,
    "configuration": configuration_part,
}
#: Parts about one protocol, each on the protocol's own page.
PARTS_OF_PROTOCOLS: dict[str, Callable[[str], str]] = {
    "options": options_part,
    "profiles": profiles_part,
    "capabilities": capabilities_part,
    "losses": losses_part,
}


def pages() -> list[Path]:
    """The pages of the documentation."""
    outer = [
        ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG", "SECURITY", "helm/README")
    ]
    return [*outer, *sorted((ROOT / "docs").rglob("*.md"))]


def generated(text: str) -> str:
    """The page with its generated parts made anew."""
    parts = PARTS | PARTS_OF_PROTOCOLS
    return _PART.sub(lambda found: f"{found[1]}{parts[found[2]](found[3] or '')}{found[4]}", text)


def main() -> None:
    """Write the generated parts of all pages."""
    for page in pages():
        page.write_text(generated(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
