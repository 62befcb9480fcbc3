"""Resolve: of all keys of one bucket of one partition, the last offset of each key survives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from winnow.runtime.spool import Blob, joined, stored
from winnow.scan.last_offsets import latest_first
from winnow.scan.scan import KeyBlob

_NUMBER_BYTES = 4


@dataclass(frozen=True, slots=True)
class Survivors:
    """Numbers of the records of one split that survive by their key: uint32[n], unordered."""

    split: int
    numbers: Blob
    keys: Blob | None = None
    """uint64[n]: the upper halves of the hashes of their keys. None: nobody wants them."""


def resolve_bucket(
    blobs: Iterable[KeyBlob], spool: str | None = None, *, with_keys: bool = False
) -> Iterator[Survivors]:
    """Yield the records of these blobs whose key has no later record in the dirty range (S4, S5.5).

    `spool`: see `winnow.runtime.spool`. `with_keys`: requests `Survivors.keys`.
    """
    ordered = sorted(blobs, key=lambda blob: (not blob.dirty, -blob.split))
    sizes = [len(blob.numbers) // _NUMBER_BYTES for blob in ordered]
    bounds = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    hashes = joined([blob.hashes for blob in ordered], np.uint64).reshape(-1, 2)
    numbers = joined([blob.numbers for blob in ordered], np.uint32)
    if hashes.shape[0] != numbers.shape[0]:
        raise ValueError(f"{hashes.shape[0]} hashes of {numbers.shape[0]} records")
    keys = np.empty(len(numbers) if with_keys else 0, np.uint64)
    stay, kept = latest_first(hashes, numbers, bounds, sum(blob.dirty for blob in ordered), keys)
    if kept.shape[0] != len(ordered):
        raise ValueError("the keys of a blob are not in the order of their parts")
    ends = np.stack([bounds[:-1], bounds[:-1] + kept], axis=1).ravel().tolist()
    numbers_of = stored(spool, stay, ends)[::2]
    keys_of = stored(spool, keys, ends)[::2] if with_keys else [None] * len(ordered)
    for blob, numbers_left, keys_left in zip(ordered, numbers_of, keys_of, strict=True):
        if len(numbers_left):
            yield Survivors(blob.split, numbers_left, keys_left)
