"""A protocol made up for these tests, so that they do not depend on what the real ones do, and a way to run
the command line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
from typer.testing import CliRunner, Result

from relay.catalog import Catalog
from relay.cli.commands import app
from relay.codecs import protocols
from relay.codecs.codec import Codec, EncodedRecord, Options
from relay.codecs.losses import Before, Capabilities, Loss
from relay.model.errors import Malformed, NotRepresentable
from relay.model.events import (
    ABSENT,
    Cell,
    Column,
    ColumnType,
    DdlKind,
    Event,
    Images,
    Op,
    Row,
    RowChange,
    RowProjection,
    Rows,
    SchemaChange,
    Source,
    TableId,
    TableSchema,
    TransactionMark,
    Watermark,
)
from relay.model.records import ConsumerRecord

#: 2026-01-15 10:20:30.123 UTC.
TIME_NS = 1_768_472_430_123_000_000
COMMIT_TS = (TIME_NS // 1_000_000 << 18) + 1
SCHEMA = TableSchema(
    TableId("shop", "orders"),
    (
        Column("id", ColumnType("bigint", unsigned=True), nullable=False),
        Column("price", ColumnType("decimal", length=10, scale=2)),
        Column("name", ColumnType("varchar", length=20)),
        Column("blob", ColumnType("blob")),
    ),
    primary_key=("id",),
)
SOURCE = Source("made-up", TIME_NS, commit_ts=COMMIT_TS, gtid="a:1", row_key=b"\xff")
BEFORE: Row = (1, Decimal("1.10"), "a\x1b'", b"\x00\xff")
AFTER: Row = (1, Decimal("1.20"), None, ABSENT)


class MadeUpOptions(Options, frozen=True):
    mode: Annotated[Literal["plain", "terse"], msgspec.Meta(description="how much is said")] = "plain"


class Decoder:
    def decode(
        self, record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
    ) -> tuple[list[Event], Catalog]:
        word = (record.value or b"nothing").decode(errors="replace")
        if word == "crash":
            raise ZeroDivisionError("made up")
        if word.startswith("bad"):
            raise Malformed("made-up", "word[0]", "is bad")
        return EVENTS[word.split()[0]], catalog


class Encoder:
    def __init__(self, options: MadeUpOptions) -> None:
        self._terse = options.mode == "terse"

    def prepare(self, events: list[Event]) -> list[Event]:
        return events

    def encode(
        self, events: Sequence[Event], source_record: ConsumerRecord, losses: list[Loss]
    ) -> list[EncodedRecord]:
        if any(isinstance(event, TransactionMark) for event in events):
            raise NotRepresentable("made-up", "", "no word for it")
        losses += [Loss.WATERMARK for event in events if isinstance(event, Watermark)]
        key = None if self._terse else source_record.key
        return [
            EncodedRecord(key, source_record.value) for event in events if not isinstance(event, Watermark)
        ]


class LazyImages:
    """Images that turn out to be malformed when they are read."""

    message_key_columns = None
    wire_keys = (None, None)

    @property
    def before(self) -> Row | None:
        return None

    @property
    def after(self) -> Row | None:
        raise Malformed("made-up", "data[0].id", "is no number")

    def cells_at(self, indexes: Sequence[int], *, is_old: bool) -> list[Cell] | None:
        row = self.before if is_old else self.after
        return None if row is None else [row[at] for at in indexes]

    def keys_unchanged_on_wire(self) -> bool:
        return False

    def raw_key(self) -> None:
        return None

    def projected(self, projection: RowProjection) -> Images:
        return projection.rows(self)

    def of_table(self, schema: TableSchema) -> Images:
        del schema
        return self


_DDL = "CREATE TABLE\n`orders`\x1b"
EVENTS: dict[str, list[Event]] = {
    "insert": [RowChange(Op.INSERT, SCHEMA, Rows(None, BEFORE), SOURCE, TIME_NS)],
    "update": [RowChange(Op.UPDATE, SCHEMA, Rows(BEFORE, AFTER), SOURCE, TIME_NS)],
    "ddl": [SchemaChange(_DDL, SCHEMA.id, (DdlKind.CREATE_TABLE,), "CREATE", SOURCE, TIME_NS, after=SCHEMA)],
    "lazy": [RowChange(Op.INSERT, SCHEMA, LazyImages(), SOURCE, TIME_NS)],
    "watermark": [Watermark(SOURCE, TIME_NS)],
    "begin": [TransactionMark(is_begin=True, id="a:1", source=SOURCE, emitted_at_ns=TIME_NS)],
    "nothing": [],
}


def _carries(options: MadeUpOptions) -> Capabilities:
    plain = options.mode == "plain"
    return Capabilities(before=Before.FULL if plain else Before.NONE, **_ALL | {"gtid": plain})


_ALL = {name: True for name in Capabilities.__struct_fields__ if name != "before"}
CODEC = Codec(
    name="made-up",
    title="a protocol of the tests",
    options=MadeUpOptions,
    decodes=Capabilities(before=Before.FULL, **_ALL),
    encodes=_carries,
    decoder=lambda _, __: Decoder(),
    encoder=lambda options, _: Encoder(options),
    ddl_everywhere=True,
)


@pytest.fixture(autouse=True)
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(protocols.plugin_codecs(), CODEC.name, CODEC)
    monkeypatch.delenv("RELAY_TRACEBACK", raising=False)


@pytest.fixture
def relay() -> Callable[..., Result]:
    """Run the command line in this process: `relay("translate", …, input=b"…")`."""

    def run(*arguments: str | Path, input: bytes | str | None = None) -> Result:  # noqa: A002 - as subprocess.run names it
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=input)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return run


Lines = Callable[..., bytes]


@pytest.fixture
def lines() -> Lines:
    """Record file lines with these values: `lines("insert", None, headers=[["h", "v"]])`."""

    def make(*values: str | None, **members: Any) -> bytes:
        found = []
        for number, value in enumerate(values):
            record = {
                "topic": "t",
                "partition": 0,
                "offset": 10 + number,
                "timestamp": 5,
                "key": "k",
                "value": value,
            }
            found.append(json.dumps(record | members) + "\n")
        return "".join(found).encode()

    return make
