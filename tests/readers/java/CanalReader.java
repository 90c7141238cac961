import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import com.alibaba.fastjson2.JSONWriter;
import com.alibaba.otter.canal.client.adapter.support.Dml;
import com.alibaba.otter.canal.client.adapter.support.JdbcTypeUtil;
import com.alibaba.otter.canal.client.adapter.support.MessageUtil;
import com.alibaba.otter.canal.connector.core.consumer.CommonMessage;
import com.alibaba.otter.canal.protocol.FlatMessage;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * What Canal's client makes of flat messages, and Canal's client adapter of their rows.
 *
 * Job: {values: [base64…]}. Answer: {dmls: [{database, table, type, ddl, keys, data, old, types, stored}…]}, and {error, at} where
 * the client throws at value number `at`. `stored` is `data` as the adapter converts it for a table by `sqlType`; bytes are
 * {base64}, what it cannot convert is {refused}.
 */
public final class CanalReader {
    public static void main(String[] arguments) throws Exception {
        Jobs.serve(CanalReader::answer);
    }

    private static String answer(String line) {
        List<String> values = JSON.parseObject(line).getList("values", String.class);
        List<Object> dmls = new ArrayList<>();
        JSONObject answer = new JSONObject();
        answer.put("dmls", dmls);
        int at = 0;
        try {
            for (; at < values.size(); at++) {
                read(new String(Base64.getDecoder().decode(values.get(at)), StandardCharsets.UTF_8), dmls);
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
