package org.apache.kafka.storage.internals.log;

import kafka.log.LogManager;

import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

import java.io.File;
import java.util.*;

import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/**
 * Oracle recover --dir LOG_DIR [options]: Kafka's LogManager loads all logs of a log directory, as a broker does when it starts,
 * and shuts down as a broker does when it stops: logs flushed and closed, checkpoints and the marker written. IN PLACE.
 *
 * Options: --now, --config, --topic-configs, --producer-expiration-ms, --threads N (recovery threads) as for all.
 */
class Recover {
    private static final BrokerTopicStats STATS = new BrokerTopicStats();

    static void run(Oracle o) {
        for (File dir : o.dirs) {
            Map<String, Object> answer = new LinkedHashMap<>();
            answer.put("cmd", "recover");
            answer.put("dir", dir.getPath());
            long start = System.nanoTime();
            try { one(o, dir); }
            catch (Throwable e) { answer.put("error", e.toString()); e.printStackTrace(); }
            answer.put("wall_s", (System.nanoTime() - start) / 1e9);
            o.out.println(Json.of(answer));
        }
    }

    private static void one(Oracle o, File dir) {
        LogConfig defaults = new LogConfig(o.topicConfig);
        Map<String, LogConfig> perTopic = new HashMap<>();
        o.perTopic.forEach((topic, own) -> {
            Map<String, String> config = new HashMap<>(own);
            config.putAll(o.topicConfig);
            perTopic.put(topic, new LogConfig(config));
        });
        LogManager manager = new LogManager(
                CollectionConverters.asScala(List.of(dir)), CollectionConverters.asScala(List.<File>of()),
                resource -> new Properties(), defaults, new CleanerConfig(false), (int) o.num("threads", 1),
                1_000_000L, 1_000_000L, 1_000_000L, 1_000_000L, 900_000,
                new ProducerStateManagerConfig((int) o.num("producer-expiration-ms", 86_400_000), false), 600_000,
                (Scheduler) Log.scheduler(), STATS, new LogDirFailureChannel(10), o.time, false, 30_000L,
                LogManager.$lessinit$greater$default$20());
        manager.loadLogs(defaults, CollectionConverters.asScala(perTopic), new AbstractFunction1<UnifiedLog, Object>() {
            @Override public Object apply(UnifiedLog log) { return false; }
        });
        manager.shutdown(-1L);
    }
}
