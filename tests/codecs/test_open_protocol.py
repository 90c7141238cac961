"""Open Protocol: options, batches, where rows go, old rows without names."""

from __future__ import annotations

import json
from typing import Any

import pytest
from open_support import (
    cell,
    change,
    counted,
    ddl,
    framed,
    raw,
    read,
    records,
    resolved,
    row,
    unframed,
    values,
    written,
)
from support import CANAL, OPEN, record, row_message

from relay import (
    ConfigError,
    Loss,
    Malformed,
    NotRepresentable,
    Op,
    RowChange,
    TableId,
    Translator,
    Watermark,
)

# ---------------------------------------------------------------- options

CREATE = ddl("CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(9), c TIMESTAMP)")
NEW = {
    "id": cell(3, 1, 11, h=True),
    "a": cell(3, 2),
    "b": cell(15, "x", 64),
    "c": cell(7, "2024-01-01 08:00:00"),
}
OLD = NEW | {"a": cell(3, None), "b": cell(15, "y", 64)}
CHANGED = row({"u": NEW, "p": OLD})
OTHER_KEY = NEW | {"id": cell(3, 7, 11, h=True)}
REKEYED = row({"u": NEW, "p": OTHER_KEY})
DELETED = row({"d": NEW})


def last(message: Any, options: dict[str, str]) -> list[Any]:
    return values(records(CREATE, message), options)[1:]


@pytest.mark.parametrize(
    ("message", "options", "expected", "lost"),
    [
        (CHANGED, {}, [{"u": NEW, "p": OLD}], {}),
        (CHANGED, {"only-output-updated-columns": "true"}, [{"u": NEW, "p": {"a": OLD["a"], "b": OLD["b"]}}], {}),
        (row({"u": NEW, "p": NEW}), {"only-output-updated-columns": "true"}, [{"u": NEW, "p": {}}], {}),
        (CHANGED, {"output-old-value": "false"}, [{"u": NEW}], {"before-image": 1}),
        (DELETED, {"output-old-value": "false"}, [{"d": NEW}], {}),
        (DELETED, {}, [{"d": NEW}], {}),
        (DELETED, {"delete-only-output-handle-key-columns": "true"}, [{"d": {"id": NEW["id"]}}], {"delete-image": 1}),
        (CHANGED, {"delete-only-output-handle-key-columns": "true"}, [{"u": NEW, "p": OLD}], {}),
        (REKEYED, {"output-raw-change-event": "true"}, [{"u": NEW, "p": OTHER_KEY}], {}),
        (REKEYED, {}, [{"d": OTHER_KEY}, {"u": NEW}], {}),
        (
            row({"u": NEW}), {"timezone": "Asia/Shanghai"},
            [{"u": NEW | {"c": cell(7, "2024-01-01 16:00:00")}}], {},
        ),
    ],
)  # fmt: skip
def test_options_of_the_target(
    message: Any, options: dict[str, str], expected: list[Any], lost: dict[str, int]
) -> None:
    assert last(message, options) == expected
    assert counted(records(CREATE, message), options=options) == lost


def test_the_sources_zone() -> None:
    found = change(CREATE, row({"u": NEW}), options={"timezone": "Asia/Shanghai"})
    assert (found.after or ())[3] == "2024-01-01 00:00:00"
    zoned = {"timezone": "Asia/Shanghai"}
    assert written(records(CREATE, row({"u": NEW})), zoned, reading=zoned) == written(
        records(CREATE, row({"u": NEW}))
    )


def test_tables_without_a_key_keep_all_columns_of_a_delete() -> None:
    delete = row({"d": {"a": cell(3, 1), "b": cell(3, 2)}})
    options = {"delete-only-output-handle-key-columns": "true"}
    assert values(records(delete), options) == [delete[1]]
    assert counted(records(delete), options=options) == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [("max-batch-size", "0"), ("max-batch-size", "x"), ("output-old-value", "maybe"), ("dialect", "x")],
)
def test_options_that_do_not_exist(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name):
        Translator(OPEN, OPEN, None, {name: value})


def test_strict_refuses_what_would_be_lost() -> None:
    with pytest.raises(NotRepresentable, match="the route would lose: before-image"):
        written(records(CHANGED), {"strict": "true", "output-old-value": "false"})


# ---------------------------------------------------------------- batches


def inserted(number: int, table: str = "t", **key: Any) -> Any:
    return row({"u": {"id": cell(3, number, 11, h=True)}}, tbl=table, **key)


def test_a_batch_may_hold_rows_of_several_tables_and_partitions() -> None:
    rows = [
        inserted(1),
        inserted(2, "s"),
        inserted(3, "t", ptn=7),
        inserted(4, "t", ts=9),
        inserted(5, "s", scm="e"),
    ]
    (batch,) = written([framed(*rows)], {"max-batch-size": "16"})
    assert [(json.loads(key), json.loads(value)) for key, value in batch] == rows
    assert written([framed(*rows)], {"max-batch-size": "2"}) == [batch[:2], batch[2:4], batch[4:]]
    assert written([framed(*rows)]) == [[one] for one in batch]
    found = Translator(OPEN, OPEN).inspect(framed(*rows))
    assert [event.table for event in found if isinstance(event, RowChange)] == [
        TableId("d", "t"), TableId("d", "s"), TableId("d", "t"), TableId("d", "t"), TableId("e", "s"),
    ]  # fmt: skip


def test_statements_and_watermarks_are_alone_and_in_their_place() -> None:
    mixed = framed(
        inserted(1),
        inserted(2),
        ddl("DROP TABLE x", 4, ts=6),
        inserted(3),
        resolved(9),
        inserted(4),
        inserted(5),
    )
    out = written([mixed], {"max-batch-size": "16"})
    assert [[json.loads(key)["t"] for key, _ in message] for message in out] == [
        [1, 1],
        [2],
        [1],
        [3],
        [1, 1],
    ]


def test_a_row_above_the_limit_is_alone_and_in_its_place() -> None:
    long = row({"u": {"id": cell(3, 9, 11, h=True), "v": cell(15, "x" * 300, 64)}})
    options = {
        "max-batch-size": "16",
        "max-message-bytes": "300",
        "large-message-handle-option": "handle-key-only",
    }
    out = written([framed(inserted(1), long, inserted(2), inserted(3))], options)
    assert [[json.loads(value)["u"]["id"]["v"] for _, value in message] for message in out] == [
        [1],
        [9],
        [2, 3],
    ]
    assert [b'"ohk":true' in key for ((key, _), *_) in out] == [False, True, False]


def test_rows_of_one_record_are_spread_and_batched_by_partition() -> None:
    translator = Translator(OPEN, OPEN, None, {"max-batch-size": "16"}, partitions=2)
    out = translator.translate(framed(*map(inserted, range(9))))
    found = {
        one.partition: [json.loads(value)["u"]["id"]["v"] for _, value in unframed(one)] for one in out[-2:]
    }
    assert sum(len(unframed(one)) for one in out) == 9
    assert all(numbers == sorted(numbers) for numbers in found.values())


# ---------------------------------------------------------------- where rows come from and go to


def test_statements_go_to_every_partition() -> None:
    translator = Translator(OPEN, OPEN, partitions=3)
    out = translator.translate(framed(CREATE)) + translator.translate(framed(resolved(9), offset=1))
    assert [one.partition for one in out] == [0, 1, 2, 0, 1, 2]


def test_a_statement_that_comes_again_is_passed_on_and_learned_once() -> None:
    translator = Translator(OPEN, OPEN)
    copies = [framed(CREATE, partition=at) for at in range(3)] + [
        framed(ddl("ALTER TABLE t ADD d INT", 5, ts=5)),
        framed(CREATE, offset=8),
    ]
    assert [len(translator.translate(one)) for one in copies] == [1] * 5
    (found,) = translator.inspect(framed(inserted(1, ts=9)))
    assert isinstance(found, RowChange)
    assert [column.name for column in found.schema.columns] == ["id", "a", "b", "c", "d"]
    assert len(translator.catalog.histories["d"]["t"]) == 2


def test_a_definition_that_contradicts_the_row_gives_way() -> None:
    found = change(
        ddl("CREATE TABLE t (a VARCHAR(9), b INT UNSIGNED, c INT)"),
        row({"u": {"a": cell(15, r"\xff"), "b": cell(3, -1), "c": cell(3, 1)}}),
    )
    assert found.after == (b"\xff", -1, 1)
    assert [column.type.base for column in found.schema.columns] == ["varbinary", "int", "int"]
    assert not found.schema.complete


def test_a_table_changes_its_columns_without_ddl() -> None:
    first, second = row({"u": {"a": cell(3, 1)}}), row({"u": {"a": cell(3, 1), "b": cell(15, "x", 64)}})
    found = [
        change(*messages).after
        for messages in ([first, second], [second, first], [first, second, first], [first, second, second])
    ]
    assert found == [(1, "x"), (1,), (1,), (1, "x")]


def test_events_without_a_commit_ts_get_one_of_their_time() -> None:
    message = record(row_message({"id": "int"}, {"id": "1"}, pkNames=["id"]), offset=5)
    ((key, value),) = written([message], source=CANAL)[0]
    assert json.loads(key)["ts"] == (1700000000123 << 18) + 5
    assert json.loads(value) == {"u": {"id": cell(3, 1, 11, h=True)}}


def test_a_key_without_ddl_cannot_be_null() -> None:
    message = record(
        row_message(
            {"a": "int", "b": "varchar", "c": "int"}, {"a": "1", "b": "x", "c": None}, pkNames=["a", "b"]
        )
    )
    (found,) = values([message], source=CANAL)
    assert {name: one["f"] for name, one in found["u"].items()} == {"a": 43, "b": 42, "c": 65}


def test_tombstones_are_skipped_and_counted() -> None:
    translator = Translator(OPEN, OPEN)
    assert translator.translate(raw(None, None)) == []
    assert translator.losses == {Loss.TOMBSTONE: 1}


def test_an_unknown_enum_label_has_no_number() -> None:
    insert = record(row_message({"e": "enum"}, {"e": "red"}))
    with pytest.raises(NotRepresentable, match="a value is not of its column's type"):
        written([insert], source=CANAL)


# ---------------------------------------------------------------- old rows without names

NULLED = {
    "id": cell(3, 1, 11, h=True),
    "a": cell(15, None, 64),
    "b": cell(3, None),
    "c": cell(252, None, 64),
    "t": cell(3, 5),
}


@pytest.mark.parametrize(
    ("old", "before"),
    [
        ('{"t":15,"f":64,"v":"was"}', (1, "was", None, None, 5)),
        ('{"t":252,"f":64,"v":"YQ=="}', (1, None, None, "a", 5)),
        ('{"t":15,"f":64,"v":"was","t":252,"f":64,"v":"YQ=="}', (1, "was", None, "a", 5)),
        ('{"t":15,"f":64,"v":"was","t":{"t":3,"f":65,"v":4}}', (1, "was", None, None, 4)),
        ('{"t":{"t":3,"f":65,"v":4},"t":3,"f":65,"v":9}', (1, None, 9, None, 4)),
        ('{"t":3,"h":true,"f":65,"v":9,"c":{"t":252,"f":64,"v":"YQ=="}}', (1, None, 9, "a", 5)),
    ],
)
def test_cells_without_a_name_are_those_of_columns_that_became_null(old: str, before: Any) -> None:
    message = row(f'{{"u":{json.dumps(NULLED)},"p":{old}}}')
    for earlier in ([], [row({"u": NULLED, "p": NULLED})], [row({"u": NULLED}), row({"u": NULLED, "p": {}})]):
        found = change(*earlier, message)
        assert (found.op, found.before, found.after) == (Op.UPDATE, before, (1, None, None, None, 5))
    assert counted(records(message)) == {}


@pytest.mark.parametrize(
    ("columns", "old"),
    [
        ({"a": cell(15, None, 64), "b": cell(15, None, 64)}, '{"t":15,"f":64,"v":"whose?"}'),
        ({"a": cell(15, None, 64), "b": cell(3, 1)}, '{"t":3,"f":65,"v":2}'),
        ({"a": cell(15, None, 64)}, '{"t":15,"f":64,"v":"x","t":15,"f":64,"v":"y"}'),
    ],
)
def test_an_old_row_that_nobody_can_tell_is_counted(columns: Any, old: str) -> None:
    message = row(f'{{"u":{json.dumps(columns)},"p":{old}}}')
    found = change(message)
    assert (found.op, found.before) == (Op.UPDATE, None)
    assert counted(records(message)) == {"before-missing": 1}
    assert values(records(message)) == [{"u": columns}]


@pytest.mark.parametrize(
    "old",
    [
        '{"t":15,"f":64}',
        '{"t":15,"x":1,"v":"a"}',
        '{"v":"a"}',
        "[]",
        "1",
        '"x"',
        '{"a":1}',
        '{"a":[1]}',
        '{"a":{"t":3}}',
        '{"t":1,"v":{}}',
    ],
)
def test_what_is_no_old_row(old: str) -> None:
    with pytest.raises(Malformed, match=r"^ticdc-open-protocol: (value|p)"):
        read(row(f'{{"u":{json.dumps(NULLED)},"p":{old}}}'))


def test_watermarks_have_the_time_of_their_timestamp() -> None:
    (found,) = read(resolved(458210000000000007))
    assert isinstance(found, Watermark)
    assert found.source.event_time_ns == (458210000000000007 >> 18) * 1_000_000
    assert found.emitted_at_ns == 1700000000456_000_000
