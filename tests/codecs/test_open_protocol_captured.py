"""Records of TiCDC's Open Protocol: they come back byte by byte, and all settings say the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from open_support import V1, cell, raw, records, row, segment, unframed, values
from support import DATA, OPEN, TICDC, captured, captured_files

from relay import (
    ABSENT,
    ConsumerRecord,
    Event,
    Loss,
    Op,
    ProducerRecord,
    RowChange,
    SchemaChange,
    Translator,
)
from relay.model.lookups import ClaimCheck

#: What each captured variant was configured with.
VARIANTS: dict[str, dict[str, str]] = {
    "open-protocol": {},
    "open-protocol.batch": {"max-batch-size": "16"},
    "open-protocol.3-partitions": {"max-batch-size": "16"},
    "open-protocol.updated-columns": {"only-output-updated-columns": "true"},
    "open-protocol.delete-handle-key": {"delete-only-output-handle-key-columns": "true"},
    "open-protocol.no-old-value": {"output-old-value": "false"},
    "open-protocol.lz4": {"max-batch-size": "16", "large-message-handle-compression": "lz4"},
    "open-protocol.shanghai": {"timezone": "Asia/Shanghai"},
}
FILES = [path for variant in VARIANTS for path in captured_files(f"ticdc/{variant}")]


def zone(path: str) -> dict[str, str]:
    return {name: value for name, value in VARIANTS[path.split("/")[1]].items() if name == "timezone"}


def translated(
    path: str, source_options: dict[str, str], target_options: dict[str, str]
) -> list[list[ProducerRecord]]:
    translator = Translator(OPEN, OPEN, source_options, target_options)
    return [translator.translate(record) for record in captured(path)]


def has_nameless(record: ConsumerRecord) -> bool:
    """Whether an old row has a cell without its column's name, as TiCDC writes it where a value became NULL."""
    return any(
        isinstance((json.loads(value or b"{}").get("p") or {}).get("t"), int) for _, value in unframed(record)
    )


@pytest.mark.parametrize("path", [path for path in FILES if "lz4" not in path])
def test_every_record_comes_back_byte_by_byte(path: str) -> None:
    out = translated(path, zone(path), VARIANTS[path.split("/")[1]])
    nameless = 0
    for given, written in zip(captured(path), out, strict=True):
        (again,) = written
        assert again.key == given.key
        if has_nameless(given):
            nameless += 1
        else:
            assert again.value == given.value
    assert nameless == ("updated-columns" in path)


def test_compressed_records_are_read_and_written() -> None:
    """LZ4 frames differ from writer to writer."""
    plain = [(record.key, record.value) for record in captured("ticdc/open-protocol.batch/09_dml")]
    path, batches = "ticdc/open-protocol.lz4/09_dml", {"max-batch-size": "16"}
    for reading in ({}, {"large-message-handle-compression": "lz4"}):
        assert [
            (out.key, out.value) for written in translated(path, reading, batches) for out in written
        ] == plain
    back = Translator(OPEN, OPEN, None, batches)
    for at, written in enumerate(translated(path, {}, VARIANTS["open-protocol.lz4"])):
        (again,) = back.translate(raw(written[0].key, written[0].value, at))
        assert (again.key, again.value) == plain[at]


def rows(path: str, options: dict[str, str] | None = None, protocol: str = OPEN) -> list[Any]:
    """Operation, old and new row, and commit ts of every row."""
    translator = Translator(protocol, protocol, options)
    found = [event for record in captured(path) for event in translator.inspect(record)]
    return [
        (one.op, one.before, one.after, one.source.commit_ts) for one in found if isinstance(one, RowChange)
    ]


EXTENSION = "ticdc/canal-json.tidb-extension"


@pytest.mark.parametrize(
    ("path", "same"),
    [
        ("ticdc/open-protocol/01_all_types", f"{EXTENSION}/01_all_types"),
        ("ticdc/open-protocol/09_dml", f"{EXTENSION}/09_dml"),
        ("ticdc/open-protocol/10_ddl", f"{EXTENSION}/10_ddl"),
        ("ticdc/open-protocol.shanghai/03_temporal", f"{EXTENSION}/03_temporal"),
        ("ticdc/open-protocol.updated-columns/01_all_types", f"{EXTENSION}/01_all_types"),
        ("ticdc/open-protocol.updated-columns/06_zero_dates", f"{EXTENSION}/06_zero_dates"),
        ("ticdc/open-protocol.updated-columns/09_dml", f"{EXTENSION}/09_dml"),
    ],
)
def test_every_setting_and_format_has_the_same_rows(path: str, same: str) -> None:
    assert rows(path, zone(path)) == rows(same, protocol=TICDC)


def test_a_batch_has_the_same_rows() -> None:
    assert rows("ticdc/open-protocol.batch/09_dml") == rows("ticdc/open-protocol/09_dml")
    spread = rows("ticdc/open-protocol.3-partitions/09_dml")
    assert sorted(map(repr, spread)) == sorted(map(repr, rows("ticdc/open-protocol/09_dml")))


def test_without_old_values_updates_are_inserts() -> None:
    full = rows("ticdc/open-protocol/09_dml")
    expected = [
        (Op.INSERT, None, after, ts) if op is Op.UPDATE else (op, before, after, ts)
        for op, before, after, ts in full
    ]
    assert rows("ticdc/open-protocol.no-old-value/09_dml") == expected


def test_deletes_with_the_handle_key_alone_lack_the_other_columns() -> None:
    path = "ticdc/open-protocol.delete-handle-key/09_dml"
    deletes = [before for op, before, _, _ in rows(path) if op is Op.DELETE]
    assert len(deletes) > 5
    assert all(ABSENT in before and before[0] is not ABSENT for before in deletes)
    translator = Translator(OPEN, OPEN)
    for record in captured(path):
        translator.translate(record)
    assert translator.losses[Loss.COLUMNS_ABSENT] == len(deletes)


def without_partitions(message: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The message without the ids of physical tables, which no other format has."""
    found = []
    for key, value in message:
        members = {name: member for name, member in json.loads(key).items() if name != "ptn"}
        found.append((json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode(), value))
    return found


@pytest.mark.parametrize("name", ["01_all_types", "09_dml", "10_ddl"])
def test_ticdcs_canal_json_becomes_what_ticdc_writes_for_the_same_changes(name: str) -> None:
    translator = Translator(TICDC, OPEN)
    written = [
        unframed(out) for record in captured(f"{EXTENSION}/{name}") for out in translator.translate(record)
    ]
    assert written == [
        without_partitions(unframed(record)) for record in captured(f"ticdc/open-protocol/{name}")
    ]


@pytest.mark.parametrize("name", ["01_all_types", "09_dml", "10_ddl"])
def test_open_protocol_becomes_what_ticdc_writes_in_canal_json(name: str) -> None:
    def comparable(value: bytes | None) -> Any:
        message = json.loads(value or b"")
        return message | {"ts": 0, "mysqlType": sorted((message["mysqlType"] or {}).items())}

    translator = Translator(OPEN, TICDC, None, {"enable-tidb-extension": "true"})
    written = [
        comparable(out.value)
        for record in captured(f"ticdc/open-protocol/{name}")
        for out in translator.translate(record)
    ]
    assert written == [comparable(record.value) for record in captured(f"{EXTENSION}/{name}")]


@pytest.mark.parametrize("name", ["01_all_types", "09_dml", "12_bulk"])
def test_without_any_ddl_rows_have_the_same_columns_values_and_flags(name: str) -> None:
    only_rows = [
        record for record in captured(f"ticdc/open-protocol/{name}") if b'"t":1' in (record.key or b"")
    ]
    assert values(only_rows) == [json.loads(value) for record in only_rows for _, value in unframed(record)]
    translator = Translator(OPEN, OPEN)
    for record in only_rows:
        translator.translate(record)
    assert translator.losses == {Loss.SCHEMA_INFERRED: len(only_rows)}


def test_statements_of_a_partition_are_those_of_every_other() -> None:
    translator = Translator(OPEN, OPEN)
    ddl: list[list[str]] = [[], [], []]
    for record in captured("ticdc/open-protocol.3-partitions/10_ddl"):
        ddl[record.partition] += [
            event.ddl for event in translator.inspect(record) if isinstance(event, SchemaChange)
        ]
    assert ddl[0] == ddl[1] == ddl[2]
    assert len(ddl[0]) > 50


def test_claim_checks_become_the_rows_that_they_stand_for() -> None:
    storage = DATA / "ticdc" / "open-protocol.claim-check" / "storage"
    translator = Translator(OPEN, OPEN, {"claim-check-storage-uri": "/claims"})
    asked = 0
    found: list[Event] = []
    for record in captured("ticdc/open-protocol.claim-check/04_strings_binary"):
        try:
            found += translator.inspect(record)
        except ClaimCheck as need:
            asked += 1
            translator.provide(need, (storage / need.name).read_bytes())
            found += translator.inspect(record)
    assert asked == len(list(storage.iterdir())) == 4
    expected = rows(f"{EXTENSION}/04_strings_binary", protocol=TICDC)
    assert [
        (one.op, one.before, one.after, one.source.commit_ts) for one in found if isinstance(one, RowChange)
    ] == expected
    assert translator.losses == {}


def test_rows_that_are_written_with_claim_checks_are_read_again() -> None:
    options = {
        "large-message-handle-option": "claim-check",
        "claim-check-storage-uri": "/claims",
        "max-message-bytes": "300",
    }
    big = row({"u": {"id": cell(3, 1, 11, h=True), "v": cell(15, "x" * 300, 64)}})
    (out,) = Translator(OPEN, OPEN, None, options).translate(records(big)[0])
    (blob,) = out.blobs
    ((key, value),) = unframed(out)
    assert json.loads(key) == {"ts": 5, "scm": "d", "tbl": "t", "t": 1, "ccl": f"file:///claims/{blob.name}"}
    assert json.loads(value) == {"u": {"id": cell(3, 1, 11, h=True)}}
    translator = Translator(OPEN, OPEN, {"claim-check-storage-uri": "/claims"})
    given = ConsumerRecord("t", 0, 0, 0, V1 + segment(key), out.value)
    with pytest.raises(ClaimCheck) as need:
        translator.translate(given)
    translator.provide(need.value, blob.data)
    (again,) = translator.translate(given)
    assert (again.key, again.value) == (records(big)[0].key, records(big)[0].value)
    # The row beside the claim check is not read, but members that nobody knows are found in it, too.
    stub = {"u": {"id": cell(3, 1, 11, h=True) | {"w": 7}}, "x": 1}
    odd = ConsumerRecord("t", 0, 0, 0, V1 + segment(key), segment(json.dumps(stub).encode()))
    (event,) = translator.inspect(odd)
    assert event.source.unknown_fields == {"value.u.id.w": 7, "value.x": 1}


@pytest.mark.parametrize("path", FILES)
def test_two_runs_give_the_same_bytes(path: str) -> None:
    first, second = (translated(path, zone(path), {"max-batch-size": "3"}) for _ in range(2))
    assert first == second
