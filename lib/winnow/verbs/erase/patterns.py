"""Count the records that hold given byte strings in their keys, values or headers. An erasure
compares only keys, so the data of a person may be in records with other keys.

Only counts leave the tasks. The result has neither a pattern nor a value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from winnow.errors import UsageError
from winnow.logdir.names import LOG, METADATA_TOPIC, topic_partition_of
from winnow.storage.contract import Entry, Storage
from winnow.verbs.erase.values import PatternMatches
from winnow.wire.internal_topics import INTERNAL_TOPICS
from winnow.wire.kernels.pattern_search import MOST_PATTERN_BYTES, Where, automaton


def different_patterns(patterns: Sequence[bytes]) -> tuple[bytes, ...]:
    """Return the different patterns. Raises UsageError for an empty one, and for more than 4096
    bytes together.
    """
    total = sum(map(len, {*patterns}))
    if not all(patterns):
        raise UsageError("a pattern is empty", expected="at least one byte")
    if total > MOST_PATTERN_BYTES:
        raise UsageError(
            "the patterns are too long",
            expected=f"at most {MOST_PATTERN_BYTES} bytes together",
            found=f"{total} bytes",
            hint="Search for some of them, then for the others: --dry-run erases nothing.",
        )
    return tuple(dict.fromkeys(patterns))


def automaton_of(patterns: Sequence[bytes]) -> NDArray[np.uint16] | None:
    return automaton(patterns) if patterns else None


def count_matches(
    where: NDArray[np.uint8], others: NDArray[np.bool_], sizes: NDArray[np.int32]
) -> PatternMatches:
    """Count the records in `others`. `where`: of `find_patterns`. `sizes`: bytes of each record."""
    found = where[others]
    in_keys, in_values, in_headers = (int(np.count_nonzero(found & part)) for part in Where)
    return PatternMatches(
        records=int(np.count_nonzero(found)),
        in_keys=in_keys,
        in_values=in_values,
        in_headers=in_headers,
        searched_records=len(found),
        searched_bytes=int(sizes[others].sum(dtype=np.int64)),
    )


def _listed(storage: Storage, path: str) -> Sequence[Entry]:
    with suppress(OSError):
        return storage.list_dir(path)
    return ()


def bytes_to_search(
    storage: Storage, log_dirs: Sequence[str], wants: Callable[[str], bool]
) -> tuple[int, int]:
    """Return the number of partitions that a search reads, and the size of their logs as they are
    stored. Kafka's own topics are always searched. `wants`: whether another topic is. What can't be
    listed is left out: the search reports it.
    """
    partitions = total = 0
    for log_dir in log_dirs:
        for entry in _listed(storage, log_dir):
            at = topic_partition_of(entry.name) if entry.is_dir else None
            if at is None or entry.name != str(at) or at.topic == METADATA_TOPIC:
                continue
            if at.topic in INTERNAL_TOPICS or wants(at.topic):
                partitions += 1
                files = _listed(storage, f"{log_dir}/{entry.name}")
                total += sum(file.size for file in files if file.name.endswith(LOG))
    return partitions, total
