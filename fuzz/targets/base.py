"""A target: the source of its inputs, and the properties that must hold for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from winnow.errors import CorruptLogError, WinnowError

LIMIT = 1 << 20
"""`max.decompressed.message.bytes` of the targets that decompress."""


class BrokenPropertyError(Exception):
    """An input for which something does not hold that has to hold for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """`check` gets any bytes. It returns for what is accepted, raises one of `refusals` for what is
    refused.

    Any other exception is a finding, as is a death of the interpreter, more than a second, and more
    memory than the runner grants.
    """

    check: Callable[[bytes], object]
    seeds: Callable[[], Sequence[bytes]]
    """Inputs to begin with, at least one; sound ones, so that most of the way is open."""
    weight: int = 4
    """Its share of the executions; less where one of them takes long."""
    refusals: tuple[type[WinnowError], ...] = (CorruptLogError,)
    quick: Callable[[bytes], object] | None = None
    """`check` without the plain twins, where it asks them: they take ten times as long as the
    kernels they judge.
    """

    def accepts(self, data: bytes, *, twins: bool = True) -> bool:
        """Whether the input is accepted. Raises what is a finding."""
        check = self.check if twins or self.quick is None else self.quick
        try:
            check(data)
        except self.refusals:
            return False
        return True


def require(holds: bool, what: str) -> None:  # noqa: FBT001 - reads as a sentence
    if not holds:
        raise BrokenPropertyError(what)


def same_outcome(
    fast: Callable[[], Any], plain: Callable[[], Any], what: str
) -> tuple[Any, Any] | None:
    """What both give, or None if both refuse. A finding if only one of them does."""
    results: list[Any] = []
    refused: list[CorruptLogError | None] = []
    for function in (fast, plain):
        try:
            results.append(function())
            refused.append(None)
        except CorruptLogError as error:
            refused.append(error)
    if refused[0] is None and refused[1] is None:
        return results[0], results[1]
    require(
        None not in refused,
        f"{what}: the kernel says {refused[0] or 'yes'}, its twin {refused[1] or 'yes'}",
    )
    return None
