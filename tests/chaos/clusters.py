"""The clusters of experiments: a worker runs one experiment after the other, and keeps its cluster between them."""

from __future__ import annotations

import asyncio
import contextlib
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self

from chaos import toxiproxy
from chaos.broker import Broker, broker_at
from chaos.toxiproxy import Toxiproxy
from relay.demo.kafka import Cluster, NodeOptions, free_ports

# A leader that was lost comes back to its preferred node within a second: a second election for every fault.
_ELECTIONS = """\
auto.leader.rebalance.enable=true
leader.imbalance.check.interval.seconds=1
leader.imbalance.per.broker.percentage=0
"""
_PROXIED = """\
listeners={listeners},PROXY://127.0.0.1:{behind}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker},PROXY://127.0.0.1:{proxy}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PROXY:PLAINTEXT
"""


class Kind(StrEnum):
    """The clusters of an experiment."""

    TRIO = "three brokers"
    PROXIED = "one broker behind toxiproxy"
    SINGLE = "one broker"


class Site:
    """A running cluster: its nodes, how the harness asks it, and where relay connects."""

    def __init__(
        self, kind: Kind, home: Path, cluster: Cluster, broker: Broker, proxy: Toxiproxy | None = None
    ) -> None:
        self.kind, self.home, self.cluster, self.broker, self.proxy = kind, home, cluster, broker, proxy
        self.relay_servers = f"127.0.0.1:{proxy.port}" if proxy else cluster.bootstrap_servers

    @property
    def replicas(self) -> int:
        """Replicas of every topic."""
        return len(self.cluster.nodes)

    def partition_folders(self, topic: str, partition: int) -> list[Path]:
        """Where the nodes keep a partition."""
        return sorted(self.home.glob(f"node-*/data/{topic}-{partition}"))


class Worker:
    """Keep one cluster for as long as the experiments need its kind."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._site: Site | None = None
        self._stack = contextlib.AsyncExitStack()
        self._count = 0
        #: The kind of its present or next experiment.
        self.kind: Kind | None = None

    async def site(self, kind: Kind) -> Site:
        """A cluster of this kind: the one that is running, or a new one in its place."""
        if self._site is None or self._site.kind is not kind:
            self._site = None
            await self._stack.aclose()
            self._count += 1
            self._site = await self._started(kind)
        return self._site

    async def _started(self, kind: Kind) -> Site:
        home = self._folder / f"cluster-{self._count}"
        nodes = 3 if kind is Kind.TRIO else 1
        options = NodeOptions(properties=_ELECTIONS if kind is Kind.TRIO else "")
        cluster = await asyncio.to_thread(Cluster, home, nodes, options)
        proxy = await self._proxy(home) if kind is Kind.PROXIED else None
        self._stack.push_async_callback(asyncio.to_thread, cluster.stop)
        await asyncio.to_thread(cluster.start)
        broker = await self._stack.enter_async_context(broker_at(cluster.bootstrap_servers))
        return Site(kind, home, cluster, broker, proxy)

    async def _proxy(self, home: Path) -> Toxiproxy:
        """Start toxiproxy, and give the broker a second listener, whose advertised address is the proxy's."""
        binary = await asyncio.to_thread(toxiproxy.toxiproxy_binary)
        behind, port = free_ports(2)
        properties = home / "node-1" / "server.properties"
        given = dict(
            line.split("=", 1)
            for line in properties.read_text().splitlines()
            if "=" in line and not line.startswith("#")
        )
        own = given["listeners"].split(",", 1)[0].rsplit(":", 1)[1]
        with properties.open("a") as file:
            # The last line of a key wins.
            file.write(_PROXIED.format(listeners=given["listeners"], behind=behind, broker=own, proxy=port))
        return await self._stack.enter_async_context(toxiproxy.running(binary, port, behind))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()
