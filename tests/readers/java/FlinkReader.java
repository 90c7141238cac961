import java.time.LocalDate;
import java.time.format.DateTimeFormatter;
import java.util.List;
import org.apache.flink.api.common.serialization.DeserializationSchema;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.formats.avro.registry.confluent.debezium.DebeziumAvroDeserializationSchema;
import org.apache.flink.formats.common.TimestampFormat;
import org.apache.flink.formats.json.canal.CanalJsonDeserializationSchema;
import org.apache.flink.formats.json.debezium.DebeziumJsonDeserializationSchema;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.metrics.groups.UnregisteredMetricsGroup;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.LogicalTypeRoot;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.logical.utils.LogicalTypeParser;
import org.apache.flink.table.types.utils.TypeConversions;
import org.apache.flink.util.Collector;
import org.apache.flink.util.SimpleUserCodeClassLoader;
import org.apache.flink.util.UserCodeClassLoader;

/**
 * What a table in Flink gets of a topic, by Flink's own classes for `format = 'canal-json'`, `'debezium-json'` and
 * `'debezium-avro-confluent'`.
 *
 * Job: {format, row: "ROW<…>" as the table declares it, database, table (canal-json: which rows are the table's, regular
 * expressions), registry (debezium-avro-confluent: its URL), values: [base64 or null…]}. Answer: {rows: [[kind, value…]…]}, and {error, at} where the Flink job would fail at
 * value number `at`. Values are text as Flink shows them, bytes are base64.
 */
public final class FlinkReader {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final ClassLoader CLASSES = FlinkReader.class.getClassLoader();

    public static void main(String[] arguments) throws Exception {
        Jobs.serve(FlinkReader::answer);
    }

    private static String answer(String line) throws Exception {
        JsonNode job = JSON.readTree(line);
        RowType row = (RowType) LogicalTypeParser.parse(job.get("row").asText(), CLASSES);
        ObjectNode answer = JSON.createObjectNode();
        Rows rows = new Rows(row, answer.putArray("rows"));
        int at = 0;
        try {
            DeserializationSchema<RowData> format = format(job, row);
            format.open(new Opening());
            for (JsonNode value : job.get("values")) {
                format.deserialize(value.isNull() ? null : value.binaryValue(), rows);
                at++;
            }
        } catch (Exception failure) {
            answer.put("error", Jobs.reasons(failure)).put("at", at);
        }
        return JSON.writeValueAsString(answer);
    }

    /** All options that are not named stand at Flink's defaults: parse errors fail, timestamps are SQL text. */
    private static DeserializationSchema<RowData> format(JsonNode job, RowType row) {
        DataType type = TypeConversions.fromLogicalToDataType(row);
        TypeInformation<RowData> produced = InternalTypeInfo.of(row);
        String format = job.get("format").asText();
        if (format.equals("debezium-json")) {
            return new DebeziumJsonDeserializationSchema(type, List.of(), produced, false, false, TimestampFormat.SQL);
        }
        if (format.equals("debezium-avro-confluent")) {
            return new DebeziumAvroDeserializationSchema(row, produced, job.get("registry").asText(), null, null);
        }
        return CanalJsonDeserializationSchema.builder(type, List.of(), produced)
                .setDatabase(job.get("database").asText())
                .setTable(job.get("table").asText())
                .setTimestampFormat(TimestampFormat.SQL)
                .setIgnoreParseErrors(false)
                .build();
    }

    private static final class Opening implements DeserializationSchema.InitializationContext {
        @Override
        public MetricGroup getMetricGroup() {
            return new UnregisteredMetricsGroup();
        }

        @Override
        public UserCodeClassLoader getUserCodeClassLoader() {
            return SimpleUserCodeClassLoader.create(CLASSES);
        }
    }

    private static final class Rows implements Collector<RowData> {
        private final List<LogicalType> types;
        private final RowData.FieldGetter[] getters;
        private final ArrayNode rows;

        Rows(RowType row, ArrayNode rows) {
            this.types = row.getChildren();
            this.getters = new RowData.FieldGetter[types.size()];
            this.rows = rows;
            for (int i = 0; i < getters.length; i++) {
                getters[i] = RowData.createFieldGetter(types.get(i), i);
            }
        }

        @Override
        public void collect(RowData row) {
            ArrayNode shown = rows.addArray().add(row.getRowKind().shortString());
            for (int i = 0; i < getters.length; i++) {
                Object value = getters[i].getFieldOrNull(row);
                if (value instanceof byte[] bytes) {
                    shown.add(bytes);
                } else {
                    shown.add(value == null ? null : text(value, types.get(i)));
                }
            }
        }

        private static String text(Object value, LogicalType type) {
            if (value instanceof TimestampData timestamp) {
                return DateTimeFormatter.ISO_LOCAL_DATE_TIME.format(timestamp.toLocalDateTime());
            }
            return type.is(LogicalTypeRoot.DATE) ? LocalDate.ofEpochDay((int) value).toString() : value.toString();
        }

        @Override
        public void close() {}
    }
}
