package org.apache.kafka.storage.internals.log;

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
    static void run(Log log, Oracle.FixedTime time, Path steps) throws Exception {
        try (DataInputStream in = new DataInputStream(Files.newInputStream(steps))) {
            while (true) {
                int kind = in.read();
                if (kind < 0) return;
                time.now = in.readLong();
                long number = in.readLong();
                ByteBuffer batches = ByteBuffer.wrap(bytes(in, in.readInt()));
                switch (kind) {
                    case 'F' -> log.follow(batches);
                    case 'L' -> log.lead(batches, (int) number);
                    case 'M' -> log.coordinate(batches, (int) number);
                    case 'E' -> log.beginEpoch((int) number);
                    case 'S' -> log.deleteRecords(number);
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
