"""Resolve: all keys of one bucket of one partition come together, and the last offset of each decides who stays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from winnow.engine.kernels import new_table, put_latest, surviving_clean, surviving_dirty
from winnow.engine.scan import KeyBlob

_KEY_BYTES = 16


@dataclass(frozen=True, slots=True)
class Survivors:
    """Numbers of the records of one split that stay for their key's sake: uint32[n] as bytes."""

    split: int
    numbers: bytes


def resolve_bucket(blobs: Iterable[KeyBlob]) -> Iterator[Survivors]:
    """The records of these blobs whose key has nothing later in the dirty range (S4, S5.5)."""
    blobs = list(blobs)
    keys, ranks = new_table(sum(len(blob.hashes) // _KEY_BYTES for blob in blobs if blob.dirty))
    for blob in blobs:
        if blob.dirty:
            put_latest(keys, ranks, *_unpack(blob), blob.split)
    for blob in blobs:
        look_up = surviving_dirty if blob.dirty else surviving_clean
        numbers = look_up(keys, ranks, *_unpack(blob), blob.split)
        if numbers.shape[0]:
            yield Survivors(blob.split, numbers.tobytes())


def _unpack(
    blob: KeyBlob,
) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.uint64]], np.ndarray[tuple[int], np.dtype[np.uint32]]]:
    return np.frombuffer(blob.hashes, np.uint64).reshape(-1, 2), np.frombuffer(blob.numbers, np.uint32)
