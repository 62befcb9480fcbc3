package org.apache.kafka.storage.internals.log;

import org.apache.kafka.common.TopicPartition;

import java.io.File;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;

/**
 * Oracle pass: all that a broker does to the logs of one log directory when its clock stands at --now.
 *
 * LogCleanerManager chooses what its cleaner cleans, as LogCleaner.CleanerThread does, until nothing is left to choose; then
 * deleteOldSegments for every log, as the cleaner does for compacted ones and LogManager for the others; and both again, until
 * nothing is left to do. Both checkpoints are written. A log that the cleaner gave up has "uncleanable" in its answer: what Kafka threw. One that it would go on cleaning for
 * ever is taken from it after 50 "rounds".
 */
class Pass {
    private static final int MANY = 50;                                             // rounds: a broker would go on for ever

    static void run(Oracle oracle) throws Exception {
        ConcurrentMap<TopicPartition, UnifiedLog> logs = new ConcurrentHashMap<>();
        Map<TopicPartition, Map<String, Object>> answers = new LinkedHashMap<>();
        Set<File> parents = new LinkedHashSet<>();
        try {
            for (File dir : oracle.dirs) {
                UnifiedLog log = oracle.open(dir);
                log.removeExpiredProducers(oracle.time.milliseconds());             // every ten minutes in a broker
                logs.put(log.topicPartition(), log);
                parents.add(dir.getParentFile());
                answers.put(log.topicPartition(), new LinkedHashMap<>(Map.of("cmd", "pass", "dir", dir.getPath(), "before", oracle.state(log), "rounds", 0)));
            }
            // Retention takes clean segments: what is left may be dirty enough for the cleaner when it looks next.
            for (int deleted = -1; deleted != 0;) {
                cleanAll(oracle, new ArrayList<>(parents), logs, answers);
                deleted = 0;
                for (UnifiedLog log : logs.values()) {
                    int segments = log.deleteOldSegments();
                    deleted += segments;
                    answers.get(log.topicPartition()).merge("segments_deleted", segments, (a, b) -> (Integer) a + (Integer) b);
                }
            }
            for (UnifiedLog log : logs.values()) {
                answers.get(log.topicPartition()).put("after", oracle.state(log));
                Oracle.checkpointLogStart(log);
            }
        } finally {
            for (UnifiedLog log : logs.values()) log.close();
        }
        for (var answer : answers.values()) oracle.out.println(Json.of(answer));
    }

    private static void cleanAll(Oracle oracle, List<File> parents, ConcurrentMap<TopicPartition, UnifiedLog> logs,
                                 Map<TopicPartition, Map<String, Object>> answers) throws Exception {
        Cleaner cleaner = oracle.newCleaner(0);
        LogCleanerManager manager = new LogCleanerManager(parents, logs, oracle.failures);
        try {
            while (true) {
                LogToClean chosen;
                try {
                    chosen = manager.grabFilthiestCompactedLog(oracle.time, new PreCleanStats()).orElse(null);
                } catch (LogCleaningException e) {
                    giveUp(manager, e.log, e, answers);
                    continue;
                }
                if (chosen == null) return;
                long end = chosen.firstDirtyOffset();
                try {
                    end = cleaner.clean(chosen).getKey();
                } catch (LogCleaningAbortedException e) {
                    // A segment was split first; the next round will do.
                } catch (Exception e) {
                    giveUp(manager, chosen.log(), e, answers);
                } finally {
                    manager.doneCleaning(chosen.topicPartition(), chosen.log().parentDirFile(), end);
                }
                Object rounds = answers.get(chosen.topicPartition()).merge("rounds", 1, (a, b) -> (Integer) a + (Integer) b);
                if (rounds.equals(MANY)) manager.markPartitionUncleanable(chosen.log().parentDir(), chosen.topicPartition());
            }
        } finally {
            manager.removeMetrics();
        }
    }

    private static void giveUp(LogCleanerManager manager, UnifiedLog log, Exception why, Map<TopicPartition, Map<String, Object>> answers) {
        manager.markPartitionUncleanable(log.parentDir(), log.topicPartition());
        answers.get(log.topicPartition()).put("uncleanable", why.toString());
    }
}
