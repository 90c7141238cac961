"""A relay whose source and target speak SASL_SSL, each with a login of its own, and that may do nothing but
what it needs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from secured_support import GROUP, PASSWORD, SECRETS, TOPIC, TRANSACTIONAL_ID, Secured, clusters_of
from service.transport_support import MODES, both_modes, check_complete, numbered

from relay.config import Config
from relay.io.kafka.ports import Undelivered
from relay.io.kafka.requests import Operation
from relay.model.errors import BrokerUnavailable
from relay.service import app
from relay.service.check import CheckState
from relay.service.check.reasons import with_reasons
from relay.service.check.route import preflight
from relay.service.commands.offset_changes import OffsetChange
from relay.service.commands.offsets import open_route_offsets, store_offsets
from relay.service.commands.running_instances import find_running_instances

pytestmark = pytest.mark.kafka


class Login:
    """A route over SASL_SSL; the passwords are in files."""

    def __init__(self, secured: Secured, kafka: Any, folder: Path) -> None:
        self.secured, self.kafka, self._folder = secured, kafka, folder
        self.source, self.target, self.history = "source", "target", "history"

    async def lay(self, mode: str) -> Config:
        """Create the topics, the permissions and the configuration; wait until the permissions are effective."""
        self.source, self.target = [await self.secured.topic(2, retention_ms="-1") for _ in range(2)]
        self.history = await self.secured.topic(cleanup_policy="compact")
        await self.secured.grant(TOPIC, self.source, Operation.READ)
        await self.secured.grant(TOPIC, self.target, Operation.WRITE, Operation.DESCRIBE_CONFIGS)
        await self.secured.grant(
            TOPIC, self.history, Operation.READ, Operation.WRITE, Operation.DESCRIBE_CONFIGS
        )
        await self.secured.grant(GROUP, f"g-{self.source}", Operation.READ)
        await self.secured.grant(TRANSACTIONAL_ID, f"g-{self.source}-0", Operation.WRITE)
        config = self.config(mode)

        async def is_granted() -> bool:
            found = await preflight(config, clusters_of(config))
            # The contents of an empty topic cannot be checked.
            return all(each.state in {CheckState.OK, CheckState.UNTESTED} for each in found)

        await self.kafka.until(is_granted)
        return config

    def config(
        self, mode: str = "at-least-once", source_password: str = PASSWORD, target_password: str = PASSWORD
    ) -> Config:
        tables: dict[str, dict[str, Any]] = {
            "source": {"security": self._security("source", source_password)},
            "target": {
                "bootstrap_servers": self.secured.address("SASL_SSL"),
                "security": self._security("target", target_password, mechanism="PLAIN"),
            },
            "schema": {"history_topic": self.history},
            "delivery": {key.removeprefix("delivery_"): value for key, value in MODES[mode].items()},
        }
        return self.secured.config("SASL_SSL", self.source, self.target, None, **tables)

    def _security(self, name: str, password: str, **settings: str) -> Any:
        path = self._folder / name
        path.write_text(password)
        return self.secured.security(password=None, password_file=str(path), **settings)

    def lose_files(self) -> None:
        """As when a secret is mounted anew, or taken away from a process that has read it."""
        for path in self._folder.iterdir():
            path.unlink()
        (self.secured.folder / "ca.pem").rename(self.secured.folder / "ca.pem.away")

    def find_files(self) -> None:
        away = self.secured.folder / "ca.pem.away"
        if away.exists():
            away.rename(self.secured.folder / "ca.pem")

    async def until_committed(self, count: int) -> None:
        async def is_so() -> bool:
            return bool(sum((await self.kafka.committed(f"g-{self.source}")).values()) == count)

        await self.kafka.until(is_so)


@pytest.fixture
async def login(secured: Secured, kafka_at: Any, tmp_path: Path) -> AsyncIterator[Login]:
    async with kafka_at(secured.address("PLAINTEXT")) as kafka:
        found = Login(secured, kafka, tmp_path)
        yield found
        found.find_files()


@both_modes
async def test_a_relay_with_no_more_permissions_than_it_needs(
    login: Login, echo: Any, run_relay: Any, mode: str
) -> None:
    config = await login.lay(mode)
    await login.kafka.produce(login.source, numbered(2_000))
    relay = run_relay(config, echo(login.target))
    await login.until_committed(2_000)
    assert await relay.stop() == 0
    assert relay.log.named("schemas.loaded")
    check_complete(await login.kafka.read(login.target, committed=True), 2_000, once=True)
    assert not any(secret in str(relay.log.events) for secret in SECRETS)


@both_modes
async def test_offsets_are_changed_with_the_permissions_of_a_relay(login: Login, mode: str) -> None:
    config = await login.lay(mode)
    await login.kafka.produce(login.source, numbered(20))
    found = await find_running_instances(config)
    assert (list(found.evidence), list(found.unknown)) == ([], [])
    async with open_route_offsets(config) as route:
        current = await route.read()
        await store_offsets(config, route, [OffsetChange(current=each, to=4) for each in current])
    await login.until_committed(8)


@both_modes
async def test_new_clients_need_no_files(
    login: Login, echo: Any, run_relay: Any, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Producer and consumer are replaced after every file is gone: that must not end a relay at work."""
    config = await login.lay(mode)
    name = "TransactionalSink" if mode == "exactly-once" else "KafkaSink"
    is_failing = False

    class Failing(getattr(app, name)):  # type: ignore[misc]  # one of two classes
        async def delivered(self, pending: Any) -> None:
            nonlocal is_failing
            if is_failing and pending:
                is_failing = False
                raise Undelivered("a failure", retriable=True)
            await super().delivered(pending)

    monkeypatch.setattr(app, name, Failing)
    relay = run_relay(config, echo(login.target))
    await login.kafka.produce(login.source, numbered(1_000))
    await login.until_committed(1_000)
    login.lose_files()
    is_failing = True
    await login.kafka.produce(login.source, numbered(1_000, start=1_000))
    await login.until_committed(2_000)
    assert await relay.stop() == 0
    assert len(relay.log.named("sink.replaced")) == 1
    check_complete(await login.kafka.read(login.target, committed=True), 2_000, once=mode == "exactly-once")


@pytest.mark.parametrize("side", ["source", "target"])
async def test_a_wrong_password_is_reported_as_such(
    login: Login, echo: Any, run_relay: Any, side: str
) -> None:
    await login.lay("at-least-once")
    config = login.config(**{f"{side}_password": "wrong-battery"})
    relay = run_relay(config, echo(login.target))
    assert await relay.ended() == 3
    (failed,) = relay.log.named("relay.failed")
    assert failed["code"] == "service.broker-unavailable"
    mechanism = {"source": "SCRAM-SHA-512", "target": "PLAIN"}[side]
    assert f"the broker refuses user relay with {mechanism}: Authentication failed" in failed["message"]
    assert f"check username and password in [{side}.security]" in failed["message"]
    assert not any(secret in str(relay.log.events) for secret in SECRETS)


async def test_an_error_without_a_reason_stays_as_it_is(login: Login) -> None:
    """The brokers have come back meanwhile."""
    config, error = login.config(), BrokerUnavailable("no broker answers")
    assert await with_reasons(error, clusters_of(config)) is error
