"""The core's only front door: one Kafka record in, the records of another protocol out.

bytes → decode → events → route → encode → bytes, readable in `Translator.translate`. The result depends on
the record, its position, the options and the records before it, and on nothing else: two runs give the same
bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from relay.catalog import Catalog
from relay.codecs import PROTOCOLS, codec_named
from relay.codecs.codec import SIDES, parse_options
from relay.codecs.losses import INFORMATIONAL, Lossy
from relay.codecs.wire.large_messages import LargeMessageOptions
from relay.errors import ConfigError, NotRepresentable, Problem
from relay.model import Event, Heartbeat, Op, RowChange, SchemaChange, TableId, TransactionMark, Watermark
from relay.needs import Need
from relay.records import ConsumerRecord, ProducerRecord
from relay.routing import Group, Router, WatermarkGate

#: Header of every record that relay writes: `topic/partition/offset/index` of the source record and of the
#: output it became.
SOURCE_HEADER = "relay.source"


class Selection(NamedTuple):
    """Which events are translated: at or after the one commit ts and before the other; watermarks, or none.

    An event without a commit ts counts by its event time. So two translators whose bounds meet give each
    event once.
    """

    since_commit_ts: int = 0
    before_commit_ts: int | None = None
    watermarks: bool = True

    def of(self, events: list[Event]) -> tuple[list[Event], Sequence[Lossy]]:
        """The events that are translated, and what is left out that should be counted: watermarks."""
        kept: list[Event] = []
        left_out: list[Lossy] = []
        for event in events:
            commit_ts = event.source.tso
            if commit_ts < self.since_commit_ts or (
                self.before_commit_ts is not None and commit_ts >= self.before_commit_ts
            ):
                continue
            if isinstance(event, Watermark) and not self.watermarks:
                left_out.append(Lossy.WATERMARK)
            else:
                kept.append(event)
        return kept, left_out


class _Lane(msgspec.Struct, frozen=True):
    """A source partition, where its records go if they keep it, and how the values of their `SOURCE_HEADER`
    begin.
    """

    topic: str
    partition: int
    target_topic: str
    target_partitions: tuple[int, ...]
    mark_prefix: bytes


class State(NamedTuple):
    """What a translator remembers between records."""

    catalog: Catalog
    gate: WatermarkGate | None


class Translator:
    """Translates records of one protocol into another, one after the other.

    `source` and `target` are codec names (`relay formats` lists them), the options are the producers' own, by
    name. `topic` is the target topic, where `{topic}` stands for the source's; `partitions` is the number of
    target partitions, None to keep the partition of the source. `selection` says which events are translated;
    what is left out still teaches the catalogue.
    """

    def __init__(  # noqa: PLR0913 - what makes a route
        self,
        source: str,
        target: str,
        source_options: Mapping[str, str] | None = None,
        target_options: Mapping[str, str] | None = None,
        *,
        topic: str = "{topic}",
        partitions: int | None = None,
        selection: Selection | None = None,
    ) -> None:
        problems: list[Problem] = []
        parsed = []
        for name, given, path in ((source, source_options, "from"), (target, target_options, "to")):
            try:
                codec = codec_named(name, path)
                parsed.append((codec, parse_options(codec, given or {}, f"{path}.option", SIDES[path])))
            except ConfigError as error:
                problems += error.problems
        if len(parsed) > 1:
            problems += [
                problem._replace(path=f"to.option.{problem.path}")
                for problem in parsed[1][1].writing_problems()
            ]
        if problems:
            raise ConfigError(problems)
        (source_codec, decode_options), (target_codec, encode_options) = parsed
        self.source, self.target = source_codec, target_codec
        encoder = target_codec.encoder(encode_options)
        self._decode = source_codec.decoder(decode_options).decode
        self._prepare, self._encode = encoder.prepare, encoder.encode
        self._router = Router(topic, partitions, ddl_everywhere=target_codec.ddl_everywhere)
        self._gate = None if partitions is None else WatermarkGate()
        self._strict = encode_options.strict
        self._selection = selection
        carried = source_codec.decodes.watermark and target_codec.encodes(encode_options).watermark
        self._passes_watermarks = carried and (selection is None or selection.watermarks)
        self._provided: dict[str, bytes] = {}
        # Of the last record; mostly the next one's, too.
        self._lane: _Lane | None = None
        #: The claim-check storages that are configured, by side (`from`, `to`); the URIs may hold secrets.
        self.storages = {
            side: options.claim_check_storage_uri
            for side, options in (("from", decode_options), ("to", encode_options))
            if isinstance(options, LargeMessageOptions) and options.claim_check_storage_uri
        }
        self.catalog = Catalog()
        self._events: dict[Op | type[Event], int] = dict.fromkeys(_KINDS, 0)
        #: Translated rows and DDL by table and kind (as `kind_of` names it); counted only if somebody puts a
        #: Counter here.
        self.tables: Counter[tuple[TableId, str]] | None = None
        self._lossy: dict[Lossy, int] = dict.fromkeys(Lossy, 0)

    def translate(self, record: ConsumerRecord) -> list[ProducerRecord]:
        """Give the target's records for one source record, in order; none if there is nothing to say.

        All or nothing: after a DecodeError, EncodeError or Need the translator is as it was, and the call may
        be repeated.
        """
        lossy: list[Lossy] = []
        left_out: Sequence[Lossy] = ()
        decode = self._decode_with_provided if self._provided else self._decode
        events, catalog = decode(record, self.catalog, lossy)
        if self._selection is not None:
            events, left_out = self._selection.of(events)
        if self._prepare is not None:
            events = self._prepare(events)
        gate, lane = self._gate, self._lane
        if lane is None or record.partition != lane.partition or record.topic != lane.topic:
            lane = self._lane = self._lane_of(record)
        if gate is None:
            # Rows stay in their partitions: what `Router.group` says then, without the price of asking it.
            groups: Iterable[Group] = ((lane.target_topic, lane.target_partitions, events),)
        else:
            events, gate = gate.after(events, record)
            groups = self._router.group(events, record)
        out: list[ProducerRecord] = []
        for topic, partitions, group in groups:
            for payload in self._encode(group, record, lossy):
                for partition in partitions:
                    mark = SOURCE_HEADER, b"%b%d/%d" % (lane.mark_prefix, record.offset, len(out))
                    headers = (*record.headers, mark) if record.headers else (mark,)
                    out.append(
                        ProducerRecord(
                            topic,
                            partition,
                            record.timestamp_ms,
                            payload.key,
                            payload.value,
                            headers,
                            payload.blobs,
                        )
                    )
        if self._strict:
            self._refuse_losses(lossy)
        self._count(events, [*lossy, *left_out] if left_out else lossy)
        self.catalog, self._gate = catalog, gate
        return out

    def inspect(self, record: ConsumerRecord) -> list[Event]:
        """Decode one record and give its canonical events, without translating them. All or nothing, like
        `translate`.
        """
        lossy: list[Lossy] = []
        decode = self._decode_with_provided if self._provided else self._decode
        events, self.catalog = decode(record, self.catalog, lossy)
        for what in lossy:
            self._lossy[what] += 1
        return events

    def learn(self, record: ConsumerRecord) -> None:
        """Take from a record what it says about tables, and nothing else; for records that a schema history
        has kept.

        Raises DecodeError, Need.
        """
        decode = self._decode_with_provided if self._provided else self._decode
        _, self.catalog = decode(record, self.catalog, [])

    def expect_partitions(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Name all source partitions (topic, number), so that no watermark passes before each of them has
        reached it.

        It matters only where rows are spread anew; without it only the partitions that were seen count.
        """
        if self._gate is not None:
            self._gate = WatermarkGate(dict.fromkeys(partitions) | self._gate.reached, self._gate.passed)

    @property
    def needs_all_partitions(self) -> bool:
        """Whether watermarks are right only if this translator sees every partition of the source: rows are
        spread anew.
        """
        return self._gate is not None and self._passes_watermarks

    @property
    def state(self) -> State:
        """All that a record may leave behind for later ones. A value: `restore` goes back to it as often as
        needed.
        """
        return State(self.catalog, self._gate)

    def restore(self, state: State) -> None:
        """Go back to where `state` was taken, to translate the records after it again."""
        self.catalog, self._gate = state

    def provide(self, need: Need, data: bytes) -> None:
        """Give what a call asked for by raising `need`; it is for the next call only, and for those that
        raise further needs.
        """
        self._provided[need.name] = data

    def _decode_with_provided(
        self, record: ConsumerRecord, catalog: Catalog, lossy: list[Lossy]
    ) -> tuple[list[Event], Catalog]:
        """Decode the record with what was provided beside the blobs that it came with."""
        provided, self._provided = self._provided, {}
        try:
            return self._decode(
                msgspec.structs.replace(record, blobs={**provided, **(record.blobs or {})}), catalog, lossy
            )
        except Need:
            self._provided = provided
            raise

    @property
    def events(self) -> Counter[str]:
        """How many events have been translated, by kind: `insert`, `update`, `delete`, `read`,
        `schema-change`, `watermark`.
        """
        return Counter({_KINDS[kind]: count for kind, count in self._events.items() if count})

    @property
    def lossy(self) -> Counter[Lossy]:
        """What could not be carried, by kind."""
        return Counter({what: count for what, count in self._lossy.items() if count})

    def _lane_of(self, record: ConsumerRecord) -> _Lane:
        topic, partition = record.topic, record.partition
        return _Lane(
            topic, partition, self._router.topic_of(record), (partition,), f"{topic}/{partition}/".encode()
        )

    def _refuse_losses(self, lossy: list[Lossy]) -> None:
        """What `strict` says; what was left out on request is no loss."""
        if not INFORMATIONAL.issuperset(lossy):
            what = ", ".join(sorted(set(lossy) - INFORMATIONAL))
            reason = f"the route would lose: {what}; the target option strict=false accepts and counts it"
            raise NotRepresentable(self.target.name, "", reason)

    def _count(self, events: list[Event], lossy: list[Lossy]) -> None:
        lost, counts = self._lossy, self._events
        for what in lossy:
            lost[what] += 1
        for event in events:
            counts[event.op if isinstance(event, RowChange) else type(event)] += 1
        if self.tables is not None:
            self.tables.update(
                (event.table, kind_of(event))
                for event in events
                if isinstance(event, RowChange | SchemaChange)
            )


_KINDS: dict[Op | type[Event], str] = {
    Op.INSERT: "insert",
    Op.UPDATE: "update",
    Op.DELETE: "delete",
    Op.READ: "read",
    SchemaChange: "schema-change",
    Watermark: "watermark",
    TransactionMark: "transaction-mark",
    Heartbeat: "heartbeat",
}


def kind_of(event: Event) -> str:
    """The event's name in counters: `insert`, `update`, `delete`, `read` for rows, else the class in words."""
    return _KINDS[event.op if isinstance(event, RowChange) else type(event)]


__all__ = ["PROTOCOLS", "SOURCE_HEADER", "Selection", "State", "Translator", "kind_of"]
