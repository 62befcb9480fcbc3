"""Hashes of what an erasure has written, so that others can compare the files with them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from winnow.logdir.names import LOG, segment_file
from winnow.runtime.failure import Failure
from winnow.runtime.progress import Progress
from winnow.runtime.spread import spread
from winnow.storage.places import Places
from winnow.storage.segment_io import map_range
from winnow.verbs.erase.values import RewrittenFile

if TYPE_CHECKING:
    from pyspark import SparkContext

_PIECE_BYTES = 64 << 20
_TASK_BYTES = 1 << 30


def hash_files(
    sc: SparkContext, files: Sequence[tuple[str, int, int]], progress: Progress
) -> list[RewrittenFile | Failure]:
    """Return the SHA-256 of logs. `files`: partition directory, base offset and about how many
    bytes of each.
    """
    return spread(
        sc,
        lambda file: _hash_file(file[0], file[1]),
        files,
        weights=[size for _, _, size in files],
        per_task=_TASK_BYTES,
        name=f"hashing {len(files)} rewritten segments",
        progress=progress,
    )


def _hash_file(directory: str, base: int) -> RewrittenFile:
    name = segment_file(base, LOG)
    path = f"{directory}/{name}"
    size, digest = Places().entry(path).size, hashlib.sha256()
    for start in range(0, size, _PIECE_BYTES):
        with map_range(path, start, min(start + _PIECE_BYTES, size)) as piece:
            digest.update(piece.data)
            del piece
    return RewrittenFile(f"{directory.rpartition('/')[2]}/{name}", size, digest.hexdigest())
