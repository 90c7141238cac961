"""Read definitions from a live MySQL, MariaDB or TiDB with SHOW CREATE TABLE. All calls block.

The client is PyMySQL, which the extra `mysql` installs. A password comes from a file or the environment, and
is never shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from relay.catalog.definition_reader import DefinitionReader
from relay.catalog.definitions import BEFORE_ALL, Definition
from relay.model.errors import ConfigError, DatabaseUnavailable, Problem
from relay.model.events import TSO_LOGICAL_BITS, TableId
from relay.model.limits import DEFAULT_LIMITS, Limits
from relay.mysql.types import quoted_name

if TYPE_CHECKING:
    import pymysql

#: Databases of the servers themselves.
_OWN: Final = frozenset(
    {"information_schema", "metrics_schema", "mysql", "performance_schema", "sys", "inspection_schema"}
)
_TIMEOUT_SECONDS: Final = 20
_DEFAULT_PORT: Final = 3306
_TABLES: Final = (
    "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' "
    "ORDER BY table_schema, table_name"
)


class DatabaseServer(NamedTuple):
    """The address and login of a database server. `database`: the only one that is read; "" for all."""

    host: str
    port: int
    user: str
    password: str
    database: str = ""
    ca_file: str = ""

    def __repr__(self) -> str:
        return f"Server({self.host}:{self.port})"


class LiveDefinitions(NamedTuple):
    """The definitions of a server with their start times, and the statements that were not understood."""

    definitions: list[Definition]
    problems: list[str]


def server_at(url: str, password: str, ca_file: str, option: str) -> DatabaseServer:
    """Parse `mysql://user@host:4000/database`. Raises ConfigError, which shows nothing of the URL."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or _DEFAULT_PORT
    except ValueError as error:
        raise ConfigError([Problem(option, "is not a URL", _EXAMPLE)]) from error
    if parts.scheme not in {"mysql", "mariadb", "tidb"} or not host or not parts.username:
        raise ConfigError([Problem(option, "is not of the form mysql://USER@HOST:PORT/DATABASE", _EXAMPLE)])
    if parts.password is not None:
        message = "contains a password, which is visible in the process list"
        hint = "use --password-file, or the variable RELAY_DATABASE_PASSWORD"
        raise ConfigError([Problem(option, message, hint)])
    if parts.query or parts.fragment:
        raise ConfigError([Problem(option, "has parameters, which are not supported", _EXAMPLE)])
    return DatabaseServer(
        host, port, unquote(parts.username), password, unquote(parts.path.strip("/")), ca_file
    )


_EXAMPLE: Final = "such as mysql://relay@db.example:3306/shop; without a database all are read"


def read_definitions(
    server: DatabaseServer,
    commit_ts: int | None,
    is_chosen: Callable[[TableId], bool],
    *,
    limits: Limits = DEFAULT_LIMITS,
) -> LiveDefinitions:
    """Read the definitions of the chosen tables. `commit_ts`: since when they hold, None for now.

    Raises DatabaseUnavailable; ConfigError if no client is installed.
    """
    reader = DefinitionReader(limits)
    client = _client()
    try:
        with closing(_connect(client, server)) as connection, connection.cursor() as cursor:
            # Before the definitions: a statement that comes while they are read is applied to them again.
            now = _now(cursor) if commit_ts is None else commit_ts
            for table, text in _shown(cursor, server.database, is_chosen):
                reader.database = table.database
                reader.take(text, str(table))
    except (client.MySQLError, OSError, EOFError, UnicodeError) as error:
        raise DatabaseUnavailable(f"{server.host}:{server.port}: {_reason(error)}") from error
    return LiveDefinitions(reader.definitions(now), reader.problems)


def _client() -> Any:  # noqa: ANN401 - a module without types
    try:
        import pymysql  # noqa: PLC0415 - an extra
    except ImportError:
        hint = "pip install '.[mysql]' in relay's folder, or pip install PyMySQL"
        raise ConfigError([Problem("--from-database", "needs PyMySQL, which is missing", hint)]) from None
    return pymysql


def _connect(client: Any, server: DatabaseServer) -> pymysql.Connection[Any]:  # noqa: ANN401 - a module without types
    found: pymysql.Connection[Any] = client.connect(
        host=server.host,
        port=server.port,
        user=server.user,
        password=server.password,
        charset="utf8mb4",
        connect_timeout=_TIMEOUT_SECONDS,
        read_timeout=_TIMEOUT_SECONDS,
        write_timeout=_TIMEOUT_SECONDS,
        ssl_ca=server.ca_file or None,
        ssl_verify_identity=bool(server.ca_file),
        # Some modes change how SHOW CREATE TABLE quotes, and which parts it leaves out.
        init_command="SET SESSION sql_mode = ''",
    )
    return found


def _now(cursor: Any) -> int:  # noqa: ANN401 - a cursor without types
    """Return the present time as a commit ts: TiDB's own clock, or the server's time."""
    cursor.execute("SELECT VERSION()")
    if "TiDB" in cursor.fetchone()[0]:
        cursor.execute("START TRANSACTION")
        cursor.execute("SELECT @@tidb_current_ts")
        return int(cursor.fetchone()[0]) or BEFORE_ALL
    cursor.execute("SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS UNSIGNED)")
    return int(cursor.fetchone()[0]) << TSO_LOGICAL_BITS


def _shown(
    cursor: Any,  # noqa: ANN401 - a cursor without types
    database: str,
    is_chosen: Callable[[TableId], bool],
) -> Iterator[tuple[TableId, str]]:
    """Yield tables with the output of SHOW CREATE TABLE."""
    cursor.execute(_TABLES)
    for schema, name in cursor.fetchall():
        table = TableId(_text(schema), _text(name))
        if table.database.lower() in _OWN or database not in ("", table.database) or not is_chosen(table):
            continue
        cursor.execute(f"SHOW CREATE TABLE {quoted_name(table.database)}.{quoted_name(table.table)}")
        row = cursor.fetchone()
        if row is not None:
            yield table, _text(row[1])


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _reason(error: Exception) -> str:
    """Return the server's error number and text, without the statement."""
    number, *texts = error.args or ("",)
    return f"{texts[0]} ({number})" if texts else str(number) or type(error).__name__
