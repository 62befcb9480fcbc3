package org.apache.kafka.storage.internals.log;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.TopicConfig;
import org.apache.kafka.common.utils.Time;

import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.File;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.Supplier;

/**
 * Runs Kafka's own log classes offline on copies of partition directories, IN PLACE.
 *
 *   Oracle clean  --dir D/topic-0 [--dir ...] [options]     Kafka's Cleaner
 *   Oracle retain --dir D/topic-0 [--dir ...] [options]     UnifiedLog.deleteOldSegments
 *   Oracle open   --dir D/topic-0 [--dir ...] [options]     only open and close (recovery with --unclean)
 *   Oracle load   --dir D/topic-0 [--dir ...] [options]     open and close without flushing, then `dump --aux` of what lies there:
 *                                                           what a starting broker makes of the directory
 *   Oracle append --dir D/topic-0 --steps FILE [options]    append, roll and so on, see Append; needs --now. Of several
 *                                                           directories each has its own FILE/topic-0, or nothing to append
 *   Oracle pass   --dir D/topic-0 [--dir ...] [options]     all that a broker's cleaner and retention do, see Pass
 *   Oracle recover --dir D [--dir ...] [options]            LogManager over whole log directories, see Recover
 *   Oracle dump   ...                                       see Dump
 *   Oracle dumplog|checkpoint ...                           see DumpLog
 *   Oracle accept FILE...                                   see Accept
 *   Oracle serve                                            answers commands from stdin, one per line, arguments separated by
 *                                                           tabs; a line with a lone "." ends each answer
 *
 * One JSON object per directory goes to stdout; Kafka's warnings go to stderr. A directory that failed has "error" in its
 * object; a command that failed as a whole answers {"error": ...} in `serve` and throws otherwise.
 *
 * Options of all: --now MS (clock Kafka sees; default: real clock), --config k=v (any topic config, repeatable),
 *   --topic-configs FILE (lines "topic key=value", as `configs.txt` in the fixtures; --config wins over it),
 *   --start-offset N (log start offset; default: log-start-offset-checkpoint beside the dir, else 0),
 *   --producer-expiration-ms N (default 86400000), --unclean (recover as after a crash), --hw N (high watermark;
 *   default: log end offset), --hw-checkpoint (take it from replication-offset-checkpoint beside the dir, as a broker does),
 *   --threads N (directories are shared out over N threads).
 * clean: --first-dirty N (default: cleaner-offset-checkpoint, else log start), --first-uncleanable N (default: as
 *   LogCleanerManager computes it from LSO, active segment, min.compaction.lag.ms), --rounds N (0 = until nothing is
 *   dirty; default 1), --roll (roll the active segment first, so that all can be cleaned), --dedupe-buffer BYTES
 *   (per thread; default 128 MiB), --io-buffer BYTES (read buffer, default 262144 = 512 KiB / 1 thread / 2),
 *   --load-factor F (0.9), --write-checkpoint (update cleaner-offset-checkpoint beside the dir).
 * append: --write-checkpoint (update log-start-offset-checkpoint beside the dir), --timestamps A,B,... (what a consumer that
 *   looks for these times is told before anything is appended: "found": [[offset, timestamp] or null, ...]).
 * Short forms of --config: --delete-retention-ms, --min-compaction-lag-ms, --segment-bytes (internal.segment.bytes),
 *   --retention-ms, --retention-bytes, --index-interval, --max-index, --max-message-bytes, --policy.
 */
public class Oracle {
    private static final Map<String, String> SHORT = Map.of(
            "delete-retention-ms", TopicConfig.DELETE_RETENTION_MS_CONFIG, "min-compaction-lag-ms", TopicConfig.MIN_COMPACTION_LAG_MS_CONFIG,
            "segment-bytes", "internal.segment.bytes", "retention-ms", TopicConfig.RETENTION_MS_CONFIG,
            "retention-bytes", TopicConfig.RETENTION_BYTES_CONFIG, "index-interval", TopicConfig.INDEX_INTERVAL_BYTES_CONFIG,
            "max-index", TopicConfig.SEGMENT_INDEX_BYTES_CONFIG, "max-message-bytes", TopicConfig.MAX_MESSAGE_BYTES_CONFIG,
            "policy", TopicConfig.CLEANUP_POLICY_CONFIG);
    private static final Set<String> FLAGS = Set.of("unclean", "roll", "write-checkpoint", "hw-checkpoint");
    private static final Set<String> VALUED = Set.of("now", "topic-configs", "start-offset", "producer-expiration-ms", "hw", "threads", "first-dirty",
            "first-uncleanable", "steps", "timestamps", "rounds", "dedupe-buffer", "io-buffer", "load-factor");

    /** A clock that stands still, unless set, for milliseconds() (retention, tombstones) and runs for nanoseconds() (throttler). */
    static class FixedTime implements Time {
        volatile long now;
        FixedTime(long now) { this.now = now; }
        @Override public long milliseconds() { return now; }
        @Override public long nanoseconds() { return System.nanoTime(); }
        @Override public void sleep(long ms) { Time.SYSTEM.sleep(ms); }
        @Override public void waitObject(Object o, Supplier<Boolean> c, long d) throws InterruptedException { Time.SYSTEM.waitObject(o, c, d); }
    }

    final Map<String, String> opt = new HashMap<>();
    final List<File> dirs = new ArrayList<>();
    final Map<String, String> topicConfig = new HashMap<>();
    final Map<String, Map<String, String>> perTopic = new HashMap<>();
    String policy = "compact";
    PrintStream out = System.out;
    Time time = Time.SYSTEM;

    public static void main(String[] args) throws Exception {
        if (args.length == 0) throw new IllegalArgumentException("clean | retain | open | load | append | dump | serve");
        if (args[0].equals("serve")) serve();
        else {
            PrintStream out = new PrintStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16), false, StandardCharsets.UTF_8);
            execute(args, out);
            out.flush();
        }
        System.exit(0);
    }

    static void serve() throws Exception {
        PrintStream out = new PrintStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16), false, StandardCharsets.UTF_8);
        System.setOut(System.err);                                                 // nothing but answers may get into the answers
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            try { execute(line.split("\t"), out); }
            catch (Throwable e) { e.printStackTrace(); out.println(Json.of(Map.of("error", e.toString()))); }
            out.println(".");
            out.flush();
        }
    }

    static void execute(String[] args, PrintStream out) throws Exception {
        String[] rest = Arrays.copyOfRange(args, 1, args.length);
        switch (args[0]) {
            case "accept" -> { Api.call(Api.find("Accept"), "run", rest, out); return; }
            case "dump" -> { Api.call(Api.find("Dump"), "run", rest, out); return; }
            case "dumplog" -> { Api.call(Api.find("DumpLog"), "run", rest, out); return; }
            case "checkpoint" -> { Api.call(Api.find("DumpLog"), "checkpoints", rest, out); return; }
        }
        if (!Set.of("clean", "retain", "open", "load", "append", "pass", "recover").contains(args[0])) throw new IllegalArgumentException("unknown command " + args[0]);
        Oracle o = new Oracle();
        o.out = out;
        for (int i = 1; i < args.length; i++) {
            if (!args[i].startsWith("--")) throw new IllegalArgumentException("not an option: " + args[i]);
            String k = args[i].substring(2);
            if (FLAGS.contains(k)) o.opt.put(k, "true");
            else if (k.equals("dir")) o.dirs.add(new File(args[++i]).getAbsoluteFile());
            else if (k.equals("config")) { String[] kv = args[++i].split("=", 2); o.topicConfig.put(kv[0], kv[1]); }
            else if (SHORT.containsKey(k)) o.topicConfig.put(SHORT.get(k), args[++i]);
            else if (VALUED.contains(k)) o.opt.put(k, args[++i]);
            else throw new IllegalArgumentException("unknown option --" + k);
        }
        o.policy = args[0].equals("retain") ? "delete" : "compact";
        if (o.opt.containsKey("topic-configs"))
            for (String line : Files.readAllLines(Path.of(o.opt.get("topic-configs")))) {       // "topic key=value"
                String[] t = line.split("[ =]", 3);
                if (t.length == 3) o.perTopic.computeIfAbsent(t[0], x -> new HashMap<>()).put(t[1], t[2]);
            }
        o.time = o.opt.containsKey("now") ? new FixedTime(o.num("now", 0)) : Time.SYSTEM;
        if (args[0].equals("pass")) Pass.run(o);
        else if (args[0].equals("recover")) Api.call(Api.find("Recover"), "run", o);
        else o.runAll(args[0]);
    }

    long num(String k, long dflt) { return opt.containsKey(k) ? Long.parseLong(opt.get(k)) : dflt; }

    void runAll(String cmd) throws Exception {
        int threads = (int) num("threads", 1);
        Queue<File> queue = new ConcurrentLinkedQueue<>(dirs);
        long t0 = System.nanoTime();
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        List<Future<?>> done = new ArrayList<>();
        for (int t = 0; t < threads; t++) {
            int id = t;
            done.add(pool.submit(() -> {
                Object cleaner = cmd.equals("clean") ? newCleaner(id) : null;      // one per thread, as in the broker
                for (File d; (d = queue.poll()) != null; ) {
                    long start = System.nanoTime();
                    Map<String, Object> r = new LinkedHashMap<>();
                    r.put("cmd", cmd); r.put("dir", d.getPath());
                    try { one(cmd, d, cleaner, r); }
                    catch (Throwable e) { r.put("error", e.toString()); e.printStackTrace(); }
                    r.put("wall_s", (System.nanoTime() - start) / 1e9);
                    synchronized (out) {
                        out.println(Json.of(r));
                        if (cmd.equals("load")) dump(d);
                    }
                }
                return null;
            }));
        }
        try { for (Future<?> f : done) f.get(); }
        finally { pool.shutdown(); }
        if (dirs.size() > 1) {
            var os = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
            out.println(Json.of(Map.of("cmd", "total", "dirs", dirs.size(), "threads", threads, "wall_s", (System.nanoTime() - t0) / 1e9,
                    "process_cpu_s", os.getProcessCpuTime() / 1e9)));
        }
    }

    /** What a failed load left behind may be beyond reading as well: then a last line says so. */
    void dump(File dir) {
        try { Api.call(Api.find("Dump"), "dir", dir, true, true, out); }
        catch (Exception | Error e) { out.println(Json.of(Map.of("t", "unreadable", "error", e.toString()))); }
    }

    Object newCleaner(int id) {
        int maxMessage = Integer.parseInt(topicConfig.getOrDefault(TopicConfig.MAX_MESSAGE_BYTES_CONFIG, "1048588"));
        return Log.cleaner(id, (int) num("dedupe-buffer", 128 << 20), (int) num("io-buffer", 262144), maxMessage,
                Double.parseDouble(opt.getOrDefault("load-factor", "0.9")), time);
    }

    Log open(File dir) throws Exception {
        TopicPartition tp = Log.partition(dir);
        long start = num("start-offset", checkpoint(dir, "log-start-offset-checkpoint").getOrDefault(tp, 0L));
        boolean clean = !opt.containsKey("unclean");
        long recovery = clean ? Long.MAX_VALUE : checkpoint(dir, "recovery-point-offset-checkpoint").getOrDefault(tp, 0L);
        Map<String, String> cfg = new HashMap<>(perTopic.getOrDefault(tp.topic(), Map.of()));
        cfg.putAll(topicConfig);
        cfg.putIfAbsent(TopicConfig.CLEANUP_POLICY_CONFIG, policy);
        Log log = Log.open(dir, cfg, start, recovery, time, (int) num("producer-expiration-ms", 86_400_000), clean);
        log.updateHighWatermark(opt.containsKey("hw-checkpoint")
                ? checkpoint(dir, "replication-offset-checkpoint").getOrDefault(tp, log.start())
                : num("hw", log.end()));                                // a lone replica: everything is committed
        return log;
    }

    /** The entries of a checkpoint beside the directory: lines `topic partition offset` after a version and a count. */
    static Map<TopicPartition, Long> checkpoint(File dir, String name) throws Exception {
        Path file = dir.toPath().resolveSibling(name);
        Map<TopicPartition, Long> all = new HashMap<>();
        if (!Files.exists(file)) return all;
        for (String line : Files.readAllLines(file)) {
            String[] words = line.split(" ");
            if (words.length == 3) all.put(new TopicPartition(words[0], Integer.parseInt(words[1])), Long.valueOf(words[2]));
        }
        return all;
    }

    static void writeCheckpoint(File dir, String name, Map<TopicPartition, Long> all) throws Exception {
        StringJoiner lines = new StringJoiner("\n", "0\n" + all.size() + "\n", "\n");
        lines.setEmptyValue("0\n0\n");
        all.forEach((tp, offset) -> lines.add(tp.topic() + " " + tp.partition() + " " + offset));
        Files.writeString(dir.toPath().resolveSibling(name), lines.toString());
    }

    void one(String cmd, File dir, Object cleaner, Map<String, Object> r) throws Exception {
        if (!dir.isDirectory()) throw new IllegalArgumentException("no such directory: " + dir);
        Log log = open(dir);
        try {
            r.put("before", state(log));
            if (cmd.equals("clean")) Api.call(Api.find("Clean"), "run", this, log, cleaner, r);
            else if (cmd.equals("retain")) r.put("segments_deleted", log.deleteOldSegments());
            else if (cmd.equals("append")) append(log, r);
            r.put("after", state(log));
        } finally {
            if (!cmd.equals("load")) log.flush();                        // fsync would be most of a load's time
            log.close();
        }
    }

    void append(Log log, Map<String, Object> r) throws Exception {
        if (opt.containsKey("timestamps")) {
            List<Object> found = new ArrayList<>();
            for (String timestamp : opt.get("timestamps").split(",")) found.add(log.lookUp(Long.parseLong(timestamp)));
            r.put("found", found);
        }
        Path steps = Path.of(opt.get("steps"));
        if (Files.isDirectory(steps)) steps = steps.resolve(log.dir.getName());
        FixedTime clock = (FixedTime) time;
        long began = clock.now;
        if (Files.exists(steps)) Append.run(log, clock, steps);
        clock.now = began;                                               // for the next directory
        if (opt.containsKey("write-checkpoint")) checkpointLogStart(log);
    }

    /** As LogManager.checkpointLogStartOffsetsInDir: only where the segments don't tell. */
    static void checkpointLogStart(Log log) throws Exception {
        synchronized (Oracle.class) {
            var all = checkpoint(log.dir, "log-start-offset-checkpoint");
            Long before = log.start() > log.firstSegment() ? all.put(log.topicPartition(), log.start()) : all.remove(log.topicPartition());
            if (!Objects.equals(before, all.get(log.topicPartition()))) writeCheckpoint(log.dir, "log-start-offset-checkpoint", all);
        }
    }

    Map<String, Object> state(Log log) {
        Map<String, Object> s = new LinkedHashMap<>();
        s.put("start_offset", log.start()); s.put("end_offset", log.end()); s.put("high_watermark", log.highWatermark());
        s.put("last_stable_offset", log.lastStable()); s.put("active_segment", Api.number(log.activeSegment(), "baseOffset"));
        s.put("segments", log.segments()); s.put("bytes", log.size()); s.put("active_producers", log.producers());
        return s;
    }
}
