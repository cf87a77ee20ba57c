import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.kafka.tools.AclCommand;

/** Runs the command line tool for ACLs once for each line of a file: its arguments, separated by spaces. */
public final class AclCommands {
    public static void main(String[] args) throws Exception {
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            AclCommand.main(line.split(" "));
        }
    }
}
