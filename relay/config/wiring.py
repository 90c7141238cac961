"""Make the parts of a route from its configuration: translator, error policies, definitions from dumps."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from relay.catalog import Catalog
from relay.catalog.definitions import apply_definition, as_of
from relay.config.config import Config, partitioning
from relay.config.keys import RouteConfig, Watermarks
from relay.core.error_policies import ErrorPolicies
from relay.core.selection import Selection, chosen_tables, left_out_kinds
from relay.core.translator import Translator
from relay.io.definition_files import read_dumps
from relay.io.hash_key import checked_key, read_hash_key
from relay.io.kernel import translator_class
from relay.model.errors import ConfigError, Problem
from relay.model.events import TableId


class Bootstrapped(NamedTuple):
    """A catalog with the definitions of dumps.

    Also the number of tables and files, and the statements that were not understood.
    """

    catalog: Catalog
    tables: int
    files: int
    problems: list[str]


def translator_of(config: Config, before_commit_ts: int | None = None) -> Translator:
    """Make the route's translator, its catalog empty. `before_commit_ts`: its end, see `Selection`.

    Raises ConfigError.
    """
    route, target = config.route, config.target
    selection = Selection(
        config.source.start_commit_ts,
        before_commit_ts,
        target.watermarks is Watermarks.KEEP,
        tables=chosen_tables(route.include_tables, route.exclude_tables),
        left_out_kinds=left_out_kinds(route.include_events, route.exclude_events),
    )
    return translator_class()(
        route.from_,
        route.to,
        route.from_options,
        route.to_options,
        topic=target.topic,
        partitions=config.target_partitions,
        partition_by=partitioning(target.partition_by),
        rules=config.topic_rules,
        reserved=config.reserved_topics,
        selection=None if selection == Selection() else selection,
        columns=route.column_rules,
        hash_key=hash_key(route),
        rows=route.row_rules,
        tables=route.table_rules,
        deduplicate=route.deduplicate,
        deduplicate_rows=route.deduplicate_rows,
        limits=config.limits.of_a_record(),
    )


def hash_key(route: RouteConfig) -> bytes:
    """Return the secret key of rules that hash values; b"" for none. Raises ConfigError."""
    if route.hash_key_file:
        return read_hash_key(route.hash_key_file, "route.hash_key_file")
    key = route.hash_key.get_secret_value().encode()
    return checked_key(key, "route.hash_key") if key else key


class HasTableNames(Protocol):
    """A translator with table rules."""

    @property
    def name_conflicts(self) -> list[tuple[TableId, list[TableId]]]:
        """Return the names in the target that several known tables would have, each with these tables."""
        ...


def check_table_names(translator: HasTableNames) -> None:
    """Raise ConfigError if table rules give several known tables the same name in the target."""
    problems = []
    for name, tables in translator.name_conflicts:
        named = " and ".join(map(str, tables))
        message = f"tables {named} would have the same name in the target, {name}"
        problems.append(Problem("route.tables", message, "give them different names, or exclude some"))
    if problems:
        raise ConfigError(problems)


def error_policies_of(config: Config, dead_letter_partitions: int) -> ErrorPolicies:
    """Return the policies for records that cannot be relayed."""
    return ErrorPolicies(
        config.errors.by_class,
        config.dead_letter_topic,
        dead_letter_partitions,
        config.route_name,
        config.dead_letters_have_payload,
    )


def load_schema_dumps(config: Config, catalog: Catalog) -> Bootstrapped:
    """Add the definitions in the dumps of `schema_dumps` to a catalog.

    Raises ConfigError if one cannot be read.
    """
    schema = config.schema
    if not schema.schema_dumps:
        return Bootstrapped(catalog, 0, 0, [])
    dumped = read_dumps(
        schema.schema_dumps,
        as_of(schema.schema_dumps_as_of),
        schema.schema_dumps_database or None,
        option="schema.schema_dumps",
        database_option="schema.schema_dumps_database",
        limits=catalog.limits,
    )
    for definition in dumped.definitions:
        catalog = apply_definition(catalog, definition)
    return Bootstrapped(catalog, len(dumped.definitions), dumped.files, dumped.problems)


def translator_with_schema_dumps(config: Config) -> Translator:
    """Make the route's translator, whose catalog has the definitions of `schema_dumps`.

    Raises ConfigError.
    """
    translator = translator_of(config)
    translator.catalog = load_schema_dumps(config, translator.catalog).catalog
    return translator
