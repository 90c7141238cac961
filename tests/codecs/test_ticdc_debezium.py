"""TiCDC Debezium JSON: records of TiCDC come back byte by byte, its other formats become them; garbage."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from debezium_support import DEBEZIUM, NO_SCHEMA, SOURCE, ddl, message, record
from hypothesis import given
from hypothesis import strategies as st
from support import OPEN, TICDC, captured, captured_files

from relay import (
    ConsumerRecord,
    DecodeError,
    Malformed,
    NotRepresentable,
    RowChange,
    Translator,
)
from relay.catalog import Catalog
from relay.model.events import TableId, TableSchema

#: What each captured variant of TiCDC was configured with.
VARIANTS: dict[str, dict[str, str]] = {
    "debezium": {},
    "debezium.tidb-extension": {"enable-tidb-extension": "true"},
    "debezium.no-schema": NO_SCHEMA,
    "debezium.no-schema.start-ts": NO_SCHEMA | {"debezium-include-start-ts": "true"},
    "debezium.no-schema.raw-change-event": NO_SCHEMA | {"output-raw-change-event": "true"},
    "debezium.no-schema.shanghai": NO_SCHEMA,
    "debezium.no-old-value": NO_SCHEMA | {"output-old-value": "false"},
}
FILES = [path for variant in VARIANTS for path in captured_files(f"ticdc/{variant}")]
#: TiCDC's time of encoding, which differs from run to run.
_STAMP = re.compile(rb'(?<=},"ts_ms":)\d+')


def options_of(path: str) -> dict[str, str]:
    return VARIANTS[path.split("/")[1]]


def pairs(records: Any) -> list[tuple[bytes, bytes]]:
    """Keys and values, without the time of encoding."""
    return [(record.key, _STAMP.sub(b"0", record.value)) for record in records]


def without_repeats(value: bytes) -> bytes:
    """A value of TiCDC without the second entries of virtual generated columns, at the end of both images."""
    for image in json.loads(value).get("schema", {}).get("fields", [])[:2]:
        columns = image.get("fields", [])
        repeats = [column for at, column in enumerate(columns) if column in columns[:at]]
        if repeats:
            tail = json.dumps(repeats, separators=(",", ":"), ensure_ascii=False).encode()
            return value.replace(b"," + tail[1:], b"]")
    return value


@pytest.mark.parametrize("path", FILES)
def test_ticdc_comes_back_byte_by_byte(path: str) -> None:
    """But for columns that its schema block has twice."""
    translator = Translator(DEBEZIUM, DEBEZIUM, None, options_of(path))
    given_records = captured(path)
    made = [out for record in given_records for out in translator.translate(record)]
    assert [(out.key, out.value) for out in made] == [
        (record.key, without_repeats(record.value or b"")) for record in given_records
    ]


UNSENT = ("DROP FOREIGN KEY", "ALTER TABLE `ttl_t`", "RECOVER TABLE")


CANAL_JSON = "ticdc/canal-json.tidb-extension"


def same_workloads(source: str, *variants: str) -> list[tuple[str, str]]:
    """Files of a source's variant and of these of ours that hold the same statements."""
    ours = [path for variant in variants for path in captured_files(f"ticdc/{variant}")]
    return [
        (other, path)
        for other in captured_files(source)
        for path in ours
        if other.rpartition("/")[2] == path.rpartition("/")[2]
    ]


TWINS = [
    (protocol, *paths)
    for protocol, variant in ((TICDC, CANAL_JSON), (OPEN, "ticdc/open-protocol"))
    for paths in same_workloads(variant, "debezium", "debezium.no-schema", "debezium.tidb-extension")
]


@pytest.mark.parametrize(("source", "given_path", "path"), TWINS)
def test_other_formats_of_ticdc_become_its_debezium(source: str, given_path: str, path: str) -> None:
    """But for three kinds of DDL, for which TiCDC has no message and relay has."""
    translator = Translator(source, DEBEZIUM, None, options_of(path))
    made = [out for record in captured(given_path) for out in translator.translate(record)]
    sent = [
        out
        for out in made
        if not any(word in json.loads(out.value or b"")["payload"].get("ddl", "") for word in UNSENT)
    ]
    theirs = [(key, without_repeats(value)) for key, value in pairs(captured(path))]
    assert pairs(sent) == theirs


def rows_of(protocol: str, path: str) -> list[tuple[Any, ...]]:
    translator = Translator(protocol, protocol)
    events = [event for record in captured(path) for event in translator.inspect(record)]
    return [
        (e.op, e.schema.id, e.before, e.after, e.source.commit_ts) for e in events if isinstance(e, RowChange)
    ]


#: Columns whose value the format cannot hold: zero dates, years below 100, index 0 next to an empty member,
#: long decimals, NULL with a default.
INHERENT = {
    "zd": {"d", "dnn", "dt", "dtnn"},
    "trunc_vals": {"enn"},
    "temporal_pk": {"d"},
    "decimals": {"d65_30", "d65_0", "d30_30", "du"},
    "users": {"score", "m2"}, "members": {"m2"}, "people": {"m2"}, "people_like": {"m2"}, "people_moved": {"m2"},
    "all_types": {"c_decimal"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("canal", "path"), same_workloads(CANAL_JSON, "debezium.no-schema", "debezium.tidb-extension")
)
def test_values_are_those_of_canal_json(canal: str, path: str) -> None:
    translator = Translator(TICDC, TICDC)
    schemas: dict[tuple[TableId, int], TableSchema] = {}
    for given_record in captured(canal):
        for event in translator.inspect(given_record):
            if isinstance(event, RowChange):
                schemas[event.schema.id, event.source.commit_ts or 0] = event.schema
    ours, theirs = rows_of(DEBEZIUM, path), rows_of(TICDC, canal)
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert (one[0], one[1], one[4]) == (other[0], other[1], other[4])
        for mine, right in zip(one[2:4], other[2:4], strict=True):
            if mine is None or right is None:
                assert mine is right
                continue
            names = [column.name for column in schemas[one[1], one[4]].columns]
            hidden = INHERENT.get(one[1].table, set())
            assert {n: v for n, v in zip(names, mine, strict=True) if n not in hidden} == {
                n: v for n, v in zip(names, right, strict=True) if n not in hidden
            }


# ---------------------------------------------------------------- garbage


def survives(translator: Translator, one: ConsumerRecord) -> None:
    """Translate and read it; only the documented errors may come."""
    try:
        translator.translate(one)
        for event in translator.inspect(one):
            if isinstance(event, RowChange):
                _ = event.before, event.after
    except (DecodeError, NotRepresentable) as error:
        assert error.reason


_scalar = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
_json = st.recursive(
    _scalar,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)
_typed = st.sampled_from(
    ["id INT", "d DECIMAL(5,2)", "d DATE NOT NULL", "t TIMESTAMP(3)", "e ENUM('a','b')", "s SET('a','b')", "b BIT(9)", "y YEAR",
     "v VARBINARY(9)", "u BIGINT UNSIGNED DEFAULT 7", "f FLOAT", "x DATETIME(6)", "z TIME"]
)  # fmt: skip
_cell = _scalar | st.sampled_from(
    [0, -1, 2**64, 1.5, "a", "AA==", "2026-01-15T00:00:00Z", 10**20, True, "a,b"]
)
_image = st.none() | st.dictionaries(
    st.sampled_from(["id", "d", "t", "e", "s", "b", "y", "v", "u", "f", "x", "z", "?"]), _cell, max_size=4
)


@given(st.binary(max_size=200))
def test_arbitrary_bytes(value: bytes) -> None:
    survives(Translator(DEBEZIUM, TICDC), ConsumerRecord("t", 0, 0, 0, value, value))


@given(
    st.sampled_from(["c", "u", "d", "r", "m", "t", None]), _image, _image, st.lists(_typed, max_size=4), st.none() | _json,
    st.dictionaries(st.sampled_from(["ts_ms", "db", "commit_ts", "start_ts", "cluster_id", "table"]), _json, max_size=2),
)  # fmt: skip
def test_messages_with_anything_in_their_members(
    op: str | None, before: Any, after: Any, columns: list[str], schema: Any, source: dict[str, Any]
) -> None:
    for target, options in ((DEBEZIUM, {"enable-tidb-extension": "true"}), (TICDC, {}), (OPEN, {})):
        translator = Translator(DEBEZIUM, target, None, options)
        translator.translate(
            record(ddl("CREATE TABLE t (pk INT PRIMARY KEY, " + ",".join(columns or ["id INT"]) + ")"))
        )
        value = message(op, before=before, after=after) | {"schema": schema}
        for one in (value, message(op, before=before, after=after, source=SOURCE | source)):
            survives(translator, record(one, {"payload": {"id": 1}}, 1))


def test_every_cut_of_a_message_is_refused_or_read() -> None:
    text = captured("ticdc/debezium.no-schema/09_dml")[5].value or b""
    translator = Translator(DEBEZIUM, TICDC)
    for end in range(len(text)):
        survives(translator, ConsumerRecord("t", 0, 0, 0, text[: end // 9], text[:end]))


def test_the_catalog_stays_as_it_was_when_a_message_is_refused() -> None:
    translator = Translator(DEBEZIUM, DEBEZIUM)
    with pytest.raises(Malformed):
        translator.translate(record(message("c", after={"id": [1]})))
    assert translator.catalog == Catalog()
