"""Lives whose settings and timestamps are at the limits of a 64-bit number, where sums of them
overflow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tests.kafka.lives.life import (
    HOUR_MS,
    LONG_MAX,
    PASSES,
    Append,
    Config,
    End,
    Life,
    Rec,
    Roll,
    Span,
    Step,
    Tick,
)

_SMALL = Config(index_interval_bytes=0)
_FIRST, _LAST = PASSES[0], PASSES[-1]
_NEWEST = -(LONG_MAX - _LAST)
"""Age of a record whose timestamp is within some hours of 2^63-1 in every pass."""

_WRITTEN: tuple[Step, ...] = (
    Append((Rec(0), Rec(1)), producer=3),
    End(commit=False),
    Append((Rec(0), Rec(2)), producer=4),
    End(producer=4),
    Append((Rec(3, size=None), Rec(4))),
    Append((Rec(5, size=None), Rec(6)), codec=4),
    Append((Rec(7, size=None), Rec(8)), magic=1, codec=1),
    Append((Rec(9, size=None), Rec(0)), horizon=HOUR_MS),
    Roll(),
    Append((Rec(0), Rec(2))),
    Roll(),
)
_AGAIN: tuple[Step, ...] = (
    Append((Rec(10),)),
    Roll(),
    Append((Rec(10), Rec(11, size=None))),
    Roll(),
)

_SETTINGS: Mapping[str, tuple[int, ...]] = {
    # `now + delete.retention.ms` passes 2^63-1 in none, in some or in all of the passes.
    "delete_retention_ms": (
        0,
        2**62,
        LONG_MAX - _LAST,
        LONG_MAX - _FIRST,
        LONG_MAX - _FIRST + 1,
        LONG_MAX - 1,
        LONG_MAX,
    ),
    "min_compaction_lag_ms": (2**62, _FIRST, LONG_MAX - 1, LONG_MAX),
    "max_compaction_lag_ms": (1, _FIRST, 2**62, LONG_MAX - 1),
    "retention_ms": (0, _FIRST, 2**62, LONG_MAX - _LAST, LONG_MAX - 1, LONG_MAX),
    "retention_bytes": (0, 1, 2**62, LONG_MAX - 1, LONG_MAX),
    "segment_ms": (1, LONG_MAX - 1),
}
_STAMPS: Mapping[str, tuple[Rec, ...]] = {
    "ahead": (Rec(0, age=_NEWEST), Rec(1, size=None, age=_NEWEST)),
    "far-apart": (Rec(0, age=None), Rec(1, size=None, age=_NEWEST), Rec(2, age=_FIRST)),
    "before": (Rec(0, age=_FIRST), Rec(1, size=None, age=_FIRST - 1)),
}


def _lives() -> Iterator[tuple[str, Life]]:
    for name, values in _SETTINGS.items():
        for value in values:
            for policy in ("compact", "compact,delete"):
                config = replace(_SMALL, cleanup_policy=policy, **{name: value})
                yield (
                    f"{name.replace('_', '-')}-{value}-{policy.replace(',', '-')}",
                    _life(_WRITTEN, config),
                )
    for name, records in _STAMPS.items():
        for keep in (0, LONG_MAX):
            config = replace(_SMALL, cleanup_policy="compact,delete", delete_retention_ms=keep)
            config = replace(
                config,
                retention_ms=keep or HOUR_MS,
                min_compaction_lag_ms=1,
                max_compaction_lag_ms=LONG_MAX,
            )
            written = (
                Append(records),
                Append(records, magic=1),
                Roll(),
                Append(records, codec=1),
                Roll(),
            )
            yield f"timestamps-{name}-{'for-ever' if keep else 'at-once'}", _life(written, config)


def _life(written: tuple[Step, ...], config: Config) -> Life:
    return Life(
        (Span(written, config), *(Span((Tick(HOUR_MS), *_AGAIN), config) for _ in range(3)))
    )


EXTREMES: Mapping[str, Life] = dict(_lives())
