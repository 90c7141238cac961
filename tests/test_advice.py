"""What works and is said all the same: options and rules without effect, topics that tables may share."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path

import pytest
from config_support import MINIMAL, load
from typer.testing import CliRunner

from relay.cli.commands import app
from relay.codecs import PROTOCOLS
from relay.codecs.given_options import parse_options
from relay.config.checks import config_advice
from relay.core.config_lint import advice
from relay.io.logs import Log
from relay.routing import TopicRule
from relay.service.app import run_until
from relay.service.check.route import unstable_keys

FLAT = "flat-json"
NATIVE = "debezium-json"
CANAL = "canal-json"
TICDC = "ticdc-canal-json"
DEBEZIUM = "ticdc-debezium"
OPEN = "ticdc-open-protocol"


def said(target: str = CANAL, options: Mapping[str, str] | None = None, **more: object) -> list[str]:
    return [f"{each.path}: {each.message}" for each in advice(target, options or {}, **more)]  # type: ignore[arg-type]  # any options


def idle(target: str, *given: str) -> list[str]:
    """The options of these that have no effect."""
    options = dict(each.split("=", 1) for each in given)
    found = advice(target, options)
    assert all(each.message.startswith("has no effect: ") for each in found)
    return [each.path.removeprefix("to.option.") for each in found]


# ---------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("target", "given", "expected"),
    [
        (FLAT, ["op-column=", "op-values=numbers"], ["op-values"]),
        (FLAT, ["deleted-column=", "deleted-values=numbers"], ["deleted-values"]),
        (FLAT, ["version=offset"], ["version"]),
        (FLAT, ["version=offset", "version-column=v"], []),
        (FLAT, ["profile=starrocks", "deleted-values=numbers"], ["deleted-values"]),
        (FLAT, ["ddl=drop"], ["ddl"]),
        (FLAT, ["ddl=drop", "watermarks=drop", "strict=true"], []),
        (CANAL, ["watermarks=keep"], ["watermarks"]),
        (CANAL, ["ddl=drop"], []),
        (CANAL, ["profile=flink"], []),
        (TICDC, ["watermarks=keep"], ["watermarks"]),
        (TICDC, ["watermarks=keep", "enable-tidb-extension=true"], []),
        (TICDC, ["content-compatible=true", "only-output-updated-columns=false"], ["only-output-updated-columns"]),
        (TICDC, ["claim-check-storage-uri=/tmp/x"], ["claim-check-storage-uri"]),
        (TICDC, ["claim-check-raw-value=true"], ["claim-check-raw-value"]),
        (
            TICDC,
            ["claim-check-storage-uri=/tmp/x", "claim-check-raw-value=true", "enable-tidb-extension=true",
             "large-message-handle-option=claim-check"],
            [],
        ),
        (OPEN, ["output-old-value=false", "only-output-updated-columns=true"], ["only-output-updated-columns"]),
        (OPEN, ["output-old-value=false", "missing-before=refuse"], ["missing-before"]),
        (OPEN, ["claim-check-storage-uri=/tmp/x"], ["claim-check-storage-uri"]),
        (DEBEZIUM, ["output-old-value=false", "missing-before=refuse"], ["missing-before"]),
        (DEBEZIUM, ["timezone=+08:00"], ["timezone"]),
        ("ckafka-json", ["ddl=drop", "ddl-time-unit=ms"], ["ddl-time-unit"]),
        (NATIVE, ["decimal.handling.mode=string", "decimal.format=NUMERIC"], ["decimal.format"]),
        (
            NATIVE,
            ["decimal.handling.mode=string", "decimal.format=NUMERIC", "bigint.unsigned.handling.mode=precise"],
            [],
        ),
        (NATIVE, ["decimal.handling.mode=double", "wide-decimals=text"], ["wide-decimals"]),
        (NATIVE, ["temporal=text", "time=text", "time.precision.mode=connect"], ["time.precision.mode", "time"]),
        (NATIVE, ["zero-dates=text", "time.precision.mode=connect"], []),
        (NATIVE, ["zero-dates=text", "time=text", "time.precision.mode=connect"], ["time.precision.mode"]),
        (NATIVE, ["temporal=text", "zero-dates=text"], ["zero-dates"]),
        (NATIVE, ["temporal=text", "zero-dates=null"], []),
        (
            NATIVE,
            ["schemas.enable=false", "enum-schema=string", "schema.name.adjustment.mode=avro"],
            ["schema.name.adjustment.mode", "enum-schema"],
        ),
        (NATIVE, ["schemas.enable=false", "key.converter.schemas.enable=true", "enum-schema=string"], []),
        (
            NATIVE,
            ["schemas.enable=false", "key.converter.schemas.enable=true", "value.converter.schemas.enable=true"],
            ["schemas.enable"],
        ),
        (NATIVE, ["schemas.enable=false", "ddl=drop", "include.schema.comments=true"], ["include.schema.comments"]),
        (NATIVE, ["ddl=drop", "include.schema.changes=true"], ["include.schema.changes"]),
        (NATIVE, ["ddl=drop", "include.schema.changes=false"], ["ddl"]),
        (NATIVE, ["ddl=drop", "skipped.operations=none"], ["skipped.operations"]),
        (NATIVE, ["include.schema.changes=false", "skipped.operations=none"], ["skipped.operations"]),
        (NATIVE, ["profile=flink", "decimal.format=NUMERIC"], ["decimal.format"]),
    ],
)  # fmt: skip
def test_options_without_effect(target: str, given: Sequence[str], expected: Sequence[str]) -> None:
    assert sorted(idle(target, *given)) == sorted(expected)


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_no_profile_sets_what_another_of_its_options_makes_idle(protocol: str) -> None:
    codec = PROTOCOLS[protocol]
    for options in codec.profiles.values():
        parsed = parse_options(codec, options, "to.option", "target")
        assert not parsed.without_effect().keys() & options.keys()
    known = set(codec.options.__struct_encode_fields__)
    assert parse_options(codec, {}, "to.option", "target").without_effect().keys() <= known


def test_a_profile_of_which_nothing_is_left() -> None:
    profile = PROTOCOLS[CANAL].profiles["flink"]
    assert idle(CANAL, "profile=flink", *(f"{name}={text}" for name, text in profile.items())) == [
        "profile",
        "watermarks",
    ]
    assert idle(CANAL, "profile=flink", "enum=index") == []


# ---------------------------------------------------------------- topics


@pytest.mark.parametrize(
    ("topic", "sources", "is_said"),
    [
        ("{database}_{table}", ["t"], True),
        ("{topic}.{table}-{database}", ["t"], True),
        ("{database}{table}", ["t"], True),
        ("{topic}_{database}.{table}", ["t"], False),
        ("{topic}_{table}", ["t"], False),
        ("{topic}_{table}", ["t", "u"], False),
        ("{topic}_{table}", ["t", "t_u"], True),
        ("{topic}.{table}", ["t", "t_u"], False),
        ("{database}.{table}", ["t", "t_u"], False),
        ("{topic}", ["t", "t_u"], False),
    ],
)
def test_templates_that_may_be_one_for_two_tables(topic: str, sources: list[str], is_said: bool) -> None:
    found = said(topic=topic, sources=sources)
    assert len(found) == is_said
    assert all(each.startswith("target.topic: ") for each in found)
    rules = [TopicRule("a*.b*", topic)]
    found = said(rules=rules, sources=sources)
    assert [each.partition(": ")[0] for each in found] == ["target.topics.0"] * is_said


def test_the_advice_about_a_template_names_another_one() -> None:
    (found,) = advice(CANAL, {}, topic="{topic}.{database}_{table}", sources=["t"])
    assert "'a_b'.'c' and 'a'.'b_c'" in found.message
    assert "{topic}.{database}.{table}" in found.hint


@pytest.mark.parametrize(
    ("matches", "idle_at"),
    [
        (["a.*", "a.*"], [1]),
        (["a.*", "a.orders"], [1]),
        (["*.*", "a.*"], [1]),
        (["a*.*", "ab.t"], [1]),
        (["*.orders", "a.orders"], [1]),
        (["a.orders", "a.*"], []),
        (["a.*", "b.*"], []),
        (["a.o*", "a.*"], []),
        (["a.o?", "a.oo"], [1]),
        (["a.[xy]", "a.[xy]"], [1]),
        (["a.x", "a.y", "a.x", "a.y"], [2, 3]),
    ],
)
def test_rules_that_no_table_reaches(matches: list[str], idle_at: list[int]) -> None:
    found = said(rules=[TopicRule(match, f"t{at}") for at, match in enumerate(matches)])
    assert [each.partition(": ")[0] for each in found] == [f"target.topics.{at}" for at in idle_at]


def test_a_rule_that_changes_nothing() -> None:
    assert said(rules=[TopicRule("a.*"), TopicRule("*.t", "u")]) == []
    assert said(rules=[TopicRule("a.*", key=("c",))]) == []
    (found,) = said(rules=[TopicRule("*.t", "u"), TopicRule("a.*")])
    assert found.startswith("target.topics.1: has no effect")


# ---------------------------------------------------------------- selection


def test_globs_that_choose_nothing() -> None:
    def chosen(include: Sequence[str], exclude: Sequence[str]) -> list[str]:
        return said(include_tables=include, exclude_tables=exclude)

    assert chosen(["a.*", "b.*"], ["a.x"]) == []
    assert chosen(["*.*"], ["a.*"]) == []
    (nothing_left,) = chosen(["a.x", "b.*"], ["a.*"])
    assert (
        nothing_left
        == "include_tables: 'a.x' has no effect: 'a.*', which is excluded, leaves none of its tables"
    )
    (not_included,) = chosen(["a.*"], ["b.x"])
    assert not_included == "exclude_tables: 'b.x' has no effect: it is not included"
    (twice,) = chosen([], ["b.*", "b.x"])
    assert twice == "exclude_tables: 'b.x' has no effect: 'b.*' is excluded, too"


def test_rules_for_tables_that_are_not_chosen() -> None:
    rules = [TopicRule("a.x", "t"), TopicRule("b.*", "u")]
    assert said(rules=rules) == []
    found = said(rules=rules, include_tables=["b.*"])
    assert [each.partition(": ")[0] for each in found] == ["target.topics.0"]
    found = said(rules=rules, exclude_tables=["b.*"])
    assert [each.partition(": ")[0] for each in found] == ["target.topics.1"]


def test_kinds_that_are_named_in_vain() -> None:
    assert said(include_events=["insert", "update"]) == []
    (both,) = said(include_events=["insert", "update"], exclude_events=["update"])
    assert both == "include_events: 'update' has no effect: it is excluded, too"
    (neither,) = said(include_events=["insert"], exclude_events=["delete"])
    assert neither == "exclude_events: 'delete' has no effect: it is not included"


# ---------------------------------------------------------------- a configuration


def test_the_keys_are_those_of_the_configuration(tmp_path: Path) -> None:
    text = MINIMAL.replace("{topic}.canal", "{database}_{table}").replace(
        "[source]",
        'to_options = { watermarks = "keep" }\ninclude_tables = ["a.x"]\nexclude_tables = ["a.*"]\n[source]',
    )
    text += 'topics = [{ match = "b.*", topic = "u" }, { match = "b.c", topic = "v" }]\n'
    paths = [each.path for each in config_advice(load(tmp_path, text))]
    assert paths == [
        "route.to_options.watermarks",
        "target.topic",
        "target.topics.1",
        "route.include_tables",
    ]


def test_a_plain_configuration_gives_none(tmp_path: Path) -> None:
    assert config_advice(load(tmp_path, MINIMAL)) == []


IDLE = MINIMAL.replace("[source]", 'to_options = { watermarks = "keep" }\n[source]')


def test_relay_check_says_it_once(tmp_path: Path) -> None:
    (tmp_path / "relay.toml").write_text(IDLE)
    result = CliRunner().invoke(app, ["check", "--config", str(tmp_path / "relay.toml")])
    assert result.exit_code == 0
    assert result.stderr == "warning: route.to_options.watermarks: has no effect: canal-json writes none\n"


@pytest.mark.parametrize(("text", "keys"), [(IDLE, ["route.to_options.watermarks"]), (MINIMAL, [])])
def test_relay_run_logs_it_at_the_start(tmp_path: Path, text: str, keys: list[str]) -> None:
    async def run() -> list[Mapping[str, object]]:
        out, stop = StringIO(), asyncio.Event()
        stop.set()
        assert await run_until(stop, load(tmp_path, text), Log(out)) == 0
        return [json.loads(line) for line in out.getvalue().splitlines()]

    logged = [each for each in asyncio.run(run()) if each["event"] == "configuration.warning"]
    assert [each["key"] for each in logged] == keys
    assert all(each["message"] == "has no effect: canal-json writes none" for each in logged)


def test_keys_that_may_change_are_noted_while_there_is_no_history(tmp_path: Path) -> None:
    def noted(to: str, more: str = "", *, has_history: bool = False) -> list[str]:
        config = load(tmp_path, MINIMAL.replace('to = "canal-json"', f'to = "{to}"') + more)
        return [each.text for each in unstable_keys(config, has_history=has_history)]

    assert noted("canal-json") == noted("flat-json", has_history=True) == []
    (found,) = noted("flat-json")
    assert "`relay schema-history import`" in found
    (without,) = noted("flat-json", '[schema]\nhistory_topic = ""\n')
    assert without == f"{found}, which needs history_topic in [schema]"
