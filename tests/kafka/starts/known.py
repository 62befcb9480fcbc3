"""Differences between the verdict and real brokers that are known, each with its reason."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.kafka.starts.table import State


@dataclass(frozen=True, slots=True)
class Known:
    """`state`, `difference`: regular expressions on the name of a state, and on what differs."""

    state: str
    difference: str
    reason: str

    def explains(self, state: State, difference: str) -> bool:
        return bool(
            re.search(self.state, f"{state.version} {state.name}")
            and re.search(self.difference, difference)
        )


KNOWN: tuple[Known, ...] = ()


def unexplained(state: State, differences: list[str]) -> list[str]:
    return [one for one in differences if reason_of(state, one) is None]


def reason_of(state: State, difference: str) -> Known | None:
    return next((one for one in KNOWN if one.explains(state, difference)), None)
