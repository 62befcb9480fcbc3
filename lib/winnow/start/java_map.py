"""The order in which Java's `HashMap<Long, ...>` iterates over its keys.

A broker writes the producers of a snapshot in that order, so equal files need equal orders. Keys
are only added: a broker never removes one while it loads a log.

One case is not followed: nine keys or more in one bucket of a table of at least 64. Java turns such
a bucket into a tree. Here it keeps its keys in the order in which they came. The snapshot then
holds the same producers in another order, which brokers read alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

_FIRST_CAPACITY = 16
_TREE_FROM = 8
_NO_TREE_BELOW = 64
_LONG = 2**64 - 1
_INT = 2**32 - 1


def spread_hash(key: int) -> int:
    """Return `HashMap.hash(Long.hashCode(key))` as an unsigned int of 32 bits."""
    unsigned = key & _LONG
    folded = (unsigned ^ (unsigned >> 32)) & _INT
    return folded ^ (folded >> 16)


class JavaKeys:
    """Keys in the order of a `HashMap`.

    `computed`: they are added by `computeIfAbsent`, which grows the table one key later than `put`,
    counts a full bucket one key earlier, and adds a key before the others of its bucket.
    """

    def __init__(self, *, computed: bool = False) -> None:
        self._computed = computed
        self._capacity = _FIRST_CAPACITY
        self._hashes: dict[int, int] = {}
        self._in_bucket = Counter[int]()

    def add(self, key: int) -> None:
        """Add a key. Nothing happens if it is there."""
        if key in self._hashes:
            return
        if self._computed and len(self._hashes) > self._threshold:
            self._grow()
        hashed = spread_hash(key)
        self._hashes[key] = hashed
        bucket = hashed & (self._capacity - 1)
        before = self._in_bucket[bucket]
        self._in_bucket[bucket] += 1
        if before >= _TREE_FROM - self._computed and self._capacity < _NO_TREE_BELOW:
            self._grow()
        if not self._computed and len(self._hashes) > self._threshold:
            self._grow()

    def __iter__(self) -> Iterator[int]:
        mask = self._capacity - 1
        keys = reversed(self._hashes) if self._computed else self._hashes
        return iter(sorted(keys, key=lambda key: self._hashes[key] & mask))

    @property
    def _threshold(self) -> int:
        return self._capacity * 3 // 4

    def _grow(self) -> None:
        self._capacity *= 2
        self._in_bucket = Counter(hashed & (self._capacity - 1) for hashed in self._hashes.values())
