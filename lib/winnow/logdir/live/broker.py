"""The broker that runs on a log directory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunningBroker:
    program: str
    """Describes the process, for people."""
    started_ms: int | None = None
    """When the process started, in ms since 1970. None: unknown."""
    properties: str | None = None
    """The properties file that its command names. None: unknown."""
