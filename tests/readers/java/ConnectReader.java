import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.apicurio.registry.utils.converter.AvroConverter;
import io.debezium.connector.jdbc.JdbcSinkConnectorTask;
import io.debezium.transforms.ExtractNewRecordState;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.lang.reflect.Proxy;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTaskContext;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;

/**
 * What Kafka Connect makes of a topic, called as its worker calls it, with its own defaults.
 *
 * Job {do: "unwrap", topic, records, registry}: the converters, then ExtractNewRecordState, which keeps deletes. Answer: {rows: [{op,
 * key, before, row}…]}, one for each record; a struct is {column: [type, value]}.
 * Job {do: "sink", topic, records, registry, config}: the same converters, then Debezium's JDBC sink task. Answer: {stored: number of
 * records}.
 * Both answer {error, at} where the task would fail at record `at` or, in the sink, at one of the records given to it with that one.
 * Job {do: "write", topic, records, registry}: JSON with schemas, read by JsonConverter and written by AvroConverter. Answer: {records:
 * [[key, value]…]}.
 * Job {do: "time", topic, records, registry, reads: "json" or "avro", passes}: as often, read by that converter and written by the
 * other one. Answer: {nanos: what a pass took of the thread's processor time, the least of all}.
 * Job {do: "table", url, name}: what PostgreSQL has in a table, as text. Answer: {columns, types, rows}.
 *
 * The converters are JsonConverter or, where `registry` is the URL of a registry's own API, Apicurio's AvroConverter with `as-confluent`.
 * A record is {key, value, headers: [[name, value]…]}, all base64 or null.
 */
public final class ConnectReader {
    private static final ObjectMapper JSON = new ObjectMapper();
    /** As many records as a consumer's poll gives the task at most by default. */
    private static final int POLL = 500;

    public static void main(String[] arguments) throws Exception {
        Jobs.serve(ConnectReader::answer);
    }

    private static String answer(String line) throws Exception {
        JsonNode job = JSON.readTree(line);
        ObjectNode answer = JSON.createObjectNode();
        switch (job.get("do").asText()) {
            case "unwrap" -> unwrap(job, answer);
            case "sink" -> sink(job, answer);
            case "write" -> write(job, answer);
            case "time" -> time(job, answer);
            case "table" -> table(job, answer);
            default -> throw new IllegalArgumentException(line);
        }
        return JSON.writeValueAsString(answer);
    }

    private static void unwrap(JsonNode job, ObjectNode answer) {
        ArrayNode rows = answer.putArray("rows");
        int at = 0;
        try (ExtractNewRecordState<SinkRecord> transformation = new ExtractNewRecordState<>()) {
            transformation.configure(Map.of("delete.tombstone.handling.mode", "rewrite"));
            Converters converters = Converters.of(job);
            for (JsonNode each : job.get("records")) {
                rows.add(unwrapped(converters.record(each, at), transformation));
                at++;
            }
        } catch (Exception failure) {
            answer.put("error", Jobs.reasons(failure)).put("at", at);
        }
    }

    private static ObjectNode unwrapped(SinkRecord record, ExtractNewRecordState<SinkRecord> transformation) {
        ObjectNode shown = JSON.createObjectNode();
        if (record.value() instanceof Struct envelope) {
            envelope.validate();
            shown.put("op", envelope.getString("op"));
            show(shown, "before", envelope.get("before"));
        }
        show(shown, "key", record.key());
        SinkRecord row = transformation.apply(record);
        show(shown, "row", row == null ? null : row.value());
        return shown;
    }

    private static void sink(JsonNode job, ObjectNode answer) {
        Map<String, String> config = new HashMap<>();
        job.get("config").fields().forEachRemaining(each -> config.put(each.getKey(), each.getValue().asText()));
        Converters converters = Converters.of(job);
        TopicPartition partition = new TopicPartition(converters.topic, 0);
        JdbcSinkConnectorTask task = new JdbcSinkConnectorTask();
        int at = 0;
        try {
            task.initialize(worker(config, partition));
            task.start(config);
            task.open(List.of(partition));
            JsonNode records = job.get("records");
            while (at < records.size()) {
                List<SinkRecord> polled = new ArrayList<>();
                while (polled.size() < POLL && at + polled.size() < records.size()) {
                    int offset = at + polled.size();
                    polled.add(converters.record(records.get(offset), offset));
                }
                task.put(polled);
                task.put(List.of()); // a failure is thrown by the next call
                task.preCommit(Map.of(partition, new OffsetAndMetadata(at + polled.size())));
                at += polled.size();
            }
            answer.put("stored", at);
        } catch (Exception failure) {
            answer.put("error", Jobs.reasons(failure)).put("at", at);
        } finally {
            task.stop();
        }
    }

    private static void write(JsonNode job, ObjectNode answer) throws java.io.IOException {
        String topic = job.get("topic").asText();
        String registry = job.get("registry").asText();
        Converters readers = new Converters(topic, new JsonConverter(), new JsonConverter(), JSON_WITH_SCHEMAS);
        Converters writers = new Converters(topic, new AvroConverter<>(), new AvroConverter<>(), avro(registry));
        ArrayNode written = answer.putArray("records");
        for (JsonNode each : job.get("records")) {
            SinkRecord record = readers.record(each, 0);
            written.addArray()
                    .add(writers.keys.fromConnectData(topic, record.keySchema(), record.key()))
                    .add(writers.values.fromConnectData(topic, record.valueSchema(), record.value()));
        }
    }

    private static void time(JsonNode job, ObjectNode answer) throws java.io.IOException {
        String topic = job.get("topic").asText();
        Converters json = new Converters(topic, new JsonConverter(), new JsonConverter(), JSON_WITH_SCHEMAS);
        Converters avro = new Converters(topic, new AvroConverter<>(), new AvroConverter<>(), avro(job.get("registry").asText()));
        boolean isJson = job.get("reads").asText().equals("json");
        Converters readers = isJson ? json : avro;
        Converters writers = isJson ? avro : json;
        List<byte[][]> records = new ArrayList<>();
        for (JsonNode each : job.get("records")) {
            records.add(new byte[][] {bytes(each.get("key")), bytes(each.get("value"))});
        }
        ThreadMXBean clock = ManagementFactory.getThreadMXBean();
        long least = Long.MAX_VALUE;
        for (int pass = 0; pass < job.get("passes").asInt(); pass++) {
            long began = clock.getCurrentThreadCpuTime();
            for (byte[][] each : records) {
                SchemaAndValue key = readers.keys.toConnectData(topic, each[0]);
                SchemaAndValue value = readers.values.toConnectData(topic, each[1]);
                writers.keys.fromConnectData(topic, key.schema(), key.value());
                writers.values.fromConnectData(topic, value.schema(), value.value());
            }
            least = Math.min(least, clock.getCurrentThreadCpuTime() - began);
        }
        answer.put("nanos", least);
    }

    private static SinkTaskContext worker(Map<String, String> config, TopicPartition partition) {
        return (SinkTaskContext) Proxy.newProxyInstance(
                ConnectReader.class.getClassLoader(), new Class<?>[] {SinkTaskContext.class}, (proxy, method, arguments) ->
                        switch (method.getName()) {
                            case "configs" -> config;
                            case "assignment" -> Set.of(partition);
                            default -> null;
                        });
    }

    private static void table(JsonNode job, ObjectNode answer) throws SQLException {
        ArrayNode columns = answer.putArray("columns");
        ArrayNode types = answer.putArray("types");
        ArrayNode rows = answer.putArray("rows");
        try (Connection connection = DriverManager.getConnection(job.get("url").asText());
                Statement statement = connection.createStatement();
                ResultSet found = statement.executeQuery("SELECT * FROM " + job.get("name").asText())) {
            int width = found.getMetaData().getColumnCount();
            for (int i = 1; i <= width; i++) {
                columns.add(found.getMetaData().getColumnName(i));
                types.add(found.getMetaData().getColumnTypeName(i));
            }
            while (found.next()) {
                ArrayNode row = rows.addArray();
                for (int i = 1; i <= width; i++) {
                    row.add(found.getString(i));
                }
            }
        }
    }

    private static final Map<String, String> JSON_WITH_SCHEMAS = Map.of("schemas.enable", "true");

    private static Map<String, String> avro(String registry) {
        return Map.of(
                "apicurio.registry.url", registry,
                "apicurio.registry.as-confluent", "true",
                "apicurio.registry.use-id", "contentId",
                "apicurio.registry.auto-register", "true");
    }

    /** The converters of a worker for one topic; headers are read as Connect does by default. */
    private static final class Converters {
        final String topic;
        final Converter keys;
        final Converter values;
        private final SimpleHeaderConverter headers = new SimpleHeaderConverter();

        Converters(String topic, Converter keys, Converter values, Map<String, String> config) {
            this.topic = topic;
            this.keys = keys;
            this.values = values;
            keys.configure(config, true);
            values.configure(config, false);
        }

        static Converters of(JsonNode job) {
            String topic = job.get("topic").asText();
            if (job.get("registry").isNull()) {
                return new Converters(topic, new JsonConverter(), new JsonConverter(), JSON_WITH_SCHEMAS);
            }
            return new Converters(topic, new AvroConverter<>(), new AvroConverter<>(), avro(job.get("registry").asText()));
        }

        SinkRecord record(JsonNode given, int offset) throws java.io.IOException {
            SchemaAndValue key = keys.toConnectData(topic, bytes(given.get("key")));
            SchemaAndValue value = values.toConnectData(topic, bytes(given.get("value")));
            ConnectHeaders all = new ConnectHeaders();
            for (JsonNode header : given.get("headers")) {
                String name = header.get(0).asText();
                all.add(name, headers.toConnectHeader(topic, name, bytes(header.get(1))));
            }
            return new SinkRecord(
                    topic, 0, key.schema(), key.value(), value.schema(), value.value(), offset, 0L, TimestampType.CREATE_TIME, all);
        }
    }

    private static byte[] bytes(JsonNode part) throws java.io.IOException {
        return part.isNull() ? null : part.binaryValue();
    }

    private static void show(ObjectNode shown, String name, Object struct) {
        if (struct == null) {
            shown.putNull(name);
            return;
        }
        ObjectNode columns = shown.putObject(name);
        Struct given = (Struct) struct;
        given.validate();
        for (Field field : given.schema().fields()) {
            String type = field.schema().name() == null ? field.schema().type().getName() : field.schema().name();
            columns.set(field.name(), cell(type, given.getWithoutDefault(field.name())));
        }
    }

    private static ArrayNode cell(String type, Object value) {
        ArrayNode cell = JSON.createArrayNode().add(type);
        if (value instanceof byte[] bytes) {
            return cell.add(bytes);
        } else if (value instanceof ByteBuffer buffer) {
            byte[] bytes = new byte[buffer.remaining()];
            buffer.duplicate().get(bytes);
            return cell.add(bytes);
        } else if (value instanceof BigDecimal decimal) {
            return cell.add(decimal.toPlainString());
        }
        return cell.add(value == null ? null : value.toString());
    }
}
