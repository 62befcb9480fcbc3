import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.*;

import java.io.*;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.Future;

/**
 * Fill BOOTSTRAP SEGMENT_KEY FORMATS: a version's own clients. It compiles against the clients of 2.8 to 4.4 and runs on the class path of the
 * version that it fills. Each line on stdin is answered by a line.
 *
 *   first    topics that the broker's own cleaner is to clean once
 *   main     all other topics; the clean ones get dirty again. FORMATS: those of message formats v0 and v1, too
 *   last     settings of retention, at which a broker looks only later
 *   again    goes on, after the directory was cleaned: a transactional id, an idempotent producer, a group
 *
 * SEGMENT_KEY: the setting that makes small segments. Timestamps: half are ten days old, half are new.
 */
public class Fill {
    static final long NOW = System.currentTimeMillis(), DAY = 86_400_000L, OLD = NOW - 10 * DAY;
    static final String WORDS = "the quick brown fox jumps over the lazy dog while compacting a log directory offline ";
    static final String GROUP = "version-group", TRANSACTIONAL = "version-txn";
    static final int COMMITTED = 150;
    static String bootstrap, segmentKey;
    static Admin admin;

    public static void main(String[] a) throws Exception {
        bootstrap = a[0];
        segmentKey = a[1];
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
        var in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; )
            System.out.println(switch (line) {
                case "first" -> first();
                case "main" -> main(a[2].equals("true"));
                case "last" -> last();
                case "again" -> again();
                default -> throw new IllegalArgumentException(line);
            });
        System.exit(0);
    }

    static String first() throws Exception {
        for (String name : List.of("b-plain", "b-txn"))
            topic(name, 1, "min.cleanable.dirty.ratio", "0.01", "delete.retention.ms", "1", segmentKey, "8192");
        mixed("b-plain", "lz4", 900, 60, 1, true);
        transactions("b-txn", 6, false);
        return "written";
    }

    static String main(boolean formats) throws Exception {
        // What the broker's cleaner has cleaned is left alone from now on.
        for (String name : List.of("b-plain", "b-txn")) alter(name, "min.cleanable.dirty.ratio", "", AlterConfigOp.OpType.DELETE);
        mixed("b-plain", "lz4", 500, 60, 2, true);
        transactions("b-txn", 4, false);

        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            topic("c-" + codec, 1);
            mixed("c-" + codec, codec, 1200, 80, 3 + codec.hashCode(), true);
        }
        topic("c-plain", 1);
        mixed("c-plain", "none", 900, 60, 4, false);                                   // no producer id at all
        topic("c-many", 3);
        mixed("c-many", "lz4", 1500, 120, 5, true);
        topic("c-recompressed", 1, "compression.type", "zstd");
        mixed("c-recompressed", "gzip", 900, 60, 6, true);
        topic("c-append-time", 1, "message.timestamp.type", "LogAppendTime");
        mixed("c-append-time", "lz4", 600, 40, 7, true);
        topic("c-large", 1, segmentKey, "1048576");                                    // small enough for every version
        large("c-large");
        topic("c-tombstones", 1, segmentKey, "4096");
        tombstones("c-tombstones");
        topic("t-closed", 1);
        transactions("t-closed", 10, false);
        topic("t-open", 1);
        transactions("t-open", 6, true);
        if (formats) oldFormats();
        topic("d-time", 1, "cleanup.policy", "delete", "retention.ms", "-1");
        aged("d-time");
        topic("d-size", 1, "cleanup.policy", "delete", "retention.ms", "-1");
        aged("d-size");
        topic("cd-both", 1, "cleanup.policy", "compact,delete");                       // retention.ms is that of the broker
        aged("cd-both");
        group();
        return "written";
    }

    static String last() throws Exception {
        set("d-time", "retention.ms", "" + 5 * DAY);
        set("d-size", "retention.bytes", "30000");
        return "set";
    }

    /** Each step fails with an exception if the broker has lost what it needs. */
    static String again() throws Exception {
        try (var p = producer("none", true, 2048, TRANSACTIONAL); var c = consumer(GROUP)) {
            p.initTransactions();
            long committed = c.committed(Set.of(new TopicPartition("c-none", 0))).get(new TopicPartition("c-none", 0)).offset();
            c.subscribe(List.of("c-none"));
            ConsumerRecords<byte[], byte[]> records = ConsumerRecords.empty();
            for (long end = System.currentTimeMillis() + 30_000; records.isEmpty() && System.currentTimeMillis() < end; ) records = c.poll(Duration.ofMillis(200));
            long resumed = records.iterator().next().offset();
            p.beginTransaction();
            p.send(rec("t-closed", NOW, b("again"), b("committed"))).get();
            p.sendOffsetsToTransaction(Map.of(new TopicPartition("c-none", 0), new OffsetAndMetadata(resumed + 1)), c.groupMetadata());
            p.commitTransaction();
            p.beginTransaction();
            p.send(rec("t-closed", NOW, b("again"), b("aborted"))).get();
            p.abortTransaction();
            mixed("c-none", "none", 50, 10, 8, true);
            return committed + " " + resumed;
        }
    }

    // ------------------------------------------------------------------ topics

    static void topic(String name, int partitions, String... more) throws Exception {
        var configs = new HashMap<String, String>(Map.of("cleanup.policy", "compact", segmentKey, "16384"));
        for (int i = 0; i < more.length; i += 2) configs.put(more[i], more[i + 1]);
        admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1).configs(configs))).all().get();
    }

    static void set(String topic, String key, String value) throws Exception { alter(topic, key, value, AlterConfigOp.OpType.SET); }

    static void alter(String topic, String key, String value, AlterConfigOp.OpType how) throws Exception {
        var change = new AlterConfigOp(new ConfigEntry(key, value), how);
        admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.TOPIC, topic), List.of(change))).all().get();
    }

    /** Overwrites, tombstones, empty keys and values, headers. */
    static void mixed(String topic, String codec, int n, int keys, int seed, boolean idempotent) throws Exception {
        Random r = new Random(seed);
        try (var p = producer(codec, idempotent, 2048, null)) {
            for (int i = 0; i < n; i++) {
                byte[] k = r.nextInt(200) == 0 ? new byte[0] : b("key-" + r.nextInt(keys));
                byte[] v = r.nextInt(100) < 6 ? null : text(r, r.nextInt(200));
                var rec = rec(topic, aging(i, n), k, v);
                if (r.nextInt(10) == 0) rec.headers().add(new RecordHeader("trace", text(r, 16))).add(new RecordHeader("null", (byte[]) null));
                p.send(rec);
                if (r.nextInt(40) == 0) p.flush();
            }
        }
    }

    static void large(String topic) throws Exception {
        Random r = new Random(20);
        try (var p = producer("none", true, 16384, null)) {
            for (int i = 0; i < 2600; i++) p.send(rec(topic, aging(i, 2600), b("key-" + r.nextInt(200)), text(r, 1000)));
        }
    }

    static void tombstones(String topic) throws Exception {
        try (var p = producer("none", true, 1024, null)) {
            for (int round = 0; round < 6; round++)
                for (int i = 0; i < 60; i++) p.send(rec(topic, OLD + round * DAY + i, b("k" + i), (i + round) % 3 == 0 ? null : b("r" + round + "v".repeat(i % 40))));
        }
    }

    /** Compaction empties no segment of old records: retention deletes the same ones before and after it. */
    static void aged(String topic) throws Exception {
        Random r = new Random(21);
        try (var p = producer("none", true, 4096, null)) {
            for (int i = 0; i < 1200; i++) p.send(rec(topic, aging(i, 1200), b(i < 600 ? "old-" + i % 500 : "new-" + i % 250), text(r, 90)));
        }
    }

    /** Committed, aborted and interleaved transactions, and records outside of any. */
    static void transactions(String topic, int rounds, boolean leaveOpen) throws Exception {
        Random r = new Random(22);
        var one = producer("none", true, 2048, topic + "-A");
        var two = producer("none", true, 2048, topic + "-B");
        one.initTransactions();
        two.initTransactions();
        try (var plain = producer("none", true, 2048, null)) {
            for (int round = 0; round < rounds; round++) {
                one.beginTransaction();
                fill(one, topic, r, 20);
                two.beginTransaction();
                fill(two, topic, r, 15);
                fill(plain, topic, r, 10);
                if (round % 3 == 0) one.abortTransaction(); else one.commitTransaction();
                fill(two, topic, r, 15);
                if (round % 2 == 0) two.abortTransaction(); else two.commitTransaction();
            }
            fill(plain, topic, r, 100);
            if (leaveOpen) {
                one.beginTransaction();
                fill(one, topic, r, 20);
                fill(plain, topic, r, 300);
            }
        }
        two.close();
        one.close(leaveOpen ? Duration.ZERO : Duration.ofSeconds(30));                 // no abort is sent by close(0)
    }

    static void fill(KafkaProducer<byte[], byte[]> p, String topic, Random r, int n) {
        for (int i = 0; i < n; i++) p.send(rec(topic, NOW, b("t" + r.nextInt(50)), r.nextInt(8) == 0 ? null : text(r, r.nextInt(50))));
        p.flush();
    }

    /** The broker converts what it gets to the format of the topic. */
    static void oldFormats() throws Exception {
        for (String codec : List.of("none", "gzip", "snappy", "lz4")) {
            topic("f-v0-" + codec, 1, "message.format.version", "0.9.0");
            topic("f-v1-" + codec, 1, "message.format.version", "0.10.0");
            for (String format : List.of("v0", "v1")) bare("f-" + format + "-" + codec, codec, 600);
        }
        topic("f-mixed", 1, "message.format.version", "0.9.0");
        bare("f-mixed", "none", 400);
        set("f-mixed", "message.format.version", "0.10.0");
        bare("f-mixed", "gzip", 400);
        set("f-mixed", "message.format.version", "2.8");
        bare("f-mixed", "none", 400);
    }

    static void bare(String topic, String codec, int n) throws Exception {
        Random r = new Random(23);
        try (var p = producer(codec, false, 1024, null)) {
            for (int i = 0; i < n; i++) p.send(rec(topic, aging(i, n), b("key-" + r.nextInt(50)), r.nextInt(20) == 0 ? null : text(r, r.nextInt(100))));
        }
    }

    static void group() throws Exception {
        try (var p = producer("none", true, 2048, TRANSACTIONAL); var c = consumer(GROUP)) {
            p.initTransactions();
            c.subscribe(List.of("c-none"));
            int seen = 0;
            while (seen < COMMITTED) seen += c.poll(Duration.ofMillis(200)).count();
            for (int i = 1; i <= COMMITTED; i++) c.commitSync(Map.of(new TopicPartition("c-none", 0), new OffsetAndMetadata(i, "commit " + i)));
            p.beginTransaction();
            p.send(rec("t-closed", NOW, b("group"), b("committed")));
            p.sendOffsetsToTransaction(Map.of(new TopicPartition("c-many", 0), new OffsetAndMetadata(42)), c.groupMetadata());
            p.commitTransaction();
        }
    }

    // ----------------------------------------------------------------- clients

    static KafkaProducer<byte[], byte[]> producer(String codec, boolean idempotent, int batch, String transactionalId) {
        Map<String, Object> c = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "acks", "all", "compression.type", codec, "enable.idempotence", idempotent,
                "batch.size", batch, "linger.ms", 5, "max.in.flight.requests.per.connection", 1));
        if (transactionalId != null) { c.put("transactional.id", transactionalId); c.put("transaction.timeout.ms", 600_000); }
        return new KafkaProducer<>(c, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static KafkaConsumer<byte[], byte[]> consumer(String group) {
        return new KafkaConsumer<>(Map.of("bootstrap.servers", bootstrap, "group.id", group, "auto.offset.reset", "earliest", "enable.auto.commit", false,
                "max.poll.records", 50), new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static ProducerRecord<byte[], byte[]> rec(String topic, long timestamp, byte[] k, byte[] v) { return new ProducerRecord<>(topic, null, timestamp, k, v); }

    static long aging(int i, int n) { return i < n / 2 ? OLD + i : NOW - 60_000 + i; }

    static byte[] b(String s) { return s.getBytes(StandardCharsets.UTF_8); }

    static byte[] text(Random r, int n) {
        byte[] out = new byte[n];
        for (int i = 0, at = r.nextInt(WORDS.length()); i < n; i++) out[i] = (byte) (r.nextInt(4) == 0 ? 'a' + r.nextInt(26) : WORDS.charAt((at + i) % WORDS.length()));
        return out;
    }
}
