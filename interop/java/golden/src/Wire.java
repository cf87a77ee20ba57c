import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Stream;
import org.apache.kafka.common.message.StreamsGroupHeartbeatRequestData;
import org.apache.kafka.common.message.StreamsGroupHeartbeatRequestDataJsonConverter;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.internals.InternalTopologyBuilder;
import org.apache.kafka.streams.processor.internals.StreamThread;

/** Writes, for each case with joined topics, the sub-topologies that the Java library puts into a streams group's heartbeat: one line a case. */
public final class Wire {
    public static void main(String[] args) throws Exception {
        Path cases = Path.of(args[0]), out = Path.of(args[1]), tmp = Path.of(args[2]);
        ObjectMapper json = new ObjectMapper();
        Method init = StreamThread.class.getDeclaredMethod("initBrokerTopology", StreamsConfig.class, InternalTopologyBuilder.class);
        init.setAccessible(true);
        Class<?> state = Class.forName("org.apache.kafka.clients.consumer.internals.StreamsGroupHeartbeatRequestManager$HeartbeatState");
        Method convert = state.getDeclaredMethod("fromStreamsToHeartbeatRequest", Map.class);
        convert.setAccessible(true);
        Field builder = Topology.class.getDeclaredField("internalTopologyBuilder");
        builder.setAccessible(true);
        StringBuilder lines = new StringBuilder();
        List<Path> files;
        try (Stream<Path> s = Files.walk(cases)) {
            files = s.filter(p -> p.toString().endsWith(".json")).sorted().toList();
        }
        for (Path f : files) {
            String name = cases.relativize(f).toString().replace(".json", "");
            JsonNode c = Fns.JSON.readTree(f.toFile());
            Properties props = Golden.props(name, c, tmp);
            InternalTopologyBuilder topology;
            try {
                topology = (InternalTopologyBuilder) builder.get(Build.topology(c, props));
            } catch (Exception e) {
                continue; // a case of what cannot be built
            }
            StreamsConfig config = new StreamsConfig(props);
            topology.rewriteTopology(config);
            topology.buildTopology();
            Object described;
            try {
                described = init.invoke(null, config, topology);
            } catch (InvocationTargetException e) {
                lines.append(json.writeValueAsString(json.createObjectNode().put("name", name).put("error", e.getCause().getMessage()))).append('\n');
                continue;
            }
            @SuppressWarnings("unchecked")
            var subs = (List<StreamsGroupHeartbeatRequestData.Subtopology>) convert.invoke(null, described);
            if (subs.stream().allMatch(s -> s.copartitionGroups().isEmpty())) continue;
            ObjectNode line = json.createObjectNode().put("name", name);
            ArrayNode parts = line.putArray("subtopologies");
            for (var s : subs) {
                var data = new StreamsGroupHeartbeatRequestData().setTopology(new StreamsGroupHeartbeatRequestData.Topology().setSubtopologies(List.of(s)));
                parts.add(StreamsGroupHeartbeatRequestDataJsonConverter.write(data, (short) 1).get("topology").get("subtopologies").get(0));
            }
            lines.append(json.writeValueAsString(line)).append('\n');
        }
        Files.writeString(out, lines);
    }
}
