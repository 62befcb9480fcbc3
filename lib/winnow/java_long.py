"""Sums of times and settings in Java's 64 bits.

A setting may be 2^63-1 ("keep for ever"), so that a sum with it may not fit. Python's numbers grow
instead: every such sum that has to come out as Kafka's is made here.
"""

from __future__ import annotations

MAX_LONG = 2**63 - 1


def wrapped(value: int) -> int:
    """`value` as Java's `long` has it: beyond 2^63-1 it goes on at -2^63."""
    return (value + 2**63) % 2**64 - 2**63


def delete_horizon(now: int, delete_retention_ms: int) -> int | None:
    """What a batch gets that needs a delete horizon at `now` (ms); None if the sum overflows: Kafka
    then sets none.
    """
    horizon = wrapped(now + delete_retention_ms)
    return horizon if horizon >= 0 else None


def clamped(value: int) -> int:
    """`value`, or the nearest number that fits. For limits that keep more the lower they are, where
    Java's overflow would keep nothing.
    """
    return max(-MAX_LONG, min(value, MAX_LONG))
