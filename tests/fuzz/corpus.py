"""Good records of every protocol: captured ones, and those that relay makes of them for protocols that
nobody has captured, and with other options.
"""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from golden.messages import rows_of
from packet_support import PROTOBUF, cut
from support import CAPTURED, DATA, captured, protocol_of
from toy_protocol.registry import schema_by_id

from relay import ConsumerRecord, Need, ProducerRecord, Resolver, Translator
from relay.codecs import PROTOCOLS, given_options
from relay.codecs.shared.avro import named_schemas
from relay.model.errors import ServiceError
from relay.model.lookups import ClaimCheck, RegisteredSchema, SchemaById
from relay.testing.option_sets import OptionTexts, option_sets

#: Stands for the producer's storage; what lies there is in `Sample.objects`.
STORAGE: Final = "/claim-checks"
#: Records of a file that are examined; what comes behind them is more of the same.
_MOST: Final = 120
#: Captured files from which records of other protocols are made.
_MADE_FROM: Final = (
    *("ticdc/canal-json.tidb-extension/10_ddl", "ticdc/canal-json.tidb-extension/01_all_types"),
    *("mysql/canal-json/09_dml", "mysql/canal-json/10_ddl", "mysql/canal-json/02_numeric"),
    *("ticdc/canal-json.tidb-extension/11_enum_set_json_generated", "ticdc/open-protocol/09_dml"),
    *("mysql/canal-json/03_temporal", "ticdc/canal-json.tidb-extension/06_zero_dates"),
)


class Sample(NamedTuple):
    """Records of one producer in order, their reader's options, and its storage's objects by name."""

    name: str
    protocol: str
    options: OptionTexts
    records: tuple[ConsumerRecord, ...]
    objects: Mapping[str, bytes] = {}


@functools.cache
def captured_sample(file: str) -> Sample:
    """The records of a file below tests/data."""
    folder = (DATA / file).parent
    protocol, objects = protocol_of(file), {}
    options: OptionTexts = {}
    if (folder / "storage").is_dir():
        objects = {path.name: path.read_bytes() for path in (folder / "storage").iterdir()}
        options["claim-check-storage-uri"] = STORAGE
    if "shanghai" in folder.name and "timezone" in _option_names(protocol):
        options["timezone"] = "Asia/Shanghai"
    return Sample(file, protocol, options, tuple(captured(file)[:_MOST]), objects)


@functools.cache
def cut_sample(file: str) -> Sample:
    """The packets of a file of Canal's, cut between transactions: packets with a statement have no templates."""
    return captured_sample(file)._replace(name=f"{file}, cut", records=tuple(cut(file)[:_MOST]))


def _option_names(protocol: str) -> set[str]:
    return set(PROTOCOLS[protocol].options.__struct_fields__)


@functools.lru_cache(40)
def made_sample(file: str, protocol: str, choice: int) -> Sample:
    """The records of a file as relay writes them in a protocol, with one of its sets of options."""
    origin = captured_sample(file)
    sets = option_sets(PROTOCOLS[protocol])
    written = sets[choice % len(sets)]
    options = with_storage(protocol, written)
    produced = _produced(Translator(origin.protocol, protocol, origin.options, options), origin.records)
    records = tuple(
        ConsumerRecord(out.topic, out.partition, at, out.timestamp_ms, out.key, out.value, out.headers)
        for at, out in enumerate(produced)
    )
    objects = {blob.name: blob.data for out in produced for blob in out.blobs}
    return Sample(
        f"{file} as {protocol} {written}", protocol, reading_options(protocol, options), records, objects
    )


def _produced(translator: Translator, records: Sequence[ConsumerRecord]) -> list[ProducerRecord]:
    """What becomes of records; what is wrong with one is found where it is tried."""
    found: list[ProducerRecord] = []
    for record in records:
        with contextlib.suppress(Exception):
            found += Resolver().translate(translator, record)
    return found


def reading_options(protocol: str, written: OptionTexts) -> OptionTexts:
    """Return a reader's options for a writer's options, and for those of a profile."""
    return given_options.reading_options(PROTOCOLS[protocol], written)


def with_storage(protocol: str, options: OptionTexts) -> OptionTexts:
    """The options with a storage for claim checks, where the protocol has one."""
    has_storage = "claim_check_storage_uri" in _option_names(protocol)
    return {"claim-check-storage-uri": STORAGE, **options} if has_storage else dict(options)


def chosen_sample(protocol: str, chance: random.Random) -> Sample:
    """Any sample of a protocol: a captured one mostly, if there are some; an example of one that is only read."""
    files = [file for file in CAPTURED if protocol_of(file) == protocol and not file.endswith(".schemas")]
    if files and chance.random() < 0.75:
        is_cut = protocol == PROTOBUF and chance.random() < 0.7
        return (cut_sample if is_cut else captured_sample)(chance.choice(files))
    if not PROTOCOLS[protocol].is_writable:
        return Sample(f"golden {protocol}", protocol, {}, rows_of(protocol))
    while True:
        found = made_sample(chance.choice(_MADE_FROM), protocol, chance.randrange(40))
        if found.records:
            return found


def schemas_of(records: Iterable[ConsumerRecord]) -> dict[int, RegisteredSchema]:
    """Return the schemas that records name and the registry has, by id."""
    found = {}
    for id in {id for record in records for id in named_schemas(record)}:
        with contextlib.suppress(ServiceError, ValueError):  # a GUID is no number
            found[int(id)] = schema_by_id(SchemaById("source", id))
    return found


def answer(need: Need[object], objects: Mapping[str, bytes]) -> object:
    """Answer a need, from the storage or as other packages do. Raises ServiceError."""
    if isinstance(need, ClaimCheck):
        return objects.get(need.name, b"")
    return Resolver().fetch(need)
