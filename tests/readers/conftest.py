"""The readers' programs and a PostgreSQL, each started once for a test module."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import pytest
from readers import postgresql
from readers.avro import Registry
from readers.connect import Sink
from readers.java import Program
from readers.parts import PartMissing
from registry import apicurio


@contextlib.contextmanager
def _needed() -> Iterator[None]:
    """Skip what needs a part that cannot be had; in CI this is a failure."""
    try:
        yield
    except PartMissing as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))


def _program(name: str, part: str) -> Iterator[Program]:
    with _needed():
        program = Program(name, part)
    with program:
        yield program


@pytest.fixture(scope="module")
def flink() -> Iterator[Program]:
    """Flink's format classes."""
    yield from _program("FlinkReader", "flink")


@pytest.fixture(scope="module")
def canal() -> Iterator[Program]:
    """Canal's client and client adapter."""
    yield from _program("CanalReader", "canal")


@pytest.fixture(scope="module")
def connect() -> Iterator[Program]:
    """Kafka Connect's converter, Debezium's transformation and sink."""
    yield from _program("ConnectReader", "connect")


@pytest.fixture(scope="module")
def sink(connect: Program) -> Iterator[Sink]:
    """Debezium's JDBC sink with a PostgreSQL of its own."""
    with contextlib.ExitStack() as stack:
        with _needed():
            url = stack.enter_context(postgresql.running())
        yield Sink(connect, url)


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    """A schema registry, empty."""
    with contextlib.ExitStack() as stack:
        with _needed():
            url = stack.enter_context(apicurio.running())
        yield Registry(url)
