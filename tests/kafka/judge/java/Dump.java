package org.apache.kafka.storage.internals.log;

import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.utils.BufferSupplier;

import java.io.File;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.security.MessageDigest;
import java.util.*;

/**
 * Oracle dump --dir D/topic-0 [--dir ...] [--aux] [--no-records]: one canonical JSON line per directory, segment, batch and record, read by
 * Kafka's own record classes, so that two directories can be compared with `diff` (or without the "segment" lines and
 * "pos"/"size"/"crc" keys when layout and compressed bytes are allowed to differ).
 *
 *   {"t":"dir", "name"}
 *   {"t":"segment", "base", "bytes"}
 *   {"t":"batch", "pos", "size", "crc", "base", "last", "magic", "attrs", "codec", "tstype", "txn", "control", "pid", "epoch",
 *    "seq", "count", "leaderEpoch", "deleteHorizon", "baseTs", "maxTs"}
 *   {"t":"rec", "o" offset, "ts", "seq", "k" key, "v" value, "h" [[name, value], ...]}
 * Byte strings: null, or hex up to 64 bytes, else "sha256:<first 32 hex digits>:<length>".
 * --aux adds leader-epoch-checkpoint, offset index, time index, transaction index and producer snapshots:
 *   {"t":"index","base","entries":[[offset,pos],..]}, {"t":"timeindex",..,[[ts,offset],..]},
 *   {"t":"txnindex",..,[[pid,first,last,lso],..]}, {"t":"snapshot","offset","producers":[..]}, {"t":"epochs","text"},
 *   {"t":"mtime","base","ms"} (modification time of the segment file)
 */
public class Dump {
    static void run(String[] a, PrintStream out) throws Exception {
        List<File> dirs = new ArrayList<>();
        boolean aux = false, records = true;
        for (int i = 0; i < a.length; i++)
            switch (a[i]) {
                case "--dir" -> dirs.add(new File(a[++i]));
                case "--aux" -> aux = true;
                case "--no-records" -> records = false;
                default -> throw new IllegalArgumentException(a[i]);
            }
        for (File d : dirs) {
            out.println(Json.of(map("t", "dir", "name", d.getName())));
            dir(d, aux, records, out);
        }
    }

    static Map<String, Object> map(Object... kv) {
        Map<String, Object> m = new LinkedHashMap<>();
        for (int i = 0; i < kv.length; i += 2) m.put((String) kv[i], kv[i + 1]);
        return m;
    }

    static void dir(File dir, boolean aux, boolean records, PrintStream out) throws Exception {
        File[] files = Objects.requireNonNull(dir.listFiles(), "not a directory: " + dir);
        Arrays.sort(files);
        for (File f : files) if (f.getName().endsWith(".log")) segment(f, records, out);
        if (aux) for (File f : files) aux(dir, f, out);
    }

    static void segment(File f, boolean records, PrintStream out) throws Exception {
        out.println(Json.of(map("t", "segment", "base", Long.parseLong(f.getName().replace(".log", "")), "bytes", f.length())));
        if (f.length() == 0) return;
        ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(f.toPath()));
        int pos = 0;
        BufferSupplier supplier = BufferSupplier.create();
        for (MutableRecordBatch b : MemoryRecords.readableRecords(bytes).batches()) {
            b.ensureValid();
            DefaultRecordBatch v2 = b instanceof DefaultRecordBatch d ? d : null;
            out.println(Json.of(map("t", "batch", "pos", pos, "size", b.sizeInBytes(), "crc", b.checksum(), "base", b.baseOffset(), "last", b.lastOffset(),
                    "magic", b.magic(), "attrs", v2 == null ? null : (int) bytes.getShort(pos + 21), "codec", b.compressionType().name, "tstype", b.timestampType().name,
                    "txn", b.isTransactional(), "control", b.isControlBatch(), "pid", b.producerId(), "epoch", b.producerEpoch(), "seq", b.baseSequence(),
                    "count", b.countOrNull(), "leaderEpoch", b.partitionLeaderEpoch(), "deleteHorizon", b.deleteHorizonMs().isPresent() ? b.deleteHorizonMs().getAsLong() : null,
                    "baseTs", v2 == null ? null : v2.baseTimestamp(), "maxTs", b.maxTimestamp())));
            pos += b.sizeInBytes();
            if (!records) continue;
            try (var it = b.streamingIterator(supplier)) {
                while (it.hasNext()) {
                    Record r = it.next();
                    List<Object> headers = new ArrayList<>();
                    for (var h : r.headers()) headers.add(Arrays.asList(h.key(), bytes(h.value() == null ? null : ByteBuffer.wrap(h.value()))));
                    out.println(Json.of(map("t", "rec", "o", r.offset(), "ts", r.timestamp(), "seq", r.sequence(), "k", bytes(r.hasKey() ? r.key() : null),
                            "v", bytes(r.hasValue() ? r.value() : null), "h", headers)));
                }
            }
        }
        if (pos != f.length()) out.println(Json.of(map("t", "garbage", "pos", pos, "bytes", f.length() - pos)));
    }

    static String bytes(ByteBuffer b) throws Exception {
        if (b == null) return null;
        byte[] x = new byte[b.remaining()]; b.duplicate().get(x);
        if (x.length <= 64) return HexFormat.of().formatHex(x);
        return "sha256:" + HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(x)).substring(0, 32) + ":" + x.length;
    }

    static void aux(File dir, File f, PrintStream out) throws Exception {
        String n = f.getName();
        if (n.equals("leader-epoch-checkpoint")) { out.println(Json.of(map("t", "epochs", "text", Files.readString(f.toPath())))); return; }
        if (n.matches("\\d{20}\\.log")) { out.println(Json.of(map("t", "mtime", "base", Long.parseLong(n.substring(0, 20)), "ms", f.lastModified()))); return; }
        if (!n.matches("\\d{20}\\.(index|timeindex|txnindex|snapshot)")) return;
        long base = Long.parseLong(n.substring(0, 20));
        List<Object> e = new ArrayList<>();
        if (n.endsWith(".index") || n.endsWith(".timeindex")) {
            // Read by hand: Kafka's index classes would resize the file. An active segment's index is preallocated with zeros.
            ByteBuffer b = ByteBuffer.wrap(Files.readAllBytes(f.toPath()));
            boolean time = n.endsWith(".timeindex");
            while (b.remaining() >= (time ? 12 : 8)) {
                long first = time ? b.getLong() : base + b.getInt();
                long second = time ? base + b.getInt() : b.getInt();
                if (!e.isEmpty() && (time ? first == 0 : second == 0)) break;         // the preallocated tail
                if (e.isEmpty() && first == (time ? 0 : base) && second == (time ? base : 0)) break;
                e.add(List.of(first, second));
            }
            out.println(Json.of(map("t", time ? "timeindex" : "index", "base", base, "entries", e)));
        } else if (n.endsWith(".txnindex")) {
            if (f.length() == 0) return;
            try (TransactionIndex ix = new TransactionIndex(base, f)) {
                for (AbortedTxn t : ix.allAbortedTxns()) e.add(List.of(t.producerId(), t.firstOffset(), t.lastOffset(), t.lastStableOffset()));
            }
            out.println(Json.of(map("t", "txnindex", "base", base, "entries", e)));
        } else {
            for (ProducerStateEntry p : ProducerStateManager.readSnapshot(f))
                e.add(map("pid", p.producerId(), "epoch", p.producerEpoch(), "coordEpoch", p.coordinatorEpoch(), "ts", p.lastTimestamp(),
                        "firstSeq", p.firstSeq(), "lastSeq", p.lastSeq(), "lastOffset", p.lastDataOffset(), "txnFirst", p.currentTxnFirstOffset().isPresent() ? p.currentTxnFirstOffset().getAsLong() : null));
            e.sort(Comparator.comparing(x -> (Long) ((Map<?, ?>) x).get("pid")));
            out.println(Json.of(map("t", "snapshot", "offset", base, "producers", e)));
        }
    }
}
