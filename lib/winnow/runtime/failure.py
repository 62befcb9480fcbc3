"""Why a partition was not cleaned, as a value that tasks send to the driver."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from winnow.batch_memory import VARIABLE
from winnow.errors import NO_SPACE, CorruptLogError, NoSpaceError, WinnowError, failure_of
from winnow.runtime.no_space import words_of_no_space

_T = TypeVar("_T")
MORE_MEMORY = (
    "the machine or the executor more, use fewer cores at once, or allow less in one batch with "
    f"{VARIABLE}"
)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a partition can't be cleaned, as its report shows it."""

    message: str
    exit_code: int


def failure(error: Exception) -> Failure:
    """Return the Failure for any error that concerns one partition."""
    if isinstance(error, MemoryError):
        what = f"not enough memory: {str(error) or 'an allocation failed'}. Give {MORE_MEMORY}"
        return Failure(what, WinnowError.exit_code)
    if isinstance(error, WinnowError):
        return Failure(str(error), error.exit_code)
    if isinstance(error, OSError) and error.errno in NO_SPACE:
        return Failure(words_of_no_space(error), NoSpaceError.exit_code)
    return Failure(failure_of(error), CorruptLogError.exit_code)


def all_or_failure(outcomes: Iterable[_T | Failure]) -> list[_T] | Failure:
    """Return all outcomes in the given order, or the first failure among them."""
    whole: list[_T] = []
    for outcome in outcomes:
        if isinstance(outcome, Failure):
            return outcome
        whole.append(outcome)
    return whole
