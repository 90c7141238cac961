"""The generated parts of the documentation, read from the code itself. `python -m docs.generate` in `tests`
writes them anew.

A generated part stands between `<!-- generated: NAME -->` and `<!-- end -->`; `test_documentation.py`
compares.
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

from docs import layers
from relay.cli.formats import options_of, profile_options, title_of
from relay.codecs import BUILT_IN
from relay.codecs.codec import Codec
from relay.codecs.given_options import parse_options
from relay.codecs.losses import Before, Carries
from relay.config import Config
from relay.loss_texts import route_losses

ROOT = Path(__file__).parents[2]
_PART = re.compile(r"(<!-- generated: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_EXAMPLE_KEY = re.compile(r"(?:# )?([a-z_]+) = ")


class Variant(NamedTuple):
    """A protocol with some of its options."""

    protocol: str
    options: str
    carries: Carries


def added_by_options(codec: Codec) -> Iterator[tuple[str, str, set[str]]]:
    """The options with which a protocol carries more than by default, and the fields of `Carries` they add."""
    default = _carried(codec, {})
    for option in options_of(codec):
        values = option.type.split(" | ")
        for value in values if len(values) > 1 else ():
            carried = _carried(codec, {option.name: value})
            added = {name for name, what in carried.items() if what is True and not default[name]}
            if added:
                yield option.name, value, added


def _carried(codec: Codec, options: dict[str, str]) -> dict[str, object]:
    return msgspec.structs.asdict(codec.encodes(parse_options(codec, options, "options")))


def variants() -> list[Variant]:
    """Every protocol with its default options, and with those that make it carry more, one after the other."""
    found = []
    for codec in (each for each in BUILT_IN.values() if each.is_writable):
        found.append(Variant(codec.name, "default", codec.encodes(parse_options(codec, {}, "options"))))
        given: dict[str, str] = {}
        for name, value, _ in added_by_options(codec):
            given[name] = value
            text = ", ".join(f"`{name}={value}`" for name, value in given.items())
            found.append(Variant(codec.name, text, codec.encodes(parse_options(codec, given, "options"))))
    return found


def protocols_part() -> str:
    """The protocols by name."""
    rows = [(f"`{codec.name}`", _sentence(title_of(codec))) for codec in BUILT_IN.values()]
    return table(("protocol", "what it is"), rows)


def options_part() -> str:
    """A table of options for each protocol."""
    parts = []
    for codec in BUILT_IN.values():
        rows = [
            (
                f"`{option.name}`",
                option.type,
                option.default and f"`{option.default}`",
                option.side,
                option.description,
            )
            for option in options_of(codec)
        ]
        options = table(("option", "type", "default", "side", "meaning"), rows)
        parts.append(f"### {codec.name}\n\n{_sentence(title_of(codec))}\n\n{options}")
    return "\n".join(parts)


def profiles_part() -> str:
    """What each profile sets, and why."""
    parts = []
    for codec in BUILT_IN.values():
        for profile in codec.profiles:
            rows = [(f"`{one.name}={one.value}`", one.reason) for one in profile_options(codec, profile, {})]
            parts.append(f"#### {codec.name}, `profile={profile}`\n\n{table(('sets', 'because'), rows)}")
    return "\n".join(parts)


def carries_part() -> str:
    """What each protocol can say: a column for each variant."""
    columns = variants()
    rows = [
        (name.replace("_", " "), *(_yes_no(getattr(variant.carries, name)) for variant in columns))
        for name in Carries.__struct_fields__
    ]
    return table(("", *(f"`{variant.protocol}`, {variant.options}" for variant in columns)), rows)


def losses_part() -> str:
    """What a route loses of all that its source may say, for every protocol and every target."""
    rows = []
    sources = [codec for codec in BUILT_IN.values() if codec.is_readable]
    for source, target in itertools.product(sources, variants()):
        lost = "; ".join(loss.words for loss in route_losses(source.decodes, target.carries))
        rows.append((f"`{source.name}`", f"`{target.protocol}`, {target.options}", lost or "nothing"))
    return table(("from", "to", "what the target has no place for"), rows)


def configuration_part() -> str:
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


PARTS: dict[str, Callable[[], str]] = {
    "protocols": protocols_part,
    "layers": layers.part,
    "options": options_part,
    "profiles": profiles_part,
    "carries": carries_part,
    "losses": losses_part,
    "configuration": configuration_part,
}


def pages() -> list[Path]:
    """The pages of the documentation."""
    outer = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG")]
    return [*outer, *sorted((ROOT / "docs").rglob("*.md"))]


def generated(text: str) -> str:
    """The page with its generated parts made anew."""
    return _PART.sub(lambda found: f"{found[1]}{PARTS[found[2]]()}{found[3]}", text)


def main() -> None:
    """Write the generated parts of all pages."""
    for page in pages():
        page.write_text(generated(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
