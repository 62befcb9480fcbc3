import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.*;

import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.ExecutionException;

/**
 * Load: clients that fill a broker until it dies, and read back what a later one has. One line on stdin is one command, and
 * is answered by one line: a number, or "error" and what failed.
 *
 *   topics BOOTSTRAP FILE            creates the topics of FILE, a line each: `name option=value ...`. Options: partitions, keys (how many
 *                                    there are), bytes (of a value), codec, old_bytes (so many bytes of values have timestamps from 30 to 20 days
 *                                    ago, the rest have those of now), per_second (records, at most), txn (records per transaction; every fourth is aborted), open (the first
 *                                    transaction stays open). All other pairs are settings of the topic.
 *   fill BOOTSTRAP FILE ACKS SEED    produces to them until `stop`, one producer each, and answers at once. ACKS gets a line for each
 *                                    acknowledged record: `a topic partition offset timestamp key digest transaction` (a number, `open` or `none`), and `c topic transaction`
 *                                    or `x topic transaction` for each one that was committed or aborted.
 *   stop                             ends all producers at once, as if they were killed, and answers with the number of acknowledged records
 *   finish BOOTSTRAP FILE            ends the transactions that the producers of FILE left open
 *   read BOOTSTRAP ISOLATION OUT     reads each partition of a user's topic to its end: `p topic partition begin end`, then a line `r topic
 *                                    partition offset timestamp key digest` for each record. Answers with the number of records.
 */
public class Load {
    static final long DAY = 86_400_000L, QUIET_MS = 30_000;

    static final class Spec {
        final String topic;
        final Map<String, String> options = new HashMap<>(), config = new HashMap<>();
        Spec(String line) {
            String[] words = line.trim().split(" +");
            topic = words[0];
            for (int i = 1; i < words.length; i++) {
                String[] pair = words[i].split("=", 2);
                (Set.of("partitions", "keys", "bytes", "codec", "old_bytes", "per_second", "txn", "open").contains(pair[0]) ? options : config).put(pair[0], pair[1]);
            }
        }
        int number(String name, int otherwise) { return Integer.parseInt(options.getOrDefault(name, "" + otherwise)); }
        boolean transactional() { return number("txn", 0) > 0; }
        static List<Spec> read(String file) throws IOException { return Files.readAllLines(Path.of(file)).stream().filter(l -> !l.isBlank()).map(Spec::new).toList(); }
    }

    static final List<Thread> writers = new ArrayList<>();
    static final List<KafkaProducer<String, String>> producers = new ArrayList<>();
    static volatile boolean stopped;
    static PrintWriter acks;
    static long acknowledged;

    public static void main(String[] a) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String[] w = line.split("\t");
            Object answer;
            try {
                answer = switch (w[0]) {
                    case "topics" -> topics(w[1], Spec.read(w[2]));
                    case "fill" -> fill(w[1], Spec.read(w[2]), w[3], Long.parseLong(w[4]));
                    case "stop" -> stop();
                    case "finish" -> finish(w[1], Spec.read(w[2]));
                    case "read" -> read(w[1], w[2], w[3]);
                    default -> throw new IllegalArgumentException(line);
                };
            } catch (Exception e) {
                e.printStackTrace();
                answer = "error " + e;
            }
            System.out.println(answer);
        }
        System.exit(0);
    }

    static int topics(String bootstrap, List<Spec> specs) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(specs.stream().map(s -> new NewTopic(s.topic, s.number("partitions", 1), (short) 1).configs(s.config)).toList()).all().get();
        }
        return specs.size();
    }

    // -------------------------------------------------------------------- fill

    static int fill(String bootstrap, List<Spec> specs, String file, long seed) throws Exception {
        acks = new PrintWriter(new BufferedWriter(new FileWriter(file)));
        stopped = false;
        acknowledged = 0;
        writers.clear();
        producers.clear();
        for (Spec spec : specs) {
            if (spec.options.containsKey("open")) leaveOpen(bootstrap, spec);
            var p = producer(bootstrap, spec, spec.topic);
            if (spec.transactional()) p.initTransactions();
            producers.add(p);
            Thread t = new Thread(() -> {
                try { write(p, spec, new Random(seed ^ spec.topic.hashCode())); }
                catch (Exception e) { if (!stopped) System.err.println(spec.topic + " ends: " + e); }
            });
            t.setDaemon(true);
            writers.add(t);
        }
        writers.forEach(Thread::start);
        return writers.size();
    }

    /** A transaction of another producer, in each partition, never ended. */
    static void leaveOpen(String bootstrap, Spec spec) throws Exception {
        var p = producer(bootstrap, spec, spec.topic + "-open");
        producers.add(p);
        p.initTransactions();
        p.beginTransaction();
        Random random = new Random(1);
        for (int n = 0; n < 2 * spec.number("partitions", 1); n++) send(p, spec, n % spec.number("partitions", 1), "open" + n, value(random, 200), System.currentTimeMillis(), "open").get();
    }

    static void write(KafkaProducer<String, String> p, Spec spec, Random random) throws Exception {
        int partitions = spec.number("partitions", 1), keys = spec.number("keys", 1000), bytes = spec.number("bytes", 700), group = spec.number("txn", 0);
        long old = spec.number("old_bytes", 0), written = 0, began = System.currentTimeMillis();
        int rate = spec.number("per_second", 0);
        for (int n = 0; !stopped; n++) {
            if (rate > 0 && n % (rate / 20) == 0) Thread.sleep(Math.max(0, began + 1000L * n / rate - System.currentTimeMillis()));
            int txn = group > 0 ? n / group : -1;
            String transaction = group > 0 ? "" + txn : "none";
            if (group > 0 && n % group == 0) p.beginTransaction();
            int number = random.nextInt(keys), size = bytes / 2 + random.nextInt(bytes);
            String value = random.nextInt(50) == 0 && !spec.config.getOrDefault("cleanup.policy", "delete").equals("delete") ? null : value(random, size);
            long timestamp = written < old ? began - 30 * DAY + 10 * DAY * written / old : System.currentTimeMillis();
            written += size;
            send(p, spec, number % partitions, "k" + number, value, timestamp, transaction);
            if (group > 0 && n % group == group - 1) {
                if (txn % 4 == 3) p.abortTransaction(); else p.commitTransaction();
                synchronized (acks) { acks.println((txn % 4 == 3 ? "x " : "c ") + spec.topic + " " + txn); }
            }
        }
    }

    static java.util.concurrent.Future<RecordMetadata> send(KafkaProducer<String, String> p, Spec spec, int partition, String key, String value, long timestamp, String transaction) {
        String digest = digest(value);
        return p.send(new ProducerRecord<>(spec.topic, partition, timestamp, key, value), (made, error) -> {
            if (error != null) return;
            synchronized (acks) {
                acks.println("a " + spec.topic + " " + partition + " " + made.offset() + " " + timestamp + " " + key + " " + digest + " " + transaction);
                acknowledged++;
            }
        });
    }

    static long stop() throws Exception {
        stopped = true;
        for (var p : producers) p.close(Duration.ZERO);
        for (Thread t : writers) t.join(5_000);
        synchronized (acks) { acks.close(); }
        return acknowledged;
    }

    static int finish(String bootstrap, List<Spec> specs) {
        int count = 0;
        for (Spec spec : specs)
            for (String id : spec.transactional() ? List.of(spec.topic, spec.topic + "-open") : List.<String>of())
                try (var p = producer(bootstrap, spec, id)) { p.initTransactions(); count++; }
        return count;
    }

    static KafkaProducer<String, String> producer(String bootstrap, Spec spec, String id) {
        Map<String, Object> c = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "acks", "all", "enable.idempotence", true, "batch.size", 16384, "linger.ms", 2,
                "buffer.memory", 1 << 20, "compression.type", spec.options.getOrDefault("codec", "none"), "max.in.flight.requests.per.connection", 3, "reconnect.backoff.max.ms", 500));
        if (spec.transactional()) { c.put("transactional.id", id); c.put("transaction.timeout.ms", 900_000); }
        return new KafkaProducer<>(c, new StringSerializer(), new StringSerializer());
    }

    static String value(Random random, int size) {
        StringBuilder s = new StringBuilder(size);
        while (s.length() < size) s.append(Long.toString(random.nextLong() & Long.MAX_VALUE, 36));
        return s.substring(0, size);
    }

    // -------------------------------------------------------------------- read

    static long read(String bootstrap, String isolation, String file) throws Exception {
        long count = 0;
        try (var out = new PrintWriter(new BufferedWriter(new FileWriter(file)));
             Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
             var c = new KafkaConsumer<>(Map.of("bootstrap.servers", bootstrap, "isolation.level", isolation, "max.poll.records", 5000, "fetch.max.wait.ms", 50, "check.crcs", true,
                     "enable.auto.commit", false), new StringDeserializer(), new StringDeserializer())) {
            List<TopicPartition> open = new ArrayList<>();
            for (var d : admin.describeTopics(admin.listTopics().names().get()).allTopicNames().get().values()) d.partitions().forEach(p -> open.add(new TopicPartition(d.name(), p.partition())));
            c.assign(open);
            c.seekToBeginning(open);
            var begin = c.beginningOffsets(open);
            var end = c.endOffsets(open);
            for (TopicPartition tp : open) out.println("p " + tp.topic() + " " + tp.partition() + " " + begin.get(tp) + " " + end.get(tp));
            long deadline = System.currentTimeMillis() + QUIET_MS;
            while (true) {
                for (TopicPartition tp : List.copyOf(open)) if (c.position(tp) >= end.get(tp)) { open.remove(tp); c.pause(List.of(tp)); }
                if (open.isEmpty()) return count;
                if (System.currentTimeMillis() > deadline) throw new IllegalStateException("nothing came for " + QUIET_MS + " ms: " + open);
                for (var r : c.poll(Duration.ofMillis(100))) {
                    out.println("r " + r.topic() + " " + r.partition() + " " + r.offset() + " " + r.timestamp() + " " + r.key() + " " + digest(r.value()));
                    count++;
                    deadline = System.currentTimeMillis() + QUIET_MS;
                }
            }
        }
    }

    static String digest(String value) {
        if (value == null) return "-";
        try { return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(value.getBytes(StandardCharsets.UTF_8))).substring(0, 16); }
        catch (java.security.NoSuchAlgorithmException e) { throw new IllegalStateException(e); }
    }
}
