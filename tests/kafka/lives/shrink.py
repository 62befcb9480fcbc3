"""Reduce a life with a difference to a small one with the same difference: all slightly smaller
lives run at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, Field, fields, replace
from typing import Any

from tests.kafka.lives.life import Config, Life, Span
from tests.kafka.lives.outcome import Difference, Run

TOGETHER = 60


def shrunk(run: Run, found: Difference, *, say: Callable[[str], None]) -> Difference:
    """The smallest that was found by making it smaller step by step."""
    best = found
    while True:
        smaller = sorted(set(_smaller(best.life)) - {best.life}, key=_size)
        following = None
        for begin in range(0, len(smaller), TOGETHER):
            together = {f"l{n}": life for n, life in enumerate(smaller[begin : begin + TOGETHER])}
            alike = [d for d in run(together).differences if d.kind == found.kind]
            following = min(alike, key=lambda d: _size(d.life), default=None)
            if following is not None:
                break
        if following is None:
            return best
        best = replace(following, name=found.name)
        say(f"{found.name}: {_size(best.life)} characters")


def _size(life: Life) -> int:
    return len(repr(life))


def _smaller(life: Life) -> Iterator[Life]:
    if len(life.spans) > 1:
        yield Life(life.spans[:-1])
        yield Life(life.spans[1:])
    for attribute in fields(Config):
        # The same for all: settings that change are one more thing to think of.
        configs = [replace(span.config, **_as_by_default(attribute)) for span in life.spans]
        yield _with(
            life,
            [
                replace(span, config=config)
                for span, config in zip(life.spans, configs, strict=True)
            ],
        )
    yield _with(life, [replace(span, config=life.spans[-1].config) for span in life.spans])
    for at, span in enumerate(life.spans):
        others = life.spans[:at], life.spans[at + 1 :]
        for smaller in (
            *(replace(span, steps=steps) for steps in _fewer(span.steps)),
            replace(span, uncommitted=0),
        ):
            yield _with(life, [*others[0], smaller, *others[1]])
        if others[1]:
            # What happens in two spans may as well happen in one.
            joined = replace(others[1][0], steps=span.steps + others[1][0].steps)
            yield _with(life, [*others[0], joined, *others[1][1:]])
        for number, step in enumerate(span.steps):
            for simpler in _simpler(step):
                steps = (*span.steps[:number], simpler, *span.steps[number + 1 :])
                yield _with(life, [*others[0], replace(span, steps=steps), *others[1]])


def _with(life: Life, spans: Sequence[Span]) -> Life:
    return replace(life, spans=tuple(spans))


def _simpler(step: Any) -> Iterator[Any]:
    """A step or a record with one field that is as by default."""
    for attribute in fields(step):
        value = getattr(step, attribute.name)
        if isinstance(value, tuple):
            records = [*_fewer(value)]
            records += [
                (*value[:at], simpler, *value[at + 1 :])
                for at, rec in enumerate(value)
                for simpler in _simpler(rec)
            ]
            yield from (replace(step, **{attribute.name: some}) for some in records)
        elif attribute.default is not MISSING and value != attribute.default:
            yield replace(step, **_as_by_default(attribute))


def _as_by_default(attribute: Field[Any]) -> dict[str, Any]:
    return {attribute.name: attribute.default}


def _fewer(items: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Without all, a half, a quarter, ... one of them."""
    width = len(items)
    while width:
        yield from (items[:begin] + items[begin + width :] for begin in range(0, len(items), width))
        width //= 2
