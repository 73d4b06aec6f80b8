import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.FileReader;
import java.io.Reader;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Writes the changes of a database to a topic, as Debezium's JSON with its keys: those of a row are in one partition. It
 * ends when it has written a change of the table that the property "until" names. The properties of the engine begin
 * with "engine.", those of the producer with "producer.".
 */
public final class Capture {
    private static Properties select(Properties given, String prefix) {
        Properties found = new Properties();
        for (String name : given.stringPropertyNames()) {
            if (name.startsWith(prefix)) {
                found.setProperty(name.substring(prefix.length()), given.getProperty(name));
            }
        }
        return found;
    }

    public static void main(String[] arguments) throws Exception {
        Properties given = new Properties();
        try (Reader reader = new FileReader(arguments[0])) {
            given.load(reader);
        }
        String topic = given.getProperty("topic");
        String until = given.getProperty("until");
        KafkaProducer<String, String> producer =
                new KafkaProducer<>(select(given, "producer."), new StringSerializer(), new StringSerializer());
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class)
                .using(select(given, "engine."))
                .notifying((records, committer) -> {
                    boolean done = false;
                    List<Future<RecordMetadata>> sent = new ArrayList<>();
                    for (ChangeEvent<String, String> each : records) {
                        sent.add(producer.send(new ProducerRecord<>(topic, each.key(), each.value())));
                        done |= until.equals(each.destination());
                    }
                    for (Future<RecordMetadata> each : sent) {
                        try {
                            each.get();
                        } catch (java.util.concurrent.ExecutionException failed) {
                            failed.printStackTrace();
                            Runtime.getRuntime().halt(3);
                        }
                    }
                    for (ChangeEvent<String, String> each : records) {
                        committer.markProcessed(each);
                    }
                    committer.markBatchFinished();
                    if (done) {
                        System.out.println("captured");
                        System.out.flush();
                        Runtime.getRuntime().halt(0);
                    }
                })
                .using((success, message, error) -> {
                    System.err.println("the engine has ended: " + message);
                    if (error != null) {
                        error.printStackTrace();
                    }
                    Runtime.getRuntime().halt(2);
                })
                .build();
        engine.run();
    }
}
