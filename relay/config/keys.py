"""Tables of the configuration: keys, types, defaults. A new key is a line here and in config.example.toml."""

from __future__ import annotations

import datetime
import re
import tomllib
from collections import Counter
from enum import StrEnum
from typing import Annotated, Any, Final, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    SecretStr,
    model_validator,
)
from pydantic_settings import NoDecode

from relay.catalog.definitions import as_of
from relay.codecs.given_options import option_text
from relay.core.error_policies import ERROR_CLASSES, Policy
from relay.io.kafka.settings import Compression, Mechanism, SecurityProtocol, Start, endpoint_fault
from relay.io.log_text import LogFormat, LogLevel, LogSettings
from relay.model import limits
from relay.model.limits import DEDUPLICATE_ROWS, DEFAULT_LIMITS
from relay.rules.columns import ColumnAction, ColumnRule, action_of, hides_values
from relay.rules.rows import RowRule, UnknownBefore, unknown_before_of
from relay.rules.tables import MergedDdl, TableRule
from relay.text.durations import milliseconds_of, parse_duration, parse_timestamp
from relay.text.expressions import is_whole_match, name_expression


class DeliveryMode(StrEnum):
    """The delivery guarantee of a target topic after a crash.

    Repeats (`at-least-once`), or each record once (`exactly-once`).
    """

    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


class Watermarks(StrEnum):
    """The handling of watermarks when rows are repartitioned."""

    KEEP = "keep"
    DROP = "drop"


class PartitionBy(StrEnum):
    """How a row's target partition is chosen; see `relay.routing.partitioning.Partitioning`.

    AUTO: in a rule, the setting of [target]; else index-value if the number of partitions is set, or source
    if it is not.
    """

    AUTO = "auto"
    SOURCE = "source"
    INDEX_VALUE = "index-value"
    TABLE = "table"
    KEY = "key"


class End(StrEnum):
    """Where a backfill ends."""

    LATEST = "latest"
    OFFSETS = "offsets"
    TIMESTAMP = "timestamp"
    COMMIT_TS = "commit-ts"


class FileFormat(StrEnum):
    """The output of a run.

    Records, as Parquet with Kafka's columns (`parquet`) or as record files (`json-lines`); or for each table
    of the source a table of its rows (`rows`), in `rows_format`.
    """

    PARQUET = "parquet"
    JSON_LINES = "json-lines"
    ROWS = "rows"


class RowsFormat(StrEnum):
    """The format of tables of rows."""

    PARQUET = "parquet"
    DELTA = "delta"


class InputFormat(StrEnum):
    """The format of input files: as `FileFormat`, or as written by the storage sink of TiCDC."""

    PARQUET = "parquet"
    JSON_LINES = "json-lines"
    TICDC_STORAGE = "ticdc-storage"


class OutputLayout(StrEnum):
    """The folder names of a backfill's output: topic and partition, the day, or the table."""

    TOPIC = "topic"
    DATE = "date"
    TABLE = "table"


class OverBudget(StrEnum):
    """The action when more records fail than the budget of [errors] allows.

    relay ends before the next one that fails, or goes on with a failing check.
    """

    STOP = "stop"
    DEGRADE = "degrade"


class DeadLetterPayload(StrEnum):
    """Whether dead letters have key, value and headers of their originals.

    AUTO: unless a column rule hides values, which they would show.
    """

    AUTO = "auto"
    ORIGINAL = "original"
    OMITTED = "omitted"


class Wait(StrEnum):
    """Whether rows wait for DDL of partition 0; AUTO: if the source's DDL is only in that partition."""

    AUTO = "auto"
    TRUE = "true"
    FALSE = "false"


def _split(given: object) -> object:
    """Read a list from one text, as it comes from the environment: `a, b`."""
    return [part.strip() for part in given.split(",") if part.strip()] if isinstance(given, str) else given


def _topic_rules(given: object) -> object:
    return _toml_list(given, '[{match = "shop.*", topic = "shop.{table}"}]')


def _column_rules(given: object) -> object:
    return _toml_list(given, '[{tables = ["shop.*"], columns = ["email"], action = "drop"}]')


def _row_rules(given: object) -> object:
    return _toml_list(given, '[{tables = ["shop.orders"], where = "status == \'paid\'"}]')


def _table_rules(given: object) -> object:
    return _toml_list(given, '[{from = "shop\\\\.orders", to = "archive.orders"}]')


def _toml_list(given: object, example: str) -> object:
    """Read a list of tables from one text, as it comes from the environment: that of TOML."""
    if not isinstance(given, str):
        return given
    try:
        return tomllib.loads(f"value = {given}")["value"]
    except (ValueError, RecursionError):
        raise ValueError(f"is not a TOML list, such as {example}") from None


def _action(given: object) -> object:
    """Read the name of an action. Raises ValueError with a hint."""
    return action_of(given) if isinstance(given, str) else given


def _unknown_before(given: object) -> object:
    """Read a value of `UnknownBefore`. Raises ValueError with a hint."""
    return unknown_before_of(given) if isinstance(given, str) else given


def _option_texts(given: object) -> object:
    """Convert codec options to texts, whatever their TOML type: each codec parses its own."""
    if not isinstance(given, dict):
        return given
    return {str(name).replace("_", "-"): option_text(value) for name, value in given.items()}


def _normalized_time(given: object) -> object:
    """Read a point in time, a TOML value or text, without a zone in UTC; kept as text, empty for none."""
    if isinstance(given, datetime.date):
        return parse_timestamp(given.isoformat()).isoformat()
    return parse_timestamp(given).isoformat() if isinstance(given, str) and given else given


def _seconds(given: object) -> object:
    """Read a duration as seconds; a number is seconds already."""
    if isinstance(given, str) and not _NUMBER.fullmatch(given.strip()):
        return parse_duration(given).total_seconds()
    return given


def _milliseconds(given: object) -> object:
    """Read a duration as whole milliseconds; a number is milliseconds already."""
    seconds = _seconds(given)
    return seconds if seconds is given or not isinstance(seconds, float) else round(seconds * 1000)


def _texts(given: object) -> object:
    """Convert topic settings to texts, whatever their TOML type."""
    return (
        {str(name): option_text(value) for name, value in given.items()} if isinstance(given, dict) else given
    )


def _path(given: str) -> str:
    if "\0" in given:
        raise ValueError("contains a NUL character, which paths cannot have")
    return given


def _as_of(given: str) -> str:
    """Refuse a text that is no point in time of a definition."""
    as_of(given)
    return given


def _topic_expression(given: str) -> str:
    """Return a pattern of topics without anchors and names of groups. Raises ValueError for other syntax."""
    return name_expression(given, "patterns of topics") if given else given


#: Texts passed to pydantic as a number: it reports the problem with it.
_NUMBER: Final = re.compile(r"[-+]?[0-9_.]*(e[-+]?[0-9]+)?|[-+]?(inf|infinity|nan)", re.IGNORECASE)
_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1

Text = Annotated[str, Field(min_length=1)]
FilePath = Annotated[str, AfterValidator(_path)]
Options = Annotated[dict[str, str], BeforeValidator(_option_texts)]
TopicSettings = Annotated[dict[str, str], BeforeValidator(_texts)]
Names = Annotated[tuple[Text, ...], NoDecode, BeforeValidator(_split)]
TopicNames = Annotated[tuple[Text, ...], NoDecode, BeforeValidator(_split), Field(min_length=1)]
NamePattern = Annotated[str, AfterValidator(_topic_expression)]
Timestamp = Annotated[str, BeforeValidator(_normalized_time)]
Port = Annotated[int, Field(ge=0, le=65_535)]
#: Numbers that go to the brokers unchanged, in 32 bits with a sign.
WirePositive = Annotated[int, Field(gt=0, le=_INT32_MAX)]
WireNonNegative = Annotated[int, Field(ge=0, le=_INT32_MAX)]
Seconds = Annotated[float, BeforeValidator(_seconds), Field(gt=0, le=86_400, allow_inf_nan=False)]
WireMilliseconds = Annotated[int, BeforeValidator(_milliseconds), Field(gt=0, le=_INT32_MAX)]

#: `topic/0`, with numbers as Kafka writes them: `int` also takes digits of other scripts, and leading zeros.
_NAMED_PARTITION: Final = re.compile(r"(.+)/(?:0|[1-9][0-9]{0,9})", re.DOTALL)


class _ConfigTable(BaseModel):
    # pydantic's messages about a table must not quote it: it holds passwords.
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=False, hide_input_in_errors=True)


class ColumnRuleConfig(_ConfigTable):
    """A column rule; see `relay.rules.columns.rules.ColumnRule`."""

    tables: Names
    columns: Names
    action: Annotated[ColumnAction, BeforeValidator(_action)]
    value: str | None = None
    first: int = 0
    last: int = 0
    length: int | None = None
    name: str = ""

    @property
    def rule(self) -> ColumnRule:
        """Return the rule in the translator's form."""
        return ColumnRule(**dict(self))


class RowRuleConfig(_ConfigTable):
    """A row rule; see `relay.rules.rows.rules.RowRule`."""

    tables: Names
    where: str = ""
    ignore_updates_of: Names = ()
    unknown_before: Annotated[UnknownBefore, BeforeValidator(_unknown_before)] = UnknownBefore.SELECTED

    @property
    def rule(self) -> RowRule:
        """Return the rule in the translator's form."""
        return RowRule(**dict(self))


class TableRuleConfig(_ConfigTable):
    """A table rule; see `relay.rules.tables.rules.TableRule`."""

    from_: Text = Field(alias="from")
    to: Text
    merge: bool = False
    ddl: MergedDdl = MergedDdl.ALL
    add: dict[str, str] = {}

    @property
    def rule(self) -> TableRule:
        """Return the rule in the translator's form."""
        added = tuple(self.add.items())
        return TableRule(source=self.from_, target=self.to, merge=self.merge, ddl=self.ddl, add=added)


class RouteConfig(_ConfigTable):
    """The protocols of source and target, the options of both, the selection of events, rules.

    `hash_key`: the secret of rules that hash values, given directly, best in the environment, or in a file.
    """

    from_: Text = Field(alias="from")
    to: Text
    from_options: Options = {}
    to_options: Options = {}
    include_tables: Names = ()
    exclude_tables: Names = ()
    include_events: Names = ()
    exclude_events: Names = ()
    rows: Annotated[tuple[RowRuleConfig, ...], NoDecode, BeforeValidator(_row_rules)] = ()
    columns: Annotated[tuple[ColumnRuleConfig, ...], NoDecode, BeforeValidator(_column_rules)] = ()
    hash_key: SecretStr = SecretStr("")
    hash_key_file: FilePath = ""
    tables: Annotated[tuple[TableRuleConfig, ...], NoDecode, BeforeValidator(_table_rules)] = ()
    deduplicate: bool = False
    deduplicate_rows: PositiveInt = DEDUPLICATE_ROWS

    @model_validator(mode="after")
    def _has_one_hash_key(self) -> Self:
        if self.hash_key.get_secret_value() and self.hash_key_file:
            raise ValueError("hash_key and hash_key_file are both given: keep one")
        return self

    @property
    def column_rules(self) -> list[ColumnRule]:
        """Return the column rules in the translator's form."""
        return [rule.rule for rule in self.columns]

    @property
    def row_rules(self) -> list[RowRule]:
        """Return the row rules in the translator's form."""
        return [rule.rule for rule in self.rows]

    @property
    def table_rules(self) -> list[TableRule]:
        """Return the table rules in the translator's form."""
        return [rule.rule for rule in self.tables]

    @property
    def hides_values(self) -> bool:
        """Return whether values of some columns do not reach the target."""
        return hides_values(self.column_rules)


#: Keys of `SecurityConfig` that have no effect without SASL.
_CREDENTIALS: Final = (
    *("username", "password", "password_file", "token_file", "token_endpoint"),
    *("client_id", "client_secret", "client_secret_file"),
)
#: Keys of one mechanism only; `kerberos_service_name` has a default.
_MECHANISM_OF_KEY: Final = {
    "aws_region": Mechanism.AWS_MSK_IAM,
    "aws_profile": Mechanism.AWS_MSK_IAM,
    "aws_role_arn": Mechanism.AWS_MSK_IAM,
    "keytab_file": Mechanism.GSSAPI,
    "kerberos_principal": Mechanism.GSSAPI,
    "kerberos_domain_name": Mechanism.GSSAPI,
}


class SecurityConfig(_ConfigTable):
    """TLS and SASL of one cluster.

    A secret is given directly, best in the environment, or in a separate file.
    """

    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    ca_file: FilePath = ""
    certificate_file: FilePath = ""
    key_file: FilePath = ""
    key_password: SecretStr = SecretStr("")
    key_password_file: FilePath = ""
    mechanism: Mechanism = Mechanism.PLAIN
    username: str = ""
    password: SecretStr = SecretStr("")
    password_file: FilePath = ""
    token_file: FilePath = ""
    token_endpoint: str = ""
    token_endpoint_allow_http: bool = False
    client_id: str = ""
    client_secret: SecretStr = SecretStr("")
    client_secret_file: FilePath = ""
    scope: str = ""
    aws_region: str = ""
    aws_profile: str = ""
    aws_role_arn: str = ""
    keytab_file: FilePath = ""
    kerberos_principal: str = ""
    kerberos_service_name: Text = "kafka"
    kerberos_domain_name: str = ""

    @model_validator(mode="after")
    def _has_required_keys(self) -> Self:
        """Find keys that contradict each other or are missing. Messages show no values."""
        for secret in ("key_password", "password", "client_secret"):
            if getattr(self, secret).get_secret_value() and getattr(self, f"{secret}_file"):
                raise ValueError(f"{secret} and {secret}_file are both given: keep one")
        if self.certificate_file and not self.key_file:
            raise ValueError("certificate_file needs key_file")
        if (self.ca_file or self.certificate_file) and not self.protocol.uses_tls:
            raise ValueError(
                "ca_file and certificate_file are for TLS: "
                f"set protocol to SSL or SASL_SSL, not {self.protocol}"
            )
        self._check_mechanism_keys()
        if self.protocol.uses_sasl:
            self._check_sasl()
        elif any(getattr(self, name) for name in _CREDENTIALS):
            raise ValueError(
                f"credentials are for SASL: set protocol to SASL_SSL or SASL_PLAINTEXT, not {self.protocol}"
            )
        return self

    def _check_mechanism_keys(self) -> None:
        for name, mechanism in _MECHANISM_OF_KEY.items():
            if getattr(self, name) and (not self.protocol.uses_sasl or self.mechanism is not mechanism):
                raise ValueError(f"{name} needs mechanism {mechanism} and a protocol with SASL")

    def _check_sasl(self) -> None:
        if self.mechanism is Mechanism.AWS_MSK_IAM:
            if self.protocol is not SecurityProtocol.SASL_SSL:
                raise ValueError(f"mechanism {self.mechanism} needs protocol SASL_SSL, not {self.protocol}")
        elif self.mechanism is Mechanism.OAUTHBEARER:
            self._check_oauthbearer()
        elif self.mechanism is not Mechanism.GSSAPI and not self._has_password:
            raise ValueError(f"mechanism {self.mechanism} needs username and password or password_file")

    @property
    def _has_password(self) -> bool:
        return bool(self.username and (self.password.get_secret_value() or self.password_file))

    def _check_oauthbearer(self) -> None:
        if bool(self.token_file) == bool(self.token_endpoint):
            raise ValueError("mechanism OAUTHBEARER needs one of token_file and token_endpoint")
        if not self.token_endpoint:
            return
        if not (self.client_id and (self.client_secret.get_secret_value() or self.client_secret_file)):
            raise ValueError("token_endpoint needs client_id and client_secret or client_secret_file")
        fault, hint = endpoint_fault(self.token_endpoint, allow_http=self.token_endpoint_allow_http)
        if fault:
            raise ValueError(f"token_endpoint {fault}: {hint}")


class SchemaRegistryConfig(_ConfigTable):
    """The address and credentials of a schema registry with Confluent's API; for protocols that need one.

    A secret is given directly, best in the environment, or in a separate file.
    """

    urls: Names = ()
    username: str = ""
    password: SecretStr = SecretStr("")
    password_file: FilePath = ""
    bearer_token: SecretStr = SecretStr("")
    bearer_token_file: FilePath = ""
    allow_http: bool = False
    ca_file: FilePath = ""
    certificate_file: FilePath = ""
    key_file: FilePath = ""
    timeout_seconds: Seconds = 10.0
    cache_dir: FilePath = ""

    @model_validator(mode="after")
    def _has_one_login(self) -> Self:
        """Find keys that contradict each other or are missing. Messages show no values."""
        for secret in ("password", "bearer_token"):
            if getattr(self, secret).get_secret_value() and getattr(self, f"{secret}_file"):
                raise ValueError(f"{secret} and {secret}_file are both given: keep one")
        has_password = bool(self.password.get_secret_value() or self.password_file)
        if has_password != bool(self.username):
            raise ValueError("username and password, or password_file, are given together")
        if self.username and (self.bearer_token.get_secret_value() or self.bearer_token_file):
            raise ValueError("username and bearer_token are both given: keep one")
        if bool(self.certificate_file) != bool(self.key_file):
            raise ValueError("certificate_file and key_file are given together")
        return self


class TargetSchemaRegistry(SchemaRegistryConfig):
    """The registry for the messages that are written. `register_schemas`: whether it may get new schemas."""

    register_schemas: bool = True


class SourceConfig(_ConfigTable):
    """The topics to read, the consumer group, and the fetch settings.

    Topics are named in `topics`, or all that `topics_pattern` matches are read, without those that
    `exclude_topics_pattern` matches. `Config.with_topics` puts the names that were found into `topics`.
    """

    bootstrap_servers: Text
    topics: TopicNames = ()
    topics_pattern: NamePattern = ""
    exclude_topics_pattern: NamePattern = ""
    metadata_max_age_ms: WireMilliseconds = 30_000
    group_id: Text
    group_instance_id: str = ""
    start: Start = Start.EARLIEST
    start_offsets: dict[str, NonNegativeInt] = {}
    start_timestamp: Timestamp = ""
    start_commit_ts: int = Field(default=0, ge=0, le=_INT64_MAX)
    fetch_max_bytes: WirePositive = 2_097_152
    max_partition_fetch_bytes: WirePositive = 262_144
    # Long polls of partitions without records delay the busy ones of the same broker; 20 s without records
    # count as a failure.
    fetch_max_wait_ms: Annotated[int, BeforeValidator(_milliseconds), Field(gt=0, le=10_000)] = 50
    max_records_per_second: int = Field(default=0, ge=0, le=_INT64_MAX)
    max_bytes_per_second: int = Field(default=0, ge=0, le=_INT64_MAX)
    session_timeout_ms: WireMilliseconds = 30_000
    rebalance_timeout_ms: WireMilliseconds = 60_000
    client_rack: str = ""
    security: SecurityConfig = SecurityConfig()
    schema_registry: SchemaRegistryConfig = SchemaRegistryConfig()

    @model_validator(mode="after")
    def _start_is_given(self) -> Self:
        keys: dict[Start, tuple[str, Any]] = {
            Start.OFFSETS: ("start_offsets", self.start_offsets),
            Start.TIMESTAMP: ("start_timestamp", self.start_timestamp),
            Start.COMMIT_TS: ("start_commit_ts", self.start_commit_ts),
        }
        for start, (key, given) in keys.items():
            if self.start is start and not given:
                raise ValueError(f'start = "{start}" needs {key}')
            if given and self.start is not start:
                raise ValueError(f'{key} needs start = "{start}"')
        if twice := [topic for topic, count in Counter(self.topics).items() if count > 1]:
            raise ValueError(f"topics: {twice[0]} is named twice")
        for name in self.start_offsets:
            if not self.has_partition(name):
                raise ValueError(
                    f'start_offsets: "{name}" is not the partition of a source topic, written "topic/0"'
                )
        return self

    def has_partition(self, name: str) -> bool:
        """Return whether this names a partition of a source topic, of any number: `topic/0`."""
        partition = _NAMED_PARTITION.fullmatch(name)
        return partition is not None and self.names_topic(partition[1])

    def names_topic(self, name: str) -> bool:
        """Return whether the configuration chooses this topic, by its name or with the pattern."""
        if not self.topics_pattern:
            return name in self.topics
        if self.exclude_topics_pattern and is_whole_match(self.exclude_topics_pattern, name):
            return False
        return is_whole_match(self.topics_pattern, name)

    @property
    def start_timestamp_ms(self) -> int | None:
        """Return the time to begin at, in milliseconds since 1970."""
        return _milliseconds_of(self.start_timestamp)


def _milliseconds_of(time: str) -> int | None:
    return milliseconds_of(parse_timestamp(time)) if time else None


class TopicRuleConfig(_ConfigTable):
    """The topic of tables that match `database.table`. Unset keys take the values of [target]."""

    match: Text
    topic: str = ""
    partitions: WireNonNegative = 0
    partition_by: PartitionBy = PartitionBy.AUTO
    key: Names = ()


class Target(_ConfigTable):
    """The topics to write, their partitions, and producer settings.

    `bootstrap_servers` "" is the source's; `partitions` 0: as in the source; `compression_level` 0: the
    default of `compression`. `topics`: rules, of which the first that matches a table counts.
    """

    topic: Text
    topics: Annotated[tuple[TopicRuleConfig, ...], NoDecode, BeforeValidator(_topic_rules)] = ()
    bootstrap_servers: str = ""
    partitions: WireNonNegative = 0
    partition_by: PartitionBy = PartitionBy.AUTO
    watermarks: Watermarks = Watermarks.KEEP
    compression: Compression = Compression.ZSTD
    compression_level: NonNegativeInt = 0
    max_batch_bytes: WirePositive = 900_000
    create_topics: bool = False
    create_replication_factor: int = Field(default=-1, ge=-1, le=32_767)
    create_settings: TopicSettings = {}
    security: SecurityConfig = SecurityConfig()
    schema_registry: TargetSchemaRegistry = TargetSchemaRegistry()

    @model_validator(mode="after")
    def _compression_has_the_level(self) -> Self:
        levels = self.compression.levels
        if self.compression_level and not levels:
            raise ValueError(f"compression_level: {self.compression} has no levels")
        if self.compression_level and self.compression_level not in levels:
            raise ValueError(f"compression_level: {self.compression} has levels from 1 to {levels[-1]}")
        return self


class Delivery(_ConfigTable):
    """The delivery guarantee, when offsets are committed, and how long relay waits."""

    mode: DeliveryMode = DeliveryMode.AT_LEAST_ONCE
    commit_interval_seconds: Seconds = 1.0
    transaction_interval_seconds: Seconds = 0.1
    transactional_id: str = ""
    progress_topic: str = "relay.progress"
    shards: PositiveInt = 1
    shard: NonNegativeInt = 0
    processes: int = Field(default=1, ge=1, le=256)
    delivery_timeout_seconds: Seconds = 60.0
    drain_timeout_seconds: Seconds = 20.0
    stall_timeout_seconds: Seconds = 300.0

    @property
    def transaction_timeout_seconds(self) -> float:
        """Return the maximum duration of an open transaction in seconds.

        It is longer than relay ever waits for acknowledgements, or the broker would abort a slow transaction;
        at most the brokers' default for `transaction.max.timeout.ms`.
        """
        return min(900.0, 2 * self.delivery_timeout_seconds + 30)

    @model_validator(mode="after")
    def _shard_exists(self) -> Self:
        if self.shard >= self.shards:
            raise ValueError(
                f"shard {self.shard} does not exist: shards are counted from 0 to {self.shards - 1}"
            )
        return self


class Errors(_ConfigTable):
    """Policies for records that cannot be relayed, by the class of the error, and limits on their number."""

    decode: Policy = Policy.STOP
    encode: Policy = Policy.STOP
    too_large: Policy = Policy.STOP
    claim_check: Policy = Policy.STOP
    dead_letter_topic: str = "relay.dead-letters.{group_id}"
    dead_letter_payload: DeadLetterPayload = DeadLetterPayload.AUTO
    max_initial_failures: NonNegativeInt = 20
    on_max_initial_failures: OverBudget = OverBudget.STOP
    max_failure_ratio: float = Field(default=0.1, gt=0, le=1, allow_inf_nan=False)
    failure_window_seconds: Seconds = 300.0
    min_failures: PositiveInt = 20
    on_max_failure_ratio: OverBudget = OverBudget.DEGRADE

    @model_validator(mode="after")
    def _has_a_topic(self) -> Self:
        named = [name for name in ERROR_CLASSES if getattr(self, name) is Policy.DEAD_LETTER]
        if named and not self.dead_letter_topic:
            raise ValueError(f"{', '.join(named)}: dead-letter needs a dead_letter_topic")
        return self

    @property
    def by_class(self) -> dict[str, Policy]:
        """Return the policies by error class."""
        return {name: getattr(self, name) for name in ERROR_CLASSES}


class SchemaHistory(_ConfigTable):
    """The storage of table definitions beyond a restart, and definitions from dumps.

    Also whether rows wait for definitions. Dumps have definitions that are missing in the stream.
    `schema_dumps_database`: default for unqualified names in them; `schema_dumps_as_of`: since when they
    hold.
    """

    history_topic: str = "relay.schema-history.{group_id}"
    wait_for_ddl: Annotated[Wait, BeforeValidator(option_text)] = Wait.AUTO
    schema_dumps: Annotated[
        tuple[Annotated[FilePath, Field(min_length=1)], ...], NoDecode, BeforeValidator(_split)
    ] = ()
    schema_dumps_database: str = ""
    schema_dumps_as_of: Annotated[str, AfterValidator(_as_of), BeforeValidator(option_text)] = "start"


class LimitsConfig(_ConfigTable):
    """Limits on the cost of one record, and on the size of caches; see `relay.model.limits.Limits`."""

    decompressed_bytes: PositiveInt = DEFAULT_LIMITS.decompressed_bytes
    claim_check_bytes: PositiveInt = DEFAULT_LIMITS.claim_check_bytes
    lenient_json_bytes: PositiveInt = DEFAULT_LIMITS.lenient_json_bytes
    values: PositiveInt = DEFAULT_LIMITS.values
    rows: PositiveInt = DEFAULT_LIMITS.rows
    columns: PositiveInt = DEFAULT_LIMITS.columns
    ddl_bytes: PositiveInt = DEFAULT_LIMITS.ddl_bytes
    ddl_statements: PositiveInt = DEFAULT_LIMITS.ddl_statements
    output_bytes: PositiveInt = DEFAULT_LIMITS.output_bytes
    cache_bytes: PositiveInt = DEFAULT_LIMITS.cache_bytes

    def of_a_record(self) -> limits.Limits:
        """Return them in the translator's form."""
        return limits.Limits(**self.model_dump())


class Http(_ConfigTable):
    """The address of health, metrics and status, and the tables in them; port 0 serves nothing."""

    host: Text = "127.0.0.1"
    port: Port = 0
    allowed_hosts: Annotated[tuple[Text, ...], NoDecode, BeforeValidator(_split)] = ()
    status_table_limit: int = Field(default=100, ge=0, le=10_000)
    table_metrics: bool = False


class Tracing(_ConfigTable):
    """Whether the service sends OpenTelemetry traces; variables that begin with OTEL_ configure the rest."""

    enabled: bool = False


class Logging(_ConfigTable):
    """Level and format of the log that `relay run` writes to standard output."""

    level: LogLevel = LogLevel.INFO
    format: LogFormat = LogFormat.AUTO

    @property
    def settings(self) -> LogSettings:
        """Return them in the log's form."""
        return LogSettings(self.level, self.format)


class Backfill(_ConfigTable):
    """Input and output of the Spark job instead of topics, its end, and how much it takes at once."""

    input: str = ""
    input_format: InputFormat = InputFormat.JSON_LINES
    schema_input: str = ""
    end: End = End.LATEST
    end_offsets: dict[str, NonNegativeInt] = {}
    end_timestamp: Timestamp = ""
    end_commit_ts: NonNegativeInt = 0
    output: str = ""
    output_format: FileFormat = FileFormat.JSON_LINES
    output_layout: OutputLayout = OutputLayout.TOPIC
    rows_format: RowsFormat = RowsFormat.PARQUET
    checkpoint: str = ""
    batch_records: NonNegativeInt = 50_000_000
    task_records: PositiveInt = 200_000
    trigger_seconds: Annotated[
        float, BeforeValidator(_seconds), Field(ge=0, le=86_400, allow_inf_nan=False)
    ] = 0.0
    progress: str = ""
    metrics_port: Port = 0
    summary: str = ""
    spark: TopicSettings = {}

    @model_validator(mode="after")
    def _end_is_given(self) -> Self:
        keys: dict[End, tuple[str, Any]] = {
            End.OFFSETS: ("end_offsets", self.end_offsets),
            End.TIMESTAMP: ("end_timestamp", self.end_timestamp),
            End.COMMIT_TS: ("end_commit_ts", self.end_commit_ts),
        }
        for end, (key, given) in keys.items():
            if self.end is end and not given:
                raise ValueError(f'end = "{end}" needs {key}')
            if given and self.end is not end:
                raise ValueError(f'{key} needs end = "{end}"')
        return self

    @model_validator(mode="after")
    def _output_of_rows(self) -> Self:
        if self.output_format is not FileFormat.ROWS:
            if self.rows_format is not RowsFormat.PARQUET:
                raise ValueError('rows_format needs output_format = "rows"')
        elif not self.output:
            raise ValueError('output_format = "rows" needs output, the folder of the tables')
        elif self.output_layout is not OutputLayout.TOPIC:
            raise ValueError('output_layout has no effect with output_format = "rows": leave it out')
        return self

    @property
    def end_timestamp_ms(self) -> int | None:
        """Return the time to end before, in milliseconds since 1970."""
        return _milliseconds_of(self.end_timestamp)
