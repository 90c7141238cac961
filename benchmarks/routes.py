"""What is measured: the routes, the options they run with, and the record files that feed them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.avro import REGISTRY, RESOLVER, is_avro
from benchmarks.packets import is_packet
from relay.cli.record_files import RecordReader
from relay.codecs.open_protocol.frames import VERSION, unframe
from relay.core.translator import Translator
from relay.model.records import ConsumerRecord, ProducerRecord
from relay.templates.engine import Engine

#: Real producers' messages, checked in for the tests.
DATA = Path(__file__).parent.parent / "tests" / "data"
#: Workloads in the order of the report, where the data has them: every type, ordinary changes, many rows of
#: one table.
WORKLOADS = ("01_all_types", "09_dml", "12_bulk")
_TICDC = "ticdc/canal-json.tidb-extension"
_CANAL = "mysql/canal-json"
_OPEN = "ticdc/open-protocol"
_TICDC_DEBEZIUM = "ticdc/debezium.no-schema"
_DEBEZIUM = "mysql/debezium"
_NO_SCHEMA = "mysql/debezium.no-schema"
_TICDC_AVRO = "ticdc/avro.tidb-extension"
_TICDC_DEBEZIUM_AVRO = "ticdc/debezium-avro"
_MAXWELL = "mysql/maxwell"
_SIMPLE = "ticdc/simple.json"
_SIMPLE_AVRO = "ticdc/simple.avro"
_AVRO_OPTIONS: Mapping[str, str] = {"enable-tidb-extension": "true", "avro-enable-watermark": "true"}
_EXTENSION: Mapping[str, str] = {"enable-tidb-extension": "true"}


class Route(NamedTuple):
    """One way through relay: `data` is the folder of the source's messages below the data folder.

    `made_from`: the protocol of these messages, where they are not the source's: relay writes the source's
    from them. For protocols of which no producer's messages are checked in.
    """

    source: str
    target: str
    data: str
    source_options: Mapping[str, str] = {}
    target_options: Mapping[str, str] = {}
    made_from: str = ""

    def __str__(self) -> str:
        shown = [f"{name}={value}" for name, value in self.target_options.items() if name in _SHOWN]
        return f"{self.source} -> {self.target}" + (f" ({', '.join(shown)})" if shown else "")

    def translator(self, fills: type[Engine] | None = None) -> Translator:
        """A fresh translator of this route. `fills`: the engine of its templates."""
        return Translator(self.source, self.target, self.source_options, self.target_options, engine=fills)

    def json_texts(self, record: ConsumerRecord | ProducerRecord) -> list[bytes]:
        """The JSON documents in a record of either side: its key and value, or the segments of Open
        Protocol's frames.
        """
        if (record.key or b"").startswith(VERSION):
            return [text for segments in unframe(record.key, record.value) for text in segments if text]
        return [text for text in (record.key, record.value) if text and text[0] >= _FIRST_OF_JSON]

    def avro_parts(self, record: ConsumerRecord | ProducerRecord) -> list[bytes]:
        """The key and the value of a record of either side that are in Avro."""
        if (record.key or b"").startswith(VERSION):
            return []
        return [part for part in (record.key, record.value) if part and is_avro(part)]

    def packets(self, record: ConsumerRecord) -> list[bytes]:
        """The value of a record that is a packet of Canal."""
        return [record.value] if record.value and is_packet(record.value) else []


_CONFIG = """\
[route]
from = "{route.source}"
to = "{route.target}"
to_options = {{ {options} }}

[source]
bootstrap_servers = "{servers}"
topics = ["{source}"]
group_id = "{group}"

[target]
topic = "{target}"
"""


def relay_config(route: Route, servers: str, source: str, target: str, group: str = "") -> str:
    """A configuration of the relay; without a name for its group it has the target's."""
    options = ", ".join(f'"{name}" = "{value}"' for name, value in route.target_options.items())
    return _CONFIG.format(
        route=route, options=options, servers=servers, source=source, target=target, group=group or target
    )


#: Below it are the frames of Avro.
_FIRST_OF_JSON = 0x20
#: Options that change how much is written, and so belong to a route's name.
_SHOWN = {"debezium-disable-schema", "schemas.enable", "profile"}
#: A new route is one more line here.
ROUTES = (
    Route("ticdc-canal-json", "canal-json", _TICDC),
    Route("canal-json", "ticdc-canal-json", _CANAL, target_options=_EXTENSION),
    Route("ticdc-canal-json", "ticdc-canal-json", _TICDC, target_options=_EXTENSION),
    Route("ticdc-open-protocol", "ticdc-debezium", _OPEN, target_options={"debezium-disable-schema": "true"}),
    Route("ticdc-open-protocol", "ticdc-debezium", _OPEN),
    Route("ticdc-open-protocol", "canal-json", _OPEN),
    Route("ticdc-open-protocol", "debezium-json", _OPEN, target_options={"schemas.enable": "false"}),
    Route("ticdc-open-protocol", "debezium-json", _OPEN, target_options={"profile": "kafka-connect"}),
    Route("ticdc-canal-json", "debezium-json", _TICDC, target_options={"profile": "flink"}),
    Route("debezium-json", "canal-json", _DEBEZIUM),
    Route("debezium-json", "debezium-json", _NO_SCHEMA, target_options={"schemas.enable": "false"}),
    Route("ticdc-canal-json", "flat-json", _TICDC),
    Route("ticdc-canal-json", "ticdc-open-protocol", _TICDC),
    Route("ticdc-canal-json", "ckafka-json", _TICDC),
    Route("ticdc-debezium", "canal-json", _TICDC_DEBEZIUM),
    Route("ckafka-json", "canal-json", _TICDC, made_from="ticdc-canal-json"),
    Route("debezium-json", "debezium-avro", _NO_SCHEMA),
    Route("debezium-avro", "debezium-json", _NO_SCHEMA, made_from="debezium-json"),
    Route("debezium-avro", "debezium-avro", _NO_SCHEMA, made_from="debezium-json"),
    Route("ticdc-avro", "ticdc-avro", _TICDC_AVRO, _AVRO_OPTIONS, _AVRO_OPTIONS),
    Route("ticdc-avro", "canal-json", _TICDC_AVRO, _AVRO_OPTIONS),
    Route("ticdc-canal-json", "ticdc-avro", _TICDC, target_options=_AVRO_OPTIONS),
    Route("ticdc-debezium-avro", "ticdc-debezium-avro", _TICDC_DEBEZIUM_AVRO),
    Route("maxwell-json", "canal-json", _MAXWELL),
    Route("canal-json", "maxwell-json", _CANAL),
    Route("ticdc-simple-json", "canal-json", _SIMPLE),
    Route("ticdc-canal-json", "ticdc-simple-json", _TICDC),
    Route("ticdc-simple-avro", "canal-json", _SIMPLE_AVRO),
    Route("canal-protobuf", "canal-json", _CANAL, made_from="canal-json"),
)


def workloads(route: Route, data: Path = DATA) -> dict[str, list[ConsumerRecord]]:
    """Read the route's messages, by workload. Raises FileNotFoundError when there are none."""
    folder = data / route.data
    REGISTRY.load(folder)
    found = {
        name: read_records(folder / f"{name}.jsonl")
        for name in WORKLOADS
        if (folder / f"{name}.jsonl").exists()
    }
    if not found:
        raise FileNotFoundError(f"no record files of {', '.join(WORKLOADS)} in {folder}")
    if route.made_from:
        return {name: _made(route, records) for name, records in found.items()}
    return found


def _made(route: Route, records: Sequence[ConsumerRecord]) -> list[ConsumerRecord]:
    """Messages of the route's source, written by relay."""
    translator = Translator(route.made_from, route.source)
    written = [out for record in records for out in RESOLVER.translate(translator, record)]
    return [
        ConsumerRecord(out.topic, out.partition, offset, out.timestamp_ms, out.key, out.value)
        for offset, out in enumerate(written)
    ]


def read_records(path: Path) -> list[ConsumerRecord]:
    """Read a whole record file."""
    with path.open("rb") as stream:
        return list(RecordReader(stream, path.name))
