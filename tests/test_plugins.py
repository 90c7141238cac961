"""Protocols of other packages: one that is only read, and packages that cannot be loaded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from support import captured, record
from toy_protocol import facts
from toy_protocol.facts import NAME as FACTS
from typer.testing import CliRunner, Result

from relay import ConfigError, DecodeError, LimitExceeded, Limits, Resolver, Translator
from relay.cli.commands import app
from relay.cli.playground.catalog import protocol_entry
from relay.cli.requests.options import sources, targets
from relay.codecs import protocols
from relay.codecs.codec import Codec
from relay.codecs.plugins import Plugin, unusable
from relay.core.detection import detect
from relay.io import resolver
from relay.model.lookups import RegisteredSchema, SchemaById

FACT = {"toy_facts": "shop.orders", "row": {"id": 7}}
Bring = Callable[..., None]


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bring]:
    """Say which entry points other packages have."""

    def bring(module: object, *found: Plugin[Codec]) -> None:
        monkeypatch.setattr(module, "installed", lambda *_: list(found))

    for each in (protocols.plugin_codecs, protocols.protocol_plugins, resolver.plugin_fetches):
        each.cache_clear()
    yield bring
    monkeypatch.undo()
    for each in (protocols.plugin_codecs, protocols.protocol_plugins, resolver.plugin_fetches):
        each.cache_clear()


def relay(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


# ---------------------------------------------------------------- only read


@pytest.fixture
def facts_only(plugins: Bring) -> None:
    plugins(protocols, Plugin(FACTS, "toy_protocol.facts:CODEC", facts.CODEC))


@pytest.mark.usefixtures("facts_only")
def test_a_protocol_that_is_only_read_is_a_source(tmp_path: Path) -> None:
    path = tmp_path / "facts.jsonl"
    path.write_text(json.dumps(FACT) + "\n")
    assert relay("inspect", "--from", FACTS, path).exit_code == 0
    assert relay("detect", path).stdout.count(FACTS) == 2
    assert relay("diff", "--a", FACTS, path, path).exit_code == 0
    translated = relay("translate", "--from", "auto", "--to", "canal-json", path)
    assert (translated.exit_code, '\\"id\\":\\"7\\"' in translated.stdout) == (0, True)


@pytest.mark.usefixtures("facts_only")
def test_a_protocol_that_is_only_read_is_no_target() -> None:
    with pytest.raises(ConfigError, match=r"to: toy-facts can only be read, not written .*canal-json"):
        Translator("canal-json", FACTS)
    with pytest.raises(TypeError, match="toy-facts is only read"):
        facts.CODEC.open_encoder(facts.CODEC.options(), None)  # type: ignore[arg-type]  # not examined
    refused = relay("formats", "--to", FACTS)
    assert (refused.exit_code, "can only be read" in refused.stderr) == (2, True)
    assert (sources("toy-f"), targets("toy-f")) == ([FACTS], [])


@pytest.mark.usefixtures("facts_only")
def test_a_protocol_that_is_only_read_is_listed() -> None:
    shown = relay("formats", "--from", FACTS).stdout
    assert "only read" in shown
    assert "strict" not in shown, "an option of targets"
    assert (
        relay("formats").exit_code == relay("formats", "--from", FACTS, "--to", "canal-json").exit_code == 0
    )
    (entry,) = json.loads(relay("formats", "--from", FACTS, "--json").stdout)["protocols"]
    assert (entry["readable"], entry["writable"]) == (True, False)
    entry = protocol_entry(facts.CODEC)
    assert (entry["readable"], entry["writable"]) == (True, False)


@pytest.mark.usefixtures("facts_only")
@pytest.mark.parametrize("limit", ["columns", "values"])
@pytest.mark.parametrize("call", ["translate", "inspect", "learn"])
def test_a_codec_that_knows_no_limits_is_kept_within_them(limit: str, call: str) -> None:
    fact = record({"toy_facts": "shop.orders", "row": {f"c{number}": 1 for number in range(40)}})
    value = (fact.value or b"") + b" " * 100
    translator = Translator(FACTS, "canal-json", limits=Limits(**{limit: 39}))
    with pytest.raises(LimitExceeded, match=f"more {limit} than the limit `{limit}` allows, 39"):
        getattr(translator, call)(msgspec.structs.replace(fact, value=value))
    assert Translator(FACTS, "canal-json", limits=Limits(columns=40, values=42)).translate(fact)


# ---------------------------------------------------------------- broken packages


@pytest.fixture
def broken(plugins: Bring) -> None:
    problem = unusable("broken:CODEC", "cannot be loaded: ImportError: no libbroken")
    for module in (protocols, resolver):
        plugins(module, Plugin("broken", "broken:CODEC", None, problem))


@pytest.mark.usefixtures("broken")
def test_a_broken_package_does_not_matter_where_it_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "canal.jsonl"
    path.write_bytes(
        b"".join((each.value or b"") + b"\n" for each in captured("mysql/canal-json/09_dml")[:5])
    )
    for command in (
        ("detect", path),
        ("inspect", "--from", "canal-json", path),
        ("translate", "--from", "auto", "--to", "debezium-json", path),
        ("formats", "--from", "canal-json"),
    ):
        result = relay(*command)
        assert (result.exit_code, "libbroken" in result.stderr) == (0, False), result.stderr
    translator = Translator("canal-json", "canal-json")
    with pytest.raises(DecodeError):
        translator.translate(record(b"no message"))
    assert detect([record(FACT)]).dialects == ()


@pytest.mark.usefixtures("broken")
def test_a_broken_package_is_named_where_it_is_used() -> None:
    listed = relay("formats")
    assert (listed.exit_code, "entry point broken:CODEC: cannot be loaded" in listed.stderr) == (0, True)
    for name in ("broken", "brokn"):
        with pytest.raises(ConfigError, match="entry point broken:CODEC: cannot be loaded: ImportError"):
            Translator(name, "canal-json")
    with pytest.raises(ConfigError, match="entry point broken:CODEC: cannot be loaded: ImportError"):
        Resolver().fetch(SchemaById("r", 7))
    own = RegisteredSchema("own")
    assert Resolver(fetches={SchemaById: lambda _: own}).fetch(SchemaById("r", 7)) == own
