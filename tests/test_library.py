"""The library as another program uses it: names, options of natural types, rows as mappings, type errors."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from reference_engine import Interpreter
from support import OPEN, TICDC, captured

import relay
from relay import (
    ABSENT,
    Column,
    ColumnType,
    ConfigError,
    ConsumerRecord,
    Op,
    RowChange,
    Rows,
    Selection,
    Source,
    TableId,
    TableSchema,
    Translator,
)
from relay.codecs import BUILT_IN
from relay.model.records import check_types

#: Values that are given back as they came: nobody needs to know what is inside.
OPAQUE = {"Catalog", "State", "Engine"}


def own_types(found: Any) -> Iterator[type]:
    """The classes of relay in a type, also inside of others."""
    if isinstance(found, type) and found.__module__.startswith("relay"):
        yield found
    for part in typing.get_args(found):
        for each in part if isinstance(part, list) else [part]:
            yield from own_types(each)


def declared(name: str) -> Iterator[tuple[str, Any]]:
    """The types of a public class's fields, and of its methods' parameters and results."""
    found = getattr(relay, name)
    for field, kind in typing.get_type_hints(found).items():
        yield f"{name}.{field}", kind
    for method, value in inspect.getmembers(found):
        function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if inspect.isfunction(function) and (not method.startswith("_") or method == "__init__"):
            for parameter, kind in typing.get_type_hints(function).items():
                yield f"{name}.{method} {parameter}", kind


def test_every_name_is_there() -> None:
    assert sorted(relay.__all__) == relay.__all__ == dir(relay)
    assert all(hasattr(relay, name) for name in relay.__all__)


def test_every_type_that_a_public_one_names_is_public() -> None:
    classes = [name for name in relay.__all__ if isinstance(getattr(relay, name), type)]
    hidden = {
        (path, kind.__name__)
        for name in classes
        if name not in OPAQUE
        for path, declared_type in declared(name)
        if not path.split(".")[-1].startswith("_")
        for kind in own_types(declared_type)
        if kind.__name__ not in relay.__all__
    }
    assert hidden == set()


def test_rows_as_mappings() -> None:
    columns = tuple(Column(name, ColumnType("int")) for name in ("id", "price", "note"))
    rows = Rows((1, Decimal("1.10"), None), (1, Decimal("1.20"), ABSENT))
    change = RowChange(Op.UPDATE, TableSchema(TableId("shop", "orders"), columns), rows, Source("x", 0), 0)
    assert change.before_dict() == {"id": 1, "price": Decimal("1.10"), "note": None}
    assert change.after_dict() == {"id": 1, "price": Decimal("1.20")}
    assert (
        RowChange(Op.INSERT, change.schema, Rows(None, rows.after), Source("x", 0), 0).before_dict() is None
    )


def test_options_of_natural_types() -> None:
    texts = Translator(OPEN, OPEN, {}, {"max-batch-size": "3", "strict": "all,-commit-ts"})
    natural = Translator(OPEN, OPEN, {}, {"max-batch-size": 3, "strict": ["all", "-commit-ts"]})
    assert natural.route == texts.route
    assert Translator(OPEN, "ticdc-debezium", None, {"debezium-disable-schema": True}).route == (
        Translator(OPEN, "ticdc-debezium", None, {"debezium-disable-schema": "true"}).route
    )


def test_an_option_of_another_type() -> None:
    wrong: Any = {"max-batch-size": None}
    with pytest.raises(TypeError, match="the option max-batch-size must be text, a bool, a number or a list"):
        Translator(OPEN, OPEN, {}, wrong)


def test_a_selection_by_patterns() -> None:
    chosen = Selection.choosing(include_tables=["shop.*"], exclude_events=["watermark"])
    assert chosen.has_table(TableId("shop", "orders"))
    assert not chosen.has_table(TableId("other", "orders"))
    assert chosen.left_out_kinds == {"watermark"}
    with pytest.raises(ConfigError) as raised:
        Selection.choosing(include_tables=["shop"], include_events=["inserts"])
    assert [problem.path for problem in raised.value.problems] == ["include_tables", "include_events"]


READABLE = sorted(name for name, codec in BUILT_IN.items() if codec.is_readable)
ROW = next(record for record in captured("ticdc/canal-json.tidb-extension/09_dml") if record.value)
TEXT = (ROW.value or b"").decode()


@pytest.mark.parametrize("value", ['{"a": 1}', {"a": 1}, 3])
@pytest.mark.parametrize("protocol", READABLE)
def test_a_value_of_another_type(protocol: str, value: Any) -> None:
    translator = Translator(protocol, "canal-json")
    for call in (translator.translate, translator.inspect, translator.learn):
        with pytest.raises(
            TypeError, match=r"ConsumerRecord.value must be bytes or None, not (str|dict|int)"
        ):
            call(ConsumerRecord("t", 0, 0, 0, None, value))


def test_a_message_as_text() -> None:
    value: Any = TEXT
    templated = Translator(TICDC, "canal-json", engine=Interpreter)
    for translator in (Translator(TICDC, "canal-json"), templated):
        translator.translate(ROW)
        with pytest.raises(TypeError, match=r"not str: encode the text first, for example text.encode\(\)"):
            translator.translate(ConsumerRecord("t", 0, 0, 0, None, value))


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"topic": 1}, "ConsumerRecord.topic must be str, not int"),
        ({"offset": "1"}, "ConsumerRecord.offset must be int, not str"),
        ({"key": "k"}, "ConsumerRecord.key must be bytes or None, not str"),
        ({"headers": {"a": b"b"}}, "ConsumerRecord.headers must be tuple, not dict"),
        ({"headers": (("a", "b"),)}, "ConsumerRecord.headers must be pairs of a name and bytes or None"),
    ],
)
def test_members_of_other_types(members: dict[str, Any], message: str) -> None:
    members = {
        "topic": "t",
        "partition": 0,
        "offset": 0,
        "timestamp_ms": 0,
        "key": None,
        "value": None,
        **members,
    }
    with pytest.raises(TypeError, match=message):
        check_types(ConsumerRecord(**members))


def test_no_record_at_all() -> None:
    nothing: Any = {"value": b"{}"}
    for call in (Translator(TICDC, "canal-json").translate, Translator(TICDC, "canal-json").inspect):
        with pytest.raises(TypeError, match="a ConsumerRecord is needed, not dict"):
            call(nothing)
