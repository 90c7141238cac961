"""The list of Debezium's edge cases for what `debezium-json` writes, and short ways to write."""

from __future__ import annotations

from debezium_json_support import DEBEZIUM as NATIVE
from edge_cases.canal_family import Options
from edge_cases.support import EdgeCases
from edge_cases.ticdc_debezium import Sent, canal_row, sent
from support import CANAL

from relay import ConsumerRecord

CASES = EdgeCases("ticdc-debezium", "Debezium JSON, written", golden="debezium-json-written")

#: What is counted of the sources of these cases, and is not what they are about.
_USUAL = frozenset({"binlog-position-synthetic", "value-inferred"})


def made(source: str, *records: ConsumerRecord, options: Options | None = None) -> Sent:
    """What debezium-json has of the last of these records."""
    found = sent(source, NATIVE, *records, writing=options)
    found.counted = {what: count for what, count in found.counted.items() if what not in _USUAL}
    return found


def written(definition: str, text: str | None, options: Options | None = None, source: str = CANAL) -> Sent:
    """The message that an INSERT of this text into the column `c` becomes."""
    return made(source, *canal_row(definition, text, source), options=options)
