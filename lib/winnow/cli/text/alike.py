"""Reasons that differ only in names and numbers: a screen shows one of them, and how many."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_NUMBER = re.compile(r"[0-9]+")


@dataclass(slots=True)
class Alike:
    """Partitions that were left alone for the same reason, but for names and numbers."""

    text: str
    """The reason of the first partition."""
    names: list[str] = field(default_factory=list)
    texts: set[str] = field(default_factory=set)

    def words(self, option: str) -> str:
        """Return the reason, and how many are like it. `option` shows each of them."""
        others = len(self.texts) - 1
        return (
            f"{self.text} (and {others:,} more like this; {option} shows each)"
            if others
            else self.text
        )


def alike(reasons: Iterable[tuple[str, str, str]], *, together: bool = True) -> list[Alike]:
    """Group (topic, partition name, reason): the largest group first, names in the given order.

    `together`: a reason that names its topic, its partition or a number is like that of others.
    """
    groups: dict[str, Alike] = {}
    for topic, name, text in reasons:
        pattern = text
        if together:
            pattern = text.replace(name, "PARTITION").replace(topic, "TOPIC")
            pattern = _NUMBER.sub("N", pattern)
        group = groups.setdefault(pattern, Alike(text))
        group.names.append(name)
        group.texts.add(text)
    return sorted(groups.values(), key=lambda group: (-len(group.names), group.text))
