"""Parts of records in Avro, for tests that compare them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relay import ConsumerRecord
from relay.codecs.shared.avro import frame_of


def parts(protocol: str, record: ConsumerRecord, text_of: Callable[[int | str], str]) -> list[Any]:
    """Key and value of a record, each as its schema's text and the Avro behind the id; others as they are."""
    found: list[Any] = []
    for part, data in (("key", record.key), ("value", record.value)):
        if data is None or data[:1] != b"\0":
            found.append(data)
            continue
        frame = frame_of(protocol, record, part)  # type: ignore[arg-type]  # key or value
        assert frame is not None
        found.append((text_of(frame.id), frame.body))
    return found
