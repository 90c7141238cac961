"""Values of which the target loses something fit templates, and are counted as in the slow path."""

from __future__ import annotations

import itertools
import json
from typing import Any

import msgspec
import pytest
from engine_support import ENGINES
from open_support import cell, ddl, framed, row
from reference_engine import Interpreter
from support import OPEN, record, row_message
from templates_support import Both, translator_class

from relay import ConsumerRecord, Translator
from relay.codecs.losses import Loss
from relay.model.limits import DEFAULT_LIMITS
from relay.templates.engine import Engine
from relay.templates.ops import Template
from relay.templates.route.policy import TemplatePolicy

TABLE = ddl(
    "CREATE TABLE d.t (id INT PRIMARY KEY, price DECIMAL(30,18), day DATE, at DATETIME(6) NOT NULL,"
    " state INT DEFAULT 7, word VARCHAR(9) DEFAULT 'x')"
)
#: A value of which nothing is lost, and some of which something is.
VALUES: dict[str, tuple[Any, ...]] = {
    "price": ("1.500000000000000000", "1.234567890123456789", None),
    "day": ("2024-01-01", "0000-00-00", "2024-00-07"),
    "at": ("2024-01-01 00:00:00.000000", "0000-00-00 00:00:00.000000"),
    "state": (3, None),
    "word": ("y", None),
}
PLAIN = {name: values[0] for name, values in VALUES.items()}
LOSING = {name: values[1] for name, values in VALUES.items()}


def image(**values: Any) -> dict[str, Any]:
    cells = {
        "id": cell(3, 1, 11, h=True),
        "price": cell(246, "1", 65),
        "day": cell(10, "", 65),
        "at": cell(12, "", 1),
        "state": cell(3, 1, 65),
        "word": cell(15, "", 64),
    }
    return {name: known | {"v": values[name]} if name in values else known for name, known in cells.items()}


def insert(**values: Any) -> ConsumerRecord:
    return framed(row({"u": image(**PLAIN | values)}))


def update(old: dict[str, Any], new: dict[str, Any]) -> ConsumerRecord:
    return framed(row({"u": image(**new), "p": image(**old)}))


def of_another_shape(number: int) -> ConsumerRecord:
    """A row with a column that the table does not have, and with a date that is none."""
    cells = image(**PLAIN | {"day": "0000-00-00", "at": "2024-01-01 00:00:00"})
    return framed(row({"u": cells | {f"c{number}": cell(3, 1, 0)}}))


TARGETS = [
    ("ticdc-debezium", {}),
    ("ticdc-debezium", {"debezium-disable-schema": "true", "key": "primary-key"}),
    ("ticdc-debezium", {"replace.null.with.default": "false"}),
    ("debezium-json", {"schemas.enable": "false", "decimal.handling.mode": "double"}),
    ("debezium-json", {"time.precision.mode": "isostring"}),
    ("debezium-json", {"profile": "flink"}),
    ("flat-json", {}),
    ("flat-json", {"profile": "clickhouse"}),
]


@pytest.mark.parametrize(("target", "options"), TARGETS)
def test_values_fit_one_by_one_and_together(target: str, options: dict[str, str]) -> None:
    both = Both(OPEN, target=target, target_options=options).learn(framed(TABLE), insert(), insert())
    for chosen in itertools.product(*VALUES.values()):
        assert both.fits(insert(**dict(zip(VALUES, chosen, strict=True)))), chosen


@pytest.mark.parametrize(("target", "options"), TARGETS)
def test_both_images_of_an_update_count(target: str, options: dict[str, str]) -> None:
    both = Both(OPEN, target=target, target_options=options)
    first, second = update(PLAIN, LOSING), update(LOSING, PLAIN)
    both.learn(framed(TABLE), first, first)
    for record_ in (first, second, update(LOSING, LOSING), update(PLAIN, PLAIN)):
        assert both.fits(record_)


def test_a_key_that_is_printed_twice_is_counted_once() -> None:
    table = ddl("CREATE TABLE d.t (price DECIMAL(30,18) PRIMARY KEY)")

    def message(price: str) -> ConsumerRecord:
        return framed(row({"u": {"price": cell(246, price, 11, h=True)}}))

    both = Both(OPEN, target="ticdc-debezium").learn(framed(table), message("1"), message("1"))
    assert both.fits(message("1.234567890123456789"))
    assert both.templated.losses[Loss.DECIMAL_DIGITS] == 1


@pytest.mark.parametrize("make", ENGINES)
def test_each_loss_is_counted(make: type[Engine]) -> None:
    translator = Translator(OPEN, "ticdc-debezium", engine=make)
    for message in (framed(TABLE), insert(), insert(), insert(**LOSING), insert(**LOSING), insert()):
        translator.translate(message)
    assert translator.paths["fast"] == 3
    counted = (Loss.DECIMAL_DIGITS, Loss.ZERO_DATE, Loss.NULL_REPLACED_BY_DEFAULT)
    assert [translator.losses[word] for word in counted] == [2, 4, 4]


@pytest.mark.parametrize("make", ENGINES)
def test_losses_are_counted_once_when_their_template_is_evicted(make: type[Engine]) -> None:
    """With a template goes what is known of each set of losses that values added to it: another template may
    take its number.
    """
    limits = msgspec.structs.replace(DEFAULT_LIMITS, cache_bytes=1)
    impatient = translator_class(TemplatePolicy(first_derivation=2, search_interval=10))
    translator, plain = (
        impatient(OPEN, "ticdc-debezium", limits=limits, engine=each) for each in (make, None)
    )

    def fitting(*messages: ConsumerRecord) -> int:
        before = translator.paths["fast"]
        for message in messages:
            assert translator.translate(message) == plain.translate(message)
        assert (translator.losses, translator.events) == (plain.losses, plain.events)
        return translator.paths["fast"] - before

    assert fitting(framed(TABLE), insert(), insert(), insert(**LOSING), insert(day="0000-00-00")) == 2
    assert fitting(*[update(PLAIN, PLAIN)] * 60) > 20
    assert fitting(insert()) == 0, "its template is evicted"
    assert fitting(update(PLAIN, LOSING), update(PLAIN, PLAIN | {"day": "0000-00-00"})) == 2


def test_losses_are_refused_with_strict() -> None:
    options = {"strict": "true", "enable-tidb-extension": "true"}
    table = ddl("CREATE TABLE d.t (id INT PRIMARY KEY, day DATE)")

    def message(day: str) -> ConsumerRecord:
        return framed(row({"u": {"id": cell(3, 1, 11, h=True), "day": cell(10, day, 65)}}))

    both = Both(OPEN, target="ticdc-debezium", target_options=options)
    both.learn(framed(table), message("2024-01-01"), message("2024-01-01"))
    assert both.fits(message("2024-01-02"))
    assert not both.fits(message("0000-00-00"))


def test_a_text_of_canal() -> None:
    def message(day: str) -> ConsumerRecord:
        row_ = row_message(
            {"id": "int", "day": "date"},
            {"id": "1", "day": day},
            pkNames=["id"],
            sqlType={"id": 4, "day": 91},
            gtid="",
        )
        return record(json.dumps(row_, separators=(",", ":"), sort_keys=True))

    both = Both("canal-json", target="debezium-json")
    both.learn(message("2024-01-01"), message("2024-01-01"))
    assert both.fits(message("2024-01-02"))
    assert both.fits(message("0000-00-00"))
    assert both.templated.losses[Loss.ZERO_DATE] == 1
    assert not both.fits(message("2024-02-30"))


def test_templates_that_drive_each_other_out_are_derived_seldom() -> None:
    added = 0

    class Counting(Interpreter):
        def add(self, template: Template) -> int:
            nonlocal added
            added += 1
            return super().add(template)

    translator = Translator(OPEN, "ticdc-debezium", engine=Counting)
    for number in list(range(9)) * 200:
        translator.translate(of_another_shape(number))
    # Each is tried by itself before it is added.
    assert 2 * 9 < added < 2 * 20


def test_templates_that_are_dropped_are_counted() -> None:
    both = Both(OPEN, target="ticdc-debezium").learn(framed(TABLE), insert(), insert())
    assert both.fits(insert(**LOSING))
    before = both.templated.losses[Loss.ZERO_DATE]
    for number in range(9):
        met = [both.fits(of_another_shape(number)) for _ in range(10)]
        assert met[-1]
    assert both.templated.losses[Loss.ZERO_DATE] == before + 90
