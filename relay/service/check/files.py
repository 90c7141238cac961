"""Check the files of a configuration: certificates, keys, secrets, tokens, dumps.

They are read exactly as at relay's start; the check uses no network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from relay.catalog import Catalog
from relay.config.config import Config
from relay.config.kafka import source_cluster, target_cluster
from relay.config.registries import resolver_of
from relay.config.wiring import load_schema_dumps
from relay.io.kafka.clients import Clusters
from relay.model.errors import ConfigError, Problem


def file_problems(config: Config) -> Iterator[Problem]:
    """Find files that are missing, unreadable, or of the wrong content."""
    reads: tuple[Callable[[], object], ...] = (
        lambda: Clusters.from_settings(source_cluster(config), target_cluster(config)),
        lambda: resolver_of(config),
        lambda: load_schema_dumps(config, Catalog()),
    )
    for read in reads:
        try:
            read()
        except ConfigError as error:
            yield from error.problems
