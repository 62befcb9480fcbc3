import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.*;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;

/**
 * FewTopics BOOTSTRAP SEGMENT_KEY first|more: a few small topics of every kind, in several segments each, then more records onto them.
 *
 *   c-0       compacted
 *   d-0, d-1  deleted; the log of d-0 begins in the middle of a segment
 *   e-0       empty
 *   t-0       committed and aborted transactions; `more` leaves one open
 */
public class FewTopics {
    static Admin admin;
    static String bootstrap, segmentKey;

    public static void main(String[] a) throws Exception {
        bootstrap = a[0];
        segmentKey = a[1];
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
        boolean first = a[2].equals("first");
        if (first) {
            topic("c", 1, "compact");
            topic("d", 2, "delete");
            topic("e", 1, "delete");
            topic("t", 1, "delete");
        }
        int rounds = first ? 30 : 12;
        plain("c", 1, rounds);
        plain("d", 2, rounds);
        transactions("t", first ? 6 : 3, !first);
        if (first) {
            var before = Map.of(new TopicPartition("d", 0), RecordsToDelete.beforeOffset(75));
            admin.deleteRecords(before).all().get();
        }
        System.exit(0);
    }

    static void topic(String name, int partitions, String policy) throws Exception {
        var configs = Map.of("cleanup.policy", policy, segmentKey, "4096", "index.interval.bytes", "512", "segment.index.bytes", "4096",
                "retention.ms", "-1");
        admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1).configs(configs))).all().get();
    }

    /** A batch of five records in each round and partition. */
    static void plain(String topic, int partitions, int rounds) throws Exception {
        try (var p = producer(null)) {
            for (int round = 0; round < rounds; round++)
                for (int partition = 0; partition < partitions; partition++) {
                    for (int i = 0; i < 5; i++) send(p, topic, partition, round * 5 + i, 70);
                    p.flush();
                }
        }
    }

    static void transactions(String topic, int rounds, boolean leaveOpen) throws Exception {
        var one = producer("one");
        var two = producer("two");
        one.initTransactions();
        two.initTransactions();
        for (int round = 0; round < rounds; round++) {
            one.beginTransaction();
            for (int i = 0; i < 6; i++) send(one, topic, 0, i, 90);
            one.flush();
            two.beginTransaction();
            for (int i = 0; i < 6; i++) send(two, topic, 0, i, 90);
            two.flush();
            if (round % 2 == 0) one.abortTransaction(); else one.commitTransaction();
            two.commitTransaction();
        }
        if (leaveOpen) {
            one.beginTransaction();
            send(one, topic, 0, 1, 90);
            one.flush();
        }
        two.close();
        one.close(leaveOpen ? Duration.ZERO : Duration.ofSeconds(30));                 // no abort is sent by close(0)
    }

    static void send(KafkaProducer<byte[], byte[]> p, String topic, int partition, int i, int bytes) {
        p.send(new ProducerRecord<>(topic, partition, b("key-" + i % 23), b(("value-" + i + "-").repeat(bytes / 8))));
    }

    static KafkaProducer<byte[], byte[]> producer(String transactionalId) {
        Map<String, Object> c = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "acks", "all", "enable.idempotence", true, "linger.ms", 50));
        if (transactionalId != null) { c.put("transactional.id", transactionalId); c.put("transaction.timeout.ms", 600_000); }
        return new KafkaProducer<>(c, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static byte[] b(String s) { return s.getBytes(StandardCharsets.UTF_8); }
}
