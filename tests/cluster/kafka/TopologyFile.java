import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.coordinator.group.api.streams.StreamsGroupTopologyDescription;
import org.apache.kafka.coordinator.group.api.streams.StreamsGroupTopologyDescriptionPlugin;

/** Has a broker ask for the topology of every group, and writes what it is told to a file of the group's name. */
public class TopologyFile implements StreamsGroupTopologyDescriptionPlugin {
    private Path directory;

    @Override
    public void configure(Map<String, ?> configs) {
        directory = Path.of((String) configs.get("topology.file.directory"));
    }

    @Override
    public CompletableFuture<Void> setTopology(String group, int epoch, StreamsGroupTopologyDescription told) {
        try {
            Files.writeString(directory.resolve(group + ".writing"), told.toString());
            Files.move(directory.resolve(group + ".writing"), directory.resolve(group));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return CompletableFuture.completedFuture(null);
    }

    @Override
    public CompletableFuture<StreamsGroupTopologyDescription> getTopology(String group, int epoch) {
        return CompletableFuture.completedFuture(null);
    }

    @Override
    public CompletableFuture<Void> deleteTopology(String group) {
        return CompletableFuture.completedFuture(null);
    }

    @Override
    public void close() {}
}
