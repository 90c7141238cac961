"""What a translator may lack: answers and their bounds, how they are kept, and who gives them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support import CANAL, TICDC, captured, record, translated_records
from toy_protocol.codec import NAME as TOY
from toy_protocol.registry import FETCHES

from relay import (
    Column,
    ColumnType,
    ConfigError,
    ConsumerRecord,
    Default,
    Generated,
    Index,
    Need,
    NeedUnanswered,
    Resolver,
    Source,
    TableId,
    TableSchema,
    Translator,
    UniqueKey,
)
from relay.codecs import protocols
from relay.codecs.codec import Codec
from relay.codecs.plugins import Plugin, installed
from relay.io import resolver
from relay.model.errors import Malformed
from relay.model.events import Position
from relay.model.limits import Limits
from relay.model.lookups import (
    ClaimCheck,
    LookupCache,
    RegisteredSchema,
    SchemaById,
    SchemaId,
    TableDefinition,
)
from relay.testing.strategies import TABLE, creation

SCHEMA = RegisteredSchema("{}", "JSON", (("other", "text"),))
DEFINITION = TableSchema(
    TABLE,
    (
        Column("id", ColumnType("bigint", unsigned=True), nullable=False, auto_increment=True),
        Column("e", ColumnType("enum", members=("x", "y")), default=Default("x"), comment="c"),
        Column("t", ColumnType("timestamp", length=3), default=Default("NOW(3)", True), on_update="NOW(3)"),
        Column("g", ColumnType("decimal", length=9, scale=2), generated=Generated.VIRTUAL),
    ),
    primary_key=("id",),
    unique_keys=(UniqueKey("u", ("e",)),),
    indexes=(Index("i", ("t",)),),
)
AT = Position(None, 1, "topic", 0, 9)
ANSWERS: list[tuple[Need[Any], Any]] = [
    (SchemaById("r", 7), SCHEMA),
    (SchemaId("r", "shop.orders", SCHEMA), 7),
    (TableDefinition(TABLE, AT), DEFINITION),
]


def check(number: int) -> ClaimCheck:
    return ClaimCheck("storage", f"{number}.json")


def lines(*rows: tuple[str, int], offset: int = 0) -> ConsumerRecord:
    """A record of toy lines: a row of each of these tables, whose definition is in the registry `source`."""
    found = []
    for table, number in rows:
        created = creation(f"CREATE TABLE {table} (id INT PRIMARY KEY)", Source("x", 0), 0).after
        assert created is not None
        text = msgspec.json.encode(msgspec.structs.replace(created, id=TableId("shop", table))).decode()
        id = FETCHES[SchemaId](SchemaId("", table, RegisteredSchema(text, "TOY")))
        at = {"time_ms": 1, "emitted_ms": 2}
        found.append({"type": "row", "schema": id, "op": "insert", "after": {"id": number}, "at": at})
    return ConsumerRecord("topic", 0, offset, 3, None, b"\n".join(map(msgspec.json.encode, found)))


# ---------------------------------------------------------------- answers


def test_an_answer_has_the_type_of_its_need() -> None:
    need: Need[Any] = SchemaById("r", 7)
    with pytest.raises(TypeError, match=r"the schema with id 7 is RegisteredSchema, not str"):
        LookupCache().provide(need, "text")


def test_equal_needs_have_one_answer() -> None:
    answers = LookupCache()
    for need, answer in ANSWERS:
        with pytest.raises(type(need)):
            answers.find(need)
        answers.provide(need, answer)
    assert [answers.find(type(need)(*need.args)) for need, _ in ANSWERS] == [answer for _, answer in ANSWERS]


def test_the_answers_that_were_not_looked_up_for_longest_go_first() -> None:
    answers = LookupCache(max_answers=3)
    for number in range(3):
        answers.pin(check(number), record=number)
        answers.provide(check(number), b"")
    answers.find(check(0))
    answers.pin(check(3), record=3)
    answers.provide(check(3), b"")
    assert [need for need, _ in answers] == [check(2), check(0), check(3)]


def test_objects_are_bounded_by_their_bytes_but_not_those_of_the_record_at_hand() -> None:
    answers = LookupCache(Limits(cache_bytes=10))
    for number in range(3):
        answers.pin(check(number), record="first")
        answers.provide(check(number), b"12345678")
    assert len(list(answers)) == 3
    answers.pin(check(9), record="second")
    answers.provide(check(9), b"9")
    assert [need for need, _ in answers] == [check(2), check(9)]
    answers.provide(check(9), b"1234567890")  # instead of the other answer, not beside it
    assert [need for need, _ in answers] == [check(9)]


def test_ids_are_bounded_by_the_schemas_that_they_were_asked_for() -> None:
    answers = LookupCache(Limits(cache_bytes=25))
    asked = [SchemaId("target", subject, RegisteredSchema("1234567890")) for subject in "abc"]
    for need in asked:
        answers.pin(need, record=need.subject)
        answers.provide(need, 7)
    assert [need for need, _ in answers] == asked[1:]
    answers.provide(asked[2], 8)  # instead of the other answer, not beside it
    assert [need for need, _ in answers] == asked[1:]


def test_an_object_that_cannot_be_read_is_asked_for_again(tmp_path: Path) -> None:
    """It may have been fetched before it was complete."""
    name = "0a0a0a0a-0a0a-0a0a-0a0a-0a0a0a0a0a0a.json"
    row = {"mysqlType": {"id": "int"}, "data": [{"id": "1"}], "type": "INSERT", "database": "d", "table": "t"}
    stub = record(row | {"_tidb": {"commitTs": 7, "claimCheckLocation": f"s3://b/{name}"}})
    whole = record(row | {"_tidb": {"commitTs": 7}}).value or b""
    (tmp_path / name).write_bytes(whole[:40])
    translator = Translator(TICDC, CANAL, {"claim-check-storage-uri": str(tmp_path)})
    with pytest.raises(Malformed):
        Resolver().translate(translator, stub)
    (tmp_path / name).write_bytes(whole)
    assert len(Resolver().translate(translator, stub)) == 1


# ---------------------------------------------------------------- a translator's needs


def fetched(calls: list[Need[Any]]) -> Resolver:
    """A resolver that notes what it is asked."""

    def noting(fetch: Callable[[Any], object]) -> Callable[[Any], object]:
        def noted(need: Need[Any]) -> object:
            calls.append(need)
            return fetch(need)

        return noted

    return Resolver(fetches={kind: noting(fetch) for kind, fetch in FETCHES.items()})


def test_answers_stay_over_records_and_restores() -> None:
    calls: list[Need[Any]] = []
    resolving, translator = fetched(calls), Translator(TOY, TOY)
    state = translator.state
    for offset in range(3):
        (out,) = resolving.translate(translator, lines(("a", offset), offset=offset))
        assert json.loads(out.value or b"") == json.loads(lines(("a", offset)).value or b"")
        translator.restore(state)
    assert [type(need) for need in calls] == [SchemaById, SchemaId]


@pytest.mark.parametrize("partitions", [None, 2])
def test_a_need_in_the_middle_of_encoding_leaves_no_trace(partitions: int | None, tmp_path: Path) -> None:
    target = {"registry": str(tmp_path)}
    translator = Translator(TOY, TOY, None, target, partitions=partitions)
    record, state, met = lines(("a", 1), ("b", 2), ("a", 3)), translator.state, []
    made = None
    while made is None:
        try:
            made = translator.translate(record)
        except Need as need:
            met.append((type(need), need.args[0]))
            assert translator.state == state
            assert (translator.events, translator.losses) == ({}, {})
            translator.provide(need, Resolver().fetch(need))
    assert met == [(SchemaById, "")] * 2 + [(SchemaId, str(tmp_path))] * 2
    assert translator.events == {"insert": 3}
    assert made == Resolver().translate(Translator(TOY, TOY, None, target, partitions=partitions), record)


def test_a_route_without_needs_asks_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        pytest.fail("asked")

    for name in ("find", "pin", "provide"):
        monkeypatch.setattr(LookupCache, name, fail)
    assert translated_records(Translator(TICDC, CANAL), captured("ticdc/canal-json/09_dml"))


# ---------------------------------------------------------------- over restarts


@pytest.mark.parametrize(("need", "answer"), ANSWERS, ids=lambda value: type(value).__name__)
def test_what_never_changes_is_kept_over_restarts(need: Need[Any], answer: Any, tmp_path: Path) -> None:
    cache = tmp_path / "new" / "cache"
    assert Resolver(fetches={type(need): lambda _: answer}, cache=cache).fetch(need) == answer
    assert Resolver(fetches={type(need): lambda _: pytest.fail("asked")}, cache=cache).fetch(need) == answer
    (kept,) = cache.iterdir()
    kept.write_bytes(b"\xff")
    assert Resolver(fetches={type(need): lambda _: answer}, cache=cache).fetch(need) == answer


class OtherSchema(SchemaById):
    """A need of another package: equal arguments mean another thing."""


def test_needs_of_different_types_have_different_files(tmp_path: Path) -> None:
    Resolver(fetches={SchemaById: lambda _: SCHEMA}, cache=tmp_path).fetch(SchemaById("r", 7))
    other = msgspec.structs.replace(SCHEMA, text="other")
    assert (
        Resolver(fetches={OtherSchema: lambda _: other}, cache=tmp_path).fetch(OtherSchema("r", 7)) == other
    )
    assert len(list(tmp_path.iterdir())) == 2


def test_a_folder_that_refuses_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "file" / "cache"
    folder.parent.touch()
    asking = Resolver(fetches={SchemaById: lambda _: SCHEMA}, cache=folder)
    for number in range(3):
        assert asking.fetch(SchemaById("r", number)) == SCHEMA
    assert [each.getMessage() for each in caplog.records] == [
        f"cannot cache answers in {folder}: Not a directory; they are fetched again after a restart"
    ]


def test_objects_are_not_kept_and_a_folder_that_refuses_is_no_error(tmp_path: Path) -> None:
    given = iter((b"1", b"2"))
    asking = Resolver(fetches={ClaimCheck: lambda _: next(given)}, cache=tmp_path)
    assert [asking.fetch(check(1)), asking.fetch(check(1))] == [b"1", b"2"]
    assert list(tmp_path.iterdir()) == []
    blocked = tmp_path / "file"
    blocked.touch()
    assert Resolver(fetches={SchemaById: lambda _: SCHEMA}, cache=blocked).fetch(SchemaById("r", 7)) == SCHEMA


# ---------------------------------------------------------------- who answers


@pytest.fixture
def other_packages(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Say which objects stand behind the entry points of a module."""

    def bring(module: Any, *objects: object) -> None:
        brought = [Plugin("name", "package:NAME", each) for each in objects]
        monkeypatch.setattr(module, "installed", lambda *_: brought)

    loaded = (resolver.plugin_fetches, protocols.plugin_codecs, protocols.protocol_plugins)
    for each in loaded:
        monkeypatch.setattr(each.__module__ + "." + each.__name__, each.__wrapped__)
    return bring


def test_what_nobody_answers_is_said_by_name(other_packages: Callable[..., None]) -> None:
    other_packages(resolver)
    with pytest.raises(NeedUnanswered, match="the schema with id 7 is needed"):
        Resolver().fetch(SchemaById("r", 7))


def test_other_packages_answer_needs_unless_a_program_does(other_packages: Callable[..., None]) -> None:
    other_packages(resolver, {SchemaById: lambda _: SCHEMA}, {OtherSchema: lambda _: SCHEMA})
    assert Resolver().fetch(OtherSchema("r", 7)) == SCHEMA
    own = RegisteredSchema("own")
    assert Resolver(fetches={SchemaById: lambda _: own}).fetch(SchemaById("r", 7)) == own


@pytest.mark.parametrize("taken", [{ClaimCheck: print}, {OtherSchema: print}])
def test_two_answers_to_one_need_are_refused(taken: Any, other_packages: Callable[..., None]) -> None:
    other_packages(resolver, {OtherSchema: print}, taken)
    with pytest.raises(ConfigError, match=r"entry point package:NAME: resolves a need that .* \(uninstall"):
        Resolver().fetch(SchemaById("r", 7))


def test_a_protocol_has_a_name_of_its_own(other_packages: Callable[..., None]) -> None:
    other_packages(protocols, protocols.BUILT_IN[TICDC])
    Translator(TICDC, CANAL)  # relay's own work whatever else is installed
    with pytest.raises(ConfigError, match="has the name of another protocol, 'ticdc-canal-json'"):
        Translator("mine", CANAL)


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ("no_such_module:CODEC", "cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'"),
        ("json:nothing", "cannot be loaded: AttributeError: module 'json' has no attribute 'nothing'"),
        ("json:loads", "is not a Codec"),
    ],
)
def test_an_entry_point_that_is_wrong_is_named(
    reference: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "broken-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(f"[relay.tests]\nx = {reference}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    (plugin,) = installed("relay.tests", Codec)
    assert (plugin.name, plugin.found) == ("x", None)
    assert str(plugin.problem).startswith(f"entry point {reference}: {why}")


def test_answers_in_a_folder_take_the_bytes_that_they_may(tmp_path: Path) -> None:
    def kept() -> int:
        return sum(path.stat().st_size for path in tmp_path.iterdir())

    def fetch(number: int, size: int = 1000) -> None:
        answer = RegisteredSchema("x" * size)
        keeping = Resolver(fetches={SchemaById: lambda _: answer}, cache=tmp_path, cache_bytes=5000)
        assert keeping.fetch(SchemaById("r", number)) == answer

    for number in range(20):
        fetch(number)
        assert kept() <= 5000
    nobody = Resolver(fetches={SchemaById: lambda _: pytest.fail("asked")}, cache=tmp_path)
    assert nobody.fetch(SchemaById("r", 19)).text == "x" * 1000
    fetch(20, 6000)  # is not kept, and nothing goes for it
    assert kept() > 4000


def test_a_folder_of_many_answers_is_seldom_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[Path] = []
    glob = Path.glob

    def counted(path: Path, pattern: str) -> Iterator[Path]:
        listed.append(path)
        return iter(glob(path, pattern))

    monkeypatch.setattr(Path, "glob", counted)
    keeping = Resolver(fetches={SchemaById: lambda _: SCHEMA}, cache=tmp_path, cache_bytes=8_000)
    size = 0
    for number in range(200):
        keeping.fetch(SchemaById("r", number))
        size = sum(path.stat().st_size for path in tmp_path.iterdir())
        assert size <= 8_000
    assert size > 4_000
    assert len(listed) < 20
    # Others add to it, too.
    for number in range(200, 260):
        other = Resolver(fetches={SchemaById: lambda _: SCHEMA}, cache=tmp_path, cache_bytes=8_000)
        other.fetch(SchemaById("r", number))
    for number in range(260, 320):
        keeping.fetch(SchemaById("r", number))
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 10_000
