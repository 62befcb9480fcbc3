"""Read a file that an option names, such as settings or keys. It may be a link or a pipe."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from errno import EFBIG, EINVAL, ETIMEDOUT
from os import strerror
from select import POLLIN, poll

from winnow.storage.guarded import held, kind_of, open_guarded
from winnow.words import size

MOST_BYTES = 2**30
MOST_SETTINGS = 64 << 20
"""Of a file of settings. `kafka-configs --describe --all` prints 5 KB for a topic."""
MOST_PROPERTIES = 4 << 20
"""Of a broker's server.properties, which has some KB."""
MOST_SECONDS = 300
"""Of a pipe: `<(kafka-configs.sh ...)` takes seconds. Nobody may write to it, or without end."""
_PIECE, _STEP_MS = 1 << 20, 500


def read_input(
    path: str,
    *,
    most: int = MOST_BYTES,
    regular: bool = False,
    check: Callable[[], object] = bool,
) -> bytes:
    """Return the whole content. `check`: is called while a pipe is read, and may raise.

    Raises OSError, also for more than `most` bytes, such as those of a device without end, and for
    a pipe that has no end in time; with `regular` for anything but a regular file that this user
    can reach by its names (`/proc/self/fd/3` needs no permission for the directories above the
    file).
    """
    # Without O_NONBLOCK, a pipe that nobody writes to could not even be opened.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    descriptor = open_guarded(os.path.realpath(path), flags) if regular else os.open(path, flags)
    with held(descriptor, path) as fd:
        status = os.fstat(fd)
        content = None
        if regular and not stat.S_ISREG(status.st_mode):
            raise OSError(EINVAL, kind_of(status), path)
        if not stat.S_ISREG(status.st_mode):
            content = _read_pipe(fd, most + 1, path, check)
        elif status.st_size <= most:
            with open(fd, "rb", closefd=False) as file:
                content = file.read(most + 1)
    if content is None or len(content) > most:
        raise OSError(EFBIG, f"{strerror(EFBIG)}: more than {size(most)}", path)
    return content


def is_regular(path: str) -> bool:
    """Return whether a file, perhaps behind a link, can be read a second time. Raises OSError."""
    return stat.S_ISREG(os.stat(path).st_mode)


def _read_pipe(fd: int, most: int, path: str, check: Callable[[], object]) -> bytes:
    """Raises OSError if there is nothing to read, and no end, in time."""
    content, until = bytearray(), time.monotonic() + MOST_SECONDS
    waiting = poll()
    waiting.register(fd, POLLIN)
    while len(content) < most:
        check()
        if time.monotonic() >= until:
            raise OSError(ETIMEDOUT, f"no end of it within {MOST_SECONDS} seconds", path)
        if waiting.poll(_STEP_MS):
            with suppress(BlockingIOError):  # another process was faster
                piece = os.read(fd, min(_PIECE, most - len(content)))
                if not piece:
                    break
                content += piece
    return bytes(content)
