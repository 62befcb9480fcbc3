"""No core files: they would have keys of records, and those that are to be erased."""

from __future__ import annotations

import resource
from contextlib import suppress


def make_no_core_files() -> None:
    """Let neither this process nor those that it starts leave a core file."""
    with suppress(OSError, ValueError):  # a system that does not allow it
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
