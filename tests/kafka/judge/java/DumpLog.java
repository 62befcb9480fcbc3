package org.apache.kafka.storage.internals.log;

import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile;
import org.apache.kafka.tools.DumpLogSegments;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.*;

/**
 * Oracle dumplog FLAG... FILE...: what kafka-dump-log prints of each file, as {"file", "out", "err"}.
 * Oracle checkpoint FILE...: the entries of checkpoints, which kafka-dump-log does not know, as {"file", "entries": [line, ...]}.
 */
class DumpLog {
    static void run(String[] a, PrintStream answer) throws Exception {
        int flags = 0;
        while (a[flags].startsWith("--")) flags++;
        for (int i = flags; i < a.length; i++) {
            String[] command = Arrays.copyOf(a, flags + 2);
            command[flags] = "--files";
            command[flags + 1] = a[i];
            one(command, a[i], answer);
        }
    }

    private static void one(String[] command, String file, PrintStream answer) throws Exception {
        PrintStream out = System.out, err = System.err;
        ByteArrayOutputStream o = new ByteArrayOutputStream(), e = new ByteArrayOutputStream();
        Exit.setExitProcedure((status, message) -> { });                            // else main would end this JVM
        try (PrintStream po = new PrintStream(o, false, StandardCharsets.UTF_8); PrintStream pe = new PrintStream(e, false, StandardCharsets.UTF_8)) {
            System.setOut(po);
            System.setErr(pe);
            try { DumpLogSegments.main(command); }
            catch (Throwable problem) { pe.println(problem); }
        } finally {
            System.setOut(out);
            System.setErr(err);
            Exit.resetExitProcedure();
        }
        answer.println(Json.of(Dump.map("file", file, "out", o.toString(StandardCharsets.UTF_8), "err", e.toString(StandardCharsets.UTF_8))));
    }

    static void checkpoints(String[] files, PrintStream answer) throws Exception {
        for (String name : files) {
            File f = new File(name);
            List<String> entries = new ArrayList<>();
            if (f.getName().equals("leader-epoch-checkpoint"))
                new LeaderEpochCheckpointFile(f, new LogDirFailureChannel(1)).read().forEach(x -> entries.add(x.epoch() + " " + x.startOffset()));
            else new OffsetCheckpointFile(f, new LogDirFailureChannel(1)).read().forEach((tp, offset) -> entries.add(tp.topic() + " " + tp.partition() + " " + offset));
            answer.println(Json.of(Dump.map("file", name, "entries", entries)));
        }
    }
}
