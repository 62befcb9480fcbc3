"""How much faster than Kafka's cleaner, or how much slower than a copy, Winnow means to be in each
case.
"""

from __future__ import annotations

from dataclasses import dataclass

WARM_JVM = "kafka-warm"
KAFKAS = ("kafka", "kafka-1GiB", WARM_JVM)
LARGE_BUFFER = ("kafka-1GiB", WARM_JVM)
COPY = ("copy",)


@dataclass(frozen=True, slots=True)
class Aim:
    """`times`: how many times as long as Winnow in a warm session those in `against` should
    take.
    """

    case: str
    times: float
    against: tuple[str, ...] = KAFKAS


AIMS = (
    Aim("one-100B", 10, ("kafka",)),
    Aim("one-100B", 6, LARGE_BUFFER),
    Aim("one-100B", 1 / 2.5, COPY),
    Aim("one-1KB", 3),
    Aim("one-1KB", 1 / 1.3, COPY),
    Aim("four-100B", 4),
    Aim("four-1KB", 1.6),
    Aim("lz4-100B", 5),
    Aim("four-lz4-100B", 2.7),
    Aim("snappy-100B", 3),
    Aim("gzip-100B", 3),
    Aim("zstd-100B", 4),
    Aim("zstd-1KB", 3),
    Aim("offsets", 10),
    Aim("clean-100B", 3),
    Aim("new-any-100B", 4),
    Aim("new-newest-100B", 20),
    Aim("pairs-100B", 6, ("kafka-1GiB",)),
    Aim("four-lz4-1KB", 4, ("kafka-1GiB",)),
    Aim("one-100KB", 2, ("kafka-1GiB",)),
    Aim("64-partitions", 4, ("kafka-1GiB",)),
)
