"""Find out whether two protocols are the reason for a difference.

A change is written in the other protocol, by relay's own encoder, and read again. So this module needs no
list of the protocols' losses: a difference that a translation would have made is explained, and the counters
of that translation are the losses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from relay.catalog import Catalog
from relay.cli.rule_options import NO_RULES, GivenRules
from relay.codecs import codec_named
from relay.codecs.given_options import reading_options, writing_options
from relay.codecs.losses import INFORMATIONAL, SOURCE_LOSSES, TRANSACTION_LOSSES, Loss
from relay.core.comparison import Change, changes_of, differing
from relay.core.translator import Translator
from relay.io.resolver import Resolver
from relay.model.errors import CodecError, ConfigError, ServiceError
from relay.model.limits import Limits
from relay.model.lookups import Need, RegisteredSchema, SchemaById
from relay.model.records import ConsumerRecord, ProducerRecord

_REFUSED: Final = (CodecError, ServiceError, Need)
#: Start of schema ids that no registry has reached.
_FIRST_ID: Final = 2_000_000_000
#: Facts that are not compared, so that their loss explains nothing.
_NOT_COMPARED: Final = INFORMATIONAL.union(
    [each for each in (*SOURCE_LOSSES.values(), *TRANSACTION_LOSSES.values()) if each is not None]
) - {Loss.SNAPSHOT}
#: A row that was read is written as an insert in a protocol without such an operation.
_READ: Final = {"read": "insert"}


class _Written(NamedTuple):
    """A change in the other protocol, read again, and its losses."""

    changes: list[Change]
    losses: Counter[Loss]


class _Schemas:
    """A schema registry in memory, on top of that of a side.

    Schemas for changes that are written only for a comparison are registered nowhere else.
    """

    def __init__(self, side: Resolver) -> None:
        self._side = side
        self._ids: dict[RegisteredSchema, int] = {}
        self._schemas: dict[int | str, RegisteredSchema] = {}

    def schema(self, id: int | str, /) -> RegisteredSchema:
        """Return the schema of an id."""
        found = self._schemas.get(id)
        return self._side.fetch(SchemaById("source", id)) if found is None else found

    def id_of(self, subject: str, schema: RegisteredSchema, /) -> int:  # noqa: ARG002 - as a registry's
        """Return the id of a schema."""
        id = self._ids.setdefault(schema, _FIRST_ID + len(self._ids))
        self._schemas[id] = schema
        return id


class Explainer:
    """Explain differences between changes of two protocols.

    `sides`: protocol and options of both, for reading and those with which they were written. `rules`: the
    column rules by which the second was written. `problem`: why changes of one cannot be written in the
    other, "" if they can.
    """

    def __init__(
        self,
        sides: Sequence[tuple[str, Mapping[str, str]]],
        resolvers: Sequence[Resolver],
        limits: Limits,
        rules: GivenRules = NO_RULES,
    ) -> None:
        schemas = [_Schemas(resolver) for resolver in resolvers]
        self._reading = [Resolver(registries={"source": each}) for each in schemas]
        self._writing = [
            Resolver(registries={"source": schemas[side], "target": schemas[1 - side]}) for side in (0, 1)
        ]
        codecs = [codec_named(name, "from") for name, _ in sides]
        reading = [reading_options(codec, given) for codec, (_, given) in zip(codecs, sides, strict=True)]
        writing = [writing_options(codec, given) for codec, (_, given) in zip(codecs, sides, strict=True)]
        self._readers = [
            Translator.reader(codec.name, options, limits=limits)
            for codec, options in zip(codecs, reading, strict=True)
        ]
        self._writers: list[Translator | None] = [None, None]
        self.problem = ""
        for side in (0, 1):
            try:
                source, target = codecs[side].name, codecs[1 - side].name
                given = NO_RULES if side else rules
                self._writers[side] = Translator(
                    source,
                    target,
                    reading[side],
                    writing[1 - side],
                    columns=given.rules,
                    hash_key=given.hash_key,
                    limits=limits,
                )
            except ConfigError as error:
                self.problem = str(error.problems[0])
        self._rules = rules.applied(codecs[1].name)
        #: The last catalog of the first side, and the same with the definitions of the second.
        self._mapped: tuple[Catalog, Catalog] | None = None
        self._last: list[tuple[ConsumerRecord, _Written] | None] = [None, None]

    def __call__(self, one: Change, other: Change | None, side: int) -> Counter[Loss] | None:
        """Return the losses if the protocols explain a difference, None if they do not; see `Explain`."""
        there = self._written(one, side)
        if there is None:
            return None
        if other is None:
            kinds = {_kind(each) for each in there.changes if each.table == one.table}
            return there.losses if _kind(one) not in kinds else None
        here = self._written(other, 1 - side)
        if _has(there.changes, other):
            return there.losses
        if here is not None and _has(here.changes, one):
            return here.losses
        if self._are_inferred(one, other, there, side) or (
            here is not None and self._are_inferred(other, one, here, 1 - side)
        ):
            return Counter({Loss.SCHEMA_INFERRED: 1})
        for each in there.changes if here is not None else ():
            back = self._written(each, 1 - side, is_kept=False)
            if here is not None and back is not None and any(_has(here.changes, its) for its in back.changes):
                return there.losses + here.losses
        return None

    def _are_inferred(self, one: Change, other: Change, there: _Written, side: int) -> bool:
        """Return whether a change of the other side equals this one when read with this side's catalog."""
        if not other.is_inferred or one.is_inferred:
            return False
        catalog = self._catalog_there(one.catalog, side)
        again = self._read([_with_position(other.record, one.record)], catalog, 1 - side)
        return again is not None and any(_has(again, each) for each in (one, *there.changes))

    def _written(self, change: Change, side: int, *, is_kept: bool = True) -> _Written | None:
        """Write the record of a change of this side in the other protocol, and read it again.

        None if that cannot be done.
        """
        last = self._last[side]
        if is_kept and last is not None and last[0] is change.record:
            return last[1]
        writer = self._writers[side]
        if writer is None:
            return None
        writer.catalog = change.catalog
        before = Counter(writer.losses)
        try:
            written = self._writing[side].translate(writer, change.record)
        except _REFUSED:
            return None
        lost = writer.losses - before
        losses = Counter({loss: count for loss, count in lost.items() if loss not in _NOT_COMPARED})
        records = [_with_position(out, change.record) for out in written]
        found = self._read(records, self._catalog_there(change.catalog, side), 1 - side)
        if found is None:
            return None
        result = _Written(found, losses)
        if is_kept:
            self._last[side] = change.record, result
        return result

    def _catalog_there(self, catalog: Catalog, side: int) -> Catalog:
        """Return the catalog with which changes of this side are read that were written in the other."""
        if side or self._rules is None:
            return catalog
        if self._mapped is None or self._mapped[0] is not catalog:
            self._mapped = catalog, catalog.with_definitions(self._rules.written)
        return self._mapped[1]

    def _read(self, records: Sequence[ConsumerRecord], catalog: Catalog, side: int) -> list[Change] | None:
        """Read records in the protocol of a side, in order; None if one of them cannot be read."""
        reader = self._readers[side]
        reader.catalog = catalog
        found: list[Change] = []
        try:
            for record in records:
                for event in self._reading[side].inspect(reader, record):
                    found += changes_of(event, record, catalog)
        except _REFUSED:
            return None
        return found


def _has(changes: Iterable[Change], change: Change) -> bool:
    return any(not differing(each, change) for each in changes)


def _kind(change: Change) -> str:
    return _READ.get(change.kind, change.kind)


def _with_position(record: ProducerRecord | ConsumerRecord, original: ConsumerRecord) -> ConsumerRecord:
    """Return a record with the position of another: its rows see the same definitions."""
    topic, partition, offset = original.position
    return ConsumerRecord(
        topic, partition, offset, record.timestamp_ms, record.key, record.value, record.headers
    )
