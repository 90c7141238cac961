"""Every error code of Kafka's protocol has its own name and words, and is retried as Kafka's own client does."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from aiokafka.errors import UnknownError, for_code

from relay.demo.kafka import DemoExtraMissing, kafka_jars
from relay.io.kafka.broker_errors import text_of

#: Prints Kafka's own list.
_LIST = """
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;
public class Codes {
    public static void main(String[] none) {
        for (Errors each : Errors.values())
            System.out.println(each.code() + " " + each.name() + " " + (each.exception() instanceof RetriableException));
    }
}
"""
#: Codes that aiokafka has under other names or does not retry by itself; it copes with them in its own way.
_OF_CLIENT = {-1, 0, 2, 6, 9, 10, 17, 39, 51, 70, 71, 72}


def test_unknown_codes_stay_unknown() -> None:
    assert for_code(30_000) is UnknownError


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (13, "the broker lost its connection to another broker (NETWORK_EXCEPTION)"),
        (82, "another member has joined with the same group.instance.id (FENCED_INSTANCE_ID)"),
        (87, "the topic refuses a record, such as one without a key in a compacted topic (INVALID_RECORD)"),
    ],
)
def test_words(code: int, text: str) -> None:
    assert text_of(for_code(code)()) == text


def test_every_code_of_kafka_is_known(tmp_path: Path) -> None:
    try:
        jars = kafka_jars()
    except DemoExtraMissing as error:
        pytest.skip(str(error))
    source = tmp_path / "Codes.java"
    source.write_text(_LIST)
    try:
        java = ["java", "-cp", f"{jars}/*", str(source)]
        found = subprocess.run(java, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no Java with a compiler")
    lines = [line.split() for line in found.stdout.splitlines()]
    assert len(lines) > 130
    for number, name, retriable in lines:
        known = for_code(int(number))
        if int(number) not in _OF_CLIENT:
            assert (known.message, known.retriable) == (name, retriable == "true")
