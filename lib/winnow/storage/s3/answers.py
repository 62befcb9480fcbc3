"""Limits for what an endpoint answers: time, bytes, and memory. It may be anybody's."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from winnow.storage.s3.client import S3RequestError

_T = TypeVar("_T")
MOST_LISTED = 2_000_000
MOST_KEY_BYTES = 512 << 20
LISTING_SECONDS = 120
"""For a directory, or for a thousand objects of a tree."""
LISTING_BYTES = 1 << 30
"""By how much the memory of this process may grow meanwhile: the client has a page in memory before
anybody sees it.
"""
MOST_WHOLE = 64 << 20
"""Bytes of an object of unknown size."""
_LOOK_SECONDS = 0.1


class TooLongError(S3RequestError):
    """An object has more bytes than it may have, or than were asked for."""


def listed(request: Callable[[], Awaitable[_T]], where: str) -> _T:
    """Return the answer to a listing. TimeoutError or S3RequestError if that takes too much: a page
    may have no end, or each may name a next one. In a thread: that of a notebook has its own event
    loop.
    """

    async def answer() -> _T:
        begun = _resident()
        asking = asyncio.ensure_future(request())
        waited = 0.0
        while not (await asyncio.wait({asking}, timeout=_LOOK_SECONDS))[0]:
            waited += _LOOK_SECONDS
            if waited >= LISTING_SECONDS or _resident() - begun > LISTING_BYTES:
                asking.cancel()
                await asyncio.wait({asking})
                if waited >= LISTING_SECONDS:
                    raise TimeoutError
                raise too_much(f"a listing that takes more than {LISTING_BYTES:,} bytes", where)
        return asking.result()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, answer()).result()


def pieces(answer: Any, most: int, where: str, *, size: int) -> Iterator[Any]:  # noqa: ANN401 - obstore's own types
    """Yield the bytes of an object in pieces of at least `size`, except the last. TooLongError
    before a byte beyond `most`, whatever size it announced.
    """
    left = most
    for piece in answer.stream(min_chunk_size=max(1, min(size, most))):
        left -= len(piece)
        if left < 0:
            raise TooLongError(
                errno.EREMOTEIO, f"S3 answers more than the {most:,} bytes expected", where
            )
        yield piece


def too_much(what: str, where: str) -> S3RequestError:
    return S3RequestError(errno.EREMOTEIO, f"S3 answers {what}", where)


def _resident() -> int:
    """Return the bytes of this process in memory; 0 where that is unknown."""
    try:
        return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * os.sysconf(
            "SC_PAGESIZE"
        )
    except (OSError, IndexError, ValueError):
        return 0
