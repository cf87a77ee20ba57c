import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * One case a line in, one result a line out, until the input ends. A result has what the case does not have already; a case that
 * the interpreter itself cannot run, or that takes too long, gives {"unusable": why}.
 */
public final class Lines {
    private Lines() {}

    static final List<String> KNOWN = List.of("name", "topology", "steps", "topics", "config", "topology_config", "inputs");

    public static void main(String[] args) throws Exception {
        Path tmp = Path.of(args[0]);
        long limit = Long.parseLong(args[1]);
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        ObjectMapper compact = new ObjectMapper();
        ExecutorService worker = worker();
        int n = 0;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode c = Fns.JSON.readTree(line);
            String name = "case-" + n++;
            Future<ObjectNode> running = worker.submit(() -> Golden.one(name, c, tmp));
            ObjectNode result;
            try {
                result = running.get(limit, TimeUnit.SECONDS);
                result.remove(KNOWN);
            } catch (TimeoutException e) {
                result = compact.createObjectNode().put("unusable", "takes more than " + limit + " s");
                worker.shutdownNow();   // a thread that never ends is left behind
                worker = worker();
            } catch (java.util.concurrent.ExecutionException e) {
                result = compact.createObjectNode().put("unusable", String.valueOf(e.getCause()));
            }
            out.println(compact.writeValueAsString(result));
            out.flush();
        }
        System.exit(0);
    }

    static ExecutorService worker() {
        return Executors.newSingleThreadExecutor(r -> {
            Thread t = new Thread(r, "case");
            t.setDaemon(true);
            return t;
        });
    }
}
