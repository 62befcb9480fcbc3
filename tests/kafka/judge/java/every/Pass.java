package org.apache.kafka.storage.internals.log;

import org.apache.kafka.common.TopicPartition;

import java.io.File;
import java.util.*;

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
        Map<TopicPartition, Log> logs = new LinkedHashMap<>();
        Map<TopicPartition, Map<String, Object>> answers = new LinkedHashMap<>();
        Set<File> parents = new LinkedHashSet<>();
        try {
            for (File dir : oracle.dirs) {
                Log log = oracle.open(dir);
                log.removeExpiredProducers(oracle.time.milliseconds());             // every ten minutes in a broker
                logs.put(log.topicPartition(), log);
                parents.add(dir.getParentFile());
                answers.put(log.topicPartition(), new LinkedHashMap<>(Map.of("cmd", "pass", "dir", dir.getPath(), "before", oracle.state(log), "rounds", 0)));
            }
            // Retention takes clean segments: what is left may be dirty enough for the cleaner when it looks next.
            for (int deleted = -1; deleted != 0;) {
                cleanAll(oracle, new ArrayList<>(parents), logs, answers);
                deleted = 0;
                for (Log log : logs.values()) {
                    int segments = log.deleteOldSegments();
                    deleted += segments;
                    answers.get(log.topicPartition()).merge("segments_deleted", segments, (a, b) -> (Integer) a + (Integer) b);
                }
            }
            for (Log log : logs.values()) {
                answers.get(log.topicPartition()).put("after", oracle.state(log));
                Oracle.checkpointLogStart(log);
            }
        } finally {
            for (Log log : logs.values()) log.close();
        }
        for (var answer : answers.values()) oracle.out.println(Json.of(answer));
    }

    private static void cleanAll(Oracle oracle, List<File> parents, Map<TopicPartition, Log> logs,
                                 Map<TopicPartition, Map<String, Object>> answers) throws Exception {
        Object cleaner = oracle.newCleaner(0);
        Object manager = Log.cleanerManager(parents, logs);
        try {
            while (true) {
                Object chosen;
                try {
                    chosen = Api.orNull(Api.call(manager, "grabFilthiestCompactedLog", oracle.time, Api.make(Api.find("PreCleanStats"))));
                } catch (Exception e) {
                    if (!is(e, "LogCleaningException")) throw e;
                    Object log = Api.has(e, "log") ? Api.call(e, "log") : Api.field(e, "log");
                    giveUp(manager, log, e, answers);
                    continue;
                }
                if (chosen == null) return;
                Object log = Api.call(chosen, "log");
                TopicPartition tp = (TopicPartition) Api.call(log, "topicPartition");
                long end = Api.number(chosen, "firstDirtyOffset");
                try {
                    end = Log.clean(cleaner, chosen);
                } catch (Exception e) {
                    // Aborted: a segment was split first; the next round will do.
                    if (!is(e, "LogCleaningAbortedException")) giveUp(manager, log, e, answers);
                } finally {
                    Api.call(manager, "doneCleaning", tp, Api.call(log, "parentDirFile"), end);
                }
                Object rounds = answers.get(tp).merge("rounds", 1, (a, b) -> (Integer) a + (Integer) b);
                if (rounds.equals(MANY)) Api.call(manager, "markPartitionUncleanable", Api.call(log, "parentDir"), tp);
            }
        } finally {
            if (Api.has(manager, "removeMetrics")) Api.call(manager, "removeMetrics");
        }
    }

    private static boolean is(Exception e, String name) { return e.getClass().getSimpleName().equals(name); }

    private static void giveUp(Object manager, Object log, Exception why, Map<TopicPartition, Map<String, Object>> answers) {
        TopicPartition tp = (TopicPartition) Api.call(log, "topicPartition");
        Api.call(manager, "markPartitionUncleanable", Api.call(log, "parentDir"), tp);
        answers.get(tp).put("uncleanable", why.toString());
    }
}
