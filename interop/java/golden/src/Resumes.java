import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.streams.errors.ErrorHandlerContext;
import org.apache.kafka.streams.errors.ProductionExceptionHandler;

/** The production handler "Resumes" of VOCABULARY.md: what cannot be written is left out. */
public final class Resumes implements ProductionExceptionHandler {
    @Override
    public Response handleError(ErrorHandlerContext context, ProducerRecord<byte[], byte[]> record, Exception exception) {
        return Response.resume();
    }

    @Override
    @SuppressWarnings("rawtypes")
    public Response handleSerializationError(ErrorHandlerContext context, ProducerRecord record, Exception exception, SerializationExceptionOrigin origin) {
        return Response.resume();
    }

    @Override
    public void configure(java.util.Map<String, ?> configs) {
    }
}
