package org.apache.kafka.storage.internals.log;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;

import java.io.File;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Delayed;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;

import scala.Function0;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** One log, opened by this version's classes: Log, then UnifiedLog, in Scala up to 4.0. */
final class Log {
    private static final Class<?> TYPE = Api.find("UnifiedLog", "Log");
    /** Made once: each one registers metrics that are never taken back. */
    private static final Object STATS = Api.make(Api.find("BrokerTopicStats"));
    private static final Object FAILURES = failures();

    final Object it;
    final File dir;

    private Log(Object it, File dir) { this.it = it; this.dir = dir; }

    static Log open(File dir, Map<String, String> config, long start, long recovery, Time time, int producerExpirationMs, boolean clean) {
        Object logConfig = Api.make(Api.find("LogConfig"), config);
        String open = Api.has(TYPE, "create") ? "create" : "apply";
        Object log = hasProducerConfig()
                ? Api.call(TYPE, open, dir, logConfig, start, recovery, scheduler(), STATS, time, 900_000,
                        Api.make(Api.find("ProducerStateManagerConfig"), producerExpirationMs), 600_000, FAILURES, clean)
                : Api.call(TYPE, open, dir, logConfig, start, recovery, scheduler(), STATS, time, producerExpirationMs, 600_000, FAILURES, clean);
        return new Log(log, dir);
    }

    private static boolean hasProducerConfig() {
        try { Api.find("ProducerStateManagerConfig"); return true; }
        catch (IllegalStateException e) { return false; }
    }

    static TopicPartition partition(File dir) { return (TopicPartition) Api.call(TYPE, "parseTopicPartitionName", dir); }

    static Object failures() { return Api.make(Api.find("LogDirFailureChannel"), 10); }

    /** Runs one-off tasks (deleting *.deleted files, flushing) at once and ignores periodic ones. */
    static Object scheduler() {
        InvocationHandler handler = (proxy, method, arguments) -> {
            if (method.isDefault()) return InvocationHandler.invokeDefault(proxy, method, arguments);
            if (!method.getName().equals("schedule")) return method.getReturnType() == boolean.class ? true : null;
            if ((Long) arguments[3] < 0) {
                if (arguments[1] instanceof Runnable task) task.run();
                else ((Function0<?>) arguments[1]).apply();
            }
            return new Done();
        };
        Class<?> type = Api.find("Scheduler");
        return Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[]{type}, handler);
    }

    private static class Done extends CompletableFuture<Void> implements ScheduledFuture<Void> {
        Done() { complete(null); }
        @Override public long getDelay(TimeUnit unit) { return 0; }
        @Override public int compareTo(Delayed o) { return 0; }
    }

    TopicPartition topicPartition() { return (TopicPartition) Api.call(it, "topicPartition"); }
    long start() { return Api.number(it, "logStartOffset"); }
    long end() { return Api.number(it, "logEndOffset"); }
    long highWatermark() { return Api.number(it, "highWatermark"); }
    long lastStable() { return Api.number(it, "lastStableOffset"); }
    long size() { return Api.number(it, "size"); }
    int segments() { return (Integer) Api.call(it, "numberOfSegments"); }
    long firstSegment() { return Api.number(Api.each(Api.call(it, "logSegments")).iterator().next(), "baseOffset"); }
    Object activeSegment() { return Api.call(it, "activeSegment"); }

    int producers() {
        return (Integer) (Api.has(it, "producerIdCount") ? Api.call(it, "producerIdCount")
                : Api.call(Api.call(Api.call(it, "producerStateManager"), "activeProducers"), "size"));
    }

    void removeExpiredProducers(long now) {
        Api.call(Api.has(it, "removeExpiredProducers") ? it : Api.call(it, "producerStateManager"), "removeExpiredProducers", now);
    }

    void updateHighWatermark(long to) { Api.call(it, "updateHighWatermark", to); }
    int deleteOldSegments() { return (Integer) Api.call(it, "deleteOldSegments"); }
    void roll() { Api.call(it, "roll"); }
    void follow(ByteBuffer batches) { Api.call(it, "appendAsFollower", records(batches)); }
    void lead(ByteBuffer batches, int epoch) { Api.call(it, "appendAsLeader", records(batches), epoch); }

    /** A marker of a transaction. */
    void coordinate(ByteBuffer batches, int epoch) {
        Api.call(it, "appendAsLeader", records(batches), epoch, Api.constant("AppendOrigin", "COORDINATOR", "AppendOrigin$Coordinator$"));
    }

    void beginEpoch(int epoch) {
        Api.call(it, Api.has(it, "assignEpochStartOffset") ? "assignEpochStartOffset" : "maybeAssignEpochStartOffset", epoch, end());
    }

    void deleteRecords(long before) {
        updateHighWatermark(end());
        Api.call(it, "maybeIncrementLogStartOffset", before,
                Api.constant("LogStartOffsetIncrementReason", "ClientRecordDeletion", "ClientRecordDeletion$"));
    }

    /** [offset, timestamp] of what a consumer is told that looks for a time, or null. */
    List<Object> lookUp(long timestamp) {
        Object found = Api.call(it, "fetchOffsetByTimestamp", timestamp);
        if (Api.has(found, "timestampAndOffsetOpt")) found = Api.call(found, "timestampAndOffsetOpt");
        found = Api.orNull(found);
        return found == null ? null : List.of(Api.field(found, "offset"), Api.field(found, "timestamp"));
    }

    void flush() { Api.call(it, "flush", Api.takes(it, "flush", true) ? new Object[]{true} : new Object[0]); }

    /** As a broker that stops: from 4.4 on it trims the files before it closes them. */
    void close() {
        if (Api.has(it, "prepareActiveSegmentForClose")) Api.call(it, "prepareActiveSegmentForClose");
        Api.call(it, "close");
    }

    private static Object records(ByteBuffer batches) { return Api.call(Api.find("MemoryRecords"), "readableRecords", batches); }

    /** That of a log directory's logs, see Pass. */
    static Object cleanerManager(List<File> parents, Map<TopicPartition, Log> logs) {
        Class<?> manager = Api.find("LogCleanerManager");
        if (!manager.getName().startsWith("kafka.")) {
            Map<TopicPartition, Object> opened = new java.util.concurrent.ConcurrentHashMap<>();
            logs.forEach((tp, log) -> opened.put(tp, log.it));
            return Api.make(manager, parents, opened, failures());
        }
        Object pool = Api.make(Api.find("Pool"), Option.empty());
        logs.forEach((tp, log) -> Api.call(pool, "put", tp, log.it));
        return Api.make(manager, scala.collection.immutable.List$.MODULE$.from(CollectionConverters.asScala(parents)), pool, failures());
    }

    static Object cleaner(int id, int dedupeBuffer, int ioBuffer, int maxMessage, double loadFactor, Time time) {
        Class<?> type = Api.find("Throttler");
        Object[] throttled = type.getName().startsWith("kafka.")
                ? new Object[]{Double.MAX_VALUE, 300L, true, "cleaner-io-" + id, "bytes", time}
                : new Object[]{Double.MAX_VALUE, 300L, "cleaner-io-" + id, "bytes", time};
        return Api.make(Api.find("Cleaner"), id, Api.make(Api.find("SkimpyOffsetMap"), dedupeBuffer), ioBuffer, maxMessage, loadFactor,
                Api.make(type, throttled), time);
    }

    /** One round; the offset up to which the log is clean then. */
    static long clean(Object cleaner, Object chosen) {
        Object answer = Api.call(cleaner, "clean", chosen);
        return ((Number) (answer instanceof Map.Entry<?, ?> e ? e.getKey() : Api.call(answer, "_1"))).longValue();
    }
}
