import java.io.InputStream;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;

/** A remote storage without a segment: a broker starts with tiered topics. */
public class NoRemoteStorage implements RemoteStorageManager {
    public Optional<CustomMetadata> copyLogSegmentData(RemoteLogSegmentMetadata s, LogSegmentData d) {
        return Optional.empty();
    }

    public InputStream fetchLogSegment(RemoteLogSegmentMetadata s, int start) {
        return InputStream.nullInputStream();
    }

    public InputStream fetchLogSegment(RemoteLogSegmentMetadata s, int start, int end) {
        return InputStream.nullInputStream();
    }

    public InputStream fetchIndex(RemoteLogSegmentMetadata s, IndexType type) {
        return InputStream.nullInputStream();
    }

    public void deleteLogSegmentData(RemoteLogSegmentMetadata s) {}

    public void configure(Map<String, ?> settings) {}

    public void close() {}
}
