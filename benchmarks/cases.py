"""What is measured: log directories of one shape each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from winnow.wire.batch import Codec


class Shape(StrEnum):
    HALF = "half superseded"
    """Spread evenly, so that nearly every batch must be rebuilt: the worst case."""
    CLEAN = "5 % dirty"
    """Compacted before, and with some new records since."""
    ANY = "5 % new, any key"
    """Compacted before, without tombstones. Each key is as likely to be updated."""
    NEWEST = "5 % new, newest keys"
    """Updates to the newest 5 % of the keys, as of sessions."""
    FEW = "5 % new, few keys"
    """95 % of the updates to 0.2 % of the keys, which are spread over all segments."""
    NOTHING = "nothing new"
    """Compacted before, and nothing since."""
    OFFSETS = "commits"
    """`__consumer_offsets`: commits of few groups, of which hardly any are kept."""


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    value_bytes: int = 100
    codec: Codec = Codec.NONE
    partitions: int = 1
    shape: Shape = Shape.HALF
    unique: float = 0.5
    """For `HALF`: share of the records whose key is new."""
    times: int = 1
    """How much larger than the other cases."""
    tombstones: float = 0.01
    """Share of the records, but of those that were compacted before."""
    batch_records: int | None = None
    """Records of each batch. None: as many as fill a producer's batch."""
    new: float = 0.05
    """Share of the records that came after what was compacted before."""
    partition_kib: int | None = None
    """Keys and values of each partition, whatever size is asked for."""

    @property
    def cleaned_before(self) -> bool:
        """A cleaning of the older part comes before each one that is measured."""
        return self.shape in (Shape.ANY, Shape.NEWEST, Shape.FEW, Shape.NOTHING)

    def mib(self, asked: int) -> float:
        """MiB of keys and values, all partitions, if `asked` is the size of most cases."""
        if self.partition_kib is None:
            return asked * self.times
        return self.partitions * self.partition_kib / 1024

    @property
    def topic(self) -> str:
        return "__consumer_offsets" if self.shape is Shape.OFFSETS else "bulk"

    @property
    def words(self) -> str:
        return (
            f"{self.partitions} x {self.codec.name.lower()}, values of {self.value_bytes} B, "
            f"{self._keys}"
            + (f", batches of {self.batch_records} records" if self.batch_records else "")
        )

    @property
    def _keys(self) -> str:
        if self.shape is not Shape.HALF or self.unique == 0.5:
            return str(self.shape)
        return f"{self.unique:.1%} unique keys, {self.tombstones:.0%} tombstones"


CASES = (
    Case("one-100B"),
    Case("one-1KB", value_bytes=1024),
    Case("four-100B", partitions=4),
    Case("four-1KB", value_bytes=1024, partitions=4),
    Case("lz4-100B", codec=Codec.LZ4),
    Case("four-lz4-100B", codec=Codec.LZ4, partitions=4),
    Case("snappy-100B", codec=Codec.SNAPPY),
    Case("gzip-100B", codec=Codec.GZIP),
    Case("zstd-100B", codec=Codec.ZSTD),
    Case("zstd-1KB", codec=Codec.ZSTD, value_bytes=1024),
    Case("pairs-100B", batch_records=2),
    Case("tombstones-100B", unique=0.98, tombstones=0.2),
    Case("hot-100B", unique=0.001),
    Case("one-100KB", value_bytes=100 << 10),
    Case("four-lz4-1KB", value_bytes=1024, codec=Codec.LZ4, partitions=4),
    Case("tiny", partition_kib=1024),
    Case("64-partitions", partitions=64, partition_kib=16 << 10),
    Case("400-partitions", partitions=400, partition_kib=2253),
    Case("2000-partitions", partitions=2000, partition_kib=64),
    Case("offsets", value_bytes=24, shape=Shape.OFFSETS),
    Case("clean-100B", shape=Shape.CLEAN, times=4),
    Case("new-any-100B", shape=Shape.ANY, times=4),
    Case("new-newest-100B", shape=Shape.NEWEST, times=4),
    Case("new-few-100B", shape=Shape.FEW, times=4),
    Case("nothing-new-100B", shape=Shape.NOTHING, times=4),
)
