"""The format of dead letters, and which policy an error has. What reads and writes topics is tested with the
commands.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import CANAL, OPEN, TICDC, captured, record

from relay import ConsumerRecord, ProducerRecord, Translator
from relay.config import Config
from relay.config.keys import Errors
from relay.core.dead_letters import (
    DETAIL_HEADER,
    DeadLetter,
    DeadLetterFilter,
    DeadLetterIndex,
    by_original,
    dead_letter,
    dead_letter_partition,
    error_headers,
    marker,
    read_dead_letter,
    read_marker,
)
from relay.core.error_policies import ErrorPolicies, Policy
from relay.io.record_lines import format_record, parse_record
from relay.model.errors import (
    BrokerUnavailable,
    ClaimCheckMissing,
    DeliveryFailed,
    EncodeError,
    Malformed,
    MessageTooLarge,
    NotRepresentable,
    RecordTooLarge,
    RelayError,
    SchemaMissing,
    StorageUnavailable,
    UnsupportedMessage,
)
from relay.model.events import TableId
from relay.model.records import RecordPosition

MALFORMED = Malformed("canal-json", "data[0].c1", "is no number")
GOLDEN = Path(__file__).with_name("dead_letters.golden.jsonl")
ROUTE = "orders-relay ticdc-canal-json to canal-json {topic}.canal-json"
TABLES = (TableId("shop", "orders"), TableId("a,b", 'c".`d'))


def as_read(letter: ProducerRecord, offset: int = 0) -> ConsumerRecord:
    """What a consumer gets of a record that was written."""
    return ConsumerRecord(
        letter.topic, letter.partition, offset, letter.timestamp_ms, letter.key, letter.value, letter.headers
    )


def letter_of(
    original: ConsumerRecord,
    offset: int = 0,
    error: RelayError = MALFORMED,
    tables: Any = (),
    route: str = "",
) -> DeadLetter:
    found = read_dead_letter(as_read(dead_letter(original, error, "dead", tables, route=route), offset))
    assert found is not None
    return found


def original(
    offset: int = 7, partition: int = 0, timestamp_ms: int = 5, topic: str = "orders"
) -> ConsumerRecord:
    return ConsumerRecord(topic, partition, offset, timestamp_ms, b"k", b"v")


CLASSES: list[tuple[RelayError, str | None]] = [
    (MALFORMED, "decode"),
    (UnsupportedMessage("p", "", "no"), "decode"),
    (SchemaMissing("no"), "decode"),
    (NotRepresentable("p", "", "no"), "encode"),
    (EncodeError("p", "", "no"), "encode"),
    (MessageTooLarge("p", "", "no"), "too_large"),
    (RecordTooLarge("no"), "too_large"),
    (ClaimCheckMissing("no"), "claim_check"),
    (StorageUnavailable("no"), None),
    (BrokerUnavailable("no"), None),
    (DeliveryFailed("no"), None),
    (RelayError("no"), None),
]


def policy_of(error: RelayError, errors: Errors) -> Policy:
    return ErrorPolicies(errors.by_class, errors.dead_letter_topic).policy_of(error)


@pytest.mark.parametrize(("error", "name"), CLASSES, ids=lambda value: type(value).__name__)
def test_an_error_follows_the_policy_of_its_class_alone(error: RelayError, name: str | None) -> None:
    names = "decode", "encode", "too_large", "claim_check"
    for policy in Policy:
        alone: dict[str, Any] = {each: policy if each == name else Policy.STOP for each in names}
        rest: dict[str, Any] = {each: Policy.STOP if each == name else policy for each in names}
        own = Errors(**alone, dead_letter_topic="dead")
        others = Errors(**rest, dead_letter_topic="dead")
        assert policy_of(error, own) is (Policy.STOP if name is None else policy)
        assert policy_of(error, others) is Policy.STOP


@pytest.mark.parametrize(
    ("key", "value"), [(b"k", b"v"), (None, None), (b"", b""), (b"\xff\x00", None), (None, b"\xc3")]
)
def test_a_dead_letter_keeps_everything_of_its_original(key: bytes | None, value: bytes | None) -> None:
    headers = (("h", b"1"), ("h", None), ("ä", b"\xff"))
    given_record = ConsumerRecord("orders", 3, 4711, 1_700_000_000_123, key, value, headers)
    letter = dead_letter(given_record, MALFORMED, "dead", TABLES, partitions=2)
    assert (letter.topic, letter.partition, letter.timestamp_ms, letter.key, letter.value) == (
        "dead", 1, 1_700_000_000_123, key, value,
    )  # fmt: skip
    assert letter.headers == (
        *headers,
        ("relay.source", b"orders/3/4711"),
        ("relay.error.code", b"decode.malformed"),
        ("relay.error.protocol", b"canal-json"),
        ("relay.error.path", b"data[0].c1"),
        ("relay.error.detail", b"is no number"),
        ("relay.error.tables", b'[["shop","orders"],["a,b","c\\".`d"]]'),
    )
    found = read_dead_letter(as_read(letter, 9))
    assert found == DeadLetter(
        RecordPosition("dead", 1, 9),
        given_record,
        "decode.malformed",
        "canal-json",
        "data[0].c1",
        "is no number",
        TABLES,
    )
    assert found.source == RecordPosition("orders", 3, 4711)


def test_a_dead_letter_names_its_route() -> None:
    letter = letter_of(original(), tables=TABLES, route=ROUTE)
    assert (letter.route, letter.tables, letter.original) == (ROUTE, TABLES, original())


@pytest.mark.parametrize(
    ("table", "key", "value"),
    [
        ("source", "group_id", "another"),
        ("target", "topic", "another"),
        ("route", "from", "canal-json"),
        ("route", "to", "ticdc-debezium"),
    ],
)
def test_routes_that_differ_have_different_names(table: str, key: str, value: str) -> None:
    tables: dict[str, Any] = {
        "route": {"from": "ticdc-canal-json", "to": "canal-json"},
        "source": {"bootstrap_servers": "b:1", "topics": ["orders"], "group_id": "orders-relay"},
        "target": {"topic": "{topic}.canal-json"},
    }
    assert Config(**tables).route_name == ROUTE
    assert Config(**tables | {table: tables[table] | {key: value}}).route_name != ROUTE


@pytest.mark.parametrize(
    ("name", "is_corrected"),
    [
        (ROUTE, False),
        ("orders-relay canal-json to canal-json {topic}.canal-json", True),
        ("orders-relay to canal-json {topic}.canal-json", False),
        ("orders-relay two words to canal-json {topic}.canal-json", False),
        ("another ticdc-debezium to canal-json {topic}.canal-json", False),
        ("orders-relay ticdc-debezium to ticdc-debezium {topic}.canal-json", False),
        ("orders-relay ticdc-debezium to canal-json another", False),
        ("", False),
    ],
)
def test_a_route_knows_its_name_from_before_its_from_was_corrected(name: str, is_corrected: bool) -> None:
    tables: dict[str, Any] = {
        "route": {"from": "ticdc-canal-json", "to": "canal-json"},
        "source": {"bootstrap_servers": "b:1", "topics": ["orders"], "group_id": "orders-relay"},
        "target": {"topic": "{topic}.canal-json"},
    }
    assert Config(**tables).is_corrected(name) is is_corrected


@pytest.mark.parametrize("group", ["g" * 30_000, "ä" * 5_000])
def test_a_long_name_of_a_route_is_found_again(group: str) -> None:
    tables: dict[str, Any] = {
        "route": {"from": "ticdc-canal-json", "to": "canal-json"},
        "source": {"bootstrap_servers": "b:1", "topics": ["orders"], "group_id": group},
        "target": {"topic": "out"},
    }
    name = Config(**tables).route_name
    assert letter_of(original(), route=name).route == name
    assert len(name.encode()) < 2_100


def test_an_error_of_no_codec_has_its_text_as_detail() -> None:
    found = letter_of(original(), error=ClaimCheckMissing("there is no object s3://x/y"))
    assert (found.code, found.protocol, found.path, found.detail) == (
        "service.claim-check-missing", "", "", "there is no object s3://x/y",
    )  # fmt: skip


def test_the_last_block_of_headers_is_the_dead_letters_own() -> None:
    """A dead letter that was fed to the relay again keeps its old headers, as headers of the original."""
    first = as_read(dead_letter(original(), MALFORMED, "dead", TABLES), 1)
    again = read_dead_letter(
        as_read(dead_letter(first, NotRepresentable("maxwell-json", "", "no word"), "dead2"), 2)
    )
    assert again is not None
    assert (again.code, again.tables, again.original) == ("encode.not-representable", (), first)
    before = read_dead_letter(again.original)
    assert before is not None
    assert (before.code, before.tables, before.original) == ("decode.malformed", TABLES, original())


def test_headers_that_were_added_to_a_dead_letter_belong_to_the_original() -> None:
    letter = as_read(dead_letter(original(), MALFORMED, "dead"))
    copied = ConsumerRecord(*letter.position, 0, None, None, (*letter.headers, ("copied.by", b"mirror")))
    found = read_dead_letter(copied)
    assert found is not None
    assert (found.original.headers, found.detail) == ((("copied.by", b"mirror"),), "is no number")


@pytest.mark.parametrize("length", [100, 5_000, 1_000_000])
def test_what_is_added_to_a_record_is_bounded(length: int) -> None:
    """Names in garbage can be of any length, and of any characters."""
    error = Malformed("p" * length, "ä" * length, "\ud800" * length)
    headers = error_headers(original(), error, [TableId("d" * length, f"\ud800{n}") for n in range(1_000)])
    assert sum(len(name) + len(value or b"") for name, value in headers) < 11_000
    found = read_dead_letter(ConsumerRecord("dead", 0, 0, 0, None, None, headers))
    assert found is not None
    assert found.path.startswith("ä" * 100)
    assert all(table.database == "d" * length for table in found.tables)


@pytest.mark.parametrize("partitions", [1, 3])
def test_dead_letters_of_a_partition_stay_together(partitions: int) -> None:
    assert {dead_letter_partition(number, partitions) for number in range(12)} == set(range(partitions))


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("relay.source", b"t/0/1/0"),),
        (("relay.source", b"t/0/1"), ("other", b""), ("relay.error.code", b"x")),
        (("relay.source", None), ("relay.error.code", b"x")),
        (("relay.source", b"t/0"), ("relay.error.code", b"x")),
        (("relay.source", b"t/0/x"), ("relay.error.code", b"x")),
        (("relay.source", b"t/-1/1"), ("relay.error.code", b"x")),
        (("relay.source", b"t/0/" + b"9" * 5_000), ("relay.error.code", b"x")),
        (("relay.source", "t/0/²".encode()), ("relay.error.code", b"x")),
        (("relay.error.code", b"x"),),
    ],
)
def test_other_records_are_no_dead_letters(headers: Any) -> None:
    assert read_dead_letter(ConsumerRecord("dead", 0, 0, 0, None, b"v", headers)) is None


_HEADERS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "relay.source",
                "relay.error.code",
                "relay.route",
                "relay.error.tables",
                "relay.error.path",
                "relay.replayed",
                "h",
            ]
        ),
        st.none() | st.binary(max_size=12) | st.sampled_from([b"t/0/1", b'[["a","b"]]', b"[[1]]", b"["]),
    ),
    max_size=8,
).map(tuple)


@given(_HEADERS)
def test_any_headers_are_read_without_an_error_and_are_kept(headers: Any) -> None:
    found = ConsumerRecord("dead", 0, 0, 0, None, None, headers)
    index = DeadLetterIndex(lambda _: True)
    index.add(found)
    letter = letter_of(found)
    assert letter.original == found
    assert len(index.dead_letters()) + index.other_records <= 1


def test_the_format_on_disk_is_the_golden_one() -> None:
    """What is in topics today must be read tomorrow: a dead letter, a dead letter of a dead letter, a marker,
    a dead letter with its route.
    """
    lines = GOLDEN.read_bytes().splitlines(keepends=True)
    first, second, mark, routed = (parse_record(line) for line in lines)
    record = ConsumerRecord("orders", 3, 4711, 1_700_000_000_123, None, b'{"a":1', (("h", None),))
    letter = dead_letter(record, MALFORMED, "dead", TABLES)
    again = dead_letter(first, RecordTooLarge("becomes 2000 bytes"), "dead")
    assert [
        format_record(letter, 0),
        format_record(again, 1),
        format_record(marker(first.position, 1_700_000_100_000), 2),
        format_record(dead_letter(record, MALFORMED, "dead", TABLES, route=ROUTE), 3),
    ] == lines
    index = DeadLetterIndex(lambda _: True)
    for each in (first, second, mark, routed):
        index.add(each)
    assert [(each.code, each.route, each.replayed_ms) for each in index.dead_letters()] == [
        ("decode.malformed", "", 1_700_000_100_000),
        ("service.record-too-large", "", None),
        ("decode.malformed", ROUTE, None),
    ]


def test_a_marker_tells_which_dead_letter_was_replayed() -> None:
    position = RecordPosition("dead", 2, 5)
    found = marker(position, 99)
    assert (found.topic, found.partition, found.key, found.value) == ("dead", 2, None, None)
    assert read_marker(as_read(found, 8)) == position
    assert read_dead_letter(as_read(found, 8)) is None


def test_a_dead_letter_of_a_marker_is_a_dead_letter() -> None:
    """A marker that was relayed by mistake is an original like any other."""
    mark = as_read(marker(RecordPosition("dead", 0, 0), 99), 1)
    letter = as_read(dead_letter(mark, MALFORMED, "dead"), 2)
    assert read_marker(letter) is None
    assert read_dead_letter(letter) is not None


def test_dead_letters_are_gathered_with_what_was_replayed() -> None:
    index = DeadLetterIndex(lambda position: position.offset == 1)
    for offset in range(3):
        index.add(
            as_read(dead_letter(original(offset, timestamp_ms=100 - offset), MALFORMED, "dead"), offset)
        )
    index.add(as_read(marker(RecordPosition("dead", 0, 2), 1_000), 3))
    index.add(ConsumerRecord("dead", 0, 4, 0, None, b"something else"))
    found = index.dead_letters()
    assert [letter.position.offset for letter in found] == [2, 1, 0], "by time, oldest first"
    assert [letter.replayed_ms for letter in found] == [1_000, None, None]
    assert [letter.original.value for letter in found] == [None, b"v", None], (
        "what is not asked for is not kept"
    )
    assert index.other_records == 1


def test_dead_letters_of_one_original_come_together_in_the_order_of_the_source() -> None:
    given_letters = [letter_of(original(offset), at) for at, offset in enumerate((9, 2, 9, 4))]
    found = [[letter.position.offset for letter in same] for same in by_original(given_letters)]
    assert found == [[1], [3], [0, 2]]


def test_dead_letters_come_together_only_if_route_and_bytes_are_the_same() -> None:
    """Another route has another target; a topic that was made anew has other records at the same positions."""
    same = original()
    others = [
        msgspec.structs.replace(same, value=b"w"),
        msgspec.structs.replace(same, key=None),
        msgspec.structs.replace(same, headers=(("h", b"1"),)),
    ]
    given_letters = [letter_of(each, offset) for offset, each in enumerate((same, *others, same))]
    given_letters += [letter_of(same, offset, route=ROUTE) for offset in (5, 6)]
    found = [[letter.position.offset for letter in alike] for alike in by_original(given_letters)]
    assert found == [[0, 4], [1], [2], [3], [5, 6]]


CHOSEN = letter_of(original(7, 3, 1_000), tables=TABLES, route=ROUTE)


@pytest.mark.parametrize(
    ("fields", "is_meant"),
    [
        ({}, True),
        ({"codes": ("decode",)}, True),
        ({"codes": ("decode.malformed",)}, True),
        ({"codes": ("encode", "decode")}, True),
        ({"codes": ("dec",)}, False),
        ({"codes": ("decode.malformed.more",)}, False),
        ({"tables": ("shop.orders",)}, True),
        ({"tables": ("shop.*",)}, True),
        ({"tables": ("*.order?",)}, True),
        ({"tables": ("SHOP.*",)}, False),
        ({"tables": ("shop.o",)}, False),
        ({"since_ms": 1_000}, True),
        ({"since_ms": 1_001}, False),
        ({"until_ms": 1_001}, True),
        ({"until_ms": 1_000}, False),
        ({"topic": "orders", "partition": 3, "offset": 7}, True),
        ({"topic": "order"}, False),
        ({"partition": 0}, False),
        ({"route": ROUTE}, True),
        ({"route": ""}, False),
        ({"offset": 8}, False),
    ],
)
def test_a_filter_takes_what_fits_all_of_it(fields: dict[str, Any], is_meant: bool) -> None:
    assert DeadLetterFilter(**fields).filter([CHOSEN]) == ([CHOSEN] if is_meant else [])


def test_a_table_filter_leaves_out_dead_letters_whose_tables_are_not_known() -> None:
    assert DeadLetterFilter(tables=("*",)).filter([letter_of(original())]) == []


@pytest.mark.parametrize(
    ("protocol", "path"),
    [(TICDC, "ticdc/canal-json.tidb-extension/09_dml"), (OPEN, "ticdc/open-protocol/09_dml")],
)
def test_the_tables_of_a_record_are_found_and_the_translator_stays_as_it_is(protocol: str, path: str) -> None:
    translator = Translator(protocol, CANAL)
    tables = []
    for each in captured(path):
        state = translator.state
        tables.append(translator.tables_of(each))
        assert translator.state is state or translator.state == state
    assert (translator.events, translator.losses) == ({}, {})
    assert translator.state.catalog.histories == {}
    assert {table for some in tables for table in some} >= {TableId("dml_db", "accounts")}
    assert () in tables, "watermarks are about no table"


@pytest.mark.parametrize("value", [b"", b"\xff", b"{", b"null", b"[]", b'{"database": 1}'])
@pytest.mark.parametrize("protocol", [TICDC, CANAL, OPEN, "ticdc-debezium", "ckafka-json"])
def test_garbage_is_about_no_table(protocol: str, value: bytes) -> None:
    assert Translator(protocol, CANAL).tables_of(record(value)) == ()


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("x" * 2_000, "x" * 2_000),
        ("é" * 1_000, "é" * 1_000),
        ("é" * 1_001, "é" * 499 + "…" + "é" * 499),
        ("é" * 1_500 + "its cause", "é" * 499 + "…" + "é" * 494 + "its cause"),
        ("\x1b" + "x" * 3_000, r"\x1b" + "x" * 994 + "…" + "x" * 998),
    ],
    ids=["fits", "fits-with-long-characters", "too-long", "keeps-its-end", "is-escaped-first"],
)
def test_a_long_reason_loses_whole_characters_of_its_middle(reason: str, shown: str) -> None:
    headers = dict(error_headers(record({}), Malformed("canal-json", "data", reason)))
    assert (headers[DETAIL_HEADER] or b"").decode() == shown
