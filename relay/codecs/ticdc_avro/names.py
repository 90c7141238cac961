"""Names as Avro takes them, made by TiCDC of those of databases, tables and columns, and of topics.

Contract: pure functions of names. The originals cannot be recovered, and several may become the same
name. Source: pingcap/ticdc pkg/sink/codec/common/helper.go (SanitizeName), pkg/sink/codec/avro
(sanitizeTopic) (2026-08).
"""

from __future__ import annotations

import re
from typing import Final

_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_]", re.ASCII)


def sanitized(name: str) -> str:
    """Return a name with `_` for every character that Avro does not take, and `_` before a first digit."""
    found = _FOREIGN.sub("_", name)
    return f"_{found}" if found[:1].isdigit() else found


def subject_topic(topic: str) -> str:
    """Return a topic as subjects have it: without dots."""
    return topic.replace(".", "_")
