import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** The loop of every program here: a job is a line of JSON on standard input, its answer a line on standard output. */
final class Jobs {
    interface Worker {
        String answer(String job) throws Exception;
    }

    private Jobs() {}

    /** Ends at the end of the input. What libraries print goes to standard error, so that answers stand alone. */
    static void serve(Worker worker) throws Exception {
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader jobs = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String job = jobs.readLine(); job != null; job = jobs.readLine()) {
            answers.println(worker.answer(job));
            answers.flush();
        }
        System.exit(0); // connection pools leave threads behind
    }

    /** The failure and what caused it, outermost first, in one line. */
    static String reasons(Throwable failure) {
        StringBuilder said = new StringBuilder(failure.toString());
        for (Throwable cause = failure.getCause(); cause != null; cause = cause.getCause()) {
            said.append("; because of ").append(cause);
        }
        return said.toString().replaceAll("\\s+", " ");
    }
}
