"""Values in Avro as other programs write them: by fastavro."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro


def avro_bytes(text: str, value: Any) -> bytes:
    """The Avro of a value without logical types; that of a union may be a pair: the branch's name, the value."""
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(_bare(json.loads(text))), value)
    return file.getvalue()


def _bare(node: Any) -> Any:
    """A schema without logical types and defaults."""
    if isinstance(node, list):
        return [_bare(each) for each in node]
    if not isinstance(node, dict):
        return node
    return {name: _bare(each) for name, each in node.items() if name not in {"logicalType", "default"}}
