"""CKafka's JSON of MySQL: "official format 1" of the connector of TDMQ for CKafka (Tencent Cloud).

    row     BINLOG_NAME BINLOG_POS DATABASE EVENT_SERVER_ID GLOBAL_ID GROUP_ID NEW_VALUES OLD_VALUES
            TABLE TIME TYPE
    DDL     data database es id isDdl mysqlType old pkNames sql sqlType table ts type

One row or statement a message, one topic for both. DDL has Canal's form without `gtid`. The connector's
"canal format" has DDL's form for rows, too, with `mysqlType`, `sqlType` and `pkNames` null; it is read but
not written. Every value is text or null; the order of columns is not the table's. TIME is a wall clock in
whole seconds, of UTC+8: the documents' samples are Debezium's tutorial, whose times are known. Not
expressible: types, primary keys, commit ts, watermarks, transactions, the time when the message was made.

Sources: Tencent Cloud documents 597/52603 ("Canal Format of MySQL Subscription Message", 2024-01-09),
597/64334, 597/83344 and 597/83345. No record of a real connector was available.
"""

from __future__ import annotations

from typing import Final

from relay.codecs.canal import detection
from relay.codecs.canal.ckafka.decoder import CKafkaDecoder
from relay.codecs.canal.ckafka.encoder import CKafkaEncoder
from relay.codecs.canal.ckafka.messages import NAME
from relay.codecs.canal.ckafka.options import CkafkaOptions, carries
from relay.codecs.codec import Codec, NonDdlMarker, TemplateSupport
from relay.templates.ops import Marker

CODEC: Final = Codec(
    name=NAME,
    title="Tencent TDMQ for CKafka, MySQL subscription in official format 1",
    options=CkafkaOptions,
    decodes=carries(CkafkaOptions()),
    encodes=carries,
    decoder=CKafkaDecoder,
    encoder=CKafkaEncoder,
    non_ddl_marker=NonDdlMarker(((b'"TYPE":"I"', b'"TYPE":"U"', b'"TYPE":"D"'),)),
    detection_rule=detection.ckafka,
    templates=TemplateSupport(
        writes_rows_alone=lambda _: True,
        writes_events_alone=lambda _: True,
        marker=Marker("value", b',"TABLE":', b',"TIME":'),
    ),
)
