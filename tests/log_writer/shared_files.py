"""Write the small files of a partition."""

from __future__ import annotations

import os
from contextlib import suppress

from winnow.storage.creating import create_file
from winnow.storage.guarded import parent_of


def write_new(path: str, data: bytes) -> None:
    """Write a `shared` file with this content, replacing a file of that name. It is not yet on
    stable storage.
    """
    with parent_of(path) as (directory, name), suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)
    with open(create_file(path, shared=True), "wb") as file:
        file.write(data)
