"""RELAY_KERNEL=shadow compares what templates give with the pipeline, counts too."""

from __future__ import annotations

import msgspec
import pytest
from engine_support import ENGINES
from packet_support import PROTOBUF, row, statement
from packet_support import record as packet_record
from reference_engine import Interpreter
from support import CANAL, TICDC, captured

from relay import Malformed, ProducerRecord
from relay.codecs.canal.canal_protobuf import packets
from relay.core.translator import Translator
from relay.core.verification import ShadowTranslator, TemplatesDiffer
from relay.templates.engine import Engine, Translation
from relay.templates.ops import Framing, Marker, Template

RECORDS = captured("ticdc/canal-json/09_dml")


class Wrong(Interpreter):
    """An engine that gives another value, but not while it is asked whether a template is right."""

    def __init__(self, marker: Marker, framing: Framing | None = None) -> None:
        super().__init__(marker, framing)
        self._is_new = False

    def add(self, template: Template) -> int:
        self._is_new = True
        return super().add(template)

    def translate(
        self, key: bytes | None, value: bytes | None, offset: int, time_ms: int, mark_prefix: bytes
    ) -> Translation | None:
        found = super().translate(key, value, offset, time_ms, mark_prefix)
        if found is None or self._is_new:
            self._is_new = False
            return found
        return found[0], found[1], b"{}", found[3]


def translated(translator: Translator) -> list[ProducerRecord]:
    return [out for _ in range(3) for record in RECORDS for out in translator.translate(record)]


def test_what_agrees_is_counted_once() -> None:
    plain, shadow = Translator(TICDC, CANAL), ShadowTranslator(TICDC, CANAL, engine=Interpreter)
    assert translated(shadow) == translated(plain)
    assert shadow.events == plain.events
    assert shadow.losses == plain.losses


def test_a_difference_is_reported() -> None:
    with pytest.raises(TemplatesDiffer, match="another value"):
        translated(ShadowTranslator(TICDC, CANAL, engine=Wrong))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_statement_beside_rows_with_a_template_is_applied_once(engine: type[Engine]) -> None:
    shadow = ShadowTranslator(PROTOBUF, CANAL, engine=engine)
    plain = Translator(PROTOBUF, CANAL)
    # Read again after the statement, the row of `u` would have a known definition.
    of_u = row("2").replace(b"J\x01t", b"J\x01u")
    mixed = [of_u, row("3"), statement("CREATE TABLE u (a INT)", 3)]
    rows = [row("1")]
    for offset, entries in enumerate([*[rows] * 5, mixed, rows]):
        given = packet_record(packets.packet(0, entries), offset)
        assert shadow.translate(given) == plain.translate(given)
    assert shadow.paths["fast"] > 2
    assert (shadow.catalog, shadow.events, shadow.losses) == (plain.catalog, plain.events, plain.losses)


@pytest.mark.parametrize("engine", ENGINES)
def test_values_that_the_target_leaves_out_are_read_as_without_templates(engine: type[Engine]) -> None:
    numbers = captured("ticdc/canal-json.tidb-extension/02_numeric")
    translator = ShadowTranslator(TICDC, "flat-json", {}, {"deletes": "tombstone"}, engine=engine)
    at = next(
        at
        for at, each in enumerate(numbers)
        if b'"DELETE"' in (each.value or b"") and b'"du":' in (each.value or b"")
    )
    for record in (*numbers[:at], *[numbers[at]] * 3):
        translator.translate(record)
    assert translator.paths["fast"]
    value = numbers[at].value or b""
    broken = value.replace(b'"du":"99999999999999.999999"', b'"du":"-Inf"')
    assert broken != value
    with pytest.raises(Malformed, match="du: not a decimal number"):
        translator.translate(msgspec.structs.replace(numbers[at], value=broken))
