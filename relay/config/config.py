"""The whole configuration: its tables, and settings derived from several of them.

A new table is one more class in `relay.config.keys` and one more field of `Config`.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

from pydantic import PrivateAttr
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from relay.codecs import codec_named
from relay.codecs.given_options import parse_options
from relay.codecs.losses import Keys
from relay.codecs.row_keys import keys_of
from relay.config.addresses import same_brokers
from relay.config.keys import (
    Backfill,
    DeadLetterPayload,
    Delivery,
    DeliveryMode,
    Errors,
    Http,
    LimitsConfig,
    Logging,
    PartitionBy,
    RouteConfig,
    SchemaHistory,
    SourceConfig,
    Target,
    Tracing,
    Wait,
)
from relay.config.overrides import BETWEEN, PREFIX, FlagSource, ignored_variables
from relay.core.dead_letters import route_name
from relay.core.error_policies import Policy
from relay.routing import TopicRule, partitions_by_name, templates_of
from relay.routing.partitioning import Partitioning
from relay.routing.topic_names import TopicTemplate
from relay.text.expressions import is_whole_match

# The table is named [schema], which is also the name of a deprecated method of pydantic's models.
warnings.filterwarnings("ignore", message='Field name "schema" in "Config" shadows', category=UserWarning)

_HASH_DIGITS = 8


class FixedTopic(NamedTuple):
    """A target topic that does not depend on tables.

    `sources`: the source topics of its records. `partitions`: over how many partitions they are spread, 0 for
    the source's.
    """

    sources: tuple[str, ...]
    partitions: int


class Config(BaseSettings):
    """The whole configuration."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter=BETWEEN,
        extra="forbid",
        frozen=True,
        enable_decoding=False,
        hide_input_in_errors=True,
    )

    route: RouteConfig
    source: SourceConfig
    target: Target
    delivery: Delivery = Delivery()
    errors: Errors = Errors()
    schema: SchemaHistory = SchemaHistory()  # type: ignore[assignment]  # hides a method that pydantic has given up
    limits: LimitsConfig = LimitsConfig()
    http: Http = Http()
    tracing: Tracing = Tracing()
    log: Logging = Logging()
    backfill: Backfill = Backfill()

    _file: str = PrivateAttr("")

    @property
    def file(self) -> str:
        """Return the file that the configuration was read from, as it was named; "" for none."""
        return self._file

    def read_from(self, file: str) -> Config:
        """Return the same configuration, as that of a file."""
        found = self.model_copy()
        found._file = file  # noqa: SLF001 - a copy of this object
        return found

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the library's signature
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the library's signature
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Order the sources: flags win over the environment, and the environment over the file.

        The file is passed as arguments.
        """
        if (ignored := {name.lower() for name in ignored_variables.get()}) and isinstance(
            env_settings, EnvSettingsSource
        ):
            env_settings.env_vars = {
                name: value for name, value in env_settings.env_vars.items() if name.lower() not in ignored
            }
        return FlagSource(settings_cls), env_settings, init_settings

    @property
    def target_servers(self) -> str:
        """Return the brokers of the target topics."""
        return self.target.bootstrap_servers or self.source.bootstrap_servers

    @property
    def is_one_cluster(self) -> bool:
        """Return whether one transaction can hold both the target's records and the source's offsets."""
        return not self.target.bootstrap_servers or same_brokers(
            self.source.bootstrap_servers, self.target.bootstrap_servers
        )

    @property
    def dead_letter_topic(self) -> str:
        """Return the topic of dead letters; "" if there is none."""
        return self.errors.dead_letter_topic.replace("{group_id}", _in_topic_names(self.source.group_id))

    @property
    def has_dead_letters(self) -> bool:
        """Return whether a policy writes dead letters."""
        return Policy.DEAD_LETTER in self.errors.by_class.values()

    @property
    def dead_letters_have_payload(self) -> bool:
        """Return whether dead letters have key, value and headers of their originals."""
        payload = self.errors.dead_letter_payload
        if payload is DeadLetterPayload.AUTO:
            return not self.route.hides_values
        return payload is DeadLetterPayload.ORIGINAL

    @property
    def history_topic(self) -> str:
        """Return the topic that keeps the table definitions, empty for none."""
        return self.schema.history_topic.replace("{group_id}", _in_topic_names(self.source.group_id))

    @property
    def waits_for_ddl(self) -> bool:
        """Return whether rows wait for DDL in another partition: partition 0 of the topic in `ddl_topics`.

        By default they wait if the source's DDL is only in that partition and there is a schema history,
        which is needed to know the DDL that other instances have read.
        """
        if self.schema.wait_for_ddl is not Wait.AUTO:
            return self.schema.wait_for_ddl is Wait.TRUE
        source = codec_named(self.route.from_, "from")
        return bool(self.history_topic) and source.sends_ddl_once

    @property
    def ddl_topics(self) -> dict[str, str]:
        """Return the source topic that has the DDL of the rows of each source topic."""
        source = codec_named(self.route.from_, "from")
        return source.ddl_topics(self.source.topics, self.route.from_options)

    @property
    def has_row_keys(self) -> bool:
        """Return whether the Kafka keys of rows identify the rows. Raises ConfigError."""
        target = codec_named(self.route.to, "to")
        options = parse_options(target, self.route.to_options, "to.option")
        return keys_of(target, options) is Keys.ROW or any(rule.key for rule in self.target.topics)

    @property
    def transactional_id(self) -> str:
        """Return the id that fences an older instance of this shard."""
        return f"{self.delivery.transactional_id or self.source.group_id}-{self.delivery.shard}"

    @property
    def is_exactly_once(self) -> bool:
        """Return whether offsets are committed in transactions, together with the records."""
        return self.delivery.mode is DeliveryMode.EXACTLY_ONCE

    @property
    def uses_progress_topic(self) -> bool:
        """Return whether offsets are committed to the progress topic, not to the group."""
        return self.is_exactly_once and not self.is_one_cluster

    def as_shard(self, number: int, count: int) -> Config:
        """Return the configuration of one shard of `count`, numbered from 0, as a single process."""
        changes = {"processes": 1, "shard": number, "shards": count}
        return self.model_copy(update={"delivery": self.delivery.model_copy(update=changes)})

    def of_process(self, number: int) -> Config:
        """Return the configuration of one of `processes`, numbered from 0.

        It is that of a single process, as a member of the group or a separate shard, without HTTP.
        """
        delivery, name = self.delivery, self.source.group_instance_id
        source: dict[str, Any] = {"group_instance_id": name and f"{name}-{number}"}
        for key in ("max_records_per_second", "max_bytes_per_second"):
            limit = getattr(self.source, key)
            source[key] = limit and max(1, limit // delivery.processes)
        shard, count = delivery.shard, delivery.shards
        if self.is_exactly_once:
            # Together they read the partitions that the instance would read without them.
            shard, count = shard + number * count, count * delivery.processes
        return self.as_shard(shard, count).model_copy(
            update={
                "source": self.source.model_copy(update=source),
                "http": self.http.model_copy(update={"port": 0}),
            }
        )

    @property
    def of_processes(self) -> list[Config]:
        """Return the configuration of each process that runs: this one itself if there is only one."""
        count = self.delivery.processes
        return [self.of_process(number) for number in range(count)] if count > 1 else [self]

    def with_topics(self, names: Iterable[str]) -> Config:
        """Return the configuration with the topics that were found for `topics_pattern`."""
        return self.model_copy(
            update={"source": self.source.model_copy(update={"topics": tuple(sorted(set(names)))})}
        )

    def reads(self, topic: str) -> bool:
        """Return whether the route reads a topic of the source's brokers, if it exists.

        With `topics_pattern`, topics that the route may write are left out: it would read its own output.
        """
        return self.source.names_topic(topic) and not (self.source.topics_pattern and self.may_write(topic))

    def may_write(self, topic: str) -> bool:
        """Return whether a topic of the source's brokers may be one that the route writes.

        With `topics_pattern`. Existing or not: a name must not become a target after it was read.
        """
        return self.is_one_cluster and self.has_target_name(topic)

    def has_target_name(self, topic: str) -> bool:
        """Return whether a topic has a name that the route may write, for topics that the pattern matches."""
        return any(is_whole_match(each, topic) for each in self.target_expressions)

    @property
    def target_expressions(self) -> list[str]:
        """Return expressions for the names that the route may write, for topics that the pattern matches."""
        names = f"(?:{self.source.topics_pattern})"
        own = map(re.escape, self.own_topics.values())
        return [*own, *(template.expression(names) for template, _ in self.templates)]

    @property
    def target_topics(self) -> dict[str, str]:
        """Return source topic → target topic where no rule matches; may hold `{database}` and `{table}`."""
        return {topic: self.target.topic.replace("{topic}", topic) for topic in self.source.topics}

    @property
    def templates(self) -> list[tuple[TopicTemplate, int | None]]:
        """Return the templates of target topics, each with its number of partitions, None for the source's.

        Raises ConfigError.
        """
        by = partitioning(self.target.partition_by)
        return templates_of(self.target.topic, self.target_partitions, by, self.topic_rules)

    def partitions_of(self, topic: str) -> int | None:
        """Return the number of partitions over which rows are spread in a topic of a table, by its name.

        None if they keep the source's.
        """
        by, target = partitioning(self.target.partition_by), self.target
        sources, rules = self.source.topics, self.topic_rules
        return partitions_by_name(topic, sources, target.topic, self.target_partitions, by, rules)

    @property
    def has_table_topics(self) -> bool:
        """Return whether some target topics are known only when their tables are."""
        return any(template.is_by_table for template, _ in self.templates)

    @property
    def fixed_topics(self) -> dict[str, FixedTopic]:
        """Return the target topics that do not depend on tables, by name. Raises ConfigError."""
        found: dict[str, FixedTopic] = {}
        for template, partitions in self.templates:
            for topic in self.source.topics if not template.is_by_table else ():
                name = template.of_topic(topic)
                before = found.get(name, FixedTopic((), 0))
                sources = tuple(dict.fromkeys([*before.sources, topic]))
                found[name] = FixedTopic(sources, max(before.partitions, partitions or 0))
        return found

    @property
    def own_topics(self) -> dict[str, str]:
        """Return the topics that relay keeps besides the target's, by their keys."""
        own = {
            "errors.dead_letter_topic": self.dead_letter_topic,
            "schema.history_topic": self.history_topic,
        }
        if self.uses_progress_topic:
            own["delivery.progress_topic"] = self.delivery.progress_topic
        return {key: name for key, name in own.items() if name}

    @property
    def reserved_topics(self) -> frozenset[str]:
        """Return the topics that no table may have.

        These are relay's own, and those that it reads from the same brokers.
        """
        read = self.source.topics if self.is_one_cluster else ()
        return frozenset([*self.own_topics.values(), *read])

    @property
    def target_partitions(self) -> int | None:
        """Return the number of target partitions that are written, None to keep the source's partition."""
        return self.target.partitions or None

    @property
    def route_name(self) -> str:
        """Return this route's name in dead letters: consumer group, protocols and target topic.

        Routes that read the same records and share a dead-letter topic differ in one of these.
        """
        route = self.route
        return route_name(f"{self.source.group_id} {route.from_} to {route.to} {self.target.topic}")

    def is_corrected(self, route: str) -> bool:
        """Return whether a name in dead letters is that of this route before `from` was changed.

        One group writes one target topic in one format: its input then is its input now.
        """
        before = route_name(f"{self.source.group_id} ")
        behind = route_name(f" to {self.route.to} {self.target.topic}")
        if not (route.startswith(before) and route.endswith(behind)):
            return False
        protocol = route[len(before) : -len(behind)]
        return protocol != self.route.from_ and bool(protocol) and " " not in protocol

    @property
    def topic_rules(self) -> list[TopicRule]:
        """Return the rules for topics in the translator's form."""
        return [
            TopicRule(
                rule.match, rule.topic, rule.partitions or None, partitioning(rule.partition_by), rule.key
            )
            for rule in self.target.topics
        ]


def partitioning(choice: PartitionBy) -> Partitioning | None:
    """Return a choice in the translator's form."""
    return None if choice is PartitionBy.AUTO else Partitioning(choice)


def _in_topic_names(group: str) -> str:
    """Return a group's name in a form for topic names.

    Invalid characters become hyphens, and a hash keeps groups apart.
    """
    name = re.sub(r"[^A-Za-z0-9._-]", "-", group)
    digest = hashlib.sha256(group.encode(errors="surrogatepass")).hexdigest()
    return name if name == group else f"{name}-{digest[:_HASH_DIGITS]}"
