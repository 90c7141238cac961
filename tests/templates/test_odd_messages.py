"""Messages that are odd among others of their shape: the same comes out, and templates stay what they are."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from cost_support import assert_linear
from engine_support import ENGINES
from reference_engine import Interpreter
from support import CANAL, OPEN, TICDC, captured, record, row_message
from templates_support import Both, outcome
from test_table_topics import ddl

from relay import ConsumerRecord, Translator
from relay.codecs.losses import Loss
from relay.model.events import Event, TableId
from relay.model.limits import DEFAULT_LIMITS
from relay.templates import scanning
from relay.templates.engine import Engine
from relay.templates.ops import LOSS, Marker
from relay.templates.route.known import TemplateInfo
from relay.templates.route.policy import TemplatePolicy
from relay.templates.route.route_templates import RouteTemplates
from relay.templates.route.topic_templates import TopicTemplates
from relay.templates.tracing import NotTemplatable

DEBEZIUM = "debezium-json"
MARKER = Marker("value", b'"table":', b",")
#: A time of records, in ms since 1970.
MS = 1_700_000_000_123


def compact(message: dict[str, Any], at: int) -> ConsumerRecord:
    """A message as producers print it."""
    return record(msgspec.json.encode(message | {"es": MS + at, "ts": MS + at}), at)


def insert(at: int, database: str = "d", **values: Any) -> ConsumerRecord:
    cells = {"id": str(at), "day": "2009-11-30", "word": "x"} | values
    types = {"id": "int", "day": "date", "word": "varchar(40)"}
    return compact(row_message(types, cells, pkNames=["id"], database=database), at)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_value_that_fits_no_template_leaves_those_of_others(engine: type[Engine]) -> None:
    """Here a date that is not in the calendar, of which no template is made."""
    both = Both(TICDC, target=DEBEZIUM, engine=engine).learn(insert(1), insert(2))
    assert both.fits(insert(3))
    for at in range(10, 40, 3):
        assert not both.fits(insert(at, day="2009-11-31"))
        assert both.fits(insert(at + 1))
        assert both.fits(insert(at + 2))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["", ":"])
@pytest.mark.parametrize("number", range(8))
def test_text_that_looks_like_a_traced_value_is_text(engine: type[Engine], number: int, name: str) -> None:
    """As the marks of a derivation would be, if they could be known before."""
    text = f"\brelay:traced:{name}{number}"
    both = Both(TICDC, target=CANAL, engine=engine)
    for at, word in enumerate([text] * 4 + ["x", "y"]):
        both.fits(insert(at, database=text, word=word))
    assert both.fits(insert(9, database=text, word="z"))


@pytest.mark.parametrize("engine", ENGINES)
def test_more_values_in_an_old_row_than_a_record_may_have(engine: type[Engine]) -> None:
    names = [f"c{at}" for at in range(20)]
    types = dict.fromkeys(["id", *names], "int")

    def update(at: int, changed: int) -> ConsumerRecord:
        old = [dict.fromkeys(names[:changed], "0")]
        row = {"id": "1"} | dict.fromkeys(names, str(at))
        return compact(row_message(types, row, op="UPDATE", old=old), at)

    for most in range(70, 120):
        limits = msgspec.structs.replace(DEFAULT_LIMITS, values=most)
        both = Both(TICDC, target=CANAL, engine=engine, limits=limits)
        for at, changed in enumerate([2, 2, 2, 5, 20, 2]):
            both.fits(update(at, changed))


@pytest.mark.parametrize("engine", ENGINES)
def test_losses_are_counted_however_many_values_lose_something(engine: type[Engine]) -> None:
    """What is kept of each combination is counted before it goes."""
    names = [f"c{at}" for at in range(6)]
    columns = ", ".join(f"{name} INT NULL DEFAULT 5" for name in names)
    policy = TemplatePolicy(first_derivation=2, loss_sets=3, loss_sets_per_template=1)
    both = Both(TICDC, target=DEBEZIUM, engine=engine, policy=policy)
    both.fits(compact(ddl(f"CREATE TABLE t (id INT PRIMARY KEY, {columns})"), 0))
    types = dict.fromkeys(["id", *names], "int")
    for at in range(1, 200):
        cells = {name: None if at >> bit & 1 else "7" for bit, name in enumerate(names)}
        both.fits(compact(row_message(types, {"id": str(at)} | cells, pkNames=["id"]), at))
    assert both.templated.paths["fast"] > 100
    assert both.templated.losses[Loss.NULL_REPLACED_BY_DEFAULT] > 100


def test_what_is_kept_of_combinations_of_losses_is_bounded() -> None:
    counted: Counter[Loss] = Counter()

    def count(_: list[Event], losses: list[Loss], rows: int) -> None:
        counted.update(dict.fromkeys(losses, rows))

    policy = TemplatePolicy(first_derivation=2, loss_sets=3, loss_sets_per_template=1)
    none_derived: Any = None
    templates = RouteTemplates(lambda: Interpreter(MARKER), MARKER, none_derived, count, 1, policy)
    topic = templates.of_topic("t")
    topic.known[0] = TemplateInfo(
        [],
        [],
        (),
        None,
        lambda _: [Loss.ZERO_DATE],
        table=TableId("d", "t"),
        more=[],
        has_tombstone=False,
    )
    for number in range(100):
        templates.known_of(topic, number * LOSS).uses += 1
        assert len(topic.known) < 7
    templates.settle()
    assert counted == {Loss.ZERO_DATE: 99}


def test_texts_at_the_marker_are_forgotten_when_they_are_long() -> None:
    topic = TopicTemplates(Interpreter(MARKER), shape_bytes=1_000)
    shapes = [(b"d" * 100 + b"%d" % at, False) for at in range(50)]
    assert [topic.count_message(shapes[0], 2)[0] for _ in range(3)] == [2, 3, 4]
    for shape in shapes[1:8]:
        topic.count_message(shape, 2)
    assert topic.count_message(shapes[0], 2)[0] == 5
    for shape in shapes:
        topic.count_message(shape, 2)
    assert topic.count_message(shapes[0], 2)[0] == 2


def test_early_messages_are_counted_up_to_the_first_derivation() -> None:
    topic = TopicTemplates(Interpreter(MARKER), shape_bytes=1_000)
    text, *others = [b"d" * 100 + b"%d" % at for at in range(50)]
    assert [topic.count_warmup(text, 3) for _ in range(4)] == [1, 2, 3, 3]
    assert topic.count_message((text, False), 3) == (3, 3)
    topic.reset_counts((text, False))
    assert [topic.count_warmup(text, 3) for _ in range(3)] == [1, 2, 3]
    for other in others:  # their texts take too much memory: counting starts over
        assert topic.count_warmup(other, 3) == 1
    assert topic.warmup_count(text) == 0


def test_messages_of_very_many_tokens_have_no_template() -> None:
    text = insert(1).value or b""
    scanning.parsed(text)
    with pytest.raises(NotTemplatable):
        scanning.parsed(text, max_tokens=30)


def test_a_refused_statement_is_not_counted_as_a_copy() -> None:
    records = [msgspec.structs.replace(each, partition=1) for each in captured("ticdc/open-protocol/09_dml")]
    lax, strict = Translator(OPEN, CANAL), Translator(OPEN, CANAL, None, {"strict": "ddl-copies"})
    for each in records:
        outcome(lax, each)
        outcome(strict, each)
    assert lax.copied_topics == {records[0].topic}
    assert strict.copied_topics == set()


@pytest.mark.parametrize("blanks", [b" ", b"\n\t "])
@pytest.mark.parametrize("where", ["before", "inside", "behind"])
def test_time_for_blanks_grows_with_their_number(where: str, blanks: bytes) -> None:
    before, inside, behind = (
        blanks * 10_000 if each == where else b"" for each in ("before", "inside", "behind")
    )

    def scan(times: int) -> None:
        text = (insert(1).value or b"").replace(b",", inside * times + b",", 1)
        with suppress(NotTemplatable):
            scanning.parsed(before * times + text + behind * times)

    assert_linear(scan)
