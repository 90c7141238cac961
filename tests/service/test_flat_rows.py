"""Flat rows through a real Kafka: Open Protocol from 3 partitions, tombstones for deleted rows."""

from __future__ import annotations

import json
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from service.test_open_to_debezium import by_place, given_records
from service.test_process import finished, relay_process
from support import OPEN

from relay import Translator

pytestmark = pytest.mark.kafka


async def test_rows_and_tombstones(kafka: Any, make_config: Any, tmp_path: Path) -> None:
    """Every record, in its partition and order, byte for byte what the translator makes of it."""
    options = {"deletes": "both", "version-column": "__version"}
    source, target = await kafka.topic(3), await kafka.topic(3)
    records = given_records(source)
    translator = Translator(OPEN, "flat-json", None, options, topic=target)
    wanted = [out for record in records for out in translator.translate(record)]
    assert any(out.value is None for out in wanted)
    await kafka.produce(source, records)
    config = make_config(source, target, route_from=OPEN, route_to="flat-json", route_to_options=options)
    process = await relay_process(tmp_path, config)
    written = await kafka.read(target, at_least=len(wanted))
    process.send_signal(signal.SIGTERM)
    status, _ = await finished(process)
    assert status == 0
    assert by_place(written) == by_place(wanted)
    ordered = sorted(written, key=lambda record: (record.partition, record.offset))
    for marked, tombstone in pairwise(ordered):
        is_deleted = marked.value is not None and json.loads(marked.value)["__deleted"] == "true"
        # A row without a key has no tombstone.
        assert (is_deleted and marked.key is not None) is (tombstone.value is None)
        assert tombstone.value is not None or tombstone.key == marked.key
