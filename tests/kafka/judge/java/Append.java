package org.apache.kafka.storage.internals.log;

import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.server.common.RequestLocal;

import java.io.DataInputStream;
import java.io.EOFException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * What happens to a log that a broker writes, read from a file of steps: byte kind, int64 clock (ms), int64 number,
 * int32 size, then `size` bytes of batches.
 *
 *   F  append as a follower           L  append as a leader of epoch `number`    M  the same, of a transaction marker
 *   E  leader epoch `number` begins   S  log start offset becomes `number`       R  roll
 */
class Append {
    static void run(UnifiedLog log, Oracle.FixedTime time, Path steps) throws Exception {
        try (DataInputStream in = new DataInputStream(Files.newInputStream(steps))) {
            while (true) {
                int kind = in.read();
                if (kind < 0) return;
                time.now = in.readLong();
                long number = in.readLong();
                MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes(in, in.readInt())));
                switch (kind) {
                    case 'F' -> log.appendAsFollower(records, Integer.MAX_VALUE);
                    case 'L' -> log.appendAsLeader(records, (int) number);
                    case 'M' -> log.appendAsLeader(records, (int) number, AppendOrigin.COORDINATOR, RequestLocal.noCaching(),
                            VerificationGuard.SENTINEL, (short) 0);
                    case 'E' -> log.assignEpochStartOffset((int) number, log.logEndOffset());
                    case 'S' -> { log.updateHighWatermark(log.logEndOffset());
                                  log.maybeIncrementLogStartOffset(number, LogStartOffsetIncrementReason.ClientRecordDeletion); }
                    case 'R' -> log.roll();
                    default -> throw new IllegalArgumentException("unknown step " + (char) kind);
                }
            }
        }
    }

    private static byte[] bytes(DataInputStream in, int size) throws Exception {
        byte[] data = in.readNBytes(size);
        if (data.length < size) throw new EOFException("a step is cut off");
        return data;
    }
}
