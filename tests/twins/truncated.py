"""The simple, slow twin of `winnow.cleaning.summaries.truncated`: a set of shortened numbers."""

from __future__ import annotations

from collections.abc import Iterable


def seemingly_in(asked: Iterable[int], keys: Iterable[int]) -> list[int]:
    """Return which numbers of 64 bits begin with the same bits as one of `keys`."""
    own = sorted(keys)
    bits = max(1, len(own).bit_length() - 1) + 14
    known = {key >> (64 - bits) for key in own}
    return [key for key in sorted(asked) if key >> (64 - bits) in known]
