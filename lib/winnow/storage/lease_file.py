"""The file by which a run keeps others out of a log directory without locks (`winnow.logdir.lease`
has the rules).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

LEASE = ".winnow-lease"
"""In the log directory itself, where a broker passes over files that it doesn't know."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The file as it was at one moment. Two that are alike in `version` were not renewed in
    between.
    """

    data: bytes
    version: str


class LeaseFile(Protocol):
    """Errors are OSErrors. Every method counts on the one before: none of them looks at a clock."""

    def look(self) -> Seen | None:
        """None: nobody holds it."""
        ...

    def create(self, data: bytes) -> Seen:
        """FileExistsError if there is one; of several at once one gets it."""
        ...

    def renew(self, mine: Seen, data: bytes) -> Seen:
        """Gives it another version; FileNotFoundError if it is no longer this one's.

        `data`: for where a file is written anew; a store that can do without may leave the content
        as it is.
        """
        ...

    def take_over(self, expired: Seen, data: bytes) -> Seen:
        """Puts a new one in the place of one that is still as it was seen; of several at once one
        gets it.

        FileExistsError if it was renewed, or somebody was faster.
        """
        ...

    def remove(self, mine: Seen) -> None:
        """Content if it is somebody else's by now."""
        ...
