"""A route that restarts with other rules: docs/operations/changing-rules.md."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fake_registry import FakeRegistry, serving
from support import record, row_message

from relay import ColumnAction, ColumnRule, ConsumerRecord, Translator
from relay.cli.check_rules import rule_lines
from relay.codecs.losses import Loss
from relay.io.registry import RegistrySettings, SchemaRegistry
from relay.io.resolver import Resolver
from relay.model.errors import SchemaRefused
from relay.service.commands.offline import learned_translator

TYPES = {"id": "int", "email": "varchar(100)", "status": "varchar(20)"}
CREATE = "CREATE TABLE t (id INT PRIMARY KEY, email VARCHAR(100), status VARCHAR(20) NOT NULL)"
RULES: dict[str, Any] = {
    "route_columns": [
        {"tables": ["d.t"], "columns": ["email"], "action": "drop"},
        {"tables": ["d.t"], "columns": ["status"], "action": "rename", "name": "state"},
    ],
    "route_tables": [{"from": r"d\.t", "to": "d.orders"}],
    "route_rows": [{"tables": ["d.t"], "where": "status == 'paid'"}],
}


def ddl(sql: str) -> ConsumerRecord:
    return record(row_message({}, op="ALTER", isDdl=True, sql=sql, data=None))


def row(op: str, id: int, status: str, old: str = "") -> ConsumerRecord:
    cells = {"id": str(id), "email": "a@example.com", "status": status}
    before = [{"status": old}] if old else None
    return record(row_message(TYPES, cells, op=op, old=before, pkNames=["id"]))


async def relayed(kafka: Any, run_relay: Any, config: Any, source: str) -> Any:
    """Run the route until it has committed all of its source."""
    relay, length = run_relay(config, None), await kafka.length(source)

    async def is_done() -> bool:
        assert not relay.has_ended, relay.log.events[-2:]
        return bool(sum(each.committed or 0 for each in relay.status.partitions.values()) == length)

    await kafka.until(is_done)
    assert await relay.stop() == 0
    return relay


async def messages(kafka: Any, topic: str) -> list[dict[str, Any]]:
    return [json.loads(each.value) for each in await kafka.read(topic)]


@pytest.mark.kafka
async def test_rules_apply_from_the_next_record_on(kafka: Any, make_config: Any, run_relay: Any) -> None:
    source = await kafka.topic()
    settings = {
        "route_from": "canal-json",
        "target_create_topics": True,
        "schema_history_topic": f"{source}.history",
    }
    before = make_config(source, f"{source}.{{table}}", **settings)
    after = make_config(source, f"{source}.{{table}}", **settings, **RULES)
    after = after.model_copy(update={"source": before.source})
    await kafka.produce(source, [ddl(CREATE), row("INSERT", 1, "paid"), row("INSERT", 2, "new")])
    await relayed(kafka, run_relay, before, source)
    old, history = await messages(kafka, f"{source}.t"), await messages(kafka, f"{source}.history")
    # As `relay check --connect` shows it.
    assert [*rule_lines(after, (await learned_translator(after)).translator)] == [
        *("rows", "  d.t: where on status"),
        *("columns", "  d.t: email drop, status rename → state varchar(20)"),
        *("tables", "  d.t → d.orders"),
    ]
    await kafka.produce(
        source,
        [
            row("UPDATE", 1, "paid", old="paid"),
            row("UPDATE", 2, "shipped", old="new"),
            row("DELETE", 2, "shipped"),
            row("INSERT", 3, "paid"),
            row("UPDATE", 3, "void", old="paid"),
            row("INSERT", 4, "new"),
            ddl("ALTER TABLE t ADD note TEXT"),
        ],
    )
    relay = await relayed(kafka, run_relay, after, source)
    # The past stays, under the old names, with all columns.
    assert await messages(kafka, f"{source}.t") == old
    assert [each["sql"] for each in old if each["isDdl"]] == [CREATE]
    assert [each["data"][0]["email"] for each in old if not each["isDdl"]] == ["a@example.com"] * 2
    # Readers of the new names get no statement for the change. Row 2, which was not selected, stays as it was.
    new = await messages(kafka, f"{source}.orders")
    assert [(each["table"], each["type"], each["data"] and each["data"][0]) for each in new[:-1]] == [
        ("orders", "UPDATE", {"id": "1", "state": "paid"}),
        ("orders", "INSERT", {"id": "3", "state": "paid"}),
        ("orders", "DELETE", {"id": "3", "state": "paid"}),
    ]
    assert (new[-1]["isDdl"], new[-1]["sql"]) == (True, "ALTER TABLE `orders` ADD note TEXT")
    # The history has the source's statements, so that definitions are known under all rules.
    assert Loss.SCHEMA_INFERRED not in relay.status.translator.losses
    kept = await messages(kafka, f"{source}.history")
    assert kept[: len(history)] == history
    first, second = (json.loads(each["value"]) for each in kept)
    assert first["sql"] == CREATE
    # Now the route hides a column.
    assert [each["ddl"] for each in second] == ["ALTER TABLE t ADD note TEXT"]
    # Without the condition, a row that was left out appears with its next UPDATE.
    wider = after.model_copy(update={"route": after.route.model_copy(update={"rows": ()})})
    await kafka.produce(source, [row("UPDATE", 4, "sent", old="new")])
    await relayed(kafka, run_relay, wider, source)
    (last,) = (await messages(kafka, f"{source}.orders"))[len(new) :]
    assert (last["type"], last["data"]) == ("UPDATE", [{"id": "4", "state": "sent"}])


# ---------------------------------------------------------------- schemas


def registered(fake: FakeRegistry, *rules: ColumnRule) -> list[list[str]]:
    """Write the table's row under rules; return the columns of each version of its schema."""
    registry = SchemaRegistry(RegistrySettings(table="t", urls=(fake.url,)), retries=0)
    translator = Translator("canal-json", "ticdc-avro", columns=rules, hash_key=b"a secret key of tests")
    resolver = Resolver(registries={"target": registry})
    for each in (ddl(CREATE), row("INSERT", 1, "paid")):
        resolver.translate(translator, each)
    versions = [json.loads(fake.texts[id])["fields"] for id in fake.subjects["topic-value"]]
    return [[field["name"] for field in fields if not field["name"].startswith("_")] for fields in versions]


def rule(action: str, column: str, **more: Any) -> ColumnRule:
    return ColumnRule(tables=("d.t",), columns=(column,), action=ColumnAction(action), **more)


def test_a_registry_compares_the_schemas_under_old_and_new_rules() -> None:
    with serving(FakeRegistry()) as fake:
        registered(fake)
        # A column that is dropped, and one that may be NULL with another name.
        assert registered(fake, rule("drop", "email"))[1:] == [["id", "status"]]
        assert registered(fake, rule("rename", "email", name="mail"))[2:] == [["id", "mail", "status"]]
        with pytest.raises(SchemaRefused, match="state"):
            registered(fake, rule("rename", "status", name="state"))
        fake.compatibility["topic-value"] = "NONE"
        assert registered(fake, rule("rename", "status", name="state"))[3:] == [["id", "email", "state"]]
