"""Hypothesis's strategy for lives, biased towards corner cases: few keys, small segments, clocks at
the edge of every setting.

Each life has its own selection of formats, codecs, producers, gaps and ages. An even mixture seldom
finds faults that need many of a kind together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, TypeVar

from hypothesis import strategies as st

from tests.kafka.lives.dice import rolled
from tests.kafka.lives.life import (
    HOUR_MS,
    LONG_MAX,
    PASSES,
    Append,
    Config,
    DeleteRecords,
    End,
    Fence,
    Life,
    Rec,
    Roll,
    Span,
    Step,
    Term,
    Tick,
)
from tests.kafka.lives.telling import FIRST_TRANSACTIONAL

T = TypeVar("T")
ANY_CODEC = (0, 1, 2, 3, 4)
MAGICS = ((2,), (2,), (2,), (2,), (0,), (1,), (0, 1), (1, 2), (0, 1, 2))
CODECS = ((0,), (0,), (0,), (1,), (2,), (3,), (4,), (0, 3), ANY_CODEC)
KEYS: tuple[tuple[int | None, ...], ...] = (
    (0,),
    (0, 1),
    (0, 1, 2),
    (0, 1, 2, 3, 4),
    (0, 1, None),
    (0, 5, 6, 7, None),
)
SIZES: tuple[tuple[int | None, ...], ...] = (
    (3,),
    (3, None),
    (3, None, None),
    (0, 3, None),
    (3, 60, 400, None),
    (1000,),
)
AGES: tuple[tuple[int | None, ...], ...] = (
    (0,),
    (0, None),
    (None,),
    (0, HOUR_MS, HOUR_MS + 1, HOUR_MS - 1),
    (0, 2 * HOUR_MS, -HOUR_MS),
    (0, 2 * HOUR_MS, 2 * HOUR_MS - 1, 2 * HOUR_MS + 1),
    (0, -1, 63, 64, -(2**40), PASSES[0]),
)
PRODUCERS = ((0,), (0,), (0, 1), (0, 1, 2), (1, 2), (0, 3), (3, 4), (0, 1, 3, 4, 5))
GAPS = ((0,), (0,), (0, 1), (0, 0, 0, 1, 1000), (0, 0, 0, 2**31 - 2, 2**31 - 1, 2**31, 5 * 10**9))
TICKS = (1, HOUR_MS // 2, HOUR_MS - 1, HOUR_MS, HOUR_MS + 1, 3 * HOUR_MS)
FIRST_SPANS = ((2, 6), (10, 24), (20, 50))
SPANS = ((0, 0), (1, 3), (2, 8), (6, 16), (12, 36))
"""Steps in a span, at least and at most."""

POLICIES = ("compact", "compact", "compact", "compact,delete", "compact,delete", "delete", "")
CONFIGS = st.builds(
    Config,
    cleanup_policy=st.sampled_from(POLICIES),
    segment_bytes=st.sampled_from((300, 600, 1500, 4000, 100_000)),
    segment_ms=st.sampled_from((LONG_MAX, LONG_MAX, HOUR_MS, 2 * HOUR_MS)),
    segment_index_bytes=st.sampled_from((10_000, 10_000, 24, 36, 48, 96)),
    index_interval_bytes=st.sampled_from((4096, 0, 100, 300)),
    delete_retention_ms=st.sampled_from(
        (HOUR_MS, 0, 1, HOUR_MS - 1, HOUR_MS + 1, 2 * HOUR_MS, 3 * HOUR_MS, 86_400_000)
    ),
    retention_ms=st.sampled_from(
        (-1, 0, HOUR_MS, 2 * HOUR_MS, 2 * HOUR_MS - 1, 4 * HOUR_MS, 604_800_000)
    ),
    retention_bytes=st.sampled_from((-1, -1, 0, 300, 700, 3000)),
    min_cleanable_dirty_ratio=st.sampled_from((0.0, 0.0, 0.0, 0.2, 0.5, 0.9, 1.0)),
    min_compaction_lag_ms=st.sampled_from((0, 0, 0, 1, HOUR_MS, 2 * HOUR_MS)),
    max_compaction_lag_ms=st.sampled_from((LONG_MAX, LONG_MAX, 2 * HOUR_MS, 3 * HOUR_MS)),
    max_message_bytes=st.sampled_from((1_048_588, 1_048_588, 100)),
    message_timestamp_type=st.sampled_from(("CreateTime", "CreateTime", "LogAppendTime")),
    compression_type=st.sampled_from(("producer", "producer", "gzip", "zstd", "uncompressed")),
)


@st.composite
def lives(draw: st.DrawFn) -> Life:
    steps = _steps(draw)
    config = draw(CONFIGS)
    spans = []
    for number in range(len(PASSES)):
        least, most = draw(st.sampled_from(SPANS if number else FIRST_SPANS))
        if number and draw(st.integers(0, 7)) == 7:
            config = draw(CONFIGS)
        uncommitted = draw(st.sampled_from((0,) * 12 + (1, 2, 5, 40)))
        spans.append(
            Span(tuple(draw(st.lists(steps, min_size=least, max_size=most))), config, uncommitted)
        )
    return Life(tuple(spans))


def _steps(draw: st.DrawFn) -> st.SearchStrategy[Step]:
    """Steps that suit one life. Each is one choice among all possible ones, because choices take
    time.
    """

    def some(choices: Sequence[Sequence[T]]) -> Sequence[T]:
        return draw(st.sampled_from(choices))

    producers = some(PRODUCERS)
    kinds: list[st.SearchStrategy[Any]] = [_appends(some, producers)] * 8
    transactional = [p for p in producers if p >= FIRST_TRANSACTIONAL]
    if transactional:
        bumps, emptied = (
            some(((False,), (True,), (False, True))),
            some(((False,), (False,), (False, False, False, True))),
        )
        kinds += [_one_of(End, transactional, (False, True), bumps, emptied)] * 5
    if any(producers):
        kinds.append(_one_of(Fence, [p for p in producers if p]))
    kinds += [st.just(Roll())] * 3
    kinds += [_one_of(Tick, TICKS)] * 2
    kinds += [_one_of(Term, (1, 3))] * some(((0,), (1,)))[0]
    kinds += [_one_of(DeleteRecords, (0, 100, 300, 500, 900, 1000))] * some(((0,), (0,), (1,)))[0]
    return st.sampled_from(kinds).flatmap(lambda kind: kind)


def _appends(
    some: Callable[[Sequence[Sequence[Any]]], Sequence[Any]], producers: Sequence[int]
) -> st.SearchStrategy[Append]:
    rare_skip, rare_more = ((0,),) * 3, (0, 0, 0, 1, 20)
    records = _one_of(
        Rec,
        some(KEYS),
        some(SIZES),
        some(AGES),
        some((*rare_skip, (0, 0, 0, 1, 130))),
        some((*rare_skip, (0, 1, 3))),
    )
    kinds = _one_of(
        partial(Append, ()),
        producers,
        some(MAGICS),
        some(CODECS),
        some(GAPS),
        some((*rare_skip, rare_more)),
        some((*rare_skip, rare_more)),
        some(((None,), (None,), (None, None, 0, HOUR_MS, -1))),
        some(((False,), (False,), (False, True))),
        some(((False,), (False, True))),
        some(((False,), (False, True))),
    )
    least, most = some(((1, 1), (1, 1), (1, 3), (1, 8), (0, 2)))
    return st.builds(
        lambda kind, of: replace(kind, records=tuple(of)),
        kinds,
        st.lists(records, min_size=least, max_size=most),
    )


def _one_of(made: Callable[..., T], *choices: Sequence[Any]) -> st.SearchStrategy[T]:
    """`made` of one of each."""

    def numbered(number: int) -> T:
        arguments = []
        for some in choices:
            number, which = divmod(number, len(some))
            arguments.append(some[which])
        return made(*arguments)

    return st.sampled_from(range(prod(map(len, choices)))).map(numbered)


def draw_lives(count: int, number: int) -> list[Life]:
    """`count` different lives, always the same for a number."""
    drawn: dict[Life, None] = {}
    rolled(lives(), count + count // 10 + 1, number, drawn.setdefault)
    return list(drawn)[:count]
