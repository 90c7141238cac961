"""Target topics that are known only when their tables are: checked, and created, when first needed.

The rules are those of the start (`relay.topics.startup`). The topics of a round are requested together: a
first read of thousands of tables would wait for each otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from relay.config import Config
from relay.io.kafka.admin import TopicAdmin, TopicInfo
from relay.io.kafka.clients import Brokers
from relay.io.kafka.ports import Undelivered
from relay.io.kafka.sizes import DEFAULT_LIMIT_BYTES
from relay.io.logs import Log
from relay.model.errors import BrokerUnavailable
from relay.routing.topic_names import TOPIC
from relay.topics.plan import RequiredTopic, missing, problems, target_topic, warnings
from relay.topics.startup import Topics, WrittenTopics, existed, usable_topics

#: Maximum number of topics that are checked and created in one request.
_TOGETHER = 500


class TableTopics:
    """The target topics of tables.

    `written`: the limits of every topic that is written; it grows. `usable`: the topics that were checked,
    and can be written. `partitions_of`: over how many partitions a topic's rows are spread, None for those of
    the source. `warn`: receives each warning, which is also logged.
    """

    def __init__(
        self,
        config: Config,
        topics: Topics,
        target: Brokers,
        log: Log,
        partitions_of: Callable[[str], int | None],
        *,
        warn: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._config, self._admin, self._log = config, TopicAdmin(target), log
        self._sources, self._partitions_of, self._warn = dict(topics.sources), partitions_of, warn
        # Their tables may come from every source topic.
        self._shared = [
            template.pattern(())
            for template, _ in config.templates
            if template.is_by_table and TOPIC not in template.fields
        ]
        self._found: dict[str, TopicInfo] = dict(topics.by_table)
        self.written = WrittenTopics(topics.limits, topics.compacted)
        self._smallest = min(self.written.limits.values(), default=DEFAULT_LIMIT_BYTES)
        # The start has checked these, and checks them again after a failure.
        self._fixed = frozenset(topics.target_partitions)
        self.usable: set[str] = set(self._fixed)
        # Those that have been usable in this run.
        self._once_usable: set[str] = set()

    def read_topics(self, added: Topics) -> None:
        """Note more source topics, whose fixed target topics were checked."""
        self._sources |= added.sources
        self._fixed |= added.target_partitions.keys()
        self.usable |= self._fixed

    def forget(self) -> None:
        """Check every topic again before it is written: some may be gone."""
        self._found.clear()
        self.usable.clear()
        self.usable |= self._fixed

    async def ensure(self, sources: Mapping[str, str]) -> None:
        """Ensure that topics exist and can hold their records. `sources`: the source topic of each.

        Raises TopicUnusable; Undelivered if no broker answers, or if the sink must be replaced, since its
        batches are larger than one of the topics takes.
        """
        config = self._config
        wanted = [self._required(name, source) for name, source in sources.items() if name not in self.usable]
        known = [each for each in wanted if each.name in self._found]
        wanted = [each for each in wanted if each.name not in self._found]
        known_to_fail = [each for each in known if next(problems(each, self._found[each.name], config), None)]
        wanted += known_to_fail  # partitions may have been added since
        self._take([each for each in known if each not in known_to_fail], self._found)
        for at in range(0, len(wanted), _TOGETHER):
            await self._look([*wanted[at : at + _TOGETHER]])
        self._check_smallest()

    def _required(self, name: str, source: str) -> RequiredTopic:
        """Return the requirements of a topic; a new one is made for every source topic that may fill it."""
        spread = self._partitions_of(name) or 0
        is_shared = any(pattern.fullmatch(name) for pattern in self._shared)
        sources = tuple(dict.fromkeys((source, *self._sources))) if is_shared else (source,)
        required = target_topic(self._config, name, sources, spread, self._sources)
        if spread or not is_shared:
            return required
        own = target_topic(self._config, name, (source,), spread, self._sources)
        return msgspec.structs.replace(
            required, partitions=own.partitions, why=own.why, partitions_if_new=required.partitions
        )

    async def _look(self, wanted: list[RequiredTopic]) -> None:
        try:
            await self._refuse_deleted(each for each in wanted if each.name in self._once_usable)
            target, created = await usable_topics(wanted, self._config, self._admin)
        except BrokerUnavailable as error:
            raise Undelivered(str(error), retriable=True) from error
        self._take(wanted, target.found)
        if created:
            self._log.info("topics.created", topics=list(created))

    async def _refuse_deleted(self, wanted: Iterable[RequiredTopic]) -> None:
        """Raise Undelivered if a topic was deleted while relay was running: relay waits until it is back."""
        by_name = {each.name: each for each in wanted}
        seen = await self._admin.look(by_name)
        deleted = sorted(by_name.keys() - seen.found.keys() - seen.unusable.keys())
        if deleted:
            reason = missing(existed(by_name[deleted[0]]), self._admin.servers)
            self._log.rate_limited("topics.unusable", deleted[0], reason=reason)
            raise Undelivered(reason, retriable=True)

    def _take(self, wanted: Iterable[RequiredTopic], found: Mapping[str, TopicInfo]) -> None:
        for each in wanted:
            info = found[each.name]
            self.written.update(WrittenTopics.of({each.name: info}))
            self.usable.add(each.name)
            self._once_usable.add(each.name)
            for warning in warnings(each, info, self._sources, self._config):
                self._log.rate_limited("topics.warning", "by-table", message=warning)
                self._warn(warning)

    def _check_smallest(self) -> None:
        """Have the sink replaced when a topic's limit is lower than all earlier ones."""
        smallest = min(self.written.limits.values(), default=DEFAULT_LIMIT_BYTES)
        before, self._smallest = self._smallest, smallest
        if smallest < before:
            reason = f"a topic accepts {smallest} bytes, less than the others: batches become smaller"
            raise Undelivered(reason, retriable=True)
