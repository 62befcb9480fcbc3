package org.apache.kafka.storage.internals.log;   // for CleanerStats.mapBytesRead and LogCleanerManager.cleanableOffsets

import org.apache.kafka.common.TopicPartition;

import java.util.*;

/** Oracle clean: rounds of Kafka's cleaner over one log, and what each tells of itself. */
class Clean {
    static void run(Oracle oracle, Log opened, Cleaner cleaner, Map<String, Object> r) throws Exception {
        UnifiedLog log = (UnifiedLog) opened.it;
        Map<String, String> opt = oracle.opt;
        if (opt.containsKey("roll") && log.activeSegment().size() > 0) log.roll();
        TopicPartition tp = log.topicPartition();
        long rounds = oracle.num("rounds", 1);
        Long lastClean = opt.containsKey("first-dirty") ? Long.valueOf(oracle.num("first-dirty", 0)) : Oracle.checkpoint(log.dir(), LogCleanerManager.OFFSET_CHECKPOINT_FILE).get(tp);
        List<Object> out = new ArrayList<>();
        r.put("rounds", out);
        for (int n = 0; rounds == 0 || n < rounds; n++) {
            var range = LogCleanerManager.cleanableOffsets(log, Optional.ofNullable(lastClean), oracle.time.milliseconds());
            long uncleanable = oracle.num("first-uncleanable", range.firstUncleanableDirtyOffset());
            LogToClean ltc = new LogToClean(log, range.firstDirtyOffset(), uncleanable, false);
            if (ltc.cleanableBytes() == 0) break;                                    // the broker never picks such a log
            int segmentsBefore = log.numberOfSegments();
            Map.Entry<Long, CleanerStats> e = cleaner.clean(ltc);
            CleanerStats s = e.getValue();
            Map<String, Object> m = new LinkedHashMap<>();
            m.put("first_dirty", ltc.firstDirtyOffset()); m.put("first_uncleanable", ltc.firstUncleanableOffset());
            m.put("dirty_ratio", ltc.totalBytes() == 0 ? 0.0 : ltc.cleanableRatio());
            m.put("end_offset", e.getKey());
            m.put("bytes_read", s.bytesRead); m.put("bytes_written", s.bytesWritten); m.put("map_bytes_read", s.mapBytesRead);
            m.put("messages_read", s.messagesRead); m.put("messages_written", s.messagesWritten); m.put("map_messages_read", s.mapMessagesRead());
            m.put("invalid_messages", s.invalidMessagesRead);
            m.put("map_entries", cleaner.offsetMap().size()); m.put("map_slots", cleaner.offsetMap().slots());
            m.put("map_s", s.elapsedIndexSecs()); m.put("clean_s", s.elapsedSecs() - s.elapsedIndexSecs()); m.put("total_s", s.elapsedSecs());
            m.put("segments_before", segmentsBefore); m.put("segments_after", log.numberOfSegments());
            out.add(m);
            if (lastClean != null && e.getKey() <= lastClean) break;                  // no progress
            lastClean = e.getKey();
        }
        r.put("cleaned_to", lastClean);
        if (opt.containsKey("write-checkpoint") && lastClean != null)
            synchronized (Oracle.class) {
                var all = Oracle.checkpoint(log.dir(), LogCleanerManager.OFFSET_CHECKPOINT_FILE);
                all.put(tp, lastClean);
                Oracle.writeCheckpoint(log.dir(), LogCleanerManager.OFFSET_CHECKPOINT_FILE, all);
            }
    }
}
