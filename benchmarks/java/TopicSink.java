import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;

/**
 * A sink connector that writes a topic's records into another topic, partition by partition, through Connect's own JsonConverter.
 *
 * Settings: `target.topic`, and the producer's with `target.` before their names. Kafka has sources that write topics (MirrorMaker
 * among them), which hand bytes on; it has no sink that writes one, and converters read on a sink's side alone.
 */
public final class TopicSink extends SinkConnector {
    private Map<String, String> settings;

    @Override
    public void start(Map<String, String> settings) {
        this.settings = settings;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return Copy.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        return List.of(settings);
    }

    @Override
    public void stop() {
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef().define("target.topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "where records go");
    }

    @Override
    public String version() {
        return "1";
    }

    /** Prints each record's key and value as JSON without schema; offsets are committed once all is acknowledged. */
    public static final class Copy extends SinkTask {
        private final JsonConverter keys = new JsonConverter();
        private final JsonConverter values = new JsonConverter();
        private String topic;
        private KafkaProducer<byte[], byte[]> producer;
        private volatile Exception failure;

        @Override
        public void start(Map<String, String> settings) {
            topic = settings.get("target.topic");
            keys.configure(Map.of("schemas.enable", "false"), true);
            values.configure(Map.of("schemas.enable", "false"), false);
            Map<String, Object> own = new HashMap<>();
            settings.forEach((name, value) -> {
                if (name.startsWith("target.") && !name.equals("target.topic")) {
                    own.put(name.substring("target.".length()), value);
                }
            });
            producer = new KafkaProducer<>(own, new ByteArraySerializer(), new ByteArraySerializer());
        }

        @Override
        public void put(Collection<SinkRecord> records) {
            for (SinkRecord record : records) {
                byte[] key = keys.fromConnectData(topic, record.keySchema(), record.key());
                byte[] value = values.fromConnectData(topic, record.valueSchema(), record.value());
                producer.send(new ProducerRecord<>(topic, record.kafkaPartition(), record.timestamp(), key, value), (sent, error) -> {
                    if (error != null) {
                        failure = error;
                    }
                });
            }
        }

        @Override
        public void flush(Map<org.apache.kafka.common.TopicPartition, org.apache.kafka.clients.consumer.OffsetAndMetadata> offsets) {
            producer.flush();
            if (failure != null) {
                throw new ConnectException(failure);
            }
        }

        @Override
        public void stop() {
            if (producer != null) {
                producer.close();
            }
        }

        @Override
        public String version() {
            return "1";
        }
    }
}
