import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.UUID;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.streams.KafkaStreams;

/**
 * Which metrics the Java library has for the course-revenue topology, at whatever recording level (that decides about
 * values alone) and under either group protocol: one line of JSON for each, with group, name and the names of the tags.
 * Arguments: bootstrap.servers and a file to write.
 */
public final class MetricNames {
    public static void main(String[] args) throws Exception {
        TreeSet<String> names = names(args[0], "classic");
        names.addAll(names(args[0], "streams"));
        Files.writeString(Path.of(args[1]), "[\n" + String.join(",\n", names) + "\n]\n");
    }

    private static TreeSet<String> names(String servers, String protocol) throws Exception {
        String mark = "metric-names-" + UUID.randomUUID();
        Properties p = new Properties();
        p.putAll(Map.of(
            "bootstrap.servers", servers, "application.id", mark, "metrics.recording.level", "DEBUG",
            "processing.guarantee", "exactly_once_v2", "group.protocol", protocol, "auto.offset.reset", "earliest",
            "state.dir", Files.createTempDirectory("metric-names").toString(),
            "job.lines", mark + "-lines", "job.courses", mark + "-courses", "job.output", mark + "-output"));
        List<String> topics = List.of(mark + "-lines", mark + "-courses", mark + "-output");
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
            admin.createTopics(topics.stream().map(t -> new NewTopic(t, 1, (short) 1)).toList()).all().get();
            try (KafkaStreams streams = new KafkaStreams(CourseRevenueJob.build(p), p)) {
                streams.start();
                long deadline = System.nanoTime() + Duration.ofSeconds(60).toNanos();
                while (streams.state() != KafkaStreams.State.RUNNING && System.nanoTime() < deadline) {
                    Thread.sleep(100);
                }
                return streams.metrics().keySet().stream()
                    .filter(n -> n.group().startsWith("stream-"))
                    .map(n -> "{\"group\": \"" + n.group() + "\", \"name\": \"" + n.name() + "\", \"tags\": ["
                        + n.tags().keySet().stream().sorted().map(t -> '"' + t + '"').collect(Collectors.joining(", "))
                        + "]}")
                    .collect(Collectors.toCollection(TreeSet::new));
            } finally {
                admin.deleteTopics(topics).all().get();
            }
        }
    }
}
