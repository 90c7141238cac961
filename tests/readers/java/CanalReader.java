import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import com.alibaba.fastjson2.JSONWriter;
import com.alibaba.otter.canal.client.adapter.support.Dml;
import com.alibaba.otter.canal.client.adapter.support.JdbcTypeUtil;
import com.alibaba.otter.canal.client.adapter.support.MessageUtil;
import com.alibaba.otter.canal.connector.core.consumer.CommonMessage;
import com.alibaba.otter.canal.connector.core.util.CanalMessageSerializerUtil;
import com.alibaba.otter.canal.protocol.CanalEntry;
import com.alibaba.otter.canal.protocol.FlatMessage;
import com.alibaba.otter.canal.protocol.Message;
import com.google.protobuf.InvalidProtocolBufferException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * What Canal's client makes of flat messages or packets, and Canal's client adapter of their rows.
 *
 * Job: {values: [base64…], packets: whether they are packets}. Answer: {dmls: [{database, table, type, ddl, keys, data, old, types, stored}…]}, and {error, at} where
 * the client throws at value number `at`. `stored` is `data` as the adapter converts it for a table by `sqlType`; bytes are
 * {base64}, what it cannot convert is {refused}.
 */
public final class CanalReader {
    public static void main(String[] arguments) throws Exception {
        Jobs.serve(CanalReader::answer);
    }

    private static String answer(String line) {
        JSONObject job = JSON.parseObject(line);
        List<String> values = job.getList("values", String.class);
        List<Object> dmls = new ArrayList<>();
        JSONObject answer = new JSONObject();
        answer.put("dmls", dmls);
        int at = 0;
        try {
            for (; at < values.size(); at++) {
                byte[] value = Base64.getDecoder().decode(values.get(at));
                if (job.getBooleanValue("packets")) {
                    readPacket(value, dmls);
                } else {
                    read(new String(value, StandardCharsets.UTF_8), dmls);
                }
            }
        } catch (RuntimeException failure) {
            answer.put("error", Jobs.reasons(failure));
            answer.put("at", at);
        }
        return JSON.toJSONString(answer, JSONWriter.Feature.WriteNulls, JSONWriter.Feature.LargeObject);
    }

    private static void read(String value, List<Object> dmls) {
        FlatMessage message = JSON.parseObject(value, FlatMessage.class);
        CommonMessage common = JSON.parseObject(value, CommonMessage.class);
        for (Dml dml : MessageUtil.flatMessage2Dml("destination", "group", List.of(common))) {
            Map<String, Object> shown = new LinkedHashMap<>();
            shown.put("database", dml.getDatabase());
            shown.put("table", dml.getTable());
            shown.put("type", dml.getType());
            shown.put("ddl", dml.getIsDdl());
            shown.put("keys", dml.getPkNames());
            shown.put("data", dml.getData());
            shown.put("old", dml.getOld());
            shown.put("types", message.getSqlType());
            shown.put("stored", stored(message));
            dmls.add(shown);
        }
    }

    /** One packet: its rows and statements, as the client has them. Entries are given to the adapter one by one. */
    private static void readPacket(byte[] value, List<Object> dmls) {
        for (CanalEntry.Entry entry : CanalMessageSerializerUtil.deserializer(value).getEntries()) {
            Message message = new Message(1L, false, new ArrayList<>(List.of(entry)));
            for (Dml dml : MessageUtil.parse4Dml("destination", "group", message)) {
                dmls.add(shown(dml, rowChange(entry)));
            }
        }
    }

    private static CanalEntry.RowChange rowChange(CanalEntry.Entry entry) {
        try {
            return CanalEntry.RowChange.parseFrom(entry.getStoreValue());
        } catch (InvalidProtocolBufferException failure) {
            throw new IllegalStateException(failure);
        }
    }

    private static Map<String, Object> shown(Dml dml, CanalEntry.RowChange change) {
        boolean isDelete = change.getEventType() == CanalEntry.EventType.DELETE;
        Map<String, Integer> types = new LinkedHashMap<>();
        List<Object> data = new ArrayList<>();
        List<Object> old = new ArrayList<>();
        for (CanalEntry.RowData row : change.getRowDatasList()) {
            List<CanalEntry.Column> columns = isDelete ? row.getBeforeColumnsList() : row.getAfterColumnsList();
            columns.forEach(column -> types.put(column.getName(), column.getSqlType()));
            data.add(texts(columns));
            List<CanalEntry.Column> changed = new ArrayList<>();
            for (CanalEntry.Column column : row.getBeforeColumnsList()) {
                if (!isDelete && row.getAfterColumns(column.getIndex()).getUpdated()) {
                    changed.add(column);
                }
            }
            old.add(texts(changed));
        }
        Map<String, Object> shown = new LinkedHashMap<>();
        shown.put("database", dml.getDatabase());
        shown.put("table", dml.getTable());
        shown.put("type", dml.getType());
        shown.put("ddl", dml.getIsDdl());
        shown.put("keys", dml.getPkNames());
        shown.put("data", data);
        shown.put("old", old);
        shown.put("types", types);
        shown.put("stored", dml.getData() == null ? null : new ArrayList<Object>());
        return shown;
    }

    private static Map<String, String> texts(List<CanalEntry.Column> columns) {
        Map<String, String> texts = new LinkedHashMap<>();
        columns.forEach(column -> texts.put(column.getName(), column.getIsNull() ? null : column.getValue()));
        return texts;
    }

    private static List<Object> stored(FlatMessage message) {
        if (message.getData() == null) {
            return null;
        }
        List<Object> rows = new ArrayList<>();
        for (Map<String, String> row : message.getData()) {
            Map<String, Object> converted = new LinkedHashMap<>();
            row.forEach((column, text) -> converted.put(column, text == null ? null : stored(message, column, text)));
            rows.add(converted);
        }
        return rows;
    }

    private static Object stored(FlatMessage message, String column, String text) {
        try {
            int type = message.getSqlType().get(column);
            String declared = message.getMysqlType().get(column);
            Object value = JdbcTypeUtil.typeConvert(message.getTable(), column, text, type, declared);
            return value instanceof byte[] bytes ? Map.of("base64", Base64.getEncoder().encodeToString(bytes)) : String.valueOf(value);
        } catch (RuntimeException failure) {
            return Map.of("refused", Jobs.reasons(failure));
        }
    }
}
