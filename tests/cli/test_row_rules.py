"""Row rules in a running relay on a real Apache Kafka, in its configuration, and on the command line."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cli.kafka_support import Route
from row_rules_support import PAID, compact, message, rule, story
from typer.testing import Result

from relay import ConfigError, Translator
from relay.config import load_config
from relay.io.logs import Log
from relay.io.record_lines import format_record
from relay.service.app import run_until

RULES = f'[[route.rows]]\ntables = ["d.*"]\nwhere = "amount > 0.0 && {PAID}"\n'


def configure(route: Route, rules: str) -> None:
    route.configure()
    text = route.config.read_text(encoding="utf-8")
    route.config.write_text(text.replace("[source]\n", f"{rules}[source]\n"), encoding="utf-8")


@pytest.mark.kafka
async def test_a_running_relay_writes_only_selected_rows(
    kafka: Any, relay: Callable[..., Result], tmp_path: Path
) -> None:
    route = await Route.made(kafka, relay, tmp_path)
    configure(route, RULES)
    failing = compact(message(at=10, amount=None), 10)
    records = [
        msgspec.structs.replace(each, topic=route.source, offset=at)
        for at, each in enumerate([*story(), failing])
    ]
    await kafka.produce(route.source, records)
    stop, logged = asyncio.Event(), io.StringIO()
    running = asyncio.create_task(run_until(stop, load_config(route.config), Log(logged)))

    async def is_done() -> bool:
        return running.done() or await kafka.length(route.dead) == 1

    await kafka.until(is_done)
    assert not running.done(), logged.getvalue()
    stop.set()
    assert await running == 0
    translator = Translator(
        "ticdc-canal-json", "canal-json", topic=route.target, rows=[rule(f"amount > 0.0 && {PAID}")]
    )
    wanted = [out for each in records[:-1] for out in translator.translate(each)]
    written = await kafka.read(route.target)
    assert [(each.key, each.value, each.headers) for each in written] == [
        (each.key, each.value, each.headers) for each in wanted
    ]
    (letter,) = await kafka.read(route.dead)
    assert dict(letter.headers)["relay.error.code"] == b"encode.condition"
    left_out = await route.run("explain", f"{route.source}/0/2")
    assert "rows-filtered" in left_out.stdout
    assert "no output" in left_out.stdout
    enters = await route.run("explain", f"{route.source}/0/3", "--json")
    (out,) = json.loads(enters.stdout)["output"]
    assert json.loads(out["value"])["type"] == "INSERT"
    failed = await route.run("explain", f"{route.source}/0/10")
    assert "encode.condition" in failed.stdout


def written(path: Path, rules: str) -> Path:
    path.write_text(
        f'[route]\nfrom = "ticdc-canal-json"\nto = "canal-json"\n{rules}'
        '[source]\nbootstrap_servers = "localhost:9092"\ntopics = ["a"]\ngroup_id = "g"\n[target]\ntopic = "b"\n',
        encoding="utf-8",
    )
    return path


def test_rules_are_keys_of_the_configuration(tmp_path: Path) -> None:
    rules = RULES + 'ignore_updates_of = ["seen_at"]\nunknown_before = "not-selected"\n'
    (found,) = load_config(written(tmp_path / "relay.toml", rules)).route.row_rules
    assert found == rule(
        f"amount > 0.0 && {PAID}", "seen_at", unknown_before=type(found.unknown_before)("not-selected")
    )


def test_rules_may_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = '[{tables = ["d.*"], where = "status == \'paid\'"}]'
    monkeypatch.setenv("RELAY_ROUTE__ROWS", text)
    assert load_config(written(tmp_path / "relay.toml", "")).route.row_rules == [rule(PAID)]


@pytest.mark.parametrize(
    ("rules", "path", "reason"),
    [
        (
            '[[route.rows]]\ntables = ["d.*"]\nwhere = "a =="\n',
            "route.rows.0.where",
            "is not a CEL expression",
        ),
        ('[[route.rows]]\ntables = ["d"]\nwhere = "a == 1"\n', "route.rows.0.tables", "database.table"),
        (RULES + 'unknown_before = "selectd"\n', "route.rows.0.unknown_before", "did you mean selected"),
        (RULES + '[backfill]\noutput = "out"\noutput_format = "rows"\n', "route.rows", "tables of rows"),
    ],
)
def test_errors_name_the_key(tmp_path: Path, rules: str, path: str, reason: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_config(written(tmp_path / "relay.toml", rules))
    assert [(each.path, reason in each.text) for each in error.value.problems if each.path == path] == [
        (path, True)
    ]


def test_translate_takes_conditions(relay: Callable[..., Result], tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"".join(format_record(each, each.offset) for each in story()))
    route = ("translate", "--from", "ticdc-canal-json", "--to", "canal-json", str(path))
    found = relay(*route, "--where", f"d.t: {PAID}", "--where", "other.*: false")
    assert found.exit_code == 0
    assert len(found.stdout.splitlines()) == 7
    assert "rows-filtered" in found.stderr
    refused = relay(*route, "--where", PAID, "--where", "d.t: ==")
    assert refused.exit_code == 2
    assert "--where: " in refused.stderr
    assert "--where, rule 1, where" in refused.stderr
