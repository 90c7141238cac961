"""The contract of every codec (`relay.testing`), relay's own and those of other packages: a protocol that is
added is tested without a change here; and what holds for codecs together.
"""

from __future__ import annotations

import itertools
import random
import typing
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import pytest
from golden.messages import rows_of
from support import CAPTURED, captured, protocol_of, reading_options
from toy_protocol import facts

from relay import (
    CodecError,
    ConsumerRecord,
    DecodeError,
    EncodeError,
    Event,
    Loss,
    Need,
    ProducerRecord,
    Resolver,
    RowChange,
    Source,
    Transaction,
    Translator,
)
from relay.codecs import PROTOCOLS, protocols
from relay.codecs.losses import SOURCE_LOSSES, TRANSACTION_LOSSES, UNSUPPORTED_EVENT_LOSSES, Capabilities
from relay.testing import CodecContract, Differences
from relay.testing.contract import FACTS
from relay.testing.option_sets import OptionTexts
from relay.testing.wires import Wire, messages

DEBEZIUM = {"debezium-json", "debezium-avro"}
READABLE = [name for name, codec in PROTOCOLS.items() if codec.is_readable]
WRITABLE = [name for name, codec in PROTOCOLS.items() if codec.is_writable]


class OfRelay(CodecContract):
    """What relay's own protocols leave open."""

    def differences(self, options: OptionTexts) -> Differences:
        name = self.codec.name
        without = {"date", "datetime"}
        if options.get("zero-dates") == "null" or name in DEBEZIUM | {"maxwell-json"}:
            without |= {"timestamp"}
        strategies = [options.get(key) for key in ("field.name.adjustment.mode", "output_naming_strategy")]
        adjusts = any(each not in {None, "none"} for each in strategies)
        return Differences(
            without_zero_dates=frozenset(without),
            has_names=not adjusts and not self.codec.uses_registry,  # Avro has no other names
            is_compact=name in DEBEZIUM,
            has_open_digits=name == "ticdc-debezium-avro",
            has_no_json_null=name == "maxwell-json",
        )


def _class_name(protocol: str) -> str:
    return "Test" + "".join(part.capitalize() for part in protocol.split("-"))


for _protocol in PROTOCOLS:
    globals()[_class_name(_protocol)] = type(
        _class_name(_protocol), (OfRelay,), {"codec": PROTOCOLS[_protocol], "samples": rows_of(_protocol)}
    )


class TestOnlyRead(CodecContract):
    """A codec that is only read, of a package that is not installed here."""

    codec = facts.CODEC
    samples = (ConsumerRecord("t", 0, 0, 0, None, b'{"toy_facts": "shop.orders", "row": {"id": 7, "b": 1}}'),)

    @pytest.fixture(autouse=True)
    def _is_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(protocols, "plugin_codecs", lambda: {facts.NAME: facts.CODEC})


def wire_of(protocol: str, source_options: OptionTexts | None = None) -> Wire:
    return Wire(PROTOCOLS[protocol], {}, source_options)


@pytest.mark.parametrize("file", CAPTURED)
def test_captured_messages_cut_and_flipped_are_events_or_refused(file: str) -> None:
    chance = random.Random(20261121)
    wire = wire_of(protocol_of(file), reading_options(file))
    for record in captured(file)[:60]:
        assert wire.codec.rows_need_definitions or not wire.is_refused(record)
        for part in ("key", "value"):
            whole = bytearray(getattr(record, part) or b"")
            if whole:
                end = chance.randrange(len(whole))
                wire.is_refused(msgspec.structs.replace(record, **{part: bytes(whole[:end])}))
                for _ in range(chance.randint(1, 4)):
                    whole[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
                wire.is_refused(msgspec.structs.replace(record, **{part: bytes(whole)}))


def test_every_kind_of_event_has_a_counter_for_targets_without_a_message() -> None:
    assert {*typing.get_args(Event)} - {RowChange} == set(UNSUPPORTED_EVENT_LOSSES)


def test_every_fact_of_an_event_has_a_counter() -> None:
    assert list(SOURCE_LOSSES) == list(Source.__struct_fields__)
    assert list(TRANSACTION_LOSSES) == list(Transaction.__struct_fields__)
    assert set(SOURCE_LOSSES) - set(FACTS) == {
        "connector",
        "event_time_ns",
        "binlog_file",
        "time_unit_ns",
    }
    for what in {*FACTS.values(), *TRANSACTION_LOSSES.values()} - {Loss.UNKNOWN_FIELDS}:
        assert what is not None
        assert str(what).replace("-", "_") in Capabilities.__struct_fields__


# ---------------------------------------------------------------- after an error


def changed(records: Sequence[ConsumerRecord], chance: random.Random) -> Iterator[ConsumerRecord]:
    """What may come instead of messages: other keys and values, cut and flipped ones."""
    keys, values = ({getattr(record, part) for record in records} for part in ("key", "value"))
    for record in records:
        for key in (*sorted(key for key in keys if key), None, b"", b"{}", b"\xff", b'{"payload":{}}'):
            yield msgspec.structs.replace(record, key=key)
        for value in (*sorted(value for value in values if value)[:3], None, b"{}", b"\x00"):
            yield msgspec.structs.replace(record, value=value)
        for part in ("key", "value"):
            whole = bytearray(getattr(record, part) or b"")
            for _ in range(min(len(whole), 12)):
                one = whole.copy()
                one[chance.randrange(len(one))] ^= 1 << chance.randrange(8)
                yield msgspec.structs.replace(record, **{part: bytes(one)})
                yield msgspec.structs.replace(record, **{part: bytes(whole[: chance.randrange(len(whole))])})


class Outcome(NamedTuple):
    """What a translator makes of a record: the output, or the error, and what is counted meanwhile."""

    made: list[ProducerRecord] | str
    losses: Counter[Loss]


def outcome(translator: Translator, record: ConsumerRecord) -> Outcome:
    before = translator.losses
    try:
        made: list[ProducerRecord] | str = Resolver().translate(translator, record)
    except CodecError as error:
        made = str(error)
    return Outcome(made, translator.losses - before)


#: Every source and every target several times: what a decoder keeps has nothing to do with the encoder.
ROUTES = [
    (source, target)
    for (at, source), (to, target) in itertools.product(enumerate(READABLE), enumerate(WRITABLE))
    if (at - to) % 4 == 0
]


@pytest.mark.parametrize(("source", "target"), ROUTES)
def test_nothing_that_was_refused_or_taken_back_shows_in_what_follows(source: str, target: str) -> None:
    """Neither in the translator's state nor in the caches of decoder and encoder."""
    for with_ddl, strict in itertools.product((True, False), ("false", "true")):
        good = list(rows_of(source))
        if PROTOCOLS[source].is_writable:
            good = messages(wire_of(source), with_ddl=with_ddl and PROTOCOLS[source].decodes.ddl)
        fresh, used = (Translator(source, target, None, {"strict": strict}) for _ in range(2))
        bad = list(changed(good, random.Random(20261123)))
        for number, record in enumerate(good):
            state = used.state
            for other in bad[number :: len(good)]:
                counted = used.events, used.losses
                try:
                    used.translate(other)
                except (DecodeError, EncodeError, Need):
                    assert used.state == state
                    assert (used.events, used.losses) == counted
                used.restore(state)
            assert outcome(used, record) == outcome(fresh, record)
