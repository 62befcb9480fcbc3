"""Random choices for Hypothesis's strategies that depend only on a seed: the same lives today and
after any change of code.

Hypothesis's own provider mixes in constants from the loaded modules and derives most examples from
the previous one. Here each life is drawn independently.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, PrimitiveProvider

T = TypeVar("T")


class _Dice(PrimitiveProvider):
    number: int
    """The seed."""

    def __init__(self, conjecturedata: Any) -> None:
        super().__init__(conjecturedata)
        self._random = random.Random(self.number)

    def draw_boolean(self, p: float = 0.5) -> bool:
        return self._random.random() < p

    def draw_integer(
        self, min_value: int | None = None, max_value: int | None = None, **_: Any
    ) -> int:
        if min_value is None or max_value is None:
            self._not_asked_for()
        return self._random.randint(min_value, max_value)

    def draw_float(self, **_: Any) -> float:
        self._not_asked_for()

    def draw_string(self, *_: Any, **__: Any) -> str:
        self._not_asked_for()

    def draw_bytes(self, *_: Any, **__: Any) -> bytes:
        self._not_asked_for()

    def _not_asked_for(self) -> NoReturn:
        raise NotImplementedError("only choices, booleans and bounded integers are drawn here")


def rolled(
    strategy: st.SearchStrategy[T], count: int, number: int, seen: Callable[[T], None]
) -> None:
    """Shows `count` values, always the same for a number."""
    AVAILABLE_PROVIDERS["dice"] = type("Dice", (_Dice,), {"number": number})

    @settings(
        backend="dice",
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def show(value: T) -> None:
        seen(value)

    show()
