"""Sums of times and settings in Java's 64 bits.

A setting may be 2^63-1 ("keep for ever"), and a sum with it overflows in Java. Python's numbers do
not overflow. Every such sum that must equal Kafka's is computed here.
"""

from __future__ import annotations

MAX_LONG = 2**63 - 1


def wrapped(value: int) -> int:
    """Return `value` as Java's `long` would hold it: beyond 2^63-1 it wraps to -2^63."""
    return (value + 2**63) % 2**64 - 2**63


def delete_horizon(now: int, delete_retention_ms: int) -> int | None:
    """Return the delete horizon of a batch that needs one at `now` (ms). None if the sum overflows:
    Kafka then sets none.
    """
    horizon = wrapped(now + delete_retention_ms)
    return horizon if horizon >= 0 else None


def clamped(value: int) -> int:
    """Return `value`, or the nearest number that fits. For limits where a lower value keeps more,
    and where Java's overflow would keep nothing.
    """
    return max(-MAX_LONG, min(value, MAX_LONG))
