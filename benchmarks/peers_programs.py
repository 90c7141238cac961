"""The peers, each a process: what it reads, how many messages it writes, and how it is started.

Flink and Connect are their own programs with their own start scripts' options of Java; ours are a job in SQL
and a sink connector (`benchmarks/java`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from readers.java import classes
from readers.parts import jars

from benchmarks.peers_check import change
from benchmarks.peers_load import CANAL, DEBEZIUM, PARTITIONS, Load, Topic
from benchmarks.routes import Route, relay_config
from relay.demo.kafka import java_binary

RELAY: Final = "relay run"
_SOURCES: Final = Path(__file__).parent / "java"
_LOGS: Final = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
#: What taskmanager.sh and config.yaml of Flink give a TaskManager, whose heap is 512 MB.
_FLINK_JAVA: Final = (
    "-Xms512m", "-Xmx512m", "-XX:MaxDirectMemorySize=256m", "-XX:MaxMetaspaceSize=256m", "-XX:+UseG1GC",
    *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in (
        "java.lang", "java.lang.invoke", "java.lang.reflect", "java.net", "java.io", "java.nio", "java.text",
        "java.time", "java.util", "java.util.concurrent", "java.util.concurrent.atomic",
        "java.util.concurrent.locks", "sun.net.util", "sun.nio.ch",
    )),
)  # fmt: skip
#: One task; objects are not copied between operators, which is the faster choice.
_FLINK_SETTINGS: Final = {
    "parallelism.default": "1",
    "pipeline.object-reuse": "true",
    "execution.checkpointing.interval": "10 s",
    "execution.checkpointing.mode": "AT_LEAST_ONCE",
}
#: What connect-standalone.sh and kafka-run-class.sh of Kafka give a worker.
_CONNECT_JAVA: Final = (
    "-Xms256M", "-Xmx2G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)  # fmt: skip
#: As relay sends; by default Java's producer does not compress, and its batches have 16 KiB and wait 5 ms.
_PRODUCER: Final = {"compression.type": "zstd", "batch.size": "900000", "linger.ms": "50"}

Json = dict[str, Any]


class Environment(NamedTuple):
    """The environment of a run: brokers, target topic, and a folder for its files."""

    servers: str
    target: str
    folder: Path


class Program(NamedTuple):
    """A peer on a route."""

    name: str
    source: Topic
    #: How many messages it writes for a DDL message, and for each of the topic's different rows.
    outputs_of_ddl: int
    outputs_of_rows: Sequence[int]
    command: Callable[[Environment], Sequence[str]]

    @property
    def outputs(self) -> int:
        """How many messages it writes for its whole topic."""
        ddl = self.outputs_of_ddl * PARTITIONS * len(self.source.control)
        passes, rest = divmod(self.source.messages, len(self.outputs_of_rows))
        return ddl + passes * sum(self.outputs_of_rows) + sum(self.outputs_of_rows[:rest])


class Contest(NamedTuple):
    """A route, the programs that are measured on it, and what relay makes of the load."""

    route: Route
    programs: Sequence[Program]
    wanted: Sequence[Json]


def contests(load: Load) -> list[Contest]:
    """Both flagships, with relay first."""
    canal = [
        _relay(CANAL, load.ticdc),
        _flink("Flink SQL, MySQL's types", load.ticdc_for_jvm, load.as_canal, declared(load.as_canal)),
        _flink("Flink SQL, all text", load.ticdc_for_jvm, load.as_canal, as_text(load.as_canal)),
        _connect(load.ticdc_for_jvm, {"transforms.tidb.exclude": "_tidb"}),
        _loop("tuned", load.ticdc),
        _loop("simple", load.ticdc),
    ]
    debezium = [
        _relay(DEBEZIUM, load.open_protocol),
        _flink("Flink SQL", load.debezium_for_jvm, load.as_debezium, as_they_are(load.as_debezium)),
        _connect(load.debezium_for_jvm, {}),
    ]
    return [Contest(CANAL, canal, load.as_canal), Contest(DEBEZIUM, debezium, load.as_debezium)]


def _relay(route: Route, source: Topic) -> Program:
    def command(env: Environment) -> list[str]:
        config = env.folder / f"{env.target}.toml"
        config.write_text(relay_config(route, env.servers, source.name, env.target))
        return [sys.executable, "-m", "relay", "run", "--config", str(config)]

    return Program(RELAY, source, 1, _one_each(source), command)


def _loop(kind: str, source: Topic) -> Program:
    def command(env: Environment) -> list[str]:
        return [sys.executable, "-m", "benchmarks.peers_loop", kind, env.servers, source.name, env.target]

    return Program(f"loop for one table, {kind}", source, 1, _one_each(source), command)


def _one_each(source: Topic) -> list[int]:
    return [1] * len(source.rows)


def _flink(name: str, source: Topic, messages: Sequence[Json], types: Mapping[str, str]) -> Program:
    found = [each for message in messages if (each := change(message))]
    format_name = "canal-json" if "data" in messages[0] else "debezium-json"

    def command(env: Environment) -> list[str]:
        sql = env.folder / f"{env.target}.sql"
        sql.write_text(flink_sql(format_name, types, source.name, env))
        settings = [f"{name}={value}" for name, value in _FLINK_SETTINGS.items()]
        return [*java_command("FlinkJob", "flink-job", _FLINK_JAVA, env), "FlinkJob", str(sql), *settings]

    outputs = [2 if each.op == "UPDATE" else 1 for each in found]
    return Program(name, source, 0, outputs, command)


def declared(messages: Sequence[Json]) -> dict[str, str]:
    """A table's columns as Flink's documentation declares those of MySQL."""
    types = next(message["mysqlType"] for message in messages if message["mysqlType"])
    return {name: _declared(*mysql.partition("(")[::2]) for name, mysql in types.items()}


def _declared(name: str, rest: str) -> str:
    match name:
        case "bigint" | "int" | "date":
            return name.upper()
        case "decimal":
            return f"DECIMAL({rest}"
        case "datetime" | "timestamp":
            return f"TIMESTAMP({rest or '0)'}"
    return "STRING"


def as_text(messages: Sequence[Json]) -> dict[str, str]:
    """The columns of a table in Canal's JSON as they are there: nothing is converted."""
    return dict.fromkeys(declared(messages), "STRING")


def as_they_are(messages: Sequence[Json]) -> dict[str, str]:
    """The columns of a table in Debezium's JSON by the kinds of their values: nothing is converted."""
    kinds = {int: "BIGINT", float: "DOUBLE", str: "STRING"}
    row = next(each.row for message in messages if (each := change(message)))
    return {name: kinds[type(value)] for name, value in row.items()}


def flink_sql(format_name: str, types: Mapping[str, str], source: str, env: Environment) -> str:
    """The job: a table on each topic, and an INSERT that copies."""
    listed = ",\n".join(f"  `{name}` {kind}" for name, kind in types.items())
    reads = {
        "topic": source,
        "properties.bootstrap.servers": env.servers,
        "properties.group.id": env.target,
        "scan.startup.mode": "earliest-offset",
    }
    if format_name == "debezium-json":
        # The rows are in a payload, with or without a schema beside it.
        reads["debezium-json.schema-include"] = "true"
    writes = {"topic": env.target, "properties.bootstrap.servers": env.servers}
    writes |= {f"properties.{name}": value for name, value in _PRODUCER.items()}
    return (
        f"CREATE TABLE source (\n{listed}\n) WITH (\n{_with(format_name, reads)}\n);\n"
        f"CREATE TABLE target (\n{listed}\n) WITH (\n{_with(format_name, writes)}\n);\n"
        "INSERT INTO target SELECT * FROM source;\n"
    )


def _with(format_name: str, options: Mapping[str, str]) -> str:
    every = {"connector": "kafka", "format": format_name, **options}
    return ",\n".join(f"  '{name}' = '{value}'" for name, value in every.items())


def _connect(source: Topic, transform: Mapping[str, str]) -> Program:
    def command(env: Environment) -> list[str]:
        files = [env.folder / f"{env.target}.{name}.properties" for name in ("worker", "sink")]
        for file, settings in zip(files, connect_settings(source.name, transform, env), strict=True):
            file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        program = "org.apache.kafka.connect.cli.ConnectStandalone"
        return [*java_command("TopicSink", "connect-worker", _CONNECT_JAVA, env), program, *map(str, files)]

    return Program("Kafka Connect", source, 1, _one_each(source), command)


def connect_settings(
    source: str, transform: Mapping[str, str], env: Environment
) -> tuple[dict[str, str], dict[str, str]]:
    """The worker's and the connector's settings."""
    worker = {
        "bootstrap.servers": env.servers,
        "listeners": "http://127.0.0.1:0",
        "offset.storage.file.filename": str(env.folder / f"{env.target}.offsets"),
    }
    for side in ("key", "value"):
        worker[f"{side}.converter"] = "org.apache.kafka.connect.json.JsonConverter"
        worker[f"{side}.converter.schemas.enable"] = "false"
    sink = {
        "name": env.target,
        "connector.class": "TopicSink",
        "tasks.max": "1",
        "topics": source,
        "target.topic": env.target,
        "target.bootstrap.servers": env.servers,
        **{f"target.{name}": value for name, value in _PRODUCER.items()},
    }
    if transform:
        replaced = {"transforms.tidb.type": "org.apache.kafka.connect.transforms.ReplaceField$Value"}
        sink |= {"transforms": "tidb", **replaced, **transform}
    return worker, sink


def java_command(program: str, part: str, options: Sequence[str], env: Environment) -> list[str]:
    """The beginning of a command: a part's jars and our own class beside them; temporary files go to the
    run's folder.
    """
    own = classes(program, part, [_SOURCES / f"{program}.java"])
    classpath = ":".join(map(str, [own, *jars(part)]))
    return [str(java_binary()), *options, _LOGS, f"-Djava.io.tmpdir={env.folder}", "-cp", classpath]
