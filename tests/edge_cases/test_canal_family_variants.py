"""The Canal family's edge cases of TiCDC's large messages: claim checks and compression."""

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
    ddl,
    sent,
    watermark,
)
from support import TICDC, record, row_message

from relay import Translator
from relay.io.logs import Log
from relay.io.resolver import Resolver
from relay.model.errors import ClaimCheckMissing
from relay.model.lookups import Need
from relay.service.loop.async_resolver import AsyncResolver

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
async def test_a_missing_object_is_asked_for_again_and_then_refused(tmp_path: Path) -> None:
    translator, need = claiming(tmp_path)
    log = io.StringIO()
    answering = AsyncResolver(Log(log), retry_seconds=(0.0, 0.0))
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
