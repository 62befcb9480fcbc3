"""Read a file that an option names, such as settings or keys. It may be a link or a pipe."""

from __future__ import annotations

import os
from errno import EFBIG
from os import strerror

from winnow.words import size

MOST_BYTES = 2**30


def read_input(path: str, *, most: int = MOST_BYTES) -> bytes:
    """Return the whole content. Raises OSError, also for more than `most` bytes, such as those of a
    device without end.
    """
    with open(path, "rb") as file:
        # A regular file tells its size before it is read. Of a pipe or a device it is 0.
        content = file.read(most + 1) if os.fstat(file.fileno()).st_size <= most else None
    if content is None or len(content) > most:
        raise OSError(EFBIG, f"{strerror(EFBIG)}: more than {size(most)}", path)
    return content
