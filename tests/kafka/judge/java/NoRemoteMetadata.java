import java.util.Collections;
import java.util.Iterator;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadataManager;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteMetadata;

/** What a broker knows of a remote storage without a segment. */
public class NoRemoteMetadata implements RemoteLogMetadataManager {
    public CompletableFuture<Void> addRemoteLogSegmentMetadata(RemoteLogSegmentMetadata s) {
        return CompletableFuture.completedFuture(null);
    }

    public CompletableFuture<Void> updateRemoteLogSegmentMetadata(RemoteLogSegmentMetadataUpdate u) {
        return CompletableFuture.completedFuture(null);
    }

    public CompletableFuture<Void> putRemotePartitionDeleteMetadata(RemotePartitionDeleteMetadata d) {
        return CompletableFuture.completedFuture(null);
    }

    public Optional<RemoteLogSegmentMetadata> remoteLogSegmentMetadata(
            TopicIdPartition partition, int epoch, long offset) {
        return Optional.empty();
    }

    public Optional<RemoteLogSegmentMetadata> nextSegmentWithTxnIndex(
            TopicIdPartition partition, int epoch, long offset) {
        return Optional.empty();
    }

    public Optional<Long> highestOffsetForEpoch(TopicIdPartition partition, int epoch) {
        return Optional.empty();
    }

    public Iterator<RemoteLogSegmentMetadata> listRemoteLogSegments(TopicIdPartition partition) {
        return Collections.emptyIterator();
    }

    public Iterator<RemoteLogSegmentMetadata> listRemoteLogSegments(
            TopicIdPartition partition, int epoch) {
        return Collections.emptyIterator();
    }

    public void onPartitionLeadershipChanges(
            Set<TopicIdPartition> leaders, Set<TopicIdPartition> followers) {}

    public void onStopPartitions(Set<TopicIdPartition> partitions) {}

    public long remoteLogSize(TopicIdPartition partition, int epoch) {
        return 0;
    }

    public void configure(Map<String, ?> settings) {}

    public void close() {}
}
