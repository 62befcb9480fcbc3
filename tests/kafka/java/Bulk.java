package org.apache.kafka.storage.internals.log;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.config.TopicConfig;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

import java.io.File;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;

/**
 * Writes one big partition directory without a broker: MemoryRecords batches through UnifiedLog.appendAsFollower
 * (which takes ready offsets, so nothing is recompressed or validated record by record).
 *
 *   Bulk --dir D/topic-0 --bytes 2147483648 --value 100 [--codec none|gzip|snappy|lz4|zstd] [--batch 16384]
 *        [--unique 0.5] [--segment 268435456] [--seed 1] [--tombstones 0.01] [--key 16] [--roll true]
 *
 * --bytes and --batch count uncompressed record bytes; --unique is the share of records whose key is seen for the
 * first time (keys are drawn uniformly from a universe of the right size). Keys have --key bytes, by default 16 to 32.
 * Values are JSON-like: field names, digits and random hex, --value bytes on average. --roll adds an empty active segment, as the
 * cleaner never touches the active one. Prints {"records", "batches", "unique_keys", "bytes_on_disk"}.
 */
public class Bulk {
    public static void main(String[] a) throws Exception {
        Map<String, String> o = new HashMap<>();
        for (int i = 0; i < a.length; i += 2) o.put(a[i].substring(2), a[i + 1]);
        File dir = new File(o.get("dir")).getAbsoluteFile();
        long target = Long.parseLong(o.get("bytes"));
        int value = Integer.parseInt(o.get("value")), batchBytes = Integer.parseInt(o.getOrDefault("batch", "16384"));
        Compression codec = Compression.of(CompressionType.forName(o.getOrDefault("codec", "none"))).build();
        double unique = Double.parseDouble(o.getOrDefault("unique", "0.5")), tombstones = Double.parseDouble(o.getOrDefault("tombstones", "0.01"));
        int keyBytes = Integer.parseInt(o.getOrDefault("key", "0"));
        SplittableRandom r = new SplittableRandom(Long.parseLong(o.getOrDefault("seed", "1")));

        Map<String, String> cfg = Map.of(TopicConfig.CLEANUP_POLICY_CONFIG, "compact", TopicConfig.SEGMENT_BYTES_CONFIG, o.getOrDefault("segment", "268435456"),
                TopicConfig.SEGMENT_MS_CONFIG, "" + Long.MAX_VALUE);
        UnifiedLog log = UnifiedLog.create(dir, new LogConfig(cfg), 0, 0, new Oracle.NowScheduler(), new BrokerTopicStats(), Time.SYSTEM, 900_000,
                new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(10), true, Optional.empty());

        long records = target / (value + (keyBytes > 0 ? keyBytes : 24) + 9);     // 24: mean key, ~9: record overhead
        long universe = Math.max(1, (long) (records * universeFactor(unique)));
        BitSet seen = new BitSet((int) universe);
        byte[] pool = pool(r, 8 << 20);
        ByteBuffer buffer = ByteBuffer.allocate(batchBytes * 2 + 65536);
        long offset = 0, batches = 0, ts = 1_790_000_000_000L;
        while (offset < records) {
            buffer.clear();
            MemoryRecordsBuilder b = MemoryRecords.builder(buffer, RecordBatch.CURRENT_MAGIC_VALUE, codec, TimestampType.CREATE_TIME, offset, RecordBatch.NO_TIMESTAMP, 0);
            for (int size = 0; size < batchBytes && offset < records; offset++) {
                long id = r.nextLong(universe);
                seen.set((int) id);
                byte[] k = key(id, keyBytes > 0 ? keyBytes : 16 + (int) (id % 17));
                byte[] v = null;
                if (r.nextDouble() >= tombstones) {
                    int n = value / 2 + r.nextInt(value + 1), at = r.nextInt(pool.length - n);   // mean = value
                    v = Arrays.copyOfRange(pool, at, at + n);
                }
                b.append(ts + offset / 100, k, v);
                size += k.length + (v == null ? 0 : v.length) + 9;
            }
            log.appendAsFollower(b.build(), 0);
            batches++;
        }
        if (o.containsKey("roll")) log.roll();
        log.updateHighWatermark(log.logEndOffset());
        long bytes = log.size();
        int segments = log.numberOfSegments();
        log.flush(true);
        log.close();
        System.out.println(Json.of(Dump.map("dir", dir.getPath(), "records", records, "batches", batches, "unique_keys", seen.cardinality(), "bytes_on_disk", bytes,
                "segments", segments, "codec", codec.type().name, "value", value)));
        System.exit(0);
    }

    /** f such that drawing N times from f*N keys gives share*N distinct ones: f * (1 - exp(-1/f)) = share. */
    static double universeFactor(double share) {
        if (share >= 1) return 1000;
        double lo = 1e-9, hi = 1e6;
        for (int i = 0; i < 200; i++) { double f = (lo + hi) / 2; if (f * (1 - Math.exp(-1 / f)) < share) lo = f; else hi = f; }
        return lo;
    }

    static byte[] key(long id, int len) {
        long h = id * 0x9E3779B97F4A7C15L; h ^= h >>> 29;
        byte[] k = new byte[len];
        Arrays.fill(k, (byte) 'k');
        for (int i = 0; i < Math.min(16, len); i++, h = Long.rotateLeft(h, 4)) k[i] = (byte) "0123456789abcdef".charAt((int) (h & 15));
        return k;
    }

    static byte[] pool(SplittableRandom r, int n) {
        String[] fields = {"\"user_id\":", "\"session\":\"", "\"amount\":", "\"currency\":\"EUR\",", "\"updated_at\":\"2026-09-", "\"status\":\"ACTIVE\",", "\"city\":\"", "\"tags\":[\"a\",\"b\"],"};
        StringBuilder s = new StringBuilder(n + 100);
        while (s.length() < n) s.append(fields[r.nextInt(fields.length)]).append(Long.toHexString(r.nextLong()), 0, 4 + r.nextInt(8)).append("\",");
        return s.substring(0, n).getBytes(StandardCharsets.US_ASCII);
    }
}
