"""`relay explain` on a real Apache Kafka, with captured records and garbage."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiokafka import AIOKafkaProducer
from cli.kafka_support import Route, is_ddl, is_row
from typer.testing import Result

from relay import Translator
from relay.codecs.losses import Loss
from relay.core.loss_texts import LOSS_TEXTS
from relay.model.records import ConsumerRecord

pytestmark = pytest.mark.kafka

STRICT = "{ strict = true }"


@pytest.fixture
async def route(kafka: Any, relay: Callable[..., Result], tmp_path: Path) -> Route:
    return await Route.made(kafka, relay, tmp_path)


async def fill(route: Route, *more: ConsumerRecord) -> list[ConsumerRecord]:
    """Put the captured records, and some more, into the source topic, and the DDL among them into the
    history.
    """
    records = [
        msgspec.structs.replace(each, headers=(("h", b"\xff"), ("h", None))) for each in route.records()
    ]
    await route.remember(filter(is_ddl, records))
    await route.kafka.produce(route.source, [*records, *more])
    return records


def explained(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


async def explain(route: Route, offset: int, *arguments: str) -> Result:
    return await route.run("explain", f"0/{offset}", *arguments)


async def test_every_record_is_explained_as_the_relay_translates_it(route: Route) -> None:
    """Definitions are those before the record, although the history knows later ones."""
    records = (await fill(route))[:30]
    translator = Translator("ticdc-canal-json", "canal-json", topic=route.target)
    for record in records:
        produced = translator.translate(record)
        if record.offset % 3:  # not all, for the time that a call takes
            continue
        found = explained(await explain(route, record.offset, "--json"))
        assert found["record"]["offset"] == record.offset
        assert found["record"]["value"] == (record.value or b"").decode()
        assert found["value_bytes"] == len(record.value or b"")
        assert [each["value"] for each in found["output"]] == [
            (out.value or b"").decode() for out in produced
        ]
        assert [each["headers"][-1] for each in found["output"]] == [
            ["relay.source", f"{route.source}/0/{record.offset}/{number}"] for number in range(len(produced))
        ]
        assert found["error"] is None
        assert found["events"]
    assert {loss["what"]: bool(loss["text"]) for loss in found["lost"]} == {"commit-ts": True}
    assert await route.kafka.length(route.target) == 0


async def test_a_row_is_shown_with_its_whole_way(route: Route) -> None:
    records = await fill(route)
    row = next(each for each in records if is_row(each) and b'"UPDATE"' in (each.value or b""))
    result = await route.run("explain", f"{route.source}/0/{row.offset}")
    assert result.exit_code == 0, result.stderr
    for text in (
        f"source  {route.source}/0/{row.offset}",
        f"key null, value {len(row.value or b'')} bytes",
        "  key       NULL",
        f"  value     '{(row.value or b'').decode()}'",
        f"records of {route.history}",
        "h  X'FF'",
        "h  NULL",
        "update    dml_db.accounts",
        "varchar(30)",
        f"output  {route.target}/0",
        '"type":"UPDATE"',
        f"relay.source  '{route.source}/0/{row.offset}/0'",
        "commit-ts  1  the commit ts of TiDB",
    ):
        assert text in result.stdout, text
    assert "error" not in result.stdout


async def test_a_watermark_without_a_place_in_the_target_is_lost(route: Route) -> None:
    records = await fill(route)
    mark = next(each for each in records if b"WATERMARK" in (each.value or b""))
    result = await explain(route, mark.offset)
    assert result.exit_code == 0, result.stderr
    assert "no output  nothing is written" in result.stdout
    assert "watermark  1  watermarks" in result.stdout


async def test_a_watermark_waits_for_partitions_that_were_not_read(
    kafka: Any, relay: Callable[..., Result], tmp_path: Path
) -> None:
    """Where rows are repartitioned, one record says nothing about the watermark of all."""
    route = await Route.made(kafka, relay, tmp_path, partitions=2)
    mark = next(each for each in await fill(route) if b"WATERMARK" in (each.value or b""))
    for partitions, written in ((0, 1), (2, 0)):
        route.configure(
            to="ticdc-canal-json", to_options="{ enable-tidb-extension = true }", partitions=partitions
        )
        found = explained(await explain(route, mark.offset, "--json"))
        assert (len(found["output"]), found["lost"], found["error"]) == (written, [], None)


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("stop", 'decode = "stop" in [errors]: relay stops before this record'),
        ("skip", 'decode = "skip" in [errors]: relay skips this record'),
        ("dead-letter", 'decode = "dead-letter" in [errors]: relay writes this record to DEAD and continues'),
    ],
)
async def test_garbage_is_explained_with_its_policy(route: Route, policy: str, words: str) -> None:
    await route.kafka.produce(route.source, [ConsumerRecord("", 0, 0, 5, None, b'{"a":\xff\x1b')])
    route.configure(policy=policy)
    result = await explain(route, 0)
    assert result.exit_code == 0, result.stderr
    for text in (
        "value     X'7B2261223AFF1B'",
        "decode.malformed",
        "ticdc-canal-json",
        "the whole message",
        words.replace("DEAD", route.dead),
    ):
        assert text in result.stdout, text
    assert "output" not in result.stdout
    error = explained(await explain(route, 0, "--json"))["error"]
    assert (error["code"], error["class"], error["policy"]) == ("decode.malformed", "decode", policy)
    assert error["reason"]


async def test_where_a_policy_goes_on_the_error_budget_may_still_end_relay(route: Route) -> None:
    """The log of a relay that ended so names this command."""
    await route.kafka.produce(route.source, [ConsumerRecord("", 0, 0, 5, None, b"no message")])
    route.configure(policy="dead-letter")
    result = await explain(route, 0)
    words = "it stops before this record if more records fail than [errors] allows (max_initial_failures)"
    assert words in " ".join(result.stdout.split())


async def test_a_dead_letter_that_does_not_fit_ends_relay_whatever_the_policy(
    kafka: Any, relay: Callable[..., Result], tmp_path: Path
) -> None:
    route = await Route.made(kafka, relay, tmp_path)
    dead = await kafka.topic(max_message_bytes="200")
    await kafka.produce(route.source, [ConsumerRecord("", 0, 0, 5, None, b"no message" * 50)])
    route.dead = dead
    route.configure(policy="dead-letter")
    result = await explain(route, 0)
    assert "relay stops before this record, as its dead letter does not fit" in " ".join(
        result.stdout.split()
    )
    assert explained(await explain(route, 0, "--json"))["error"]["policy"] == "stop"


async def test_what_the_target_cannot_hold_is_explained_with_its_events(route: Route) -> None:
    records = await fill(route)
    row = next(filter(is_row, records))
    route.configure(to_options=STRICT)
    found = explained(await explain(route, row.offset, "--json"))
    assert (found["error"]["code"], found["error"]["class"], found["error"]["policy"]) == (
        "encode.not-representable", "encode", "dead-letter",
    )  # fmt: skip
    assert "commit-ts" in found["error"]["reason"]
    assert [event["kind"] for event in found["events"]] == ["insert"]
    assert found["output"] == []


async def test_a_record_that_becomes_too_large_is_explained(
    kafka: Any, relay: Callable[..., Result], tmp_path: Path
) -> None:
    route = await Route.made(kafka, relay, tmp_path, max_message_bytes="300")
    row = next(filter(is_row, await fill(route)))
    found = explained(await explain(route, row.offset, "--json"))
    assert (found["error"]["code"], found["error"]["class"]) == ("service.record-too-large", "too_large")
    assert len(found["output"]) == 1


async def test_a_missing_target_is_no_obstacle(route: Route) -> None:
    row = next(filter(is_row, await fill(route)))
    route.target = "is-not-there"
    route.configure()
    result = await explain(route, row.offset)
    assert result.exit_code == 0, result.stderr
    assert "unknown whether the target accepts it: topic is-not-there" in result.stdout


async def test_a_record_that_is_not_there_is_named_with_what_is(route: Route) -> None:
    assert (
        await explain(route, 0)
    ).stderr.strip() == f"error: POSITION: {route.source}/0 does not have offset 0 yet: it is empty"
    count = len(await fill(route))
    await route.kafka.delete_before(route.source, 10)
    for offset, words in ((count, f"does not have offset {count} yet"), (9, "no longer has offset 9")):
        result = await explain(route, offset)
        assert result.exit_code == 2
        assert f"{words}: it holds the offsets 10 to {count - 1}" in result.stderr
    assert (await explain(route, 10)).exit_code == 0
    result = await route.run("explain", "--partition", "1", "--offset", "0", "--set", "log.level=error")
    assert (result.exit_code, result.stderr.strip()) == (
        2,
        f"error: POSITION: {route.source} has the partitions 0 to 0",
    )


async def test_the_mark_of_a_transaction_is_no_record(route: Route) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=route.kafka.bootstrap_servers, transactional_id=route.source
    ) as producer:
        for commits in (True, False, True):
            await producer.begin_transaction()
            await producer.send_and_wait(route.source, b"{}", partition=0)
            await (producer.commit_transaction() if commits else producer.abort_transaction())
    # Each transaction is a record and its mark: 0 1, 2 3 (aborted), 4 5.
    for offset, following in (
        (1, "the next one is 4"),
        (2, "the next one is 4"),
        (5, "there is none after it"),
    ):
        result = await explain(route, offset)
        assert result.exit_code == 2
        assert (
            f"has no record at {offset} (a transaction marker, aborted, or compacted): {following}"
            in result.stderr
        )


async def test_topics_that_are_wrong_are_named(route: Route) -> None:
    result = await route.run("explain", "other/0/0")
    assert result.exit_code == 2
    assert (
        f"POSITION: 'other' is not a source topic of this configuration (its source topics are: {route.source})"
        in result.stderr
    )
    route.source = "is-not-there"
    route.configure()
    result = await explain(route, 0)
    assert (result.exit_code, "topic is-not-there does not exist" in result.stderr) == (3, True)


def test_every_kind_of_loss_has_words() -> None:
    assert set(LOSS_TEXTS) == set(Loss)
