"""The file that keeps other runs out of a log directory where there are no locks.

`winnow.logdir.lease` has the rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

LEASE = ".winnow-lease"
"""In the log directory itself, where a broker ignores files that it doesn't know."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The file at one moment. The same `version` twice: it was not renewed in between."""

    data: bytes
    version: str


class LeaseFile(Protocol):
    """Access to a lease file. Errors are OSErrors. No method looks at a clock."""

    def look(self) -> Seen | None:
        """Return the current lease, or None if nobody holds it."""

    def take(self, data: bytes, expired: Seen | None) -> Seen:
        """Create the lease, or replace an expired one that has not changed since it was seen.
        FileExistsError if there is another one. Of several callers, one succeeds.
        """

    def renew(self, mine: Seen, data: bytes) -> Seen:
        """Give the lease another version. FileNotFoundError if somebody else holds it by now.

        `data`: content for stores that write the file anew. Other stores may leave the content
        unchanged.
        """

    def remove(self, mine: Seen) -> None:
        """Remove the lease. Does nothing if somebody else holds it by now."""
