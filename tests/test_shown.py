"""Texts from outside: safe to print, bounded, and without secrets."""

from __future__ import annotations

import io
import json
import logging
import unicodedata
from typing import Any

import msgspec
import orjson
import pytest

from relay.core.dead_letters import DETAIL_HEADER, PATH_HEADER, error_headers
from relay.core.translator import Translator
from relay.io.logs import Log, client_logs
from relay.io.storage import storage_problems
from relay.model.errors import LONGEST_PATH, ConfigError, Malformed
from relay.model.records import ConsumerRecord
from relay.text.redaction import HIDDEN, LONGEST, plain_json, printable, shown_option, shown_uri, to_json

#: What steers a terminal, turns text around, breaks a line, or is no character.
HOSTILE = "\x1b[31m\x07\r\nerror: forged\x7f\x85\x9b2J\x9d\u200e\u2028\u2029\u202e\u2066\ufeff\U000e0041\ud800\udcff"
RECORD = ConsumerRecord("t", 0, 1, 0, None, b"")


def is_harmless(text: str) -> bool:
    return not any(unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for char in text)


def test_nothing_that_steers_a_terminal_is_left() -> None:
    shown = printable(f"a{HOSTILE}b ü 名 😀")
    assert is_harmless(shown)
    assert shown.startswith("a\\x1b[31m")
    assert shown.endswith("b ü 名 😀")
    shown.encode()


@pytest.mark.parametrize("size", [LONGEST + 1, 3_000_000])
@pytest.mark.parametrize("char", ["x", "\x9b", "\U000e0041", "\ud800"])
def test_a_long_text_loses_its_middle(size: int, char: str) -> None:
    shown = printable("begin" + char * size + "end")
    assert len(shown) <= LONGEST
    assert shown.startswith("begin")
    assert shown.endswith("end")
    assert f"({size + 8} characters)" in shown
    assert is_harmless(shown)


def test_what_is_printable_stays_the_same() -> None:
    for text in ("", "decode.malformed", "订单 ü", "x" * LONGEST):
        assert printable(text) == text


@pytest.mark.parametrize("value", [1 << 64, -(1 << 63) - 1, {"a": [10**400, (-(10**30), True)]}])
def test_json_keeps_every_digit(value: Any) -> None:
    assert json.loads(to_json(value)) == json.loads(json.dumps(value))


@pytest.mark.parametrize("value", [{"a\x9b": ["\x85\u202e", {"b": "\u2028 ü"}]}, "\x7f", ["名\U000e0041"]])
def test_json_keeps_its_value_and_steers_nothing(value: Any) -> None:
    data = to_json(value)
    assert orjson.loads(data) == value
    assert is_harmless(data.decode())
    assert plain_json(orjson.dumps(value)) == data


def test_json_takes_half_characters() -> None:
    value = {"name\ud800": ["\udcff", ("\ud83d", 1)], "more": {1, 2}}
    data = to_json(value, default=sorted)
    assert orjson.loads(data) == {"name\\ud800": ["\\udcff", ["\\ud83d", 1]], "more": [1, 2]}


class Lines:
    """A log, and its lines as text and as objects."""

    def __init__(self) -> None:
        self._text = io.StringIO()
        self.log = Log(self._text)

    @property
    def text(self) -> str:
        return self._text.getvalue()

    @property
    def last(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.text.splitlines()[-1])
        return found


def test_a_log_line_is_one_harmless_line() -> None:
    lines = Lines()
    lines.log.error("record.refused", message=HOSTILE, partitions=[HOSTILE], offsets={HOSTILE: 1})
    assert lines.text.count("\n") == 1
    assert is_harmless(lines.text.rstrip("\n"))
    said = lines.last
    assert is_harmless(said["message"] + said["partitions"][0] + next(iter(said["offsets"])))


def test_a_log_line_has_an_end() -> None:
    lines = Lines()
    texts = [f"{number}{'x' * 10_000}" for number in range(10_000)]
    lines.log.error("e", message="x" * 3_000_000, partitions=texts, offsets=dict.fromkeys(texts, 1))
    assert len(lines.text) < 100_000
    assert lines.last["partitions"][50] == "… (10000 in all) …"
    assert lines.last["offsets"]["… (10000 in all) …"] == 10_000


def test_what_the_client_says_is_harmless_too() -> None:
    lines = Lines()
    with client_logs(lines.log):
        logging.getLogger("aiokafka.x").warning("topic %s", HOSTILE + "x" * 1_000_000)
    assert is_harmless(lines.last["message"])
    assert len(lines.text) < 5_000


def test_headers_of_dead_letters_are_harmless_and_bounded() -> None:
    error = Malformed("canal-json", f"data[0].{HOSTILE}", HOSTILE + "y" * 3_000_000)
    found = dict(error_headers(RECORD, error))
    for name in (PATH_HEADER, DETAIL_HEADER):
        value = found[name]
        assert value is not None
        assert is_harmless(value.decode())
        assert len(value) <= 2_010


# ---------------------------------------------------------------- secrets


SECRETS = ("HIDDEN", "HID", "DEN", "hidden")


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("s3://bucket/prefix", "s3://bucket/prefix"),
        ("s3://bucket/prefix/?access-key=HIDDEN&secret-access-key=HIDDEN", "s3://bucket/prefix"),
        ("s3://bucket/a@b?x=HIDDEN", "s3://bucket/a@b"),
        ("memory://key:HIDDEN@bucket/x", "memory://bucket/x"),
        ("s3://HIDDEN@bucket/x", "s3://bucket/x"),
        ("abfs://box@account/x?sas-token=HIDDEN", "abfs://box@account/x"),
        ("abfs://box:HIDDEN@account/x", "abfs://account/x"),
        ("http://host:9000/x", "http://host:9000/x"),
        ("http://[::1]:9000/x", "http://[::1]:9000/x"),
        ("https://idp/token?client_secret=HIDDEN", "https://idp/token"),
        ("file:///srv/a@b:c", "file:///srv/a@b:c"),
        ("/srv/claim@checks", "/srv/claim@checks"),
        ("objects", "objects"),
        ("s3://K:a/HIDDEN@b", f"s3://{HIDDEN}"),
        ("s3://K:HID/DEN@b", f"s3://{HIDDEN}"),
        ("s3://K:HID@DEN/x@b", f"s3://{HIDDEN}"),
        ("s3://K:HID@DEN@b", f"s3://{HIDDEN}"),
        ("s3://K:HID?DEN@b", f"s3://{HIDDEN}"),
        ("s3://K:HID#DEN@b", f"s3://{HIDDEN}"),
        ("s3://K:HIDDEN", f"s3://{HIDDEN}"),
        ("K:HID/DEN@b", HIDDEN),
    ],
)
def test_an_address_is_shown_without_secrets(uri: str, shown: str) -> None:
    assert shown_uri(uri) == shown
    assert not any(secret in shown for secret in SECRETS)


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("timezone", "Asia/Shanghai", "Asia/Shanghai"),
        ("claim-check-storage-uri", "s3://b/p?access-key=HIDDEN", "s3://b/p"),
        ("endpoint", "https://u:HIDDEN@host/x", "https://host/x"),
        ("registry-password", "HIDDEN", HIDDEN),
        ("secret_access_key", "HIDDEN", HIDDEN),
        ("odd", "u:HIDDEN@host", HIDDEN),
    ],
)
def test_options_are_shown_without_secrets(name: str, value: str, shown: str) -> None:
    assert shown_option(name, value) == shown


@pytest.mark.parametrize(
    "options",
    [
        {"s3://K:HIDDEN@b?access-key": "x"},
        {"claim-check-storage-uri:s3://u:HIDDEN@b": ""},
        {"strict": "s3://K:HIDDEN@b"},
        {"strict": "password=HIDDEN"},
        {"claim-check-storage-uri": "s3://K:HID/DEN@b", "timezone": "u:HIDDEN@x"},
        {"max-message-bytes": "https://x/?secret=HIDDEN"},
    ],
)
def test_options_that_are_wrong_show_no_secret(options: dict[str, str]) -> None:
    try:
        translator = Translator("ticdc-open-protocol", "canal-json", options)
        problems = storage_problems(translator.route.storages)
    except ConfigError as error:
        problems = error.problems
    assert problems
    assert not any(secret in str(problem) for problem in problems for secret in SECRETS)


def test_json_of_structs_is_that_of_msgspec() -> None:
    assert orjson.loads(to_json({"at": RECORD.position}, default=msgspec.to_builtins)) == {"at": ["t", 0, 1]}


@pytest.mark.parametrize("name", ["c" * 1_000_000, "\x1b" * 300])
def test_a_path_in_a_message_is_bounded_wherever_it_is_reported(name: str) -> None:
    """A name of a member may be of any length."""
    error = Malformed("canal-json", f"data[0].{name}.x", "is no number")
    assert len(error.path) == LONGEST_PATH
    assert error.path.startswith("data[0].")
    assert error.path.endswith(".x")
    assert str(error) == f"canal-json: {error.path}: is no number"
    assert len(dict(error_headers(RECORD, error))[PATH_HEADER] or b"") <= LONGEST_PATH * 4
    assert Malformed("canal-json", "data[0].x", "").path == "data[0].x"
