"""`deduplicate` in a running relay on a real Apache Kafka, in its configuration, and on the command line."""

from __future__ import annotations

import asyncio
import io
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cli.kafka_support import Route
from repeats_support import FIRST_TS, Log, Producer, SentRow, SentWatermark, records_of
from typer.testing import Result

from relay import ConfigError, ConsumerRecord, Loss, ProducerRecord, Translator
from relay.config import load_config
from relay.config.wiring import translator_of
from relay.io import logs
from relay.io.record_lines import format_record
from relay.service.app import run_until
from relay.service.observe import report
from relay.service.observe.about import About
from relay.service.observe.metrics import StatusCollector
from relay.service.observe.status import Status

ON = "deduplicate = true\n"
ROW = SentRow(FIRST_TS, "a", None, (1, 1))
REPEATED = records_of([ROW, SentWatermark(FIRST_TS + 9), ROW])


def a_day() -> list[ConsumerRecord]:
    """Rows of a changefeed that restarts some times."""
    chance = random.Random(7)
    return records_of(Producer(Log(chance, 200), chance).run(600))


@pytest.mark.kafka
async def test_a_running_relay_drops_repeats(
    kafka: Any, relay: Callable[..., Result], tmp_path: Path
) -> None:
    route = await Route.made(kafka, relay, tmp_path)
    route.configure()
    text = route.config.read_text(encoding="utf-8")
    route.config.write_text(text.replace("[source]\n", f"{ON}[source]\n"), encoding="utf-8")
    records = [msgspec.structs.replace(each, topic=route.source) for each in a_day()]
    await kafka.produce(route.source, records)
    translator = Translator("ticdc-canal-json", "canal-json", topic=route.target, deduplicate=True)
    wanted: list[ProducerRecord] = [out for each in records for out in translator.translate(each)]
    assert sum(translator.losses.values()) > 100
    stop, config, logged = asyncio.Event(), load_config(route.config), io.StringIO()
    status = Status(About.of(config))
    running = asyncio.create_task(run_until(stop, config, logs.Log(logged), status=status))

    async def is_done() -> bool:
        return running.done() or await kafka.length(route.target) >= len(wanted)

    await kafka.until(is_done)
    assert not running.done(), logged.getvalue()
    shown = report.details(status)["deduplicate"]
    stop.set()
    assert await running == 0
    written = await kafka.read(route.target)
    assert [(each.value, each.headers) for each in written] == [(each.value, each.headers) for each in wanted]
    assert shown["dropped"] == translator.losses[Loss.ROWS_DEDUPLICATED] > 50
    assert shown["max_rows"] == 200_000


def configured(path: Path, keys: str, source: str = "ticdc-canal-json", *, history: str = "") -> Path:
    path.write_text(
        f'[route]\nfrom = "{source}"\nto = "canal-json"\n{keys}'
        '[source]\nbootstrap_servers = "localhost:9092"\ntopics = ["a"]\ngroup_id = "g"\n[target]\ntopic = "b"\n'
        f"{history}",
        encoding="utf-8",
    )
    return path


def test_it_is_off_unless_configured(tmp_path: Path) -> None:
    translator = translator_of(load_config(configured(tmp_path / "relay.toml", "")))
    assert [len(translator.translate(each)) for each in REPEATED] == [1, 0, 1]
    assert translator.remembered_rows is None


def test_it_is_a_key_of_the_configuration(tmp_path: Path) -> None:
    config = load_config(configured(tmp_path / "relay.toml", ON + "deduplicate_rows = 10\n"))
    translator = translator_of(config)
    assert [len(translator.translate(each)) for each in REPEATED] == [1, 0, 0]
    status = Status(About.of(config))
    status.translator = translator
    assert report.details(status)["deduplicate"] == {
        "remembered_rows": 1,
        "max_rows": 10,
        "dropped": 1,
        "below_watermark": 0,
        "repeats_above_watermark": 0,
    }
    (sample,) = next(
        each.samples for each in StatusCollector(status).collect() if each.name == "relay_remembered_rows"
    )
    assert sample.value == 1


def test_nothing_is_shown_without_it(tmp_path: Path) -> None:
    config = load_config(configured(tmp_path / "relay.toml", ""))
    status = Status(About.of(config))
    status.translator = translator_of(config)
    assert report.details(status)["deduplicate"] is None
    assert not [each for each in StatusCollector(status).collect() if each.name == "relay_remembered_rows"]


@pytest.mark.parametrize(
    ("source", "keys", "path"),
    [
        ("maxwell-json", ON, "route.deduplicate"),
        ("ticdc-canal-json", ON + "deduplicate_rows = 0\n", "route.deduplicate_rows"),
    ],
)
def test_errors_name_the_key(tmp_path: Path, source: str, keys: str, path: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_config(configured(tmp_path / "relay.toml", keys, source))
    assert [each.path for each in error.value.problems] == [path]


@pytest.mark.parametrize("history", ["[schema]\nhistory_topic = ''\n", "[schema]\nwait_for_ddl = false\n"])
def test_rows_must_wait_for_ddl_in_another_partition(tmp_path: Path, history: str) -> None:
    """A repeated TRUNCATE in partition 0 removes rows whose repeats may have been dropped."""
    with pytest.raises(ConfigError, match=r"route\.deduplicate: rows must wait for DDL"):
        load_config(configured(tmp_path / "relay.toml", ON, history=history))
    load_config(configured(tmp_path / "relay.toml", ON, "ticdc-open-protocol", history=history))


def test_translate_drops_repeats(relay: Callable[..., Result], tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"".join(format_record(each, each.offset) for each in REPEATED))
    route = ("translate", "--to", "canal-json", str(path))
    found = relay(*route, "--from", "ticdc-canal-json", "--deduplicate")
    assert (found.exit_code, len(found.stdout.splitlines())) == (0, 1)
    assert "rows-deduplicated" in found.stderr
    assert len(relay(*route, "--from", "ticdc-canal-json").stdout.splitlines()) == 2
    refused = relay(*route, "--from", "canal-json", "--deduplicate")
    assert refused.exit_code == 2
    assert "--deduplicate: canal-json has no watermarks" in refused.stderr
