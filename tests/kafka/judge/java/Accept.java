package org.apache.kafka.storage.internals.log;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;

import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;

/** Oracle accept FILE...: whether a broker takes the batch in each file from a client, and appends its records as they are. */
class Accept {
    private static final int HEADER = 61;

    private static class Ignored implements LogValidator.MetricsRecorder {
        @Override public void recordInvalidMagic() { }
        @Override public void recordInvalidOffset() { }
        @Override public void recordInvalidSequence() { }
        @Override public void recordInvalidChecksums() { }
        @Override public void recordNoKeyCompactedTopic() { }
    }

    static void run(String[] files, PrintStream out) throws Exception {
        for (String file : files) {
            byte[] given = Files.readAllBytes(Path.of(file));
            Map<String, Object> answer = new LinkedHashMap<>();
            answer.put("file", file);
            try { answer.put("unchanged", Arrays.equals(payload(given), payload(validated(given)))); }
            catch (Exception | Error e) { answer.put("refused", e.toString()); }
            out.println(Json.of(answer));
        }
    }

    private static byte[] payload(byte[] batch) { return Arrays.copyOfRange(batch, HEADER, batch.length); }

    /** As UnifiedLog.append does for a producer's request to a topic that is not compacted yet. */
    private static byte[] validated(byte[] given) {
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(given.clone()));
        CompressionType codec = CompressionType.NONE;
        for (RecordBatch batch : records.batches()) { batch.ensureValid(); codec = batch.compressionType(); }
        LogValidator validator = new LogValidator(records, new TopicPartition("t", 0), Time.SYSTEM, codec, Compression.of(codec).build(), false,
                RecordBatch.MAGIC_VALUE_V2, TimestampType.CREATE_TIME, Long.MAX_VALUE, Long.MAX_VALUE, 0, AppendOrigin.CLIENT);
        ByteBuffer stored = ((MemoryRecords) validator.validateMessagesAndAssignOffsets(PrimitiveRef.ofLong(0), new Ignored(), BufferSupplier.create())
                .validatedRecords()).buffer().duplicate();
        byte[] bytes = new byte[stored.remaining()];
        stored.get(bytes);
        return bytes;
    }
}
