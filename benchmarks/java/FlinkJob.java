import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;

/**
 * Flink's Table API with a cluster of its own within this process (MiniCluster), as a job that is run from an IDE has it.
 *
 * Arguments: a file of SQL statements with `;` at their lines' ends, then settings `name=value`. Runs until the last statement's job ends.
 */
public final class FlinkJob {
    public static void main(String[] arguments) throws Exception {
        Map<String, String> settings = new HashMap<>();
        for (int at = 1; at < arguments.length; at++) {
            String[] parts = arguments[at].split("=", 2);
            settings.put(parts[0], parts[1]);
        }
        EnvironmentSettings environment =
            EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(Configuration.fromMap(settings)).build();
        TableEnvironment tables = TableEnvironment.create(environment);
        TableResult result = null;
        for (String statement : Files.readString(Path.of(arguments[0])).split(";\\s*\\n")) {
            if (!statement.isBlank()) {
                result = tables.executeSql(statement);
            }
        }
        result.await();
    }
}
