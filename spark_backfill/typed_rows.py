"""Change events as rows of typed columns: public functions for notebooks and pipelines.

    from spark_backfill import definitions, rows

    ddl = definitions(records, source="ticdc-canal-json")
    changes = rows(records, source="ticdc-canal-json", table="shop.orders", ddl=ddl)

Workers yield each value as text (`row_reading`), and Spark casts it to the type of its column (`row_types`).
Like `translate` they use no object of the JVM.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from relay.catalog import Catalog
from relay.codecs.given_options import OptionValue
from relay.config import Config
from relay.model.errors import ConfigError, Problem
from relay.model.events import TableId
from relay.text.hints import hint_for
from relay.text.redaction import quoted
from spark_backfill.arguments import OnError, Policies, Registries, config_of, without_logins
from spark_backfill.dataframes import SentCatalog, catalog_of, records_of, schemas_of
from spark_backfill.frames import Columns
from spark_backfill.registries import RegistrySchemas
from spark_backfill.row_reading import TEXT_ROWS, Chosen, ReadRows
from spark_backfill.row_types import typed
from spark_backfill.row_versions import ColumnTypes, struct_of, tables_in, versions_of

_SOURCE: Final = ("source_topic", "source_partition", "source_offset", "number")


def rows(  # noqa: PLR0913 - the settings of a source
    df: DataFrame,
    *,
    source: str,
    table: str,
    ddl: DataFrame,
    source_options: Mapping[str, OptionValue] | None = None,
    source_registry: Mapping[str, Any] | None = None,
    version: int | None = None,
    on_error: str = "stop",
) -> DataFrame:
    """Return the changes of a table's rows, with the table's columns as Spark types.

    df, source, source_options, source_registry: As for `translate`.
    table: `database.table`.
    ddl: The definitions of the table, as `definitions` returns them; read at once.
    version: The version of the table's columns, from 1: changes of other versions are left out. It may be
        missing if there is one version. `row_schemas` returns all of them.
    on_error: `stop`, `skip`, or `column`: a row without `op`, whose column `error` says why.

    The result has op, commit_ts, event_time, before, after, exact, absent, source_topic, source_partition,
    source_offset and number, the event's number among those of its source record, from 0; then `error` if
    chosen. Raises the errors of `translate`. The query itself fails with Spark's error; with
    `on_error="stop"` its text has `relay-stopped:` and the record's position, code and reason.
    """
    config, records = _config(source, source_options, source_registry, on_error), records_of(df)
    schemas = schemas_of(config, records)
    catalog = _catalog(config, ddl, schemas)
    chosen = _chosen(catalog, table, version)
    sent = without_logins(config)
    work = ReadRows(sent, Columns(), SentCatalog(catalog), chosen=chosen, known=schemas.known)
    columns = versions_of(catalog, chosen.table).columns[chosen.version]
    found = records.frame.mapInArrow(work, TEXT_ROWS).select(*typed_columns(columns), "error")
    return found if on_error == OnError.COLUMN else found.drop("error")


def row_schemas(
    ddl: DataFrame,
    *,
    source: str,
    source_options: Mapping[str, OptionValue] | None = None,
    source_registry: Mapping[str, Any] | None = None,
) -> dict[str, list[StructType]]:
    """Return the types of `before` and `after` for each table, by `database.table`: those of each version.

    ddl, source, source_options, source_registry: As for `rows`. Raises the errors of `rows`.
    """
    config = _config(source, source_options, source_registry)
    catalog = _catalog(config, ddl, RegistrySchemas(config))
    return {
        str(table): [struct_of(columns) for columns in versions_of(catalog, table).columns]
        for table in tables_in(catalog)
    }


def typed_columns(columns: ColumnTypes) -> list[Column]:
    """Return the public columns of rows of one version, of a frame of `TEXT_ROWS`."""
    return [
        F.col("op"),
        F.col("commit_ts"),
        F.timestamp_micros("event_us").alias("event_time"),
        *(_image(name, columns).alias(name) for name in ("before", "after")),
        F.col("exact"),
        F.col("absent"),
        *map(F.col, _SOURCE),
    ]


def _image(name: str, columns: ColumnTypes) -> Column:
    texts = F.col(name)
    cells = [typed(texts[at], kind).alias(column) for at, (column, kind) in enumerate(columns.items())]
    return F.when(texts.isNotNull(), F.struct(*cells))


def _config(
    source: str,
    options: Mapping[str, OptionValue] | None,
    registry: Mapping[str, Any] | None,
    on_error: str = OnError.STOP,
) -> Config:
    if on_error == OnError.DEAD_LETTER:
        message = "has no dead letters: rows of a table are no records"
        raise ConfigError([Problem("on_error", message, "choices: stop, skip, column")])
    # Any target serves: only the source is read.
    route = {"from": source, "to": "flat-json", "from_options": options or {}}
    return config_of(route, {"topic": "{topic}"}, Registries(registry), Policies(on_error))


def _catalog(config: Config, ddl: Any, schemas: RegistrySchemas) -> Catalog:
    if ddl is None:
        message = "is missing: the columns have the types of the table's definitions"
        raise ConfigError([Problem("ddl", message, "definitions() returns them")])
    return catalog_of(config, ddl, schemas)


def _chosen(catalog: Catalog, name: str, version: int | None) -> Chosen:
    """Return the table and the version that the arguments name. Raises ConfigError."""
    places = [at for at, letter in enumerate(name) if letter == "."]
    tables = [TableId(name[:at], name[at + 1 :]) for at in places]
    known = [table for table in tables if versions_of(catalog, table).columns]
    if len(known) != 1:
        message = f"{quoted(name)} is ambiguous" if known else f"ddl has no definition of {quoted(name)}"
        hint = hint_for(name, list(map(str, tables_in(catalog))), "a table is named database.table")
        raise ConfigError([Problem("table", message, hint)])
    count = len(versions_of(catalog, known[0]).columns)
    if version is None and count > 1:
        message = f"is missing: the columns of {name} have {count} versions"
        raise ConfigError([Problem("version", message, "row_schemas() returns them; rows have one each")])
    if version is not None and (not isinstance(version, int) or not 1 <= version <= count):
        message = f"{version!r} is no version of {name}"
        raise ConfigError([Problem("version", message, f"versions: 1 to {count}")])
    return Chosen(known[0], (version or 1) - 1)
