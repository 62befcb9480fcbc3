"""Copy many files at once between a file tree and the private copy."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed

from winnow.runtime.progress import Progress
from winnow.runtime.stop import Stop
from winnow.storage.creating import ensure_directories
from winnow.storage.file_tree import FileTree, StoredFile
from winnow.verbs.output.destination import Destination

_AT_ONCE = 8
"""Concurrent requests. A remote place is slow for each request but handles many at once."""


def fetch(
    tree: FileTree, files: Iterable[StoredFile], work: str, *, stop: Stop, progress: Progress
) -> None:
    def one(file: StoredFile) -> int:
        path = f"{work}/{file.name}"
        ensure_directories(os.path.dirname(path))
        tree.fetch(file, path)
        return file.size

    _each(files, one, stop=stop, progress=progress)


def publish(
    destination: Destination,
    files: Iterable[StoredFile],
    work: str,
    *,
    stop: Stop,
    progress: Progress,
) -> None:
    """Write files of the private copy to the destination, under the same names."""

    def one(file: StoredFile) -> int:
        destination.put(file.name, f"{work}/{file.name}", file.size)
        return file.size

    _each(files, one, stop=stop, progress=progress)


def _each(
    files: Iterable[StoredFile], one: Callable[[StoredFile], int], *, stop: Stop, progress: Progress
) -> None:
    """Run `one` for each file in threads. An exception is raised again after the calls that had
    begun have ended.
    """
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="winnow-carry") as pool:
        futures = [pool.submit(one, file) for file in files]
        try:
            for future in as_completed(futures):
                progress.advance(future.result())
                stop.check()
        finally:
            for future in futures:
                future.cancel()
