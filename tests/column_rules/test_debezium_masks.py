"""The cases of Debezium's own tests of `column.mask.*`, `column.truncate.*` and its lists of columns.

Sources: debezium/debezium at aad5519902: ColumnMappersTest, MaskStringsTest, TruncateColumnTest,
BinlogConnectorIT, PostgresConnectorIT, SqlServerConnectorIT. Values that differ are here as relay makes them;
docs/columns.md says why.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import pytest
from column_rules_support import KEY, cells, row, rule, shaped

from relay import ColumnRule, NotRepresentable
from relay.model.errors import ConfigError

_TEN, _TWENTY = "1234567890", "12345678901234567890"
_BYTES = "\x00\x01\x02\x03\x04"

#: The option of Debezium, the rule, a value, and what becomes of it.
SAME = [
    *[
        ("truncate.to.10.chars", rule("truncate", "EMAIL", length=10), given, found)
        for given, found in (
            (_TWENTY, _TEN),
            ("12345678901", _TEN),
            (_TEN, _TEN),
            ("123456789", "123456789"),
            ("", ""),
            (None, None),
        )
    ],
    ("truncate.to.7.chars", rule("truncate", "email", length=7), "sally.thomas@acme.com", "sally.t"),
    ("truncate.to.7.chars", rule("truncate", "email", length=7), "annek@noanswer.org", "annek@n"),
    ("truncate.to.3.chars", rule("truncate", "email", length=3), "test", "tes"),
    ("truncate.to.4.chars", rule("truncate", "email", length=4), "some_name", "some"),
    *[
        ("mask.with.10.chars", rule("fixed", "email", value="*" * 10), given, "*" * 10)
        for given in (_TWENTY, "12345678901", _TEN, "123456789", "1", None)
    ],
    ("mask.with.12.chars", rule("fixed", "email", value="*" * 12), "sally.thomas@acme.com", "*" * 12),
    ("maskStrings(=)", rule("fixed", "email", value="=" * 10), _TWENTY, "=" * 10),
    ("maskStrings(*-*)", rule("fixed", "email", value="*-*-*-*-*"), None, "*-*-*-*-*"),
    ("mask.hash, of NULL", rule("hash", "email"), None, None),
]


@pytest.mark.parametrize(("option", "made", "given", "found"), SAME)
def test_the_same_results(option: str, made: ColumnRule, given: str | None, found: str | None) -> None:
    assert cells(made, email=given)["email"] == found, option


@pytest.mark.parametrize("size", range(6))
def test_bytes_are_cut_off(size: int) -> None:
    found = cells(rule("truncate", "photo", length=3), photo=_BYTES[:size])
    assert found["photo"] == _BYTES[: min(size, 3)]


def test_a_column_that_no_rule_names_stays() -> None:
    given = cells(rule("truncate", "firstName", "otherColumn", length=10))
    assert given == row()["data"][0]


def test_both_images_have_the_mask() -> None:
    message = row(op="UPDATE", old={"email": "old@acme.com"}, email="sally.thomas@acme.com")
    found = shaped(rule("fixed", "email", value="*" * 12), target="debezium-json", message=message)
    images = found["payload"]
    assert {images[name]["email"] for name in ("before", "after")} == {"*" * 12}


@pytest.mark.parametrize(
    ("made", "names"),
    [
        (rule("drop", "age", "credit"), {"id", "email", "born", "photo", "grade", "data"}),  # exclude.list
        (rule("drop", "*e*"), {"id", "born", "photo", "data"}),  # excluded by a pattern
        (rule("keep", "id", "email"), {"id", "email"}),  # include.list
        (rule("keep", "*id", "*a*"), {"id", "email", "age", "grade", "data"}),
    ],
)
def test_lists_of_columns(made: ColumnRule, names: set[str]) -> None:
    found = shaped(made)
    assert set(found["data"][0]) == set(found["mysqlType"]) == names


def test_a_list_and_a_mask() -> None:
    found = cells(rule("keep", "id", "email"), rule("fixed", "email", value="*" * 5), email="test")
    assert found == {"id": "7", "email": "*****"}


# ---------------------------------------------------------------- differences


@pytest.mark.parametrize(
    ("value", "salted"),
    [
        ("hello", "cd31b3b98ece60cb739c0bf770b2de892ae0ad133f645513c3d83f08757a843a"),
        ("world", "e84ac3142870113ddc6710c06f76421befc8e8ca6de64e98d2993ed8d41f4085"),
    ],
)
def test_hashes_have_a_key_in_place_of_a_salt(value: str, salted: str) -> None:
    assert hashlib.sha256(b"salt" + value.encode()).hexdigest() == salted  # Debezium's version 2
    found = cells(rule("hash", "email"), email=value)["email"]
    assert found == hmac.digest(KEY, value.encode(), "sha256").hex()
    assert found == cells(rule("hash", "email"), email=value)["email"]


def test_a_hash_has_the_length_of_the_rule() -> None:
    """Debezium's has that of the column."""
    whole, cut = (
        cells(made, email="test")["email"]
        for made in (rule("hash", "email"), rule("hash", "email", length=20))
    )
    assert (cut, len(whole)) == (whole[:20], 64)


def test_other_types_are_replaced_too() -> None:
    """Debezium leaves values of types other than text as they are."""
    assert cells(rule("fixed", "age", value="0"), age="42")["age"] == "0"
    assert len(cells(rule("hash", "age"), age="42")["age"]) == 64
    with pytest.raises(NotRepresentable, match="truncate is for text and bytes"):
        cells(rule("truncate", "age", length=3))


def test_nothing_is_left_by_a_fixed_value() -> None:
    """Debezium's truncate.to.0.chars keeps NULL."""
    with pytest.raises(ConfigError, match="is not positive"):
        cells(rule("truncate", "email", length=0))
    empty = rule("fixed", "email", value="")
    assert {cells(empty, email=given)["email"] for given in (_TEN, "", None)} == {""}


def test_a_list_has_the_key() -> None:
    """Debezium's include.list may leave it out, and an include.list without a match leaves nothing."""
    for made in (rule("keep", "email"), rule("keep", "nothing"), rule("drop", "id")):
        with pytest.raises(NotRepresentable, match=r"part of the key of d\.t"):
            cells(made)


@pytest.mark.parametrize("tables", ["D.T", "d.T"])
def test_letter_case_of_tables_matters(tables: str) -> None:
    """It does not in Debezium's patterns."""
    made: Any = rule("fixed", "email", value="*", tables=tables)
    assert cells(made)["email"] == row()["data"][0]["email"]


def test_a_character_is_one_in_every_plane() -> None:
    """Debezium counts units of UTF-16, and may cut a character in two."""
    assert cells(rule("truncate", "email", length=2), email="\U0001f600\U0001f600\U0001f600")["email"] == (
        "\U0001f600\U0001f600"
    )
