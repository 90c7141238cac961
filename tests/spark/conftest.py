"""One Spark session for all tests of the job."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from spark.java import SHORT_RUNS, connector_jars, environment
from support import DATA

SETTINGS = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    # Small captures are split over several tasks.
    "spark.sql.files.maxPartitionBytes": "65536",
    "spark.sql.files.openCostInBytes": "1",
    # Folders with many small files are listed by the driver itself.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
    "spark.ui.showConsoleProgress": "false",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """PySpark leaves sockets to the garbage collector, which is no failure of these tests, nor of those after
    them.
    """
    folder = f"{Path(__file__).parent}{os.sep}"
    for item in items:
        if str(item.path).startswith(folder):
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(autouse=True)
def _sockets_of_spark_are_collected() -> Iterator[None]:
    yield
    gc.collect()


@pytest.fixture(scope="session")
def spark_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Settings of a session, and the environment for its Java and its workers."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(tmp_path_factory.mktemp("home") / "spark", *SHORT_RUNS).items():
            patch.setenv(name, value)
        # Workers have the packages that this process has: `toy_protocol`.
        patch.setenv("PYTHONPATH", str(DATA.parent))
        jars = ",".join(map(str, connector_jars()))
        warehouse = str(tmp_path_factory.mktemp("warehouse"))
        yield SETTINGS | {"spark.jars": jars, "spark.jars.packages": "", "spark.sql.warehouse.dir": warehouse}


@pytest.fixture(scope="session")
def spark(spark_settings: dict[str, str]) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    from spark_backfill.sessions import NEEDED

    for name, value in (NEEDED | spark_settings).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
