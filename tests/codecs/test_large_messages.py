"""Large messages of TiCDC: compression, handle-key-only, claim check, read and written."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import CANAL, DATA, TICDC, captured, record, row_message, translate

from relay import (
    ConfigError,
    ConsumerRecord,
    EncodeError,
    Loss,
    Malformed,
    NotRepresentable,
    Translator,
    UnsupportedMessage,
)
from relay.codecs.canal.ticdc.protocol import CODEC
from relay.codecs.given_options import parse_options
from relay.codecs.shared.large_messages import (
    Decompression,
    LargeMessageCompression,
    LargeMessageOptions,
    SizeLimit,
    claim_check_document,
    claim_check_name,
    claim_check_parts,
    claim_checked,
    compressed,
    decompressed,
    object_location,
    object_name,
)
from relay.model.errors import LimitExceeded, MessageTooLarge
from relay.model.limits import Limits
from relay.model.lookups import ClaimCheck, LookupCache, Need
from relay.model.records import Blob, ProducerRecord

NAME = "d55ba54b-8b70-4055-9b1a-5a0a902e71b8.json"
EXTENSION = {"enable-tidb-extension": "true"}
SMALL = EXTENSION | {"max-message-bytes": "2000"}
PLAIN = b'{"id":1}'
LZ4, SNAPPY, NONE, AUTO = (
    LargeMessageCompression.LZ4,
    LargeMessageCompression.SNAPPY,
    LargeMessageCompression.NONE,
    LargeMessageCompression.AUTO,
)
#: The same DDL message as two writers compressed it: github.com/pierrec/lz4 (no content size, with a
#: checksum) and golang/snappy.
DDL_VALUE = b'{"q":"ALTER TABLE `t1` ADD COLUMN `c` INT","t":5}'
GO_LZ4 = bytes.fromhex(
    "04224d186470b9310000807b2271223a22414c544552205441424c4520607431602041444420434f4c554d4e2060636020494e54222c2274223a357d"
    "00000000b3e10db3"
)
GO_SNAPPY = bytes.fromhex(
    "31c07b2271223a22414c544552205441424c4520607431602041444420434f4c554d4e2060636020494e54222c2274223a357d"
)


def read(data: bytes, setting: LargeMessageCompression) -> bytes:
    return decompressed("p", "part", data, setting, Decompression(Limits()))


def answered(
    translator: Translator, message: ConsumerRecord, objects: Callable[[ClaimCheck], bytes]
) -> list[ProducerRecord]:
    while True:
        try:
            return translator.translate(message)
        except Need as need:
            assert isinstance(need, ClaimCheck)
            translator.provide(need, objects(need))


def stored_at(variant: str) -> Callable[[ClaimCheck], bytes]:
    return lambda need: (DATA / variant / "storage" / need.name).read_bytes()


def without_time(messages: list[dict[str, Any]]) -> list[str]:
    """Messages in wire order, without the time of sending; TiCDC shuffles `mysqlType`."""
    return [json.dumps(m | {"ts": 0, "mysqlType": sorted((m["mysqlType"] or {}).items())}) for m in messages]


def parsed(path: str) -> list[dict[str, Any]]:
    return [json.loads(message.value or b"null") for message in captured(path)]


# ---------------------------------------------------------------- compression


@pytest.mark.parametrize("setting", list(LargeMessageCompression))
@pytest.mark.parametrize("size", [1, 1000, 100_000])
def test_what_is_compressed_comes_back(setting: LargeMessageCompression, size: int) -> None:
    data = PLAIN * size
    assert read(compressed(data, setting), setting) == data
    assert read(compressed(data, setting), AUTO) == data
    assert (compressed(data, setting) == data) == (setting in {AUTO, NONE})


@pytest.mark.parametrize(
    ("data", "setting"), [(GO_LZ4, LZ4), (GO_LZ4, AUTO), (GO_SNAPPY, SNAPPY), (GO_SNAPPY, AUTO)]
)
def test_what_go_compressed_is_read(data: bytes, setting: LargeMessageCompression) -> None:
    assert read(data, setting) == DDL_VALUE


@pytest.mark.parametrize("setting", [LZ4, SNAPPY])
@pytest.mark.parametrize(
    "data",
    [
        PLAIN,
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x04\x22\x4d\x18",
        b"\x04\x22\x4d\x18garbage....",
        b"\x05",
    ],
)
def test_what_is_not_compressed_as_the_setting_says_is_refused(
    data: bytes, setting: LargeMessageCompression
) -> None:
    with pytest.raises(Malformed, match="p: part: "):
        read(data, setting)


@pytest.mark.parametrize(
    "data", [b"", PLAIN, b" \n" + PLAIN, b"\xef\xbb\xbf" + PLAIN, b"garbage", b"\xff\xff", b"[1]"]
)
def test_auto_leaves_alone_what_is_not_compressed(data: bytes) -> None:
    assert read(data, AUTO) == data


@pytest.mark.parametrize("at", [-1, 20])
def test_a_damaged_frame_is_refused(at: int) -> None:
    damaged = bytearray(GO_LZ4)
    damaged[at] ^= 1
    for setting in (LZ4, AUTO):
        with pytest.raises(Malformed, match="LZ4"):
            read(bytes(damaged), setting)
        with pytest.raises(Malformed, match="LZ4"):
            read(GO_LZ4[:at], setting)


def test_a_block_that_says_it_is_huge_is_refused_before_there_is_memory_for_it() -> None:
    four_gib_less_one = b"\xff\xff\xff\xff\x0f" + b"\x00a"
    with pytest.raises(Malformed, match="not a snappy block"):
        read(four_gib_less_one, SNAPPY)
    with pytest.raises(Malformed):
        read(b"\x80\x80\x80\x80\x10" + b"\x00a", SNAPPY)


@pytest.mark.parametrize("setting", [LZ4, SNAPPY, AUTO])
def test_what_grows_too_much_is_refused(setting: LargeMessageCompression) -> None:
    bomb = compressed(bytes(1 << 20), LZ4 if setting is AUTO else setting)
    assert (
        len(decompressed("p", "", bomb, setting, Decompression(Limits(decompressed_bytes=1 << 20))))
        == 1 << 20
    )
    with pytest.raises(LimitExceeded, match=r"more .* than the limit `decompressed_bytes` allows, 1048575"):
        decompressed("p", "", bomb, setting, Decompression(Limits(decompressed_bytes=(1 << 20) - 1)))


def test_the_parts_of_a_record_share_their_budget() -> None:
    budget = Decompression(Limits(decompressed_bytes=2500))
    part = compressed(bytes(1000), LZ4)
    for _ in range(2):
        assert len(decompressed("p", "", part, LZ4, budget)) == 1000
    with pytest.raises(LimitExceeded):
        decompressed("p", "", part, LZ4, budget)


@pytest.mark.parametrize("variant", ["lz4", "snappy"])
@pytest.mark.parametrize("options", [{}, {"large-message-handle-compression": "{variant}"}])
def test_captured_messages_of_every_kind_are_decompressed(variant: str, options: dict[str, str]) -> None:
    options = {name: value.format(variant=variant) for name, value in options.items()}
    records = captured(f"ticdc/canal-json.{variant}/09_dml")
    assert all(message.value and message.value[:1] != b"{" for message in records)
    out = translate(TICDC, TICDC, records, options, EXTENSION)
    assert {m["type"] for m in out} >= {"TIDB_WATERMARK", "CREATE", "INSERT", "UPDATE"}
    assert without_time(out) == without_time(parsed("ticdc/canal-json.tidb-extension/09_dml")[: len(out)])


def test_the_wrong_setting_is_an_error_that_says_so() -> None:
    lz4, plain = captured("ticdc/canal-json.lz4/09_dml")[0], captured("ticdc/canal-json/09_dml")[0]
    for message, setting in ((plain, "lz4"), (plain, "snappy"), (lz4, "snappy"), (lz4, "none")):
        with pytest.raises(Malformed):
            translate(TICDC, CANAL, [message], {"large-message-handle-compression": setting})


@pytest.mark.parametrize("variant", ["lz4", "snappy"])
def test_every_message_is_written_compressed(variant: str) -> None:
    records = captured("ticdc/canal-json.tidb-extension/09_dml")
    translator = Translator(TICDC, TICDC, None, EXTENSION | {"large-message-handle-compression": variant})
    out = [produced.value or b"" for message in records for produced in translator.translate(message)]
    assert without_time(
        [json.loads(read(value, LargeMessageCompression(variant))) for value in out]
    ) == without_time(parsed("ticdc/canal-json.tidb-extension/09_dml"))


# ---------------------------------------------------------------- claim check, read


@pytest.mark.parametrize("variant", ["ticdc/canal-json.claim-check", "ticdc/canal-json.claim-check-raw"])
def test_captured_claim_checks_become_the_rows_that_they_stand_for(variant: str) -> None:
    records = captured(f"{variant}/04_strings_binary")
    translator = Translator(TICDC, TICDC, {"claim-check-storage-uri": "/anywhere"}, EXTENSION)
    out = [
        json.loads(produced.value or b"")
        for message in records
        for produced in answered(translator, message, stored_at(variant))
    ]
    full = {
        message.offset: json.loads(message.value or b"")
        for message in captured("ticdc/canal-json.tidb-extension/04_strings_binary")
    }
    assert without_time(out) == without_time([full[message.offset] for message in records])
    assert Loss.COLUMNS_ABSENT not in translator.losses


def test_a_need_names_the_object_and_leaves_no_trace() -> None:
    variant = "ticdc/canal-json.claim-check"
    records = captured(f"{variant}/04_strings_binary")
    translator = Translator(
        TICDC, TICDC, {"claim-check-storage-uri": "s3://user:secret@bucket/x?access-key=secret"}, EXTENSION
    )
    for message in records:
        before = translator.catalog, dict(translator.events), dict(translator.losses)
        for call in (translator.translate, translator.inspect):
            if b"claimCheckLocation" in (message.value or b""):
                with pytest.raises(ClaimCheck) as raised:
                    call(message)
                assert re.fullmatch(r"[0-9a-f-]{36}\.json", raised.value.name)
                assert "secret" not in f"{raised.value} {raised.value!r}"
                assert (translator.catalog, dict(translator.events), dict(translator.losses)) == before
        answered(translator, message, stored_at(variant))
    events = Translator(TICDC, TICDC, {"claim-check-storage-uri": "/x"})
    message = records[17]
    with pytest.raises(ClaimCheck) as raised:
        events.inspect(message)
    events.provide(raised.value, stored_at(variant)(raised.value))
    assert len(events.inspect(message)) == 1
    assert len(events.inspect(message)) == 1  # the answer is kept


def claim(location: Any, **members: Any) -> ConsumerRecord:
    message = row_message(
        {"id": "int"}, {"id": "1"}, _tidb={"commitTs": 7, "claimCheckLocation": location}, **members
    )
    return record(message)


def with_object(data: bytes, options: dict[str, str] | None = None) -> list[dict[str, Any]]:
    translator = Translator(TICDC, TICDC, {"claim-check-storage-uri": "/x"} | (options or {}), EXTENSION)
    out = answered(translator, claim(f"s3://bucket/{NAME}"), lambda _: data)
    return [json.loads(produced.value or b"") for produced in out]


FULL = row_message({"id": "int", "a": "text"}, {"id": "1", "a": "x"}, _tidb={"commitTs": 7})


@pytest.mark.parametrize("setting", ["auto", "none", "lz4", "snappy"])
@pytest.mark.parametrize("is_raw", [False, True])
def test_objects_of_every_kind_are_opened(setting: str, is_raw: bool) -> None:
    value = compressed(json.dumps(FULL).encode(), LargeMessageCompression(setting))
    data = value if is_raw else claim_check_document(None, value)
    stub = claim(NAME)
    stub = ConsumerRecord(
        "topic", 0, 0, 0, None, compressed(stub.value or b"", LargeMessageCompression(setting))
    )
    translator = Translator(
        TICDC, CANAL, {"claim-check-storage-uri": "/x", "large-message-handle-compression": setting}
    )
    out = [json.loads(produced.value or b"") for produced in answered(translator, stub, lambda _: data)]
    assert [message["data"] for message in out] == [[{"id": "1", "a": "x"}]]


@pytest.mark.parametrize(
    "location",
    [
        "s3://x/../../etc/passwd",
        "s3://bucket/..",
        "s3://bucket/",
        "s3://bucket/x.json",
        f"s3://bucket/{NAME}\n",
        f"s3://bucket/..\\{NAME}",
        f"s3://bucket/{NAME.upper()}",
        f"s3://bucket/{NAME}.gz",
        "",
        None,
        7,
        ["a"],
    ],
)
def test_locations_that_name_no_object_are_refused(location: Any) -> None:
    translator = Translator(TICDC, CANAL, {"claim-check-storage-uri": "/x"})
    with pytest.raises(Malformed, match=r"_tidb\.claimCheckLocation: does not end in the name") as raised:
        translator.translate(claim(location))
    assert not location or str(location) not in str(raised.value)


@pytest.mark.parametrize("location", [NAME, f"/{NAME}", f"s3://evil/../../{NAME}", f"http://evil/{NAME}"])
def test_only_the_name_of_a_location_counts(location: str) -> None:
    assert claim_check_name("p", "", location) == NAME
    options = LargeMessageOptions(claim_check_storage_uri="/mine")
    with pytest.raises(ClaimCheck) as raised:
        claim_checked("p", "", location, LookupCache(), options)
    assert (raised.value.storage, raised.value.name) == ("/mine", NAME)


def test_without_a_storage_a_claim_check_is_refused_and_says_what_to_set() -> None:
    with pytest.raises(UnsupportedMessage, match="claim-check-storage-uri"):
        translate(TICDC, CANAL, [claim(f"s3://bucket/{NAME}")])
    only_location = row_message(
        {"id": "int"}, {"id": "1"}, _tidb={"claimCheckLocation": f"s3://bucket/{NAME}"}
    )
    with pytest.raises(UnsupportedMessage):
        translate(TICDC, CANAL, [record(only_location)])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"garbage",
        b'{"key":null,"value":"no base64!"}',
        b'{"key":null,"value":null}',
        claim_check_document(None, b"garbage"),
        claim_check_document(None, json.dumps(FULL | {"table": "other"}).encode()),
        claim_check_document(None, json.dumps(FULL | {"type": "DELETE"}).encode()),
        claim_check_document(None, json.dumps(FULL | {"_tidb": {"commitTs": 8}}).encode()),
        claim_check_document(None, json.dumps(FULL | {"_tidb": None}).encode()),
        claim_check_document(None, claim(f"s3://bucket/{NAME}").value or b""),
        b"\x04\x22\x4d\x18garbage",
    ],
)
def test_an_object_that_does_not_hold_the_row_is_refused(data: bytes) -> None:
    with pytest.raises(Malformed, match=r"_tidb\.claimCheckLocation: its object"):
        with_object(data)


def test_the_parts_of_an_object() -> None:
    assert claim_check_document(None, b"abc") == b'{"key":null,"value":"YWJj"}'
    assert claim_check_parts(b'{"key":"a2V5","value":"YWJj"}') == (b"key", b"abc")
    assert claim_check_parts(b'{"value":"YWJj","more":[1]}') == (None, b"abc")
    for data in (b"{}", b"[]", b'{"key":null}', b'{"key":null,"value":"Y"}', b"\xff", b'{"id":0,"data":[]}'):
        assert claim_check_parts(data) is None


# ---------------------------------------------------------------- rows above the limit, written


def written(
    records: list[ConsumerRecord], options: dict[str, str]
) -> tuple[list[ProducerRecord], Translator]:
    translator = Translator(TICDC, TICDC, None, options)
    return [produced for message in records for produced in translator.translate(message)], translator


FULL_04 = captured("ticdc/canal-json.tidb-extension/04_strings_binary")


def test_handle_key_only_is_written_like_ticdc() -> None:
    out, translator = written(FULL_04, SMALL | {"large-message-handle-option": "handle-key-only"})
    real = parsed("ticdc/canal-json.handle-key-only/04_strings_binary")
    assert without_time([json.loads(produced.value or b"") for produced in out]) == without_time(real)
    assert translator.losses[Loss.COLUMNS_ABSENT] == sum("onlyHandleKey" in m["_tidb"] for m in real) == 4
    assert not any(produced.blobs for produced in out)


def test_handle_key_only_is_a_loss_that_strict_refuses() -> None:
    translator = Translator(
        TICDC, TICDC, None, SMALL | {"large-message-handle-option": "handle-key-only", "strict": "true"}
    )
    with pytest.raises(NotRepresentable, match="columns-absent"):
        translator.translate(record(LONG))


@pytest.mark.parametrize("is_raw", [False, True])
def test_claim_checks_are_written_like_ticdc(is_raw: bool) -> None:
    variant = "ticdc/canal-json.claim-check" + ("-raw" if is_raw else "")
    options = {"large-message-handle-option": "claim-check", "claim-check-storage-uri": "/objects"}
    out, translator = written(FULL_04, SMALL | options | {"claim-check-raw-value": str(is_raw).lower()})
    messages = [json.loads(produced.value or b"") for produced in out]
    locations = {m["_tidb"].pop("claimCheckLocation") for m in messages if "claimCheckLocation" in m["_tidb"]}
    blobs = [blob for produced in out for blob in produced.blobs]
    assert locations == {f"file:///objects/{blob.name}" for blob in blobs}
    assert len(locations) == 4
    real, real_objects = {}, {}
    for message, value in zip(
        captured(f"{variant}/04_strings_binary"), parsed(f"{variant}/04_strings_binary"), strict=True
    ):
        location = value["_tidb"].pop("claimCheckLocation", None)
        real[message.offset] = value
        if location:
            real_objects[message.offset] = (
                DATA / variant / "storage" / location.rpartition("/")[2]
            ).read_bytes()
    offsets = [message.offset for message in FULL_04]
    assert without_time([m for at, m in zip(offsets, messages, strict=True) if at in real]) == without_time(
        list(real.values())
    )
    for data, want in zip((blob.data for blob in blobs), real_objects.values(), strict=True):
        inner, wanted = (
            document if is_raw else base64.b64decode(json.loads(document)["value"])
            for document in (data, want)
        )
        assert without_time([json.loads(inner)]) == without_time([json.loads(wanted)])
    assert Loss.COLUMNS_ABSENT not in translator.losses


@pytest.mark.parametrize("setting", ["none", "lz4", "snappy"])
def test_what_is_written_with_claim_checks_is_read_again(setting: str) -> None:
    packing = {"large-message-handle-compression": setting, "claim-check-storage-uri": "memory://objects"}
    options = EXTENSION | {"max-message-bytes": "800", "large-message-handle-option": "claim-check"}
    there = Translator(TICDC, TICDC, None, packing | options)
    back = Translator(TICDC, TICDC, packing, EXTENSION)
    objects: dict[str, bytes] = {}
    got: list[ProducerRecord] = []

    def fetch(need: ClaimCheck) -> bytes:
        return objects[need.name]

    for message in FULL_04:
        for produced in there.translate(message):
            objects.update((blob.name, blob.data) for blob in produced.blobs)
            again = ConsumerRecord(
                produced.topic, 0, message.offset, produced.timestamp_ms, produced.key, produced.value
            )
            got += answered(back, again, fetch)
    assert without_time([json.loads(produced.value or b"") for produced in got]) == without_time(
        [json.loads(message.value or b"") for message in FULL_04]
    )
    assert len(objects) >= 3


def test_two_runs_write_the_same_objects() -> None:
    options = SMALL | {"large-message-handle-option": "claim-check", "claim-check-storage-uri": "/objects"}
    assert written(FULL_04, options)[0] == written(FULL_04, options)[0]


def test_the_name_of_an_object_tells_records_and_contents_apart() -> None:
    names = [
        object_name(record(b"", offset, partition=partition), data)
        for offset in (1, 2)
        for partition in (1, 2)
        for data in (b"a", b"b")
    ]
    assert len(set(names)) == len(names)
    assert all(claim_check_name("p", "", f"x/{name}") == name for name in names)
    assert object_name(record(b"other value", 1), b"a") == object_name(record(b"", 1), b"a")


@pytest.mark.parametrize(
    ("storage", "location"),
    [
        ("/objects/", "file:///objects/n"),
        ("objects", "objects/n"),
        ("file:///objects", "file:///objects/n"),
        ("s3://bucket/a/b?access-key=secret&secret-access-key=secret", "s3://bucket/a/b/n"),
        ("s3://key:secret@bucket/a", "s3://bucket/a/n"),
        (
            "abfs://container@account.dfs.core.windows.net/a",
            "abfs://container@account.dfs.core.windows.net/a/n",
        ),
        ("memory://objects", "memory://objects/n"),
    ],
)
def test_a_location_holds_no_secret(storage: str, location: str) -> None:
    assert object_location(storage, "n") == location


LONG = row_message(
    {"id": "int", "a": "text"}, {"id": "1", "a": "x" * 3000}, pkNames=["id"], _tidb={"commitTs": 7}
)


def test_a_row_above_the_limit_is_an_error_by_default() -> None:
    with pytest.raises(
        MessageTooLarge, match=r"bytes where max-message-bytes is 2000: large-message-handle-option=none"
    ) as raised:
        translate(TICDC, TICDC, [record(LONG)], None, SMALL)
    assert isinstance(raised.value, EncodeError)
    assert (raised.value.code, raised.value.exit_status) == ("encode.too-large", 2)
    assert "xxx" not in str(raised.value)
    assert translate(TICDC, TICDC, [record(LONG)], None, {"max-message-bytes": "4000"})


@pytest.mark.parametrize("option", ["handle-key-only", "claim-check"])
def test_rows_that_have_no_small_form_are_an_error(option: str) -> None:
    options = SMALL | {"large-message-handle-option": option, "claim-check-storage-uri": "/objects"}
    with pytest.raises(MessageTooLarge, match="no handle key"):
        translate(TICDC, TICDC, [record(LONG | {"pkNames": None})], None, options)
    long_key = LONG | {"data": [{"id": "1" * 3000, "a": "1"}], "mysqlType": {"id": "text", "a": "text"}}
    with pytest.raises(MessageTooLarge, match="only the handle key"):
        translate(TICDC, TICDC, [record(long_key)], None, options)


def test_the_limit_counts_the_compressed_value_and_the_overhead_of_a_record() -> None:
    size = len(translate_one(LONG, EXTENSION))
    for limit, fits in ((size + 36, True), (size + 35, False)):
        options = EXTENSION | {
            "max-message-bytes": str(limit),
            "large-message-handle-option": "handle-key-only",
        }
        assert (b"onlyHandleKey" not in translate_one(LONG, options)) == fits
    assert read(translate_one(LONG, SMALL | {"large-message-handle-compression": "lz4"}), LZ4)


def translate_one(message: dict[str, Any], options: dict[str, str]) -> bytes:
    (produced,) = Translator(TICDC, TICDC, None, options).translate(record(message))
    return produced.value or b""


@pytest.mark.parametrize("only_updated", ["false", "true"])
def test_an_update_keeps_the_key_in_old_as_its_options_say(only_updated: str) -> None:
    message = LONG | {"type": "UPDATE", "old": [{"id": "1", "a": "y"}]}
    options = SMALL | {
        "large-message-handle-option": "handle-key-only",
        "only-output-updated-columns": only_updated,
    }
    out = json.loads(translate_one(message, options))
    assert out["data"] == [{"id": "1"}]
    assert out["old"] == ([{}] if only_updated == "true" else [{"id": "1"}])
    assert list(out["sqlType"]) == list(out["mysqlType"]) == ["id"]
    assert out["_tidb"] == {"commitTs": 7, "onlyHandleKey": True}


def test_marks_stand_where_ticdc_writes_them() -> None:
    message = LONG | {"_tidb": {"commitTs": 7, "rowkey": "AAE="}}
    options = SMALL | {
        "large-message-handle-option": "claim-check",
        "claim-check-storage-uri": "/o",
        "output-row-key": "true",
    }
    assert list(json.loads(translate_one(message, options))["_tidb"]) == [
        "commitTs",
        "claimCheckLocation",
        "rowkey",
    ]


def test_ddl_is_not_measured() -> None:
    ddl = row_message(
        {}, isDdl=True, type="CREATE", sql="CREATE TABLE t (id INT) COMMENT '" + "x" * 3000 + "'", data=None
    )
    assert len(translate(TICDC, TICDC, [record(ddl)], None, SMALL)) == 1


def test_handle_key_only_is_read_as_absent_columns() -> None:
    translator = Translator(TICDC, CANAL)
    out = [
        json.loads(p.value or b"")
        for m in captured("ticdc/canal-json.handle-key-only/04_strings_binary")
        for p in translator.translate(m)
    ]
    assert translator.losses[Loss.COLUMNS_ABSENT] == 4
    assert {"id": "13"} in [row for message in out for row in message["data"] or []]


# ---------------------------------------------------------------- options and helpers


@pytest.mark.parametrize(
    ("options", "path"),
    [
        (EXTENSION | {"large-message-handle-option": "claim-check"}, "to.option.claim-check-storage-uri"),
        ({"large-message-handle-option": "handle-key-only"}, "to.option.enable-tidb-extension"),
        ({"max-message-bytes": "0"}, "to.option.max-message-bytes"),
        ({"large-message-handle-compression": "zstd"}, "to.option.large-message-handle-compression"),
    ],
)
def test_contradictory_options_are_reported(options: dict[str, str], path: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Translator(TICDC, TICDC, options if "max" in path else None, options)
    assert path in [problem.path for problem in raised.value.problems]


def test_the_source_side_takes_the_producers_options_as_they_are() -> None:
    given = {
        "large-message-handle-option": "claim-check",
        "max-message-bytes": "2000",
        "claim-check-raw-value": "true",
    }
    assert Translator(TICDC, CANAL, given).route.storages == {}
    assert Translator(
        TICDC, TICDC, {"claim-check-storage-uri": "a"}, {"claim-check-storage-uri": "b"}
    ).route.storages == {
        "from": "a",
        "to": "b",
    }


def test_the_size_limit_counts_a_protocols_framing() -> None:
    options = parse_options(CODEC, {"max-message-bytes": "100"}, "to")
    assert isinstance(options, LargeMessageOptions)
    assert (SizeLimit("p", options).free_bytes, SizeLimit("p", options, framing=24).free_bytes) == (64, 40)


def test_blobs_travel_with_the_record_that_names_them(tmp_path: Path) -> None:
    options = SMALL | {"large-message-handle-option": "claim-check", "claim-check-storage-uri": str(tmp_path)}
    (produced,) = Translator(TICDC, TICDC, None, options).translate(record(LONG))
    (blob,) = produced.blobs
    assert blob == Blob(str(tmp_path), object_name(record(LONG), blob.data), blob.data)
    assert list(tmp_path.iterdir()) == []
