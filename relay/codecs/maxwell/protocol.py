"""Maxwell's JSON (zendesk/maxwell): one row a message, with the row as JSON values.

    key:   {"database":"d","table":"t","pk.id":1} | ["d","t",[{"id":1}]]; of DDL a random UUID
    row    {"database","table","type","ts","xid","xoffset"|"commit",…,"data":{row},"old":{changed columns}}
    DDL    {"type","database","table","old":{definition},"def":{definition},"ts","sql",…}

`type` of a row is insert, update, delete or bootstrap-insert; `ts` has seconds there, milliseconds in DDL.
DDL is sent on request (`output_ddl`). Emitted by Maxwell 1.x; read are also the dialects of TiCDC up to v8.5
(the deleted row in `old`, several objects one after another, numbers for ENUM and SET), Flink and SeaTunnel.
Not expressible: types in rows, commit ts, watermarks, whether a JSON column is NULL or holds the document
null. Verified with records of Maxwell 1.45.0 on MySQL 8.0.12.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from relay.codecs.codec import Codec, KeySupport, NonDdlMarker, TemplateSupport
from relay.codecs.losses import Keys
from relay.codecs.maxwell.decoder import MaxwellDecoder
from relay.codecs.maxwell.detection import detect
from relay.codecs.maxwell.encoder import MaxwellEncoder
from relay.codecs.maxwell.options import NAME, MaxwellOptions, carries
from relay.templates.ops import Marker

_DDL_TOPIC: Final = "ddl_kafka_topic"
#: The members that Maxwell writes with every option.
_ALL: Final = MaxwellOptions(
    output_ddl=True,
    output_binlog_position=True,
    output_gtid_position=True,
    output_server_id=True,
    output_thread_id=True,
    output_row_query=True,
)


def ddl_topics(topics: Collection[str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the topic that has the DDL of the rows of each of these topics: the one in the option, else the
    same topic.
    """
    named = given.get(_DDL_TOPIC, "")
    return {topic: named if named in topics else topic for topic in topics}


CODEC: Final = Codec(
    name=NAME,
    title="Maxwell's JSON, one row per message",
    options=MaxwellOptions,
    decodes=msgspec.structs.replace(
        carries(_ALL), transaction=True, transaction_order=True, transaction_marks=True
    ),
    encodes=carries,
    decoder=MaxwellDecoder,
    encoder=MaxwellEncoder,
    ddl_topics=ddl_topics,
    non_ddl_marker=NonDdlMarker(
        (
            (
                b'"type":"insert"',
                b'"type":"update"',
                b'"type":"delete"',
                b'"type":"bootstrap-insert"',
            ),
        ),
        never=(b'"sql":"',),
    ),
    detection_rule=detect,
    keys=KeySupport(meaning=Keys.ROW),
    templates=TemplateSupport(
        # Except the random keys of tables without a primary key, whose rows have no templates.
        writes_rows_alone=lambda _: True,
        marker=Marker("value", b"", b',"ts":'),
    ),
)
