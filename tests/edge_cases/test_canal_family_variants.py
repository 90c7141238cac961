"""The Canal family's edge cases of its relatives: large messages of TiCDC, CKafka, Tencent DTS."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import cramjam
import pytest
from edge_cases.canal_family import (
    AB,
    CASES,
    CREATE_AB,
    EXTENSION,
    before_and_after,
    change,
    counted,
    ddl,
    schema_change,
    sent,
    through,
    value,
    watermark,
)
from support import CANAL, TICDC, events, record, row_message

from relay import Op, RowChange, Translator
from relay.io.logs import Log
from relay.io.resolver import Resolver
from relay.model.errors import ClaimCheckMissing
from relay.model.events import Snapshot
from relay.model.lookups import Need
from relay.service.loop import async_resolver as objects
from relay.service.loop.async_resolver import AsyncResolver

CKAFKA = "ckafka-json"
CREATE = ddl(CREATE_AB, "CREATE")
ROW = {"id": "1", "a": "1", "b": "x"}
INSERT = row_message(AB, ROW, pkNames=["id"])
TSO = 470615239864877056


# ---------------------------------------------------------------- large messages of TiCDC

OBJECT = "1ae8ae2e-4f2f-4a4b-9f4e-0a3b5c1d2e3f.json"
WHOLE = INSERT | {"_tidb": {"commitTs": TSO}}
CLAIM = row_message(
    {"id": "int"},
    {"id": "1"},
    pkNames=["id"],
    _tidb={"commitTs": TSO, "claimCheckLocation": f"s3://bucket/{OBJECT}"},
)


def lz4(message: dict[str, Any]) -> bytes:
    return bytes(cramjam.lz4.compress(json.dumps(message).encode()))


def snappy(message: dict[str, Any]) -> bytes:
    return bytes(cramjam.snappy.compress_raw(json.dumps(message).encode()))


def claiming(folder: Path) -> tuple[Translator, Need[Any]]:
    """A translator that lacks the object of `CLAIM`, and what it asks for."""
    translator = Translator(TICDC, TICDC, {"claim-check-storage-uri": str(folder)}, EXTENSION)
    with pytest.raises(Need) as raised:
        translator.translate(record(CLAIM))
    return translator, raised.value


@CASES.covers("66")
def test_a_claim_check_becomes_the_row_that_it_stands_for(tmp_path: Path) -> None:
    stored = {"key": None, "value": base64.b64encode(lz4(WHOLE)).decode()}
    (tmp_path / OBJECT).write_text(json.dumps(stored))
    translator, need = claiming(tmp_path)
    translator.provide(need, Resolver().fetch(need))
    (out,) = translator.translate(record(CLAIM))
    found = json.loads(out.value or b"")
    assert (found["data"], found["_tidb"]) == ([ROW], {"commitTs": TSO})


@CASES.covers("67")
async def test_a_missing_object_is_asked_for_again_and_then_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "RETRY_SECONDS", (0.0, 0.0))
    translator, need = claiming(tmp_path)
    log = io.StringIO()
    answering = AsyncResolver(Log(log))
    with pytest.raises(ClaimCheckMissing):
        await answering.resolve(need, translator, record(CLAIM), lambda: False)
    assert log.getvalue().count("storage.failed") == 2
    assert not translator.events  # the row is not lost: no key alone was sent in its place
    (tmp_path / OBJECT).write_bytes(
        b'{"key":null,"value":"' + base64.b64encode(json.dumps(WHOLE).encode()) + b'"}'
    )
    assert await answering.resolve(need, translator, record(CLAIM), lambda: False)


@CASES.covers("68")
@pytest.mark.parametrize(("pack", "name"), [(lz4, "lz4"), (snappy, "snappy")])
@pytest.mark.parametrize("message", [WHOLE, CREATE, watermark(TSO)], ids=["row", "DDL", "watermark"])
def test_every_message_may_be_compressed(message: dict[str, Any], pack: Any, name: str) -> None:
    plain = sent(TICDC, TICDC, message, writing=EXTENSION)
    assert len(plain) == 1
    for option in ("auto", name):
        options = {"large-message-handle-compression": option}
        assert sent(TICDC, TICDC, pack(message), reading=options, writing=EXTENSION) == plain


# ---------------------------------------------------------------- CKafka


def official(new: Any, old: Any, word: str, time: str = "20160611015029") -> dict[str, Any]:
    """A row of official format 1."""
    return {
        "BINLOG_NAME": "mysql-bin.000003", "BINLOG_POS": 484, "DATABASE": "d", "EVENT_SERVER_ID": None, "GLOBAL_ID": None,
        "GROUP_ID": None, "NEW_VALUES": new, "OLD_VALUES": old, "TABLE": "t", "TIME": time, "TYPE": word,
    }  # fmt: skip


@CASES.covers("73")
def test_time_zero_is_a_row_of_a_snapshot_whose_time_is_not_known() -> None:
    message = json.dumps(official(ROW, None, "I", "19700101080000"))
    (found,) = events(CKAFKA, [record(message, timestamp_ms=1465582000123)])
    assert isinstance(found, RowChange)
    assert (found.op, found.source.snapshot, found.source.event_time_ns) == (
        Op.READ,
        Snapshot.TRUE,
        1465582000123 * 10**6,
    )


@CASES.covers("74")
def test_time_is_a_clock_of_utc_8() -> None:
    assert change(CKAFKA, official(ROW, None, "I")).source.event_time_ns == 1465581029000 * 10**6


@pytest.mark.parametrize(
    ("es", "milliseconds"),
    [CASES.param("75", 1655812326, 1655812326000), CASES.param("75", 1656300979748, 1656300979748)],
)
def test_es_of_ddl_is_in_seconds_or_in_milliseconds(es: int, milliseconds: int) -> None:
    assert (
        schema_change(CKAFKA, ddl("DROP TABLE t", "ERASE", es=es, ts=es)).source.event_time_ns
        == milliseconds * 10**6
    )


@CASES.covers("76")
def test_raw_newlines_inside_a_statement_are_read() -> None:
    text = json.dumps(ddl("CREATE TABLE t (NEWLINEid INTNEWLINE)", "CREATE")).replace("NEWLINE", "\n")
    assert schema_change(CKAFKA, text).ddl == "CREATE TABLE t (\nid INT\n)"


@CASES.covers("77")
@pytest.mark.parametrize("word", ["l", "i", "I"])
def test_all_letters_of_an_insert(word: str) -> None:
    found = change(CKAFKA, official(ROW, None, word))
    assert (found.op, found.after) == (Op.INSERT, ("1", "1", "x"))


@CASES.covers("78")
def test_a_row_of_an_unknown_table_is_all_text_and_counted() -> None:
    message = official(ROW, None, "I")
    (out,) = sent(CKAFKA, TICDC, message)
    assert (out["data"], out["pkNames"]) == ([ROW], [])
    assert (out["mysqlType"], out["sqlType"]) == (dict.fromkeys(ROW, "varchar"), dict.fromkeys(ROW, 12))
    assert counted(CKAFKA, TICDC, message)["schema-inferred"] == 1


@CASES.covers("79")
def test_an_update_without_its_old_row() -> None:
    message = official(ROW, None, "U")
    found = change(CKAFKA, message)
    assert (found.op, found.before, found.after) == (Op.UPDATE, None, ("1", "1", "x"))
    assert counted(CKAFKA, TICDC, message)["before-missing"] == 1


@CASES.covers("80")
def test_rows_of_the_canal_format_have_the_catalogs_types() -> None:
    update = INSERT | {
        "type": "UPDATE",
        "old": [ROW | {"b": None}],
        "mysqlType": None,
        "sqlType": None,
        "pkNames": None,
    }
    assert before_and_after(CKAFKA, CREATE, update) == ((1, 1, None), (1, 1, "x"))
    (out,) = sent(CKAFKA, CANAL, CREATE, update)
    assert (out["mysqlType"], out["pkNames"], out["old"]) == (AB, ["id"], [{"b": None}])


@CASES.covers("81")
def test_tencent_dts_has_offsets_and_on_request_hex() -> None:
    assert value("timestamp", "2021-05-17 15:22:42 +08:00", CANAL) == "2021-05-17 07:22:42"
    assert (
        through(CANAL, TICDC, "timestamp", "2021-05-17 07:22:42 +00:00", {"timezone": "Asia/Shanghai"})
        == "2021-05-17 07:22:42"
    )
    assert value("varbinary", "0500FF", CANAL, {"hex-binary": "true"}) == b"\x05\x00\xff"
    assert value("varbinary", "0500FF", CANAL) == b"0500FF"
