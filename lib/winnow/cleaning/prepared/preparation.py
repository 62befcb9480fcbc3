"""What a preparation is, for those that only show it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """What `prepare` has staged of a partition."""

    log_dir: str
    topic: str
    partition: int
    bytes: int
    """Of its staging directory."""
    prepared_at_ms: int | None
    """None: it can't be read, or was interrupted."""
    expires_ms: int | None
    dropped: str | None
    """Why `commit` would drop it. None: it holds."""
