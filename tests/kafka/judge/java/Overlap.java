import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.*;

import java.util.*;

/**
 * Overlap BOOTSTRAP TOPIC REPLICAS STEPS SEED: transactions of four producers that overlap in one partition, more of them aborted
 * than committed, records of a producer without transactions between them. Each record is a batch of its own. At the end no
 * transaction is open. Prints the number of aborted ones.
 */
public class Overlap {
    static final int PRODUCERS = 4;

    public static void main(String[] a) throws Exception {
        String topic = a[1];
        int steps = Integer.parseInt(a[3]), aborted = 0;
        Random dice = new Random(Long.parseLong(a[4]));
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", a[0]))) {
            if (!admin.listTopics().names().get().contains(topic))
                admin.createTopics(List.of(new NewTopic(topic, 1, Short.parseShort(a[2])))).all().get();
        }
        List<KafkaProducer<String, String>> producers = new ArrayList<>();
        for (int i = 0; i < PRODUCERS; i++) producers.add(producer(a[0], topic + "-" + i));
        for (var each : producers) each.initTransactions();
        boolean[] open = new boolean[PRODUCERS];
        try (var plain = producer(a[0], null)) {
            for (int step = 0; step < steps; step++) {
                int who = dice.nextInt(PRODUCERS);
                var p = producers.get(who);
                boolean acts = dice.nextBoolean(), ends = acts && open[who];
                if (ends && dice.nextInt(4) == 0) p.commitTransaction();
                else if (ends) { p.abortTransaction(); aborted++; }
                else if (acts || open[who]) {
                    if (!open[who]) p.beginTransaction();
                    p.send(new ProducerRecord<>(topic, "k" + step % 50, "v" + step)).get();
                } else { plain.send(new ProducerRecord<>(topic, "k" + step % 50, "v" + step)).get(); continue; }
                open[who] = !ends;
            }
        }
        for (int i = 0; i < PRODUCERS; i++) if (open[i]) { producers.get(i).abortTransaction(); aborted++; }
        for (var each : producers) each.close();
        System.out.println(aborted);
        System.exit(0);
    }

    static KafkaProducer<String, String> producer(String bootstrap, String transactionalId) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "acks", "all", "linger.ms", 0));
        if (transactionalId != null) config.put("transactional.id", transactionalId);
        return new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
    }
}
