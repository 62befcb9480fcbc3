"""How much the decoding of somebody else's data may cost in all: bytes, items, or requests.

A limit for each part does not bound their sum: of small parts there may be millions.
"""

from __future__ import annotations

from winnow.errors import CorruptLogError, WinnowError


class Budget:
    """What is left of a limit. All that decodes one input takes from the same budget."""

    __slots__ = ("_error", "_hint", "_left", "_most", "_problem", "_unit")

    def __init__(
        self,
        most: int,
        unit: str,
        problem: str,
        *,
        hint: str | None = None,
        error: type[WinnowError] = CorruptLogError,
    ) -> None:
        """`most`: the limit in `unit`, a noun in the plural. `problem`, `hint`: the text of the
        `error` that `take` raises.
        """
        self._left = self._most = most
        self._unit, self._problem, self._hint, self._error = unit, problem, hint, error

    def take(self, amount: int, where: str | None = None) -> None:
        """Raise the error if less than `amount` is left. Then nothing is left."""
        if amount > self._left:
            self._left = 0
            raise self._error(
                self._problem,
                expected=f"at most {self._most} {self._unit} in all",
                found="more",
                where=where,
                hint=self._hint,
            )
        self._left -= amount

    def give_back(self, amount: int) -> None:
        """Take back what is no longer in memory."""
        self._left += amount

    @property
    def left(self) -> int:
        return self._left
