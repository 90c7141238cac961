"""Messages of Canal with several rows, of which each is translated as a message of its own would be."""

from __future__ import annotations

import json
from typing import Any

import pytest
from engine_support import ENGINES
from support import CANAL, TICDC
from templates_support import Both

from relay import ConsumerRecord
from relay.codecs.losses import Loss
from relay.model.limits import Limits
from relay.templates.engine import Engine

Row = dict[str, str | None]
ROW: Row = {"id": "1", "name": "a"}


def message(*rows: Row, old: list[Any] | None = None, **members: Any) -> bytes:
    """A message as Canal prints it."""
    document = {
        "data": rows,
        "database": "d",
        "es": 1700000000000,
        "gtid": "",
        "id": 7,
        "isDdl": False,
        "mysqlType": {"id": "int", "name": "varchar(9)"},
        "old": old,
        "pkNames": ["id"],
        "sql": "",
        "sqlType": {"id": 4, "name": 12},
        "table": "t",
        "ts": 1700000000123,
        "type": "INSERT" if old is None else "UPDATE",
    }
    return json.dumps(document | members, separators=(",", ":"), ensure_ascii=False).encode()


def record(value: bytes) -> ConsumerRecord:
    return ConsumerRecord("topic", 0, 1, 1700000000456, None, value)


def warm(both: Both) -> Both:
    """Let rows have templates, those of INSERT and of UPDATE."""
    for value in (message(ROW), message(ROW, old=[{"name": "b"}])):
        assert [both.fits(record(value)) for _ in range(3)][-1]
    return both


INSERTS = message(ROW, ROW | {"id": "2"}, ROW | {"name": None})
UPDATES = message(ROW, ROW | {"id": "2"}, old=[{"name": "b"}, {"name": None}])


@pytest.mark.parametrize("value", [INSERTS, UPDATES, message(ROW, ROW, type="UPDATE")])
def test_templates_are_learned_from_messages_of_several_rows(value: bytes) -> None:
    both = Both(CANAL, target=TICDC)
    met = [both.fits(record(value)) for _ in range(3)]
    assert met == [False, False, True]


@pytest.mark.parametrize("text", ["},{", '}],"database":"', '{"id":"1"}', '\\"},{'])
def test_texts_with_braces(text: str) -> None:
    both = warm(Both(CANAL, target=TICDC))
    assert both.fits(record(message(ROW, ROW | {"name": text}, ROW)))


MOVED = ROW | {"id": "2"}


def learned(*values: bytes, target: str = TICDC, **settings: Any) -> Both:
    """A route that has met messages often enough."""
    both = Both(CANAL, target=target, **settings)
    for value in values * 3:
        both.fits(record(value))
    return both


@pytest.mark.parametrize("target", [TICDC, "ticdc-debezium", "ticdc-open-protocol"])
def test_updates_of_keys(target: str) -> None:
    value = message(MOVED, old=[{"id": "1"}])
    both = learned(value, target=target)
    assert both.fits(record(value))
    assert both.fits(record(message(ROW | {"id": "7"}, old=[{"id": "8", "name": None}])))
    assert both.fits(record(message(MOVED, MOVED, old=[{"id": "1"}, {"id": "3"}])))


def test_updates_that_may_change_a_key() -> None:
    """They are recognized by their values: one template splits them, another one does not."""
    split, whole = message(MOVED, old=[{"id": "1"}]), message(MOVED, old=[{"name": "b"}])
    both = learned(split, whole)
    for value in (split, whole, message(MOVED, old=[{"id": "2", "name": "b"}]), split):
        assert both.fits(record(value))
    assert both.fits(record(message(MOVED, MOVED, MOVED, old=[{"id": "1"}, {"name": "b"}, {"id": "1"}])))
    assert not both.fits(record(message(MOVED, MOVED, old=[{"id": "1"}, {"id": "x"}])))
    assert not both.fits(record(message(ROW | {"id": "01"}, old=[{"id": "1"}])))


def test_updates_of_keys_within_limits() -> None:
    both = learned(message(MOVED, old=[{"id": "1"}]), limits=Limits(output_bytes=1))
    assert not both.fits(record(message(MOVED, old=[{"id": "1"}])))


@pytest.mark.parametrize("count", [999, 1000, 1001, 2500])
def test_many_rows(count: int) -> None:
    assert warm(Both(CANAL, target=TICDC)).fits(record(message(*[ROW] * count)))


@pytest.mark.parametrize("target", ["ckafka-json", "flat-json", "ticdc-debezium", "ticdc-open-protocol"])
def test_targets(target: str) -> None:
    both = warm(Both(CANAL, target=target))
    assert both.fits(record(INSERTS))


@pytest.mark.parametrize(
    "value",
    [
        message(ROW, {"name": "a", "id": "1"}),
        message(ROW, {"id": "2"}),
        message(ROW, ROW | {"more": "1"}),
        message(ROW, {}),
        message(ROW, ROW, old=[{"name": "b"}]),
        message(ROW, ROW, old=[{"name": "b"}, None]),
        message(ROW, ROW, old=[None, {"name": "b"}]),
        message(ROW, ROW, old=[{"name": "b"}, {"name": "b"}, {"name": "b"}]),
        message(ROW, ROW, old=[{"name": "b"}, {"more": "b"}]),
        message(ROW, ROW, isDdl=True),
        INSERTS.replace(b"},{", b"}, {", 1),
        INSERTS.replace(b"},{", b"},null,{", 1),
        INSERTS.replace(b"},{", b'}],"data":[{', 1),
        INSERTS.replace(b'{"data"', b'{ "data"'),
        UPDATES.replace(b'"old":[', b'"old":[null,'),
        UPDATES.replace(b'"pkNames"', b'"old":null,"pkNames"'),
        UPDATES.replace(b'"isDdl":false', b'"more":{"old":[{}]},"isDdl":false'),
        UPDATES[:-1],
    ],
)
def test_messages_of_another_form(value: bytes) -> None:
    """They are learned by nobody either, however often they come."""
    both = warm(Both(CANAL, target=TICDC))
    assert not any(both.fits(record(value)) for _ in range(5))


@pytest.mark.parametrize(
    ("value", "other"),
    [
        (message(ROW, ROW, more=1), message(ROW, ROW, more=2)),
        (INSERTS.replace(b"},{", b'}],"more":[{', 1), INSERTS.replace(b"},{", b'}],"more":[2,{', 1)),
    ],
)
def test_messages_with_an_unknown_member(value: bytes, other: bytes) -> None:
    both = warm(Both(CANAL, target=TICDC))
    assert any(both.fits(record(value)) for _ in range(5))
    assert not both.fits(record(other))
    assert both.fits(record(value))


@pytest.mark.parametrize("limits", [Limits(rows=2), Limits(values=40), Limits(output_bytes=1_000)], ids=str)
def test_limits(limits: Limits) -> None:
    both = warm(Both(CANAL, target=TICDC, limits=limits))
    assert not any(both.fits(record(INSERTS)) for _ in range(3))


DAYS: Row = {"id": "1", "name": "2024-01-01"}
ZERO = DAYS | {"id": "2", "name": "0000-00-00"}
DATES: dict[str, Any] = {"mysqlType": {"id": "int", "name": "date"}, "sqlType": {"id": 4, "name": 91}}


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_of_which_something_is_lost(engine: type[Engine]) -> None:
    both = Both(CANAL, target="ticdc-debezium", engine=engine)
    for _ in range(3):
        both.fits(record(message(DAYS, **DATES)))
    assert both.fits(record(message(ZERO, DAYS, ZERO, ZERO, DAYS, **DATES)))
    assert both.templated.losses[Loss.ZERO_DATE] == 3


@pytest.mark.parametrize("engine", ENGINES)
def test_split_updates_of_which_something_is_lost(engine: type[Engine]) -> None:
    """What the old row loses counts as well as what the new one does."""
    both = Both(CANAL, target="ticdc-debezium", engine=engine)
    moved = [{"id": "3", "name": "2024-01-02"}]
    for _ in range(3):
        both.fits(record(message(DAYS, old=moved, **DATES)))
    days = [moved[0], {"id": "4", "name": "0000-00-00"}]
    assert both.fits(record(message(ZERO, ZERO, old=days, **DATES)))
    assert both.templated.losses[Loss.ZERO_DATE] == 3
