import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

import java.io.*;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;

/**
 * Records BOOTSTRAP [offsets]: every record that a consumer gets of every partition (internal topics too), first read_uncommitted,
 * then read_committed, one line each: isolation topic partition offset timestamp timestampType key value headers, separated by
 * blanks. Bytes are hex behind an `x`, null is `-`, headers are key=value with commas between them.
 * `offsets`: first a line `offsets topic partition begin end` for each partition. Fails when nothing comes for 30 s. Compiles against 2.8 to 4.4.
 */
public class Records {
    static final long QUIET_MS = 30_000;

    public static void main(String[] a) throws Exception {
        try (var out = new PrintStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16), false, StandardCharsets.UTF_8);
             var c = consumer(a[0], "read_uncommitted")) {
            List<TopicPartition> tps = new ArrayList<>();
            c.listTopics().values().forEach(partitions -> partitions.forEach(p -> tps.add(new TopicPartition(p.topic(), p.partition()))));
            if (a.length > 1) {
                var begin = c.beginningOffsets(tps);
                c.endOffsets(tps).forEach((tp, end) -> out.println(String.join(" ", "offsets", tp.topic(), "" + tp.partition(), "" + begin.get(tp), "" + end)));
            }
            for (String isolation : List.of("read_uncommitted", "read_committed")) read(a[0], isolation, tps, out);
        }
    }

    static void read(String bootstrap, String isolation, List<TopicPartition> tps, PrintStream out) {
        try (var c = consumer(bootstrap, isolation)) {
            c.assign(tps);
            c.seekToBeginning(tps);
            var end = c.endOffsets(tps);
            Set<TopicPartition> open = new HashSet<>(tps);
            for (long deadline = System.currentTimeMillis() + QUIET_MS; ; ) {
                for (TopicPartition tp : List.copyOf(open))
                    if (c.position(tp) >= end.get(tp)) { open.remove(tp); c.pause(List.of(tp)); }
                if (open.isEmpty()) return;
                if (System.currentTimeMillis() > deadline) throw new IllegalStateException("nothing came for " + open);
                var records = c.poll(Duration.ofMillis(100));
                if (!records.isEmpty()) deadline = System.currentTimeMillis() + QUIET_MS;
                for (var r : records) {
                    StringJoiner headers = new StringJoiner(",");
                    for (var h : r.headers()) headers.add(hex(h.key().getBytes(StandardCharsets.UTF_8)) + "=" + hex(h.value()));
                    out.println(String.join(" ", isolation, r.topic(), "" + r.partition(), "" + r.offset(), "" + r.timestamp(), "" + r.timestampType().id,
                            hex(r.key()), hex(r.value()), headers.toString()));
                }
            }
        }
    }

    static KafkaConsumer<byte[], byte[]> consumer(String bootstrap, String isolation) {
        return new KafkaConsumer<>(Map.of("bootstrap.servers", bootstrap, "isolation.level", isolation, "max.poll.records", 5000, "fetch.max.wait.ms", 50,
                "enable.auto.commit", false), new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static String hex(byte[] bytes) { return bytes == null ? "-" : "x" + HexFormat.of().formatHex(bytes); }
}
