"""Upstream Canal's packets (`flatMessage=false`): Protocol Buffers, several entries in one Kafka record.

    Packet { type MESSAGES, body Messages { batch id, entries } }
    Entry { Header { binlog file and position, server, time, database, table, type, gtid }, kind, value }

Kinds are TRANSACTIONBEGIN, ROWDATA (rows of one operation, or a statement), TRANSACTIONEND and HEARTBEAT;
keys are null. Emitted by alibaba/canal. With partition hashing the packet has a version and no batch id,
BEGIN or END. TiCDC's packet of `protocol=canal` (up to v8.5) is the same, and has no log position either.
Texts of values and types are those of `canal-json`, but an UPDATE has its whole old row. Not expressible:
commit ts, watermarks, snapshots, nullability, defaults. Verified with records of Canal 1.1.8 on MySQL 8.0.12.
"""

from __future__ import annotations

from typing import Final

import msgspec

from relay.codecs.canal import detection
from relay.codecs.canal.canal_protobuf.decoder import CanalProtobufDecoder
from relay.codecs.canal.canal_protobuf.encoder import CanalProtobufEncoder
from relay.codecs.canal.canal_protobuf.options import NAME, ProtobufOptions, carries
from relay.codecs.canal.canal_protobuf.traced import FRAMING, MARKER, parts
from relay.codecs.codec import Codec, TemplateSupport

CODEC: Final = Codec(
    name=NAME,
    title="Alibaba Canal's Protocol Buffers packets (flatMessage=false)",
    options=ProtobufOptions,
    decodes=msgspec.structs.replace(
        carries(ProtobufOptions()), thread_id=True, transaction=True, transaction_order=True
    ),
    encodes=carries,
    decoder=CanalProtobufDecoder,
    encoder=CanalProtobufEncoder,
    detection_rule=detection.packets,
    templates=TemplateSupport(marker=MARKER, parts=parts, framing=FRAMING),
)
