"""Changes in the form of a protocol that can only be written: the members of each message.

The other side is translated into that protocol, with the given options, and messages are compared.
"""

from __future__ import annotations

import msgspec

from relay.catalog import Catalog
from relay.core.comparison import Change
from relay.model.errors import Malformed
from relay.model.events import TableId
from relay.model.records import ConsumerRecord, ProducerRecord

_Members = dict[str, msgspec.Raw]
_members_in = msgspec.json.Decoder(_Members).decode


def written_change(record: ConsumerRecord | ProducerRecord, source: ConsumerRecord, protocol: str) -> Change:
    """Return a message as a change. Raises Malformed.

    Messages do not name their tables, so rows with the same columns are matched, those of a key in their
    order.
    """
    key = _cells(record.key, protocol) if record.key else {}
    row = None if record.value is None else _cells(record.value, protocol)
    cells = key if row is None else row
    return Change(
        kind="tombstone" if row is None else "message",
        table=TableId(protocol, ",".join(cells)),
        before=key if row is None else None,
        after=row,
        json_columns=frozenset(),
        key_columns=tuple(key),
        is_inferred=False,
        record=source,
        catalog=Catalog(),
    )


def _cells(text: bytes, protocol: str) -> dict[str, str]:
    """Return the members of an object, each as its JSON text."""
    try:
        return {name: bytes(value).decode() for name, value in _members_in(text).items()}
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Malformed(protocol, "", "is not a JSON object") from error
