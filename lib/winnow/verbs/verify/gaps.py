"""Offsets that are in no segment, in topics that are not compacted.

A leader appends without gaps, and a new segment begins where the one before ends. So such a gap
between two segments may be a segment that is lost with all of its files. It is no proof: a cleaner
may have compacted the topic, on this broker or on the one that the replica comes from, before its
`cleanup.policy` was changed. Nothing on the disk tells that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from winnow.logdir.metadata import ClusterMetadata
from winnow.logdir.names import CLEANER_CHECKPOINT
from winnow.verbs.verify.findings import Scope
from winnow.words import first_few

_SHOWN = 5


def gaps_note(
    ends: Iterable[tuple[Scope, Sequence[tuple[int, int]]]], metadata: ClusterMetadata | None
) -> Iterator[str]:
    """Yield a note that names the gaps. `ends`: for each partition, the base offset and the next
    offset of its segments, ascending. `metadata`: the one that counts, None if there is none.
    """
    found = [
        f"{place.name} (offsets {end} to {base - 1})"
        for place, segments in ends
        for (_, end), (base, _) in pairwise(segments)
        if end < base and _is_never_compacted(place, metadata)
    ]
    if found:
        yield (
            f"offsets between segments are missing: {first_few(found, _SHOWN)}. These topics are "
            "not compacted. If they never were, and if no verb of Winnow removed these records, "
            "segments are lost with all of their files: compare with another replica. A broker "
            "starts, and serves what is left"
        )


def _is_never_compacted(place: Scope, metadata: ClusterMetadata | None) -> bool:
    """Whether neither the settings of the topic nor a checkpoint shows that it was compacted."""
    if metadata is None or place.topic is None or place.topic not in metadata.topics:
        return False
    if CLEANER_CHECKPOINT in place.checkpoints:
        return False
    text, _ = metadata.configs.get(("topic", place.topic), {}).get("cleanup.policy", ("", ""))
    return "compact" not in text
