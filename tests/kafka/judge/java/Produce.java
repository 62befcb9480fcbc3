import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.*;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.ExecutionException;

/**
 * Fills a broker with a varied set of topics. The records (keys, values, timestamps, headers) are a function of
 * the seed; how they fall into batches is decided by batchSize, and `flush()` calls, so it is stable as well.
 * Only broker-made things vary from run to run: producer ids, marker timestamps, LogAppendTime, commit times.
 *
 *   Produce BOOTSTRAP main     everything up to the clean stop
 *   Produce BOOTSTRAP more     a little more onto some topics (before the broker is killed)
 *   Produce BOOTSTRAP configs  prints the topics' own configs, lines "topic key=value"
 *
 * Options: --seed N (default 0, the fixtures' own), --scale F (share of the records, default 1), --topics REGEX (only those; the
 * consumer groups count as "__consumer_offsets"), --segment-key KEY (the setting that makes small segments on an older broker).
 */
public class Produce {
    /** All CreateTime timestamps are T0 + something; 2026-09-21T14:13:20Z. */
    static final long T0 = 1_790_000_000_000L;
    static final long MIN = 60_000L, HOUR = 60 * MIN, DAY = 24 * HOUR;
    /** Small segments so that a small fixture has many; `internal.segment.bytes` is Kafka's own testing override. */
    static String SEG = "internal.segment.bytes";

    static String bootstrap;
    static long seed = 0;
    static double scale = 1;
    static String topics = ".*";
    static Admin admin;
    static final String WORDS = "the quick brown fox jumps over the lazy dog while compacting a log directory offline ";

    public static void main(String[] a) throws Exception {
        bootstrap = a[0];
        for (int i = 2; i < a.length; i += 2)
            switch (a[i]) {
                case "--seed" -> seed = Long.parseLong(a[i + 1]);
                case "--scale" -> scale = Double.parseDouble(a[i + 1]);
                case "--topics" -> topics = a[i + 1];
                case "--segment-key" -> SEG = a[i + 1];
                default -> throw new IllegalArgumentException(a[i]);
            }
        try (Admin ad = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin = ad;
            switch (a[1]) {
                case "main" -> mainSet();
                case "more" -> more();
                case "configs" -> configs();
                default -> throw new IllegalArgumentException(a[1]);
            }
        }
    }

    // ------------------------------------------------------------------ topics

    static void mainSet() throws Exception {
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            topic("c-" + codec, 1, Map.of("cleanup.policy", "compact", SEG, "65536"));
            mixed("c-" + codec, codec, 6000, 400, 1 + codec.hashCode(), true);
        }
        topic("c-plain", 1, Map.of("cleanup.policy", "compact", SEG, "65536"));        // no producer id at all
        mixed("c-plain", "none", 4000, 300, 11, false);
        topic("c-4p", 4, Map.of("cleanup.policy", "compact", SEG, "65536"));
        mixed("c-4p", "lz4", 8000, 600, 12, true);
        // The broker recompresses: producer sends gzip, the log holds zstd.
        topic("c-recompress", 1, Map.of("cleanup.policy", "compact", SEG, "65536", "compression.type", "zstd"));
        mixed("c-recompress", "gzip", 3000, 300, 13, true);
        // Segments rolled by index size, not by bytes.
        topic("c-smallindex", 1, Map.of("cleanup.policy", "compact", "segment.index.bytes", "96", "index.interval.bytes", "1024"));
        mixed("c-smallindex", "none", 3000, 100, 14, true);
        // Keys that occur once only, plus keys overwritten every time; whole batches vanish.
        topic("c-hotkey", 1, Map.of("cleanup.policy", "compact", SEG, "32768"));
        hotKey("c-hotkey");
        topic("c-lat", 1, Map.of("cleanup.policy", "compact", SEG, "65536", "message.timestamp.type", "LogAppendTime"));
        mixed("c-lat", "lz4", 3000, 200, 15, true);
        topic("c-minlag", 1, Map.of("cleanup.policy", "compact", SEG, "65536", "min.compaction.lag.ms", "" + 2 * DAY));
        mixed("c-minlag", "none", 4000, 200, 16, true);
        topic("c-bigkey", 1, Map.of("cleanup.policy", "compact", SEG, "1048576", "max.message.bytes", "4194304"));
        bigKeys("c-bigkey");
        topic("c-multi", 1, Map.of("cleanup.policy", "compact", SEG, "65536"));
        multiProducers("c-multi");
        topic("c-tomb", 1, Map.of("cleanup.policy", "compact", SEG, "4096"));
        tombstones("c-tomb");
        topic("c-nullkey", 1, Map.of("cleanup.policy", "delete", SEG, "32768"));       // turned to compact below
        nullKeyThenCompact("c-nullkey");

        topic("t-closed", 1, Map.of("cleanup.policy", "compact", SEG, "16384"));
        transactions("t-closed", false);
        topic("t-open", 1, Map.of("cleanup.policy", "compact", SEG, "16384"));
        transactions("t-open", true);
        topic("t-long", 1, Map.of("cleanup.policy", "compact", SEG, "8192"));
        longTransactions("t-long");

        topic("d-time", 1, Map.of("cleanup.policy", "delete", SEG, "65536", "retention.ms", "" + 5 * DAY));
        deleteTopic("d-time", false);
        topic("d-size", 1, Map.of("cleanup.policy", "delete", SEG, "65536", "retention.bytes", "200000", "retention.ms", "-1"));
        deleteTopic("d-size", false);
        topic("d-disorder", 1, Map.of("cleanup.policy", "delete", SEG, "65536", "retention.ms", "" + 5 * DAY));
        deleteTopic("d-disorder", true);
        topic("d-start", 1, Map.of("cleanup.policy", "delete", SEG, "65536", "retention.ms", "-1"));
        deleteTopic("d-start", false);
        if (wanted("d-start"))
            admin.deleteRecords(Map.of(new TopicPartition("d-start", 0), RecordsToDelete.beforeOffset(scaled(1234)))).all().get();
        topic("cd-mixed", 1, Map.of("cleanup.policy", "compact,delete", SEG, "65536", "retention.ms", "-1"));   // the cleaner thread applies retention to these at once
        mixed("cd-mixed", "none", 5000, 300, 17, true);

        // A topic the broker really cleans (delete horizons appear), then gets fresh dirt on top.
        topic("b-cleaned", 1, Map.of("cleanup.policy", "compact", SEG, "32768", "min.cleanable.dirty.ratio", "0.01", "delete.retention.ms", "" + DAY));
        mixed("b-cleaned", "lz4", 4000, 150, 18, true);
        topic("b-txn", 1, Map.of("cleanup.policy", "compact", SEG, "16384", "min.cleanable.dirty.ratio", "0.01", "delete.retention.ms", "" + DAY));
        transactions("b-txn", false);
        if (wanted("b-cleaned") || wanted("b-txn")) Thread.sleep(6000);                // cleaner back-off is 1 s
        topicConfig("b-cleaned", "min.cleanable.dirty.ratio", "1.0");
        topicConfig("b-txn", "min.cleanable.dirty.ratio", "1.0");
        if (wanted("b-cleaned") || wanted("b-txn")) Thread.sleep(1500);
        mixed("b-cleaned", "lz4", 2000, 150, 19, true);
        transactions("b-txn", false);

        if (wanted("__consumer_offsets")) groups();
        if (!wanted("t-v1")) return;

        // The older transaction protocol (no epoch bump per transaction; markers carry the epoch of the data).
        admin.updateFeatures(Map.of("transaction.version", new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.SAFE_DOWNGRADE)),
                new UpdateFeaturesOptions()).all().get();
        Thread.sleep(1000);
        topic("t-v1", 1, Map.of("cleanup.policy", "compact", SEG, "16384"));
        transactions("t-v1", false);
    }

    static void more() throws Exception {
        mixed("c-none", "none", 700, 400, 31, true);
        mixed("c-lz4", "lz4", 700, 400, 32, true);
        transactions("t-closed", true);
        deleteTopic("d-time", false);
    }

    static void topic(String name, int partitions, Map<String, String> cfg) throws Exception {
        if (!wanted(name)) return;
        admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1).configs(cfg))).all().get();
    }

    static void configs() throws Exception {
        var resources = new TreeMap<String, org.apache.kafka.common.config.ConfigResource>();
        for (String name : admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get())
            resources.put(name, new org.apache.kafka.common.config.ConfigResource(org.apache.kafka.common.config.ConfigResource.Type.TOPIC, name));
        var described = admin.describeConfigs(resources.values()).all().get();
        resources.forEach((name, resource) -> described.get(resource).entries().stream()
                .filter(e -> e.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG).sorted(Comparator.comparing(ConfigEntry::name))
                .forEach(e -> System.out.println(name + " " + e.name() + "=" + e.value())));
    }

    static void topicConfig(String name, String k, String v) throws Exception {
        if (!wanted(name)) return;
        var r = new org.apache.kafka.common.config.ConfigResource(org.apache.kafka.common.config.ConfigResource.Type.TOPIC, name);
        admin.incrementalAlterConfigs(Map.of(r, List.of(new AlterConfigOp(new ConfigEntry(k, v), AlterConfigOp.OpType.SET)))).all().get();
    }

    // --------------------------------------------------------------- producers

    static KafkaProducer<byte[], byte[]> producer(String codec, boolean idempotent, int batchSize, String txnId) {
        Map<String, Object> c = new HashMap<>(Map.of(
                "bootstrap.servers", bootstrap, "acks", "all", "compression.type", codec,
                "enable.idempotence", idempotent, "batch.size", batchSize, "linger.ms", 1000,
                "max.request.size", 8 << 20, "max.in.flight.requests.per.connection", 1));
        if (txnId != null) { c.put("transactional.id", txnId); c.put("transaction.timeout.ms", 900_000); }
        return new KafkaProducer<>(c, new ByteArraySerializer(), new ByteArraySerializer());
    }

    /** Seed 0 gives the records of the fixtures. */
    static Random random(long salt) { return new Random(salt + seed * 1_000_003L); }

    static int scaled(int n) { return Math.max(1, (int) Math.round(n * scale)); }

    static boolean wanted(String topic) { return topic.matches(topics); }

    static byte[] b(String s) { return s == null ? null : s.getBytes(StandardCharsets.UTF_8); }

    static byte[] text(Random r, int n) {                // half compressible text, half noise
        byte[] out = new byte[n];
        for (int i = 0; i < n; ) {
            if (r.nextInt(3) == 0) { out[i++] = (byte) ('a' + r.nextInt(26)); continue; }
            int at = r.nextInt(WORDS.length()), len = Math.min(3 + r.nextInt(12), n - i);
            for (int j = 0; j < len; j++) out[i++] = (byte) WORDS.charAt((at + j) % WORDS.length());
        }
        return out;
    }

    static ProducerRecord<byte[], byte[]> rec(String topic, long ts, byte[] k, byte[] v) {
        return new ProducerRecord<>(topic, null, ts, k, v);
    }

    /** Overwrites, tombstones, empty keys, empty values, headers (with null and empty values, repeated names). */
    static void mixed(String topic, String codec, int n, int keys, int seed, boolean idempotent) throws Exception {
        if (!wanted(topic)) return;
        n = scaled(n);
        Random r = random(seed);
        try (var p = producer(codec, idempotent, 4096, null)) {
            for (int i = 0; i < n; i++) {
                long ts = T0 + i * (6 * DAY) / n + r.nextInt(1000) - 500;             // slightly out of order
                int d = r.nextInt(1000);
                byte[] k = d < 5 ? new byte[0] : b(String.format("key-%05d-%s", r.nextInt(keys), "x".repeat(r.nextInt(3) == 0 ? 20 : 0)));
                byte[] v = r.nextInt(100) < 6 ? null : r.nextInt(100) < 3 ? new byte[0] : text(r, r.nextInt(260));
                var rec = rec(topic, ts, k, v);
                if (r.nextInt(10) == 0) {
                    rec.headers().add(new RecordHeader("trace", text(r, 16)));
                    if (r.nextInt(2) == 0) rec.headers().add(new RecordHeader("null", (byte[]) null));
                    if (r.nextInt(3) == 0) rec.headers().add(new RecordHeader("", new byte[0])).add(new RecordHeader("trace", b("again ✓")));
                }
                p.send(rec);
                if (r.nextInt(40) == 0) p.flush();                                     // uneven batch sizes, also single-record ones
            }
        }
    }

    static void hotKey(String topic) throws Exception {
        if (!wanted(topic)) return;
        Random r = random(21);
        try (var p = producer("none", true, 2048, null)) {
            for (int i = 0; i < scaled(3000); i++) {
                boolean once = i % 500 == 0;
                p.send(rec(topic, T0 + i * MIN, b(once ? "once-" + i : "hot-" + (i % 3)), text(r, 80)));
            }
        }
    }

    static void bigKeys(String topic) throws Exception {
        if (!wanted(topic)) return;
        Random r = random(22);
        try (var p = producer("none", true, 16384, null)) {
            for (int i = 0; i < 40; i++) {
                byte[] k = new byte[1000 + (i % 10) * 10_000]; Arrays.fill(k, (byte) ('A' + i % 10));
                byte[] v = new byte[i % 8 == 0 ? 900_000 : 2000 * (i % 7)]; Arrays.fill(v, (byte) i);
                p.send(rec(topic, T0 + i * HOUR, k, i % 9 == 8 ? null : v)); p.flush();
            }
        }
        try (var p = producer("zstd", true, 1 << 20, null)) {                          // small compressed, 3 MB when inflated
            for (int i = 0; i < 30; i++) p.send(rec(topic, T0 + (50 + i) * HOUR, b("zip-" + i % 12), new byte[100_000]));
        }
    }

    static void multiProducers(String topic) throws Exception {
        if (!wanted(topic)) return;
        Random r = random(23);
        List<KafkaProducer<byte[], byte[]>> ps = new ArrayList<>();
        String[] codecs = {"none", "gzip", "snappy", "lz4", "zstd", "none"};
        for (int i = 0; i < codecs.length; i++) ps.add(producer(codecs[i], i != 5, 8192, null));
        for (int i = 0; i < scaled(400); i++) {
            int w = r.nextInt(ps.size());
            if (w == 2 && i > 100) w = 3;                                              // producer 2 falls silent early
            for (int j = 0, n = 1 + r.nextInt(12); j < n; j++)
                ps.get(w).send(rec(topic, T0 + i * 10 * MIN + j, b("m-" + r.nextInt(150)), r.nextInt(15) == 0 ? null : text(r, 60)));
            ps.get(w).flush();
        }
        for (var p : ps) p.close();
        // Many short-lived producers: each leaves one last batch that has to survive (maybe empty).
        for (int i = 0; i < 30; i++)
            try (var p = producer("none", true, 1024, null)) {
                p.send(rec(topic, T0 + 3 * DAY + i * MIN, b("m-" + i % 5), b("short-lived " + i)));
            }
        mixed(topic, "none", 900, 20, 24, true);
    }

    static void tombstones(String topic) throws Exception {
        if (!wanted(topic)) return;
        try (var p = producer("none", true, 1024, null)) {
            for (int round = 0; round < 8; round++)
                for (int i = 0; i < 120; i++) {
                    byte[] v = (i + round) % 3 == 0 ? null : b("r" + round + " " + "v".repeat(i % 40));
                    p.send(rec(topic, T0 + round * DAY + i * MIN, b("k" + i), v));
                    if (i % 17 == 0) p.flush();
                }
            for (int i = 0; i < 40; i++) p.send(rec(topic, T0 + 9 * DAY, b("k" + i), null));  // a batch of tombstones only
        }
    }

    /** Null keys are refused by a compact topic; they can only get there through a change of policy. */
    static void nullKeyThenCompact(String topic) throws Exception {
        if (!wanted(topic)) return;
        Random r = random(25);
        try (var p = producer("snappy", true, 4096, null)) {
            for (int i = 0; i < scaled(2000); i++)
                p.send(rec(topic, T0 + i * MIN, i % 4 == 0 ? null : b("n" + r.nextInt(50)), i % 11 == 0 ? null : text(r, 50)));
        }
        topicConfig(topic, "cleanup.policy", "compact");
        try (var p = producer("none", true, 4096, null)) {
            p.send(rec(topic, T0, null, b("x"))).get();
            throw new IllegalStateException("null key was accepted by a compact topic");
        } catch (ExecutionException expected) {
            System.err.println("as expected, null key refused: " + expected.getCause().getMessage());
        }
        try (var p = producer("none", true, 4096, null)) {                              // a clean active segment
            for (int i = 0; i < scaled(900); i++) p.send(rec(topic, T0 + (2000 + i) * MIN, b("n" + r.nextInt(50)), text(r, 50)));
        }
    }

    static KafkaProducer<byte[], byte[]> txn(String id) {
        var p = producer("none", true, 2048, id); p.initTransactions(); return p;
    }

    static void fill(KafkaProducer<byte[], byte[]> p, String topic, Random r, int n, long ts, int keys, String tag) {
        for (int i = 0; i < scaled(n); i++)
            p.send(rec(topic, ts + i, b("t" + r.nextInt(keys)), r.nextInt(8) == 0 ? null : b(tag + "-" + r.nextInt(1000) + "y".repeat(r.nextInt(50)))));
        p.flush();
    }

    static void transactions(String topic, boolean leaveOpen) throws Exception {
        if (!wanted(topic)) return;
        Random r = random(26);
        var a = txn(topic + "-A"); var b = txn(topic + "-B"); var c = txn(topic + "-C"); var d = txn(topic + "-D");
        var plain = producer("none", true, 2048, null);
        for (int round = 0; round < 14; round++) {
            long ts = T0 + round * 6 * HOUR;
            a.beginTransaction(); fill(a, topic, r, 20, ts, 60, "A" + round);
            b.beginTransaction(); fill(b, topic, r, 15, ts, 60, "B" + round);           // interleaved with A
            fill(a, topic, r, 10, ts + 1000, 60, "A" + round);
            fill(plain, topic, r, 10, ts + 1000, 60, "P" + round);                     // not transactional, inside the txns
            if (round % 3 == 0) a.abortTransaction(); else a.commitTransaction();
            fill(b, topic, r, 15, ts + 2000, 60, "B" + round);                          // B goes on after A's marker
            if (round % 2 == 0) b.abortTransaction(); else b.commitTransaction();
            c.beginTransaction(); fill(c, topic, r, 12, ts + 3000, 1000, "C" + round); c.abortTransaction();   // C never commits
            if (round == 5) {                                                          // D: one abort only, then silence
                d.beginTransaction(); fill(d, topic, r, 30, ts, 60, "D"); d.abortTransaction();
            }
            if (round == 6) {                                                          // a one-record commit on a key of its own
                c.beginTransaction(); c.send(rec(topic, ts, b("only-C"), b("kept"))); c.commitTransaction();
            }
            if (round == 9) { b.close(); b = txn(topic + "-B"); }                     // epoch bump by re-initialisation
        }
        fill(plain, topic, r, 400, T0 + 4 * DAY, 40, "P");
        if (leaveOpen) {
            a.beginTransaction(); fill(a, topic, r, 30, T0 + 4 * DAY, 60, "open");     // left open for ever
            fill(plain, topic, r, 600, T0 + 4 * DAY + HOUR, 60, "after-open");
            b.beginTransaction(); fill(b, topic, r, 25, T0 + 4 * DAY + HOUR, 60, "B-after"); b.commitTransaction();
        } else a.close();
        b.close(); c.close(); d.close(); plain.close();
        if (leaveOpen) a.close(Duration.ZERO);                                         // no abort is sent by close(0)
    }

    /** Transactions that span several segments, one aborted and one committed. */
    static void longTransactions(String topic) throws Exception {
        if (!wanted(topic)) return;
        Random r = random(27);
        var a = txn(topic + "-A"); var b = txn(topic + "-B");
        var plain = producer("none", true, 2048, null);
        a.beginTransaction(); b.beginTransaction();
        for (int i = 0; i < 10; i++) {
            fill(a, topic, r, 40, T0 + i * HOUR, 80, "A");
            fill(b, topic, r, 40, T0 + i * HOUR, 80, "B");
            fill(plain, topic, r, 20, T0 + i * HOUR, 80, "P");
        }
        a.abortTransaction(); b.commitTransaction();
        fill(plain, topic, r, 300, T0 + DAY, 30, "P");
        a.close(); b.close(); plain.close();
    }

    static void deleteTopic(String topic, boolean disorder) throws Exception {
        if (!wanted(topic)) return;
        Random r = random(28);
        try (var p = producer("none", true, 8192, null)) {
            for (int i = 0, n = scaled(4000); i < n; i++) {
                long ts = T0 + i * (10 * DAY) / n;
                if (disorder && i == n * 3 / 8) ts = T0 + 60 * DAY;                         // one record far ahead holds its segment back
                p.send(rec(topic, ts, i % 3 == 0 ? null : b("d" + i), i % 50 == 0 ? null : text(r, 120)));
            }
        }
    }

    /** __consumer_offsets: many commits, a transactional commit, a deleted group. */
    static void groups() throws Exception {
        for (int g = 0; g < 6; g++) {
            try (var c = new KafkaConsumer<>(Map.of("bootstrap.servers", bootstrap, "group.id", "group-" + g, "auto.offset.reset", "earliest",
                    "enable.auto.commit", "false", "max.poll.records", 200), new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                c.subscribe(List.of("c-none", "c-4p", "d-time").stream().filter(Produce::wanted).toList());
                for (int i = 0; i < scaled(40); i++) {
                    c.poll(Duration.ofMillis(200)); c.commitSync();
                    if (g == 0 && i == 0) topicConfig("__consumer_offsets", SEG, "16384");
                }
            }
        }
        try (var p = txn("offsets-txn")) {
            p.beginTransaction();
            p.sendOffsetsToTransaction(Map.of(new TopicPartition("c-none", 0), new OffsetAndMetadata(42)), new ConsumerGroupMetadata("txn-group"));
            p.commitTransaction();
            p.beginTransaction();
            p.sendOffsetsToTransaction(Map.of(new TopicPartition("c-none", 0), new OffsetAndMetadata(99)), new ConsumerGroupMetadata("txn-group"));
            p.abortTransaction();
        }
        admin.deleteConsumerGroups(List.of("group-1")).all().get();
    }
}
