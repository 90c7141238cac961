"""What `relay check --connect` finds out: what is missing and what is not allowed, and nothing is changed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.conn import AIOKafkaConnection
from aiokafka.protocol.metadata import MetadataRequest
from secured_support import GROUP, SECRETS, STRANGER, TOPIC, TRANSACTIONAL_ID, USER, Secured, clusters_of
from servers_support import talking

from relay.config import Config
from relay.demo.kafka import free_ports
from relay.io.kafka.requests import Operation
from relay.service.check import CheckState, Finding, connectivity
from relay.service.check.route import preflight

pytestmark = pytest.mark.kafka

READ, WRITE, CREATE = Operation.READ, Operation.WRITE, Operation.CREATE


async def probed(config: Config) -> list[Finding]:
    async with asyncio.timeout(60):
        found = await preflight(config, clusters_of(config))
    assert not any(secret in repr(found) + str(each) for each in found for secret in SECRETS)
    return found


def failed(found: Sequence[Finding]) -> list[str]:
    return [f"{each.subject}: {each.text}" for each in found if each.state is CheckState.FAILED]


def ok(found: Sequence[Finding]) -> list[str]:
    return [f"{each.subject}: {each.text}" for each in found if each.state is CheckState.OK]


async def until_probed(config: Config, good: Callable[[list[Finding]], bool]) -> list[Finding]:
    """Permissions arrive at the broker some moments after they are given."""
    deadline = asyncio.get_running_loop().time() + 30
    while not good(found := await probed(config)):
        assert asyncio.get_running_loop().time() < deadline, found
        await asyncio.sleep(0.1)
    return found


async def granted(secured: Secured, source: str, target: str) -> None:
    await secured.grant(TOPIC, source, READ)
    await secured.grant(TOPIC, target, WRITE, Operation.DESCRIBE_CONFIGS)
    await secured.grant(GROUP, f"g-{source}", READ)


async def test_a_route_that_can_run(secured: Secured) -> None:
    source, target = await secured.topic(3), await secured.topic(3)
    await granted(secured, source, target)
    # A source whose DDL is in every partition, since without a history there would be a note about waiting.
    route = {"from": "ticdc-open-protocol", "to": "canal-json"}
    config = secured.config("SASL_SSL", source, target, secured.security(), route=route)
    found = await until_probed(
        config, lambda found: sum(each.state is not CheckState.OK for each in found) == 1
    )
    (untested,) = [str(each) for each in found if each.state is not CheckState.OK]
    assert untested == f"untested  source messages of {source}: there is none yet, so the format is unknown"
    assert ok(found) == [
        f"source and target {secured.address('SASL_SSL')}: answers with SASL_SSL, logged in with SCRAM-SHA-512 as {USER}",
        f"source topic {source}: 3 partitions, READ allowed",
        f"source group g-{source}: READ allowed",
        f"source group g-{source}: it has committed no offset yet: reading begins at start = earliest",
        f"target topic {target}: 3 partitions, WRITE allowed",
        "target producer: idempotent writing allowed",
    ]


async def test_every_missing_permission_is_reported(secured: Secured) -> None:
    source, target = await secured.topic(), await secured.topic()
    config = secured.config("SASL_SSL", source, target, secured.security(username=STRANGER))
    assert failed(await probed(config)) == [
        f"source topic {source}: may not be seen, whether it exists or not; grant READ on it",
        f"source group g-{source}: READ is not allowed; grant it on the group",
        f"target topic {target}: may not be seen, whether it exists or not; grant WRITE on it",
        "target producer: idempotent writing is not allowed; grant WRITE on the target topics "  # noqa: ISC004 - one line of the output
        "(IDEMPOTENT_WRITE on the cluster before Kafka 2.8)",
    ]


async def test_seeing_is_not_reading_and_writing(secured: Secured) -> None:
    source, target = await secured.topic(), await secured.topic()
    for name in (source, target):
        await secured.grant(TOPIC, name, Operation.DESCRIBE)
    await secured.grant(GROUP, f"g-{source}", Operation.DESCRIBE)
    config = secured.config("SASL_SSL", source, target, secured.security())
    found = await until_probed(
        config, lambda found: "may not be seen" not in str(found) and "UNTESTED" not in str(failed(found))
    )
    assert failed(found)[:3] == [
        f"source topic {source}: READ is not allowed: grant it on the topic",
        f"source group g-{source}: READ is not allowed; grant it on the group",
        f"target topic {target}: WRITE is not allowed: grant it on the topic",
    ]


async def test_missing_topics_and_too_few_partitions(secured: Secured) -> None:
    source, target = await secured.topic(4), await secured.topic(1)
    found = await probed(secured.config("PLAINTEXT", source, target, None))
    (problem,) = failed(found)
    assert problem.startswith(
        f"target topic {target}: topic {target} has 1 partition, but {source} has 4: add partitions"
    )
    found = await probed(secured.config("PLAINTEXT", "no-source", "no-target", None))
    assert failed(found) == [
        "source topic no-source: does not exist; create it, or correct topics in [source]",
        "target topic no-target: does not exist; create it, or set create_topics = true in [target]",
    ]


async def test_topics_that_relay_creates(secured: Secured) -> None:
    source, other = await secured.topic(2), f"new-{await secured.topic()}"
    tables = {"target": {"create_topics": True}, "schema": {"history_topic": f"history-{other}"}}
    found = await probed(secured.config("PLAINTEXT", source, other, None, **tables))
    assert failed(found) == []
    assert f"target topic {other}: does not exist; relay creates it with 2 partitions at startup" in ok(found)
    assert (
        f"schema history history-{other}: does not exist; relay creates it with 1 partition at startup"
        in ok(found)
    )

    for name in (other, f"history-{other}"):
        await secured.grant(TOPIC, name, WRITE, user=STRANGER)
    config = secured.config("SASL_SSL", source, other, secured.security(username=STRANGER), **tables)
    found = await until_probed(
        config, lambda found: "may not create" in str(found[-2:]) or "may not create" in str(found[-3:])
    )
    refused = "does not exist, and relay may not create it; grant CREATE on it, or create it"
    assert {f"target topic {other}: {refused}", f"schema history history-{other}: {refused}"} <= set(
        failed(found)
    )
    await secured.grant(TOPIC, other, CREATE, user=STRANGER)
    await until_probed(
        config, lambda found: any(line.startswith(f"target topic {other}:") for line in ok(found))
    )


async def test_relays_own_topics_are_checked(secured: Secured) -> None:
    source, target, letters, history = [await secured.topic() for _ in range(4)]
    tables = {
        "errors": {"decode": "dead-letter", "dead_letter_topic": letters},
        "schema": {"history_topic": history},
    }
    await granted(secured, source, target)
    await secured.grant(TOPIC, letters, READ)
    await secured.grant(TOPIC, history, WRITE)
    config = secured.config("SASL_SSL", source, target, secured.security(), **tables)
    found = await until_probed(config, lambda found: "may not be seen" not in str(found))
    assert f"dead-letter topic {letters}: WRITE is not allowed: grant it on the topic" in failed(found)
    assert f"schema history {history}: READ is not allowed: grant it on the topic" in failed(found)


async def test_a_topic_whose_settings_may_not_be_read_is_noted(secured: Secured) -> None:
    source, target = await secured.topic(), await secured.topic()
    await secured.grant(TOPIC, target, WRITE)
    config = secured.config("SASL_SSL", source, target, secured.security())
    found = await until_probed(config, lambda found: any("DESCRIBE_CONFIGS" in each.text for each in found))
    (note,) = [each for each in found if "DESCRIBE_CONFIGS" in each.text]
    assert note.state is CheckState.UNTESTED


async def test_oddities_of_a_topic_are_noted(secured: Secured) -> None:
    source, target = await secured.topic(), await secured.topic(max_message_bytes="1000")
    found = await probed(secured.config("PLAINTEXT", source, target, None))
    (note,) = [each for each in found if each.state is CheckState.NOTE]
    assert note.subject == f"target topic {target}"
    assert "accepts 1000 bytes, less than max_batch_bytes" in note.text


@pytest.mark.parametrize(
    ("partitions", "source", "schema", "is_noted"),
    [
        (3, "ticdc-canal-json", {}, True),
        (3, "ckafka-json", {"wait_for_ddl": "false", "history_topic": "history"}, True),
        (3, "canal-json", {"history_topic": "history"}, False),
        (1, "ticdc-canal-json", {}, False),
        (3, "ticdc-open-protocol", {}, False),
    ],
)
async def test_rows_that_may_overtake_their_ddl_are_noted(
    secured: Secured, partitions: int, source: str, schema: dict[str, str], is_noted: bool
) -> None:
    topic, target = await secured.topic(partitions), await secured.topic(partitions)
    tables = {"route": {"from": source, "to": "ticdc-canal-json"}, "schema": schema}
    found = await probed(secured.config("PLAINTEXT", topic, target, None, **tables))
    notes = [each.text for each in found if each.state is CheckState.NOTE and topic in each.subject]
    assert [note.startswith("DDL is in partition 0 alone") for note in notes] == [True] * is_noted


async def test_rows_that_may_overtake_the_ddl_of_another_topic_are_noted(secured: Secured) -> None:
    first, rows, target = await secured.topic(), await secured.topic(), await secured.topic()
    route = {"from": "debezium-json", "to": "canal-json", "from_options": {"topic.prefix": first}}
    config = secured.config("PLAINTEXT", rows, target, None, route=route)
    topics = config.source.model_copy(update={"topics": (rows, first)})
    found = await probed(config.model_copy(update={"source": topics}))
    (note,) = [each for each in found if each.state is CheckState.NOTE and "DDL" in each.text]
    assert note.subject == f"source topic {rows}"
    assert note.text.startswith(f"DDL is in {first}, and rows do not wait for it (wait_for_ddl = ")


async def test_a_transactional_id_is_tried_without_disturbing_its_owner(secured: Secured) -> None:
    source, target = await secured.topic(), await secured.topic()
    await granted(secured, source, target)
    exactly_once = {"delivery": {"mode": "exactly-once"}}
    name = f"g-{source}-0"
    config = secured.config("SASL_SSL", source, target, secured.security(), **exactly_once)
    subject = f"target transactional id {name}"
    for operation in (None, Operation.DESCRIBE):
        if operation:
            await secured.grant(TRANSACTIONAL_ID, name, operation)
        found = await probed(config)
        assert f"{subject}: WRITE is not allowed; grant WRITE on the transactional id" in failed(found)

    await secured.grant(TRANSACTIONAL_ID, name, WRITE)
    await until_probed(config, lambda found: f"{subject}: WRITE allowed" in ok(found))
    async with AIOKafkaProducer(
        bootstrap_servers=secured.address("PLAINTEXT"), transactional_id=name
    ) as producer:
        for _ in range(2):
            async with producer.transaction():
                await producer.send_and_wait(target, b"x")
                assert f"{subject}: WRITE allowed" in ok(await probed(config))
                await producer.send_and_wait(target, b"y")


async def test_an_unreachable_advertised_address_is_reported_precisely(secured: Secured) -> None:
    source, target = await secured.topic(), await secured.topic()
    config = secured.config("LOST", source, target, None)
    found = await probed(config)
    address = secured.address("LOST")
    lost = secured.address("LOST", "broker.invalid")
    assert f"source and target {address}: answers with PLAINTEXT" in ok(found)
    (problem, *others) = failed(found)
    assert problem.startswith(f"source and target broker 1 at {lost}: cannot resolve the host broker.invalid")
    assert problem.endswith(
        f"{address} answers and refers clients to its advertised address {lost}: "
        f"make that reachable from here, or correct advertised.listeners of the broker"
    )
    assert others == []
    # Results from the first broker are reported nevertheless.
    assert f"source topic {source}: 1 partition, READ allowed" in ok(found)
    untested = [each for each in found if each.state is CheckState.UNTESTED]
    assert [each.subject for each in untested] == [f"source group g-{source}"]
    assert f"{lost}, cannot be reached" in untested[0].text


async def test_two_clusters_are_both_tried(secured: Secured) -> None:
    (port,) = free_ports(1)
    source, target = await secured.topic(), await secured.topic()
    two = {
        "bootstrap_servers": secured.address("SASL_SSL"),
        "security": secured.security(password="wrong-battery"),
    }
    config = secured.config("PLAINTEXT", source, target, None, target=two)
    config = config.model_copy(
        update={
            "source": config.source.model_copy(
                update={"bootstrap_servers": f"127.0.0.1:{port},nonsense.invalid:1"}
            )
        }
    )
    said = failed(await probed(config))
    assert len(said) == 3
    assert said[0].startswith(f"source 127.0.0.1:{port}: nothing listens there")
    assert said[1].startswith("source nonsense.invalid:1: cannot resolve the host nonsense.invalid")
    assert said[2].startswith(
        f"target {secured.address('SASL_SSL')}: the broker refuses user {USER} with SCRAM-SHA-512"
    )
    assert said[2].endswith(
        "check username and password in [target.security] (the broker stores users separately for each mechanism)"
    )


async def test_nothing_is_created_by_looking(secured: Secured) -> None:
    config = secured.config("PLAINTEXT", "looked-for", "looked-for-too", None)
    await probed(config)
    # The controller creates topics in the order of the requests: when this one is there, those before it
    # would be, too.
    await secured.topic()
    async with secured.admin() as admin:
        names = set(await admin.list_topics())
    assert not names & {"looked-for", "looked-for-too"}


async def test_a_broker_older_than_the_question_leaves_permissions_untested(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As before Kafka 2.3: the newest version of both requests that tells no operations."""
    connect = AIOKafkaConnection.connect

    async def connected(connection: Any) -> Any:
        streams = await connect(connection)
        connection._versions |= {MetadataRequest.API_KEY: (0, 7), 15: (0, 2)}
        return streams

    monkeypatch.setattr(AIOKafkaConnection, "connect", connected)
    source, target = await secured.topic(), await secured.topic()
    found = await probed(secured.config("PLAINTEXT", source, target, None))
    assert failed(found) == []
    untested = [f"{each.subject}: {each.text}" for each in found if each.state is CheckState.UNTESTED]
    assert untested == [
        f"source topic {source}: 1 partition; the broker, unlike Kafka since 2.3, does not report whether READ is allowed",
        f"source group g-{source}: the broker, unlike Kafka since 2.3, does not report whether READ is allowed",
        f"source messages of {source}: there is none yet, so the format is unknown",
        f"target topic {target}: 1 partition; the broker, unlike Kafka since 2.3, does not report whether WRITE is allowed",
    ]


async def test_a_broker_that_goes_away_meanwhile_is_a_finding(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = await secured.topic(), await secured.topic()
    connect = connectivity.connect

    async def connected(*arguments: Any) -> Any:
        found = await connect(*arguments)
        found.connection.close()
        return found

    monkeypatch.setattr("relay.service.check.cluster.connect", connected)
    said = failed(await probed(secured.config("PLAINTEXT", source, target, None)))
    assert [line.partition(":")[0] for line in said] == ["source topics", "target topics"]
    assert all("stopped answering" in line for line in said)


async def test_the_clients_own_complaints_are_kept_out(
    secured: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    async with talking(b"\0\0\0\x02\0\0") as address:
        config = secured.config("PLAINTEXT", "a", "b", None, source={"bootstrap_servers": address})
        assert len(failed(await probed(config))) == 1
    assert caplog.text == ""
    assert logging.getLogger("aiokafka").propagate
