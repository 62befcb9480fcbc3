package org.apache.kafka.storage.internals.log;

import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.message.ProduceRequestData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.requests.*;
import org.apache.kafka.common.serialization.*;

import java.io.*;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.ExecutionException;

/**
 * GoOn BOOTSTRAP SEGMENT_KEY: clients that live on while their broker is stopped, its log directory is worked on, and it is started
 * again. Lines on stdin say when; each is answered by a line of JSON.
 *
 *   before   topics, and all that is to be gone on with: transactions, one of them open, an idempotent producer, a group
 *            with committed offsets, two consumers in the middle of a log
 *   after    goes on with each and tells what it found
 */
public class GoOn {
    static final String SMALL = "4096";
    static final int KEYS = 7, SOURCE = 300, COMMITTED = 120, COMMITS = 150, HALF = 40;
    static final TopicPartition TXN = new TopicPartition("txn", 0), OPEN = new TopicPartition("open", 0), IDEM = new TopicPartition("idem", 0),
            SRC = new TopicPartition("src", 0);

    final String bootstrap, segmentKey;
    final Admin admin;
    KafkaProducer<String, String> transactional, open, idempotent;
    Map<String, KafkaConsumer<String, String>> readers = new TreeMap<>();
    Map<String, List<String>> read = new TreeMap<>();
    ProducerState lastOfIdempotent;
    long lastOffset;

    GoOn(String bootstrap, String segmentKey) {
        this.bootstrap = bootstrap;
        this.segmentKey = segmentKey;
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    public static void main(String[] a) throws Exception {
        GoOn all = new GoOn(a[0], a[1]);
        var in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; )
            System.out.println(Json.of(switch (line) {
                case "before" -> all.before();
                case "after" -> all.after();
                default -> throw new IllegalArgumentException(line);
            }));
        System.exit(0);
    }

    // ------------------------------------------------------------------ before

    Map<String, Object> before() throws Exception {
        var compacted = Map.of("cleanup.policy", "compact", segmentKey, SMALL);
        admin.createTopics(List.of("txn", "open", "idem", "src").stream().map(t -> new NewTopic(t, 1, (short) 1).configs(compacted)).toList()).all().get();
        transactional = producer("goes-on");
        transactional.initTransactions();
        small("__transaction_state");
        for (int i = 0; i < 60; i++) transaction(transactional, "txn", i, i % 3 != 0);
        open = producer("open-across");
        open.initTransactions();
        for (int i = 0; i < 20; i++) transaction(open, "open", i, i % 2 == 0);
        open.beginTransaction();
        for (int i = 0; i < 60; i++) open.send(new ProducerRecord<>("open", "k" + i, pad("undecided-" + i))).get();   // more than a segment
        idempotent = producer(null);
        for (int i = 0; i < 200; i++) lastOffset = idempotent.send(new ProducerRecord<>("idem", "k" + i % KEYS, pad("v" + i))).get().offset();
        lastOfIdempotent = stateOf(IDEM).stream().findFirst().orElseThrow();
        group();
        for (String isolation : List.of("read_committed", "read_uncommitted")) {
            var c = consumer(null, isolation);
            c.assign(List.of(TXN));
            c.seekToBeginning(List.of(TXN));
            readers.put(isolation, c);
            read.put(isolation, new ArrayList<>());
            readUntil(isolation, HALF);
        }
        // More than the last segment, so that what was last is not in the active one, which is never cleaned.
        try (var other = producer(null)) {
            for (String topic : List.of("txn", "idem", "src"))
                for (int i = 0; i < 60; i++) other.send(new ProducerRecord<>(topic, "k" + i % KEYS, pad("last-" + i))).get();
        }
        return map("committed", committed("group").offset(), "epoch", (int) epochOf("goes-on"), "last_sequence", lastOfIdempotent.lastSequence(),
                "last_offset", lastOffset, "ends", ends());
    }

    void group() throws Exception {
        try (var p = producer(null)) {
            List<java.util.concurrent.Future<RecordMetadata>> sent = new ArrayList<>();
            for (int i = 0; i < SOURCE; i++) sent.add(p.send(new ProducerRecord<>("src", "s" + i, pad("source-" + i))));
            for (var one : sent) one.get();
        }
        try (var c = consumer("group", "read_committed")) {
            c.subscribe(List.of("src"));
            List<String> seen = new ArrayList<>();
            while (seen.size() < SOURCE) c.poll(Duration.ofMillis(200)).forEach(r -> seen.add(r.value()));
            small("__consumer_offsets");
            for (int i = 1; i <= COMMITS; i++) c.commitSync(Map.of(SRC, new OffsetAndMetadata(i == COMMITS ? COMMITTED : i, "commit " + i)));
        }
    }

    // ------------------------------------------------------------------- after

    Map<String, Object> after() throws Exception {
        var found = new LinkedHashMap<String, Object>();
        found.put("ends_before", ends());
        duplicates(found);
        // The idempotent producer's next batches: the broker refuses them unless it knows the last one.
        List<Long> offsets = new ArrayList<>();
        for (int i = 0; i < 10; i++) offsets.add(idempotent.send(new ProducerRecord<>("idem", "k" + i % KEYS, "after-" + i)).get().offset());
        var now = stateOf(IDEM).stream().filter(s -> s.producerId() == lastOfIdempotent.producerId()).findFirst().orElseThrow();
        found.put("idempotent_offsets", offsets);
        found.put("idempotent_epoch_is_the_same", now.producerEpoch() == lastOfIdempotent.producerEpoch());
        found.put("idempotent_sequence", now.lastSequence());

        for (int i = 0; i < 5; i++) open.send(new ProducerRecord<>("open", "k" + i, "decided-" + i)).get();
        open.commitTransaction();
        // The coordinator has decided; its marker comes a moment later.
        while (stateOf(OPEN).stream().anyMatch(s -> s.currentTransactionStartOffset().isPresent())) Thread.sleep(20);
        found.put("open_committed", all("open", "read_committed").stream().filter(v -> v.contains("decided")).map(v -> v.replace(".", "")).toList());

        transaction(transactional, "txn", 1000, true);
        transaction(transactional, "txn", 1001, false);
        short epoch = epochOf("goes-on");
        try (var heir = producer("goes-on")) {
            heir.initTransactions();
            found.put("epoch_rose", epochOf("goes-on") > epoch);
            transaction(heir, "txn", 1002, true);
        }
        try { transaction(transactional, "txn", 1003, true); found.put("fenced", "no"); }
        catch (Exception e) { found.put("fenced", (e.getCause() == null ? e : e.getCause()).getClass().getSimpleName()); }
        for (String isolation : readers.keySet()) {
            long end = admin.listOffsets(Map.of(TXN, OffsetSpec.latest())).partitionResult(TXN).get().offset();
            var c = readers.get(isolation);
            long deadline = System.currentTimeMillis() + 30_000;
            while (c.position(TXN) < end && System.currentTimeMillis() < deadline) c.poll(Duration.ofMillis(100)).forEach(r -> read.get(isolation).add(r.value()));
            found.put(isolation, read.get(isolation).stream().filter(v -> v.startsWith("10")).map(v -> v.substring(0, 8)).toList());
            found.put(isolation + "_position", c.position(TXN) == end);
        }
        found.put("committed", committed("group").offset());
        found.put("metadata", committed("group").metadata());
        try (var c = consumer("group", "read_committed")) {
            c.subscribe(List.of("src"));
            ConsumerRecords<String, String> records = ConsumerRecords.empty();
            while (records.isEmpty()) records = c.poll(Duration.ofMillis(200));
            found.put("resumed_at", records.iterator().next().offset());
            c.commitSync(Map.of(SRC, new OffsetAndMetadata(200)));
        }
        found.put("committed_then", committed("group").offset());
        return found;
    }

    /** The last batch of the idempotent producer once more, as after a lost response, then one that skips a sequence. */
    void duplicates(Map<String, Object> found) throws Exception {
        var again = produce(lastOfIdempotent.lastSequence());
        found.put("duplicate", List.of(Errors.forCode(again.errorCode()).name(), again.baseOffset()));
        found.put("gap", Errors.forCode(produce(lastOfIdempotent.lastSequence() + 5).errorCode()).name());
        found.put("ends_after_duplicate", ends());
    }

    org.apache.kafka.common.message.ProduceResponseData.PartitionProduceResponse produce(int sequence) throws Exception {
        var records = MemoryRecords.withIdempotentRecords(Compression.NONE, lastOfIdempotent.producerId(), (short) lastOfIdempotent.producerEpoch(), sequence,
                new SimpleRecord(System.currentTimeMillis(), "k".getBytes(), "twice".getBytes()));
        var data = new ProduceRequestData().setAcks((short) -1).setTimeoutMs(10_000);
        var topic = new ProduceRequestData.TopicProduceData().setName("idem");
        topic.setPartitionData(List.of(new ProduceRequestData.PartitionProduceData().setIndex(0).setRecords(records)));
        data.topicData().add(topic);
        short version = 9;                                                             // that every broker since 2.8 knows
        var header = new RequestHeader(ApiKeys.PRODUCE, version, "again", 1);
        ByteBuffer request = new ProduceRequest(data, version).serializeWithHeader(header);
        String[] address = bootstrap.split(":");
        try (Socket socket = new Socket(address[0], Integer.parseInt(address[1]))) {
            var out = new DataOutputStream(new BufferedOutputStream(socket.getOutputStream()));
            out.writeInt(request.remaining());
            out.write(request.array(), request.arrayOffset() + request.position(), request.remaining());
            out.flush();
            var in = new DataInputStream(socket.getInputStream());
            byte[] answer = in.readNBytes(in.readInt());
            var response = (ProduceResponse) AbstractResponse.parseResponse(ByteBuffer.wrap(answer), header);
            return response.data().responses().iterator().next().partitionResponses().get(0);
        }
    }

    // ----------------------------------------------------------------- clients

    KafkaProducer<String, String> producer(String transactionalId) {
        Map<String, Object> c = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "acks", "all", "enable.idempotence", true, "batch.size", 1024, "max.in.flight.requests.per.connection", 1,
                "reconnect.backoff.max.ms", 500));
        if (transactionalId != null) { c.put("transactional.id", transactionalId); c.put("transaction.timeout.ms", 600_000); }
        return new KafkaProducer<>(c, new StringSerializer(), new StringSerializer());
    }

    KafkaConsumer<String, String> consumer(String group, String isolation) {
        Map<String, Object> c = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "isolation.level", isolation, "auto.offset.reset", "none", "enable.auto.commit", false,
                "max.poll.records", 10, "fetch.max.wait.ms", 50, "reconnect.backoff.max.ms", 500));
        if (group != null) c.putAll(Map.of("group.id", group, "auto.offset.reset", "earliest"));
        return new KafkaConsumer<>(c, new StringDeserializer(), new StringDeserializer());
    }

    static void transaction(KafkaProducer<String, String> p, String topic, int number, boolean commit) throws Exception {
        p.beginTransaction();
        for (int i = 0; i < 3; i++) p.send(new ProducerRecord<>(topic, "k" + (number + i) % KEYS, pad(String.format("%04d-%d-%s", number, i, commit ? "c" : "a")))).get();
        if (commit) p.commitTransaction(); else p.abortTransaction();
    }

    void readUntil(String isolation, int count) {
        while (read.get(isolation).size() < count) readers.get(isolation).poll(Duration.ofMillis(100)).forEach(r -> read.get(isolation).add(r.value()));
    }

    List<String> all(String topic, String isolation) {
        TopicPartition tp = new TopicPartition(topic, 0);
        List<String> values = new ArrayList<>();
        try (var c = consumer(null, isolation)) {
            c.assign(List.of(tp));
            c.seekToBeginning(List.of(tp));
            long end = c.endOffsets(List.of(tp)).get(tp), deadline = System.currentTimeMillis() + 30_000;
            while (c.position(tp) < end && System.currentTimeMillis() < deadline) c.poll(Duration.ofMillis(100)).forEach(r -> values.add(r.value()));
        }
        return values;
    }

    // -------------------------------------------------------------- the broker

    Collection<ProducerState> stateOf(TopicPartition tp) throws Exception { return admin.describeProducers(List.of(tp)).partitionResult(tp).get().activeProducers(); }

    /** -1 from a broker that can't tell. */
    short epochOf(String transactionalId) throws Exception {
        try { return (short) admin.describeTransactions(List.of(transactionalId)).description(transactionalId).get().producerEpoch(); }
        catch (ExecutionException e) {
            if (e.getCause() instanceof UnsupportedVersionException) return -1;
            throw e;
        }
    }

    OffsetAndMetadata committed(String group) throws Exception { return admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(SRC); }

    Map<String, Object> ends() throws Exception {
        var found = new TreeMap<String, Object>();
        for (TopicPartition tp : List.of(TXN, OPEN, IDEM, SRC)) found.put(tp.toString(), admin.listOffsets(Map.of(tp, OffsetSpec.latest())).partitionResult(tp).get().offset());
        return found;
    }

    void small(String topic) throws Exception {
        var change = new AlterConfigOp(new ConfigEntry(segmentKey, SMALL), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.TOPIC, topic), List.of(change))).all().get();
    }

    static String pad(String s) { return s + ".".repeat(40); }

    static Map<String, Object> map(Object... pairs) {
        var m = new LinkedHashMap<String, Object>();
        for (int i = 0; i < pairs.length; i += 2) m.put((String) pairs[i], pairs[i + 1]);
        return m;
    }
}
