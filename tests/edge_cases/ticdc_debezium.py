"""The list of TiCDC Debezium's edge cases, and short ways to write its values and to read them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec
from debezium_support import DEBEZIUM, decoded, message, record, row
from debezium_support import ddl as statement
from edge_cases.canal_family import Options, ddl
from edge_cases.support import EdgeCases
from support import CANAL, TICDC, row_message

from relay import ConsumerRecord, ProducerRecord, RowChange, Translator
from relay.codecs.shared.ticdc import bare_type_text
from relay.mysql.types import parse_type

CASES = EdgeCases("ticdc-debezium", "TiCDC Debezium")

EXTENSION = {"enable-tidb-extension": "true"}
#: What is counted of nearly every row, and is not what the cases are about.
_USUAL = frozenset({"type-parameters", "commit-ts", "commit-ts-synthetic", "untyped"})
_TYPE = re.compile(r"\w+(\([^()]*\))?( UNSIGNED)?( ZEROFILL)?", re.IGNORECASE)
_KEY = {"payload": {"id": 1}}


class Sent:
    """What a translator makes of records: the last one's `outs`, and `counted` of them all."""

    def __init__(self, translator: Translator, records: Sequence[ConsumerRecord]) -> None:
        self.outs: list[ProducerRecord] = []
        for one in records:
            self.outs = translator.translate(one)
        self.counted = {
            what.value: count for what, count in translator.losses.items() if what.value not in _USUAL
        }

    @property
    def values(self) -> list[dict[str, Any]]:
        """The values of the messages."""
        return [json.loads(out.value or b"null") for out in self.outs]

    @property
    def keys(self) -> list[dict[str, Any]]:
        """The payloads of the messages' keys."""
        return [json.loads(out.key or b"null")["payload"] for out in self.outs]

    @property
    def payload(self) -> dict[str, Any]:
        """The payload of the only message."""
        (value,) = self.values
        found: dict[str, Any] = value["payload"]
        return found

    def cell(self, image: str = "after") -> str:
        """The JSON text of column `c` of the only message."""
        (out,) = self.outs
        parts = msgspec.json.decode(out.value or b"", type=dict[str, msgspec.Raw])
        payload = msgspec.json.decode(parts["payload"], type=dict[str, msgspec.Raw])
        return bytes(msgspec.json.decode(payload[image], type=dict[str, msgspec.Raw])["c"]).decode()

    def field(self, name: str = "c") -> dict[str, Any]:
        """The schema of this column, which is the same in both images."""
        (value,) = self.values
        before, after = (
            [field for field in part["fields"] if field["field"] == name]
            for part in value["schema"]["fields"][:2]
        )
        assert before == after
        found: dict[str, Any] = after[0]
        return found


def sent(
    source: str,
    target: str,
    *records: ConsumerRecord,
    reading: Options | None = None,
    writing: Options | None = None,
) -> Sent:
    """What becomes of the records."""
    return Sent(Translator(source, target, reading, writing), records)


def canal_row(definition: str, text: str | None, source: str = TICDC) -> list[ConsumerRecord]:
    """A table `d.t` with the column `c` in the Canal family, and an INSERT of this text; Canal has whole
    types in it.
    """
    said = _TYPE.match(definition)
    assert said is not None
    mysql_type = said[0] if source == CANAL else bare_type_text(parse_type(said[0]))
    rows = row_message({"id": "int", "c": mysql_type}, {"id": "1", "c": text}, pkNames=["id"])
    return [
        record(ddl(f"CREATE TABLE t (id INT PRIMARY KEY, c {definition})", "CREATE")),
        record(rows, offset=1),
    ]


def written(
    definition: str,
    text: str | None,
    source: str = TICDC,
    reading: Options | None = None,
    writing: Options | None = None,
) -> Sent:
    """The message that an INSERT of this text in the Canal family becomes."""
    return sent(source, DEBEZIUM, *canal_row(definition, text, source), reading=reading, writing=writing)


def debezium_row(
    definition: str | None, value: str, said: dict[str, Any] | None = None
) -> list[ConsumerRecord]:
    """INSERTs of this JSON into the column `c`, with a statement if there is a `definition`, and with a
    schema if there is one.
    """
    given: dict[str, Any] = message(after={"id": 1, "c": "<c>"})
    if said is not None:
        columns = [
            {"type": "int32", "optional": False, "field": "id"},
            {"optional": True, "field": "c"} | said,
        ]
        given["schema"] = {
            "type": "struct",
            "fields": [{"field": "after", "type": "struct", "fields": columns}],
        }
    data = json.dumps(given).replace('"<c>"', value).encode()
    create = (
        []
        if definition is None
        else [record(statement(f"CREATE TABLE t (id INT PRIMARY KEY, c {definition})"))]
    )
    return [*create, *(record(data, _KEY, offset) for offset in (1, 2))]


def read(definition: str | None, value: str, said: dict[str, Any] | None = None) -> Any:
    """The canonical value of JSON; the first row of a shape and the next ones are read on different ways."""
    events, _ = decoded(*debezium_row(definition, value, said))
    first, second = (row(event).after for event in events[-2:])
    assert first is not None
    assert repr(first) == repr(second)
    return first[1]


def counted(
    definition: str | None, value: str, target: str = TICDC, said: dict[str, Any] | None = None
) -> dict[str, int]:
    """What is counted of one row on its way to another protocol."""
    records = debezium_row(definition, value, said)[:-1]
    return sent(DEBEZIUM, target, *records, writing=EXTENSION if target == TICDC else None).counted


def change(*records: ConsumerRecord, options: Options | None = None) -> RowChange:
    """The row of the last message."""
    events, _ = decoded(*records, options=options)
    return row(events[-1])
